//! Advice about indexes: which one would serve a query, found by trying it.
//!
//! An index is proposed by the shape of the query (`proposal`) and then made, with those that there are, over a sample of the
//! collection in a database of its own that lives in memory (`trial`). The query is explained there without it and with it, by the planner and the
//! executor that serve clients. Keeps true: what is advised was chosen by the planner and examined less, on the sample that is named. Leaves out
//! how often a query is asked, and what else an index would serve or slow down.
//!
//! This wing must not know where a sample comes from: whoever asks brings it, read with the rights of a user.

mod proposal;
mod trial;

pub use proposal::{Question, propose};
pub use trial::{Ran, Trial, try_index};

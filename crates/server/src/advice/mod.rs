//! Advice about indexes: which ones would serve a query, found by trying them.
//!
//! Indexes are proposed by the shape of the query (`proposal`) and then made, with those that there are, over a sample of the
//! collection in a database of its own that lives in memory (`trial`). The query is explained there without them and with them, by the planner and the
//! executor that serve clients. Of a write it is the query that is explained; nothing is written but the sample. Keeps true: what is advised was chosen
//! by the planner and examined less, on the sample that is named. Leaves out how often a query is asked, and what else an index would serve or slow down.
//!
//! This wing must not know where a sample comes from: whoever asks brings it, read with the rights of a user.

mod proposal;
mod trial;

pub use proposal::{Proposal, Question, propose, questions_of};
pub use trial::{Ran, Trial, try_indexes};

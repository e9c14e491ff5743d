//! Words of texts, as the text indexes of MongoDB (version 3) know them: where a text is divided, which words are passed over, what
//! their stems are, and what a search string asks for.
//!
//! A [`Tokens`] goes through a text and gives a term for each word: in lower case, without its ending, without diacritics. The
//! language says which words carry no meaning and how endings are cut; [`Language::NONE`] does neither. A [`Search`] is a search
//! string as it was parsed, and a [`Folded`] is what a phrase is looked for in.
//!
//! Where a text is divided and what a diacritic is come from Unicode's tables (ICU4X), endings from the Snowball algorithms
//! (`rust-stemmers`), words without meaning from NLTK's lists (`stop-words`). Indexes keep what is made of them, so that these libraries have
//! exact versions and a test holds their tables against a number.
//!
//! Keeps true: one text gives one sequence of terms, whoever asks, as long as no option differs; the work is linear in the length of the text, and counts itself
//! through a [`Pace`]. Leaves out: indexes, documents and scores.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod characters;
mod language;
mod search;
mod tokens;

pub use characters::{Folded, Folding};
pub use language::Language;
pub use search::{Search, TERMS_MAX, TooManyTerms};
pub use tokens::{STEMMED_BYTES_MAX, Tokens};

/// Counts units of work, of about ten nanoseconds each, and says whether the work is to end. A loop that is to end stops with
/// any answer; whoever gave the pace knows that it means nothing.
pub type Pace = fn(usize) -> bool;

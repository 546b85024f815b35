//! Text as the index reads it: terms, stop words, spelling, request, clauses, expansion, paraphrase and
//! wanted effect of a query, the first sentence of a description.

pub(crate) mod analysis;
mod clauses;
mod courtesy;
pub(crate) mod effect;
pub(crate) mod paraphrases;
mod sentence;
mod short_form;
pub(crate) mod spelling;
mod stopwords;
pub(crate) mod thesaurus;

pub use clauses::{MAX_CLAUSES, split_clauses};
pub use courtesy::request_of;
pub use paraphrases::{paraphrase_texts, paraphrase_vectors};
pub use sentence::first_sentence;
pub(crate) use short_form::{MAX_SHORT_TERMS, short_query};
pub use short_form::{query_form, short_form};
pub(crate) use stopwords::is_stop_word;

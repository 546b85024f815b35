//! EmbeddingServer: Text Embeddings Inference (TEI) in pods of its own, with an optional volume for the
//! model.

mod build;
mod controller;
mod dereference;
mod names;
mod status;
#[cfg(test)]
mod tests;
mod validate;

pub(crate) use self::controller::controller;
pub(crate) use self::names::url;

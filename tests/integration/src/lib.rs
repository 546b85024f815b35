//! Tests that cross crates: real servers, real clients, real embeddings.

//! SQLite: the regenerable cache of embeddings, schema hashes and definitions.

//! Text embeddings: TEI, OpenAI-compatible and in-process models behind one trait.

//! [`IndexedTexts`]: the text arm of an index, which may be made after the index.

use std::mem;
use std::sync::OnceLock;

use parking_lot::Mutex;

use super::prior::ToolTraits;
use crate::bm25f::Bm25f;
use crate::document::Document;

/// The text of all documents, indexed now or when it is first needed.
pub(super) struct IndexedTexts {
    /// Number of documents.
    pub(super) count: usize,
    /// Documents of a deferred index, until they are indexed.
    waiting: Mutex<Vec<Document>>,
    built: OnceLock<BuiltTexts>,
}

/// The indexed text.
pub(super) struct BuiltTexts {
    pub(super) keywords: Bm25f,
    pub(super) traits: ToolTraits,
}

impl BuiltTexts {
    fn new(documents: &[Document]) -> BuiltTexts {
        BuiltTexts { keywords: Bm25f::new(documents), traits: ToolTraits::new(documents) }
    }
}

impl IndexedTexts {
    /// Indexes the documents.
    pub(super) fn new(documents: &[Document]) -> IndexedTexts {
        let built = OnceLock::from(BuiltTexts::new(documents));
        IndexedTexts { count: documents.len(), waiting: Mutex::default(), built }
    }

    /// Keeps the documents until their text is needed.
    pub(super) fn deferred(documents: Vec<Document>) -> IndexedTexts {
        let count = documents.len();
        IndexedTexts { count, waiting: Mutex::new(documents), built: OnceLock::new() }
    }

    /// Returns the indexed text. The first caller indexes it; others wait for that.
    pub(super) fn built(&self) -> &BuiltTexts {
        self.built.get_or_init(|| {
            let documents = mem::take(&mut *self.waiting.lock());
            BuiltTexts::new(&documents)
        })
    }

    /// True once the text is indexed.
    pub(super) fn is_built(&self) -> bool {
        self.built.get().is_some()
    }
}

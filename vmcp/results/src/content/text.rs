//! [`Text`]: the text of kept content, on the heap or in memory pages of its own.
//!
//! A result is made on one thread and let go of on another. The allocator leaves a large block that another
//! thread frees to the thread that took it, which may idle: forty results of 3 MB held 60 MiB beyond their
//! cap. Pages of their own go back to the system with the text.

use std::io;
use std::sync::Arc;

use memmap2::{Mmap, MmapMut};

/// Shortest text that gets pages of its own, 256 KiB: below, the allocator shares blocks between threads.
const MIN_BYTES: usize = 256 << 10;

/// A text that does not change.
#[derive(Debug, Clone)]
pub(super) enum Text {
    Heap(String),
    Pages(Arc<Mmap>),
}

impl Text {
    /// Returns the text. Pages are checked to be UTF-8 each time, at some gigabytes a second.
    pub(super) fn as_str(&self) -> &str {
        match self {
            Text::Heap(text) => text,
            // They were copied from a text.
            Text::Pages(pages) => std::str::from_utf8(pages).unwrap_or_default(),
        }
    }

    /// Returns the number of bytes.
    pub(super) fn len(&self) -> usize {
        match self {
            Text::Heap(text) => text.len(),
            Text::Pages(pages) => pages.len(),
        }
    }

    /// Moves a large text into pages of its own. Where the system gives none, the text stays on the heap.
    pub(super) fn in_own_pages(self) -> Text {
        match self {
            Text::Heap(text) if text.len() >= MIN_BYTES => match copied(&text) {
                Ok(pages) => Text::Pages(Arc::new(pages)),
                Err(error) => {
                    tracing::debug!(%error, "a large result stays on the heap");
                    Text::Heap(text)
                }
            },
            text => text,
        }
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Text) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Text {}

/// Copies a text into anonymous pages.
fn copied(text: &str) -> io::Result<Mmap> {
    let mut pages = MmapMut::map_anon(text.len())?;
    pages.copy_from_slice(text.as_bytes());
    pages.make_read_only()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_text_gets_pages_of_its_own_and_reads_the_same() {
        for (characters, has_pages) in [(0, false), (10, false), (MIN_BYTES / 2, true), (1 << 20, true)] {
            let text = "é".repeat(characters);
            let kept = Text::Heap(text.clone()).in_own_pages();
            assert_eq!(matches!(kept, Text::Pages(_)), has_pages, "{characters}");
            assert_eq!((kept.as_str() == text, kept.len()), (true, text.len()), "{characters}");
            assert_eq!(kept.clone().in_own_pages(), Text::Heap(text), "{characters}");
        }
    }
}

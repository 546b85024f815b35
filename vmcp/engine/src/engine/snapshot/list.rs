//! Paginated lists as clients get them: entries sorted by key, and a cache of the pages written so far.
//!
//! A page is written when it is first asked for and then shared by all clients; a list that did not change
//! keeps its pages across snapshots.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::value::RawValue;
use vmcp_json::json_rope::JsonRope;
use vmcp_wire::era::Era;
use vmcp_wire::lists::cursor::Cursor;
use vmcp_wire::lists::{pages, pages::PageFrame};
use vmcp_wire::translate::{self, Hints};

/// Most entries on a page. Few clients follow cursors for tools, and a model cannot use even this many.
const MAX_PAGE_ENTRIES: usize = 1000;
/// Most bytes of entries on a page; a single larger entry has a page to itself.
const MAX_PAGE_BYTES: usize = 8 * 1024 * 1024;

/// Entries of a list, sorted by key, so that a page can begin behind any key.
#[derive(Debug)]
pub struct PagedList {
    kind: pages::List,
    entries: Vec<ListEntry>,
    /// Lifetime and scope for the caches of modern clients.
    hints: Hints,
    /// The page cache, by first entry; at least one slot.
    pages: Vec<PageSlot>,
}

/// One entry of a list.
#[derive(Debug, Clone)]
pub struct ListEntry {
    /// The name or URI.
    pub key: String,
    /// The entry as it is sent.
    pub raw: Arc<RawValue>,
    /// The entry for clients of earlier revisions, where those would refuse `raw`.
    legacy: Option<Arc<RawValue>>,
}

/// The `result` of a list request: two pieces, to be sent one behind the other. Pages of both eras share the
/// first, which is the large one.
pub type Page = [Bytes; 2];

/// A page in each era, once it has been asked for.
#[derive(Debug, Default)]
struct PageSlot {
    /// Position of the first entry.
    start: usize,
    modern: OnceLock<Page>,
    legacy: OnceLock<Page>,
}

impl ListEntry {
    /// Makes an entry that is the same for all clients.
    pub(super) fn new(key: &str, raw: Arc<RawValue>) -> ListEntry {
        ListEntry { key: key.to_owned(), raw, legacy: None }
    }

    /// Makes the entry of a tool; legacy clients may have to get it without its output schema.
    pub(super) fn tool(key: &str, raw: Arc<RawValue>) -> ListEntry {
        let legacy = translate::tool(&raw, Era::Legacy).ok().map(JsonRope::into_cow);
        let legacy = legacy.filter(|text| text.as_ref() != raw.get());
        let legacy = legacy.and_then(|text| RawValue::from_string(text.into_owned()).ok()).map(Arc::from);
        ListEntry { legacy, ..ListEntry::new(key, raw) }
    }

    /// Returns the entry's text for clients of an era.
    pub fn text(&self, era: Era) -> &str {
        let legacy = self.legacy.as_ref().filter(|_| era == Era::Legacy);
        legacy.unwrap_or(&self.raw).get()
    }
}

impl PagedList {
    pub(super) fn new(kind: pages::List, mut entries: Vec<ListEntry>, hints: Hints) -> PagedList {
        entries.sort_by(|one, other| one.key.cmp(&other.key));
        let mut pages = vec![PageSlot::default()];
        let (mut start, mut bytes) = (0, 0);
        for (position, entry) in entries.iter().enumerate() {
            bytes += entry.raw.get().len();
            if position - start == MAX_PAGE_ENTRIES || (bytes > MAX_PAGE_BYTES && position > start) {
                (start, bytes) = (position, entry.raw.get().len());
                pages.push(PageSlot { start, ..PageSlot::default() });
            }
        }
        PagedList { kind, entries, hints, pages }
    }

    /// Returns a digest of all entries, to tell a changed list from an unchanged one.
    pub(super) fn digest(&self) -> u64 {
        let mut hash = DefaultHasher::new();
        for entry in &self.entries {
            (&entry.key, entry.raw.get()).hash(&mut hash);
        }
        hash.finish()
    }

    /// All entries.
    pub fn entries(&self) -> &[ListEntry] {
        &self.entries
    }

    /// Returns the page behind the key `after`, or the first page without a key. The key need not exist any
    /// more: then the page ends where the next cached one begins.
    pub fn page(&self, after: Option<&str>, era: Era, server_info: &str) -> Page {
        let start =
            after.map_or(0, |after| self.entries.partition_point(|entry| entry.key.as_str() <= after));
        let behind = self.pages.partition_point(|page| page.start <= start);
        let end = self.pages.get(behind).map(|next| next.start);
        match self.pages.get(behind.saturating_sub(1)).filter(|page| page.start == start) {
            Some(kept) => kept.get_or_write(era, |same| self.write(start, end, era, server_info, same)),
            None => self.write(start, end, era, server_info, None),
        }
    }

    /// Writes the page of the entries from `start` to `end`. `same`: this page in the other era, whose
    /// entries are shared unless they differ.
    fn write(
        &self,
        start: usize,
        end: Option<usize>,
        era: Era,
        server_info: &str,
        same: Option<&Page>,
    ) -> Page {
        let page = self.entries.get(start..end.unwrap_or(self.entries.len())).unwrap_or_default();
        let next = page.last().filter(|_| end.is_some());
        let next = next.map(|last| Cursor { list: self.kind, after: last.key.clone() }.encode());
        let frame = PageFrame {
            era,
            next_cursor: next.as_deref(),
            hints: self.hints,
            server_info: (era == Era::Modern).then_some(server_info),
        };
        let same = same.filter(|_| page.iter().all(|entry| entry.legacy.is_none()));
        let entries = same.map_or_else(
            || pages::head(self.kind, page.iter().map(|entry| entry.text(era))).into(),
            |[entries, _]| entries.clone(),
        );
        [entries, pages::tail(&frame).into()]
    }

    /// Returns `before` if it has the same entries, so that its pages survive the new snapshot.
    pub(super) fn or_same(self, before: &Arc<PagedList>) -> Arc<PagedList> {
        let same = |one: &ListEntry, other: &ListEntry| {
            Arc::ptr_eq(&one.raw, &other.raw) || (one.key == other.key && one.raw.get() == other.raw.get())
        };
        let is_same = self.hints == before.hints
            && self.entries.len() == before.entries.len()
            && self.entries.iter().zip(&before.entries).all(|(one, other)| same(one, other));
        if is_same { Arc::clone(before) } else { Arc::new(self) }
    }
}

impl PageSlot {
    fn get_or_write(&self, era: Era, write: impl FnOnce(Option<&Page>) -> Page) -> Page {
        let (own, other) = match era {
            Era::Modern => (&self.modern, &self.legacy),
            Era::Legacy => (&self.legacy, &self.modern),
        };
        own.get_or_init(|| write(other.get())).clone()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn tool(name: &str, more: &str) -> ListEntry {
        let raw = RawValue::from_string(format!(r#"{{"name":"{name}","inputSchema":{{}}{more}}}"#)).unwrap();
        ListEntry::tool(name, raw.into())
    }

    fn list(entries: Vec<ListEntry>) -> Arc<PagedList> {
        Arc::new(PagedList::new(pages::List::Tools, entries, Hints::default()))
    }

    fn many(names: impl Iterator<Item = usize>) -> Arc<PagedList> {
        list(names.map(|number| tool(&format!("t{number:05}"), "")).collect())
    }

    /// Returns the names on the page behind a cursor, and the next cursor.
    fn page(list: &PagedList, cursor: Option<&str>, era: Era) -> (Vec<String>, Option<String>) {
        let after = cursor.map(|cursor| Cursor::decode(cursor, pages::List::Tools).unwrap().after);
        let page: Value =
            serde_json::from_slice(&list.page(after.as_deref(), era, "{}").concat()).expect("JSON");
        let names = page["tools"].as_array().unwrap().iter();
        let names = names.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
        (names, page["nextCursor"].as_str().map(str::to_owned))
    }

    /// Walks all pages from a cursor on.
    fn walk(list: &PagedList, mut cursor: Option<String>) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            let (names, next) = page(list, cursor.as_deref(), Era::Modern);
            all.extend(names);
            cursor = next;
            if cursor.is_none() {
                return all;
            }
        }
    }

    #[test]
    fn legacy_clients_are_not_shown_an_output_schema_that_they_would_refuse() {
        let list = list(vec![tool("t", r#","outputSchema":{"type":"array"},"x":1e400"#)]);
        let entry = &list.entries()[0];
        assert_eq!(entry.text(Era::Legacy), r#"{"name":"t","inputSchema":{},"x":1e400}"#);
        assert_eq!(entry.text(Era::Modern), entry.raw.get());
        assert!(tool("t", r#","outputSchema":{"type":"object"}"#).legacy.is_none(), "shared by both");
        assert_ne!(list.page(None, Era::Modern, "{}")[0], list.page(None, Era::Legacy, "{}")[0]);
    }

    #[test]
    fn every_entry_is_on_one_page_and_a_page_is_written_once() {
        for count in [0, 1, 999, 1000, 1001, 2500, 3000] {
            let list = many(0..count);
            let all = walk(&list, None);
            assert_eq!(all.len(), count);
            assert!(all.is_sorted());
            assert_eq!(list.pages.len(), count.div_ceil(MAX_PAGE_ENTRIES).max(1));
            assert!(list.pages.iter().all(|page| page.legacy.get().is_none()), "nobody asked for these");
            let (modern, legacy) = (list.page(None, Era::Modern, "{}"), list.page(None, Era::Legacy, "{}"));
            assert_eq!(modern[0].as_ptr(), list.page(None, Era::Modern, "{}")[0].as_ptr());
            assert_eq!(modern[0].as_ptr(), legacy[0].as_ptr(), "the entries are the same in both eras");
        }
    }

    #[test]
    fn a_cursor_of_another_snapshot_goes_on_behind_the_same_entry() {
        let (_, cursor) = page(&many(0..2500), None, Era::Modern);
        // Three come before, the entry that the cursor names goes, and so does every second one behind it.
        let changed = list(
            [tool("a1", ""), tool("a2", ""), tool("a3", "")]
                .into_iter()
                .chain((0..2500).filter(|n| *n < 999 || n % 2 == 0).map(|n| tool(&format!("t{n:05}"), "")))
                .collect(),
        );
        let rest = walk(&changed, cursor.clone());
        let expected: Vec<_> = (1000..2500).filter(|n| n % 2 == 0).map(|n| format!("t{n:05}")).collect();
        assert_eq!(rest, expected);
        assert_eq!(walk(&many(0..10), cursor), [""; 0], "a list that is shorter now ends there");
    }

    #[test]
    fn a_page_of_large_entries_ends_early() {
        let large = format!(r#","x":"{}""#, "x".repeat(MAX_PAGE_BYTES / 2));
        let entries = (0..5).map(|number| tool(&format!("t{number}"), &large)).collect();
        let list = list(entries);
        assert_eq!(list.pages.len(), 5);
        assert_eq!(walk(&list, None).len(), 5);
    }

    #[test]
    fn a_list_that_did_not_change_keeps_its_pages() {
        let before = many(0..3);
        assert!(Arc::ptr_eq(&Arc::into_inner(many(0..3)).unwrap().or_same(&before), &before));
        assert!(!Arc::ptr_eq(&Arc::into_inner(many(0..4)).unwrap().or_same(&before), &before));
    }
}

//! A list as clients get it: entries, and the pages that were written of them so far.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::value::RawValue;
use vmcp_wire::cursor::Cursor;
use vmcp_wire::era::Era;
use vmcp_wire::pages::{self, PageFrame};
use vmcp_wire::splice::Spliced;
use vmcp_wire::translate::{self, Hints};

/// Entries on a page. Few clients follow cursors for tools, and even this many are far beyond what a model can use.
const PAGE: usize = 1000;

/// Entries of a list, sorted by key, so that a page can begin behind any key.
#[derive(Debug)]
pub struct List {
    kind: pages::List,
    entries: Vec<Entry>,
    /// How long a modern client may keep a page, and for whom.
    hints: Hints,
    /// One for every [`PAGE`] entries; at least one.
    pages: Vec<Written>,
}

/// One entry of a list.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The name or URI.
    pub key: String,
    /// The entry as it is sent.
    pub raw: Arc<RawValue>,
    /// The entry for clients of earlier revisions, where those would refuse it as it is.
    legacy: Option<Arc<RawValue>>,
}

/// The `result` of a list request: two pieces, to be sent one behind the other.
pub type Page = [Bytes; 2];

/// What was asked for once is kept.
#[derive(Debug, Default)]
struct Written {
    modern: OnceLock<Page>,
    legacy: OnceLock<Page>,
}

impl Entry {
    /// An entry that is the same for all clients.
    pub(super) fn new(key: &str, raw: Arc<RawValue>) -> Entry {
        Entry { key: key.to_owned(), raw, legacy: None }
    }

    /// A tool, which legacy clients may have to be given without its output schema.
    pub(super) fn tool(key: &str, raw: Arc<RawValue>) -> Entry {
        let legacy = translate::tool(&raw, Era::Legacy).ok().map(Spliced::into_cow);
        let legacy = legacy.filter(|text| text.as_ref() != raw.get());
        let legacy = legacy.and_then(|text| RawValue::from_string(text.into_owned()).ok()).map(Arc::from);
        Entry { legacy, ..Entry::new(key, raw) }
    }

    /// The entry for clients of an era.
    fn text(&self, era: Era) -> &str {
        let legacy = self.legacy.as_ref().filter(|_| era == Era::Legacy);
        legacy.unwrap_or(&self.raw).get()
    }
}

impl List {
    pub(super) fn new(kind: pages::List, mut entries: Vec<Entry>, hints: Hints) -> List {
        entries.sort_by(|one, other| one.key.cmp(&other.key));
        let pages = entries.len().div_ceil(PAGE).max(1);
        List { kind, entries, hints, pages: (0..pages).map(|_| Written::default()).collect() }
    }

    /// All entries.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The page behind the key `after`, from the start without one. The key need not exist any more: then the page ends
    /// where the next one that is kept begins.
    pub fn page(&self, after: Option<&str>, era: Era, server_info: &str) -> Page {
        let start =
            after.map_or(0, |after| self.entries.partition_point(|entry| entry.key.as_str() <= after));
        match self.pages.get(start / PAGE).filter(|_| start % PAGE == 0) {
            Some(kept) => kept.get_or_write(era, |same| self.write(start, era, server_info, same)),
            None => self.write(start, era, server_info, None),
        }
    }

    /// `same`: a page that may have the same entries, and is shared if it does.
    fn write(&self, start: usize, era: Era, server_info: &str, same: Option<&Page>) -> Page {
        let end = (start / PAGE + 1) * PAGE;
        let page = self.entries.get(start..end.min(self.entries.len())).unwrap_or_default();
        let next = page.last().filter(|_| end < self.entries.len());
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

    /// This list, or the one before where that is the same: with it, pages survive a new snapshot.
    pub(super) fn or_same(self, before: &Arc<List>) -> Arc<List> {
        let same = |one: &Entry, other: &Entry| {
            Arc::ptr_eq(&one.raw, &other.raw) || (one.key == other.key && one.raw.get() == other.raw.get())
        };
        let is_same = self.hints == before.hints
            && self.entries.len() == before.entries.len()
            && self.entries.iter().zip(&before.entries).all(|(one, other)| same(one, other));
        if is_same { Arc::clone(before) } else { Arc::new(self) }
    }
}

impl Written {
    fn get_or_write(&self, era: Era, write: impl FnOnce(Option<&Page>) -> Page) -> Page {
        let (own, other) = match era {
            Era::Modern => (&self.modern, &self.legacy),
            Era::Legacy => (&self.legacy, &self.modern),
        };
        own.get_or_init(|| write(other.get())).clone()
    }
}

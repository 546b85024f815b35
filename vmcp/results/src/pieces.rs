//! Search within a result: BM25 over its pieces, which are elements and entries of JSON or paragraphs of a
//! text.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::value::RawValue;
use vmcp_search::{Document, Index, Query};

use crate::content::Content;
use crate::json::{self, Kind};
use crate::path::{MAX_PATH_CHARS, quoted_name};

/// Pieces of one result; of a result with more, neighbors are one piece together.
const MAX_PIECES: usize = 10_000;
/// Bytes below which an element is a piece and is not looked into.
const PIECE_BYTES: usize = 800;
/// Levels of nesting that are looked into.
const MAX_DEPTH: usize = 6;
/// Bytes of a part of a piece that are indexed.
const MAX_INDEXED_BYTES: usize = 8 * 1024;
/// Indexed bytes of a piece beyond which its further parts are left out.
const MAX_GROUP_BYTES: usize = 2 * MAX_INDEXED_BYTES;
/// Bytes of a path to a piece; what a longer one leads to is named by the path of its parent.
const MAX_PATH_BYTES: usize = MAX_PATH_CHARS;

/// A piece that fits.
#[derive(Debug, Serialize)]
pub struct PieceHit {
    /// Path of the piece, or its lines.
    pub at: String,
    /// Fit, 0 to 1; comparable within one answer.
    pub score: f32,
    /// The piece, or its beginning.
    pub text: String,
}

/// Neighbors that are one piece together.
#[derive(Default)]
struct Group {
    first: String,
    last: String,
    /// The names in the last path.
    words: String,
    /// The text that is indexed.
    indexed: String,
    /// The beginning, as a hit shows it.
    shown: String,
    is_cut: bool,
}

impl Group {
    fn add(&mut self, at: &str, text: &str, max_bytes: usize) {
        if self.first.is_empty() {
            at.clone_into(&mut self.first);
        } else {
            at.clone_into(&mut self.last);
            self.show("\n", max_bytes);
        }
        self.show(text, max_bytes);
        if self.indexed.len() < MAX_GROUP_BYTES {
            let words = words_of_path(at);
            if words != self.words {
                let _ = writeln!(self.indexed, "{words}");
                self.words = words;
            }
            let _ = writeln!(self.indexed, "{}", beginning(text, MAX_INDEXED_BYTES));
        }
    }

    fn show(&mut self, text: &str, max_bytes: usize) {
        if !self.is_cut {
            let fits = beginning(text, max_bytes.saturating_sub(self.shown.len()));
            self.is_cut = fits.len() < text.len();
            self.shown.push_str(fits);
        }
    }
}

/// Finds at most `limit` pieces that fit `intent`, best first, each with at most `max_bytes` of text.
pub fn search(content: &Content, intent: &str, limit: usize, max_bytes: usize) -> Vec<PieceHit> {
    // Counted first: a result may have many more pieces than are worth a place in memory.
    let mut count = 0_usize;
    each_piece(content, &mut |_, _| count += 1);
    let size = count.div_ceil(MAX_PIECES).max(1);
    let (mut groups, mut position) = (Vec::<Group>::new(), 0);
    each_piece(content, &mut |at, text| {
        if position % size == 0 {
            groups.push(Group::default());
        }
        position += 1;
        if let Some(group) = groups.last_mut() {
            group.add(at, text, max_bytes);
        }
    });
    let documents: Vec<Document> = groups
        .iter_mut()
        .map(|group| Document { description: std::mem::take(&mut group.indexed), ..Document::default() })
        .collect();
    let ranking = Index::new(&documents)
        .search(&Query { text: intent, limit, semantic_ratio: 0.0, explain: true, ..Query::default() }, None);
    let hits = ranking.hits.into_iter();
    hits.filter(|hit| hit.explanation.is_some_and(|why| why.bm25_rank.is_some()))
        .filter_map(|hit| {
            let Group { first, last, shown, is_cut, .. } = groups.get(hit.document)?;
            let at = if last.is_empty() { first.clone() } else { format!("{first} to {last}") };
            let mark = if *is_cut { "…" } else { "" };
            Some(PieceHit { at, score: hit.score, text: format!("{shown}{mark}") })
        })
        .collect()
}

/// Returns the names in a path; its numbers say nothing.
fn words_of_path(path: &str) -> String {
    let words = path.split(|character: char| !character.is_alphabetic() && character != '_');
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Returns the beginning of a text, cut between two characters.
fn beginning(text: &str, max_bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(max_bytes)).unwrap_or_default()
}

/// Gives `visit` the place and the text of each piece of a result, in order.
fn each_piece(content: &Content, visit: &mut dyn FnMut(&str, &str)) {
    match content.json() {
        Some(root) => split(root, &mut "$".to_owned(), 0, visit),
        None => paragraphs(content.text(), visit),
    }
}

fn split(raw: &RawValue, at: &mut String, depth: usize, visit: &mut dyn FnMut(&str, &str)) {
    let is_whole = depth > 0 && (raw.get().len() <= PIECE_BYTES || depth >= MAX_DEPTH);
    let here = at.len();
    match json::kind(raw) {
        Kind::Array if !is_whole => {
            let mut position = 0;
            json::each_item(raw, |item| {
                let _ = write!(at, "[{position}]");
                split(item, at, depth + 1, visit);
                at.truncate(here);
                position += 1;
                true
            });
        }
        Kind::Object if !is_whole => json::each_entry(raw, |key, value| {
            let _ = write!(at, "[{}]", quoted_name(&key));
            if at.len() > MAX_PATH_BYTES {
                at.truncate(here);
                visit(at, value.get());
            } else {
                split(value, at, depth + 1, visit);
                at.truncate(here);
            }
            true
        }),
        _ => visit(at, raw.get()),
    }
}

/// Splits a text at blank lines, and a long paragraph between lines. Lines count from 0, as offsets do.
fn paragraphs(text: &str, visit: &mut dyn FnMut(&str, &str)) {
    let (mut begin, mut first_line, mut at) = (0, 0, 0);
    let mut push = |range: std::ops::Range<usize>, first: usize, last: usize| {
        let piece = text.get(range).unwrap_or_default().trim_end();
        if !piece.trim().is_empty() {
            let place =
                if first == last { format!("line {first}") } else { format!("lines {first}–{last}") };
            visit(&place, piece);
        }
    };
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let is_long = at + line.len() - begin > PIECE_BYTES && at > begin;
        if line.trim().is_empty() {
            push(begin..at, first_line, number.saturating_sub(1));
            (begin, first_line) = (at + line.len(), number + 1);
        } else if is_long {
            push(begin..at, first_line, number.saturating_sub(1));
            (begin, first_line) = (at, number);
        }
        at += line.len();
    }
    push(begin..at, first_line, text.lines().count().saturating_sub(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_found_by_their_words_and_name_their_place() {
        let rows: Vec<_> =
            (0..30_000).map(|n| format!(r#"{{"id":{n},"title":"entry number {n}"}}"#)).collect();
        let mut rows = rows;
        rows[20_001] = r#"{"id":20001,"title":"the login fails on Safari"}"#.to_owned();
        let content = Content::of_text(format!(r#"{{"issues":[{}]}}"#, rows.join(",")));
        let hits = search(&content, "failing logins in safari", 3, 300);
        let first = hits.first().expect("a hit");
        assert!(first.text.contains("Safari") && first.at.contains(r#"$["issues"][2000"#), "{first:?}");
        assert!(search(&content, "zebra", 3, 300).is_empty());
    }

    #[test]
    fn places_are_paths_that_can_be_read() {
        for key in ["line\nfeed", "a\\b", "a\"b']", "tab\tand é\u{1}"] {
            let filler = "z".repeat(PIECE_BYTES);
            let json = serde_json::json!({ key: { "found": "zebra" }, "other": filler }).to_string();
            let content = Content::of_text(json);
            let hit = search(&content, "zebra", 1, 300).pop().expect("a hit");
            let path = crate::Path::parse(&hit.at).unwrap();
            let read = crate::resolve(&content, Some(&path)).unwrap();
            assert_eq!(read.get(), r#"{"found":"zebra"}"#, "{}", hit.at);
        }
    }

    #[test]
    fn a_value_behind_a_key_too_long_for_a_path_is_found_at_its_parent() {
        let (key, other) = ("k".repeat(MAX_PATH_BYTES), "x".repeat(PIECE_BYTES));
        let content = Content::of_text(format!(r#"{{"{key}":{{"a":"zebra"}},"b":"{other}"}}"#));
        assert_eq!(search(&content, "zebra", 1, 300)[0].at, "$");
    }

    #[test]
    fn neighbors_are_indexed_up_to_a_bound() {
        let mut group = Group::default();
        for number in 0..10_000 {
            group.add(&format!("$[\"name\"][{number}]"), &"é".repeat(100), 300);
        }
        assert!(group.indexed.len() <= MAX_GROUP_BYTES + MAX_INDEXED_BYTES, "{}", group.indexed.len());
        assert_eq!(group.indexed.matches("name").count(), 1);
        assert!(group.shown.len() <= 300 && group.is_cut);
    }

    #[test]
    fn many_pieces_are_groups_of_neighbors() {
        let numbers: Vec<_> = (0..MAX_PIECES * 2 + 2).map(|number| number.to_string()).collect();
        let content = Content::of_text(format!("[{}]", numbers.join(",")));
        let hit = search(&content, "7", 1, 300).pop().expect("a hit");
        assert_eq!((hit.at.as_str(), hit.text.as_str()), ("$[6] to $[8]", "6\n7\n8"));
    }

    #[test]
    fn a_text_is_searched_by_paragraph() {
        let text = "First about cats.\nStill cats.\n\nThen dogs.\n\n\nAt last birds, é.\n";
        let content = Content::of_text(text.to_owned());
        let hits = search(&content, "dog", 5, 300);
        assert_eq!(hits.len(), 1);
        assert_eq!((hits[0].at.as_str(), hits[0].text.trim()), ("line 3", "Then dogs."));
        assert_eq!(search(&content, "bird", 5, 14)[0].text.trim_start(), "At last birds,…");
    }
}

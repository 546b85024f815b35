//! Search within a result: BM25 over its pieces, which are elements and entries of JSON or paragraphs of a
//! text.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::value::RawValue;
use vmcp_search::{Document, Index, Query};

use crate::content::Content;
use crate::json;

/// Pieces of one result; of a result with more, neighbors are one piece together.
const MAX_PIECES: usize = 10_000;
/// Bytes below which an element is a piece and is not looked into.
const PIECE_BYTES: usize = 800;
/// Levels of nesting that are looked into.
const MAX_DEPTH: usize = 6;
/// Bytes of a piece that are indexed.
const MAX_INDEXED_BYTES: usize = 8 * 1024;

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

/// A part of the result, with its place.
struct Piece<'a> {
    at: String,
    text: &'a str,
}

/// Finds at most `limit` pieces that fit `intent`, best first, each with at most `max_bytes` of text.
pub fn search(content: &Content, intent: &str, limit: usize, max_bytes: usize) -> Vec<PieceHit> {
    let mut pieces = Vec::new();
    match content.json() {
        Some(root) => split(root, "$", 0, &mut pieces),
        None => paragraphs(content.text(), &mut pieces),
    }
    let group = pieces.len().div_ceil(MAX_PIECES).max(1);
    let documents: Vec<Document> = pieces
        .chunks(group)
        .map(|chunk| {
            let mut text = String::new();
            for piece in chunk {
                let words = words_of_path(&piece.at);
                let _ = writeln!(text, "{words} {}", beginning(piece.text, MAX_INDEXED_BYTES));
            }
            Document { description: text, ..Document::default() }
        })
        .collect();
    let ranking = Index::new(&documents)
        .search(&Query { text: intent, limit, semantic_ratio: 0.0, explain: true, ..Query::default() }, None);
    let hits = ranking.hits.into_iter();
    hits.filter(|hit| hit.explanation.is_some_and(|why| why.bm25_rank.is_some()))
        .filter_map(|hit| {
            let chunk = pieces.chunks(group).nth(hit.document)?;
            let (first, last) = (chunk.first()?, chunk.last()?);
            let at = if chunk.len() == 1 { first.at.clone() } else { format!("{} to {}", first.at, last.at) };
            let text = chunk.iter().map(|piece| piece.text).collect::<Vec<_>>().join("\n");
            let shown = beginning(&text, max_bytes);
            let mark = if shown.len() < text.len() { "…" } else { "" };
            Some(PieceHit { at, score: hit.score, text: format!("{shown}{mark}") })
        })
        .collect()
}

/// Returns the names in a path; its numbers say nothing.
fn words_of_path(path: &str) -> String {
    path.split(|character: char| !character.is_alphabetic() && character != '_').collect::<Vec<_>>().join(" ")
}

/// Returns the beginning of a text, cut between two characters.
fn beginning(text: &str, max_bytes: usize) -> &str {
    let end = (0..=max_bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or_default()).unwrap_or_default()
}

fn split<'a>(raw: &'a RawValue, at: &str, depth: usize, pieces: &mut Vec<Piece<'a>>) {
    if depth > 0 && (raw.get().len() <= PIECE_BYTES || depth >= MAX_DEPTH) {
        pieces.push(Piece { at: at.to_owned(), text: raw.get() });
    } else if let Some(items) = json::items(raw) {
        for (position, item) in items.into_iter().enumerate() {
            split(item, &format!("{at}[{position}]"), depth + 1, pieces);
        }
    } else if let Some(entries) = json::entries(raw) {
        for (key, value) in entries {
            let quoted = serde_json::to_string(&key).unwrap_or_default();
            split(value, &format!("{at}[{quoted}]"), depth + 1, pieces);
        }
    } else {
        pieces.push(Piece { at: at.to_owned(), text: raw.get() });
    }
}

/// Splits a text at blank lines, and a long paragraph between lines. Lines count from 0, as offsets do.
fn paragraphs<'a>(text: &'a str, pieces: &mut Vec<Piece<'a>>) {
    let (mut begin, mut first_line, mut at) = (0, 0, 0);
    let mut push = |range: std::ops::Range<usize>, first: usize, last: usize| {
        let piece = text.get(range).unwrap_or_default().trim_end();
        if !piece.trim().is_empty() {
            let place =
                if first == last { format!("line {first}") } else { format!("lines {first}–{last}") };
            pieces.push(Piece { at: place, text: piece });
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
    fn a_text_is_searched_by_paragraph() {
        let text = "First about cats.\nStill cats.\n\nThen dogs.\n\n\nAt last birds, é.\n";
        let content = Content::of_text(text.to_owned());
        let hits = search(&content, "dog", 5, 300);
        assert_eq!(hits.len(), 1);
        assert_eq!((hits[0].at.as_str(), hits[0].text.trim()), ("line 3", "Then dogs."));
        assert_eq!(search(&content, "bird", 5, 14)[0].text.trim_start(), "At last birds,…");
    }
}

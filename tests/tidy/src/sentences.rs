//! Sentences that take two readings, counted by kind in comments and pages. Each kind has a ceiling that only
//! falls: a change that lowers a count lowers the ceiling with it.
//!
//! `cargo run -q -p vmcp-tidy -- --sentences [PATH …]` prints the place of each.

use std::collections::BTreeMap;

use crate::comments::blocks;
use crate::pages::prose;
use crate::{Finding, Repository};

/// A kind of sentence that a reader has to read twice.
struct SentenceKind {
    /// Name of the kind.
    name: &'static str,
    /// Phrases of the kind, in lower case.
    phrases: &'static [&'static str],
    /// Better words.
    remedy: &'static str,
    /// Most of them in the repository.
    ceiling: usize,
}

/// Number by which a count may fall below its ceiling before the ceiling has to follow.
const SLACK: usize = 25;

const KINDS: [SentenceKind; 4] = [
    SentenceKind {
        name: "unnamed persons",
        phrases: &["nobody", "whoever", "whomever", "somebody", "everybody"],
        remedy: "name the role: the client, the backend, the operator, every client",
        ceiling: 30,
    },
    SentenceKind {
        name: "anew",
        phrases: &["anew"],
        remedy: "write \"again\", or the verb: rebuilds, restarts",
        ceiling: 6,
    },
    SentenceKind {
        name: "absence as a sentence",
        phrases: &["is no", "are no", "was no", "were no", "is none", "are none", "was none", "were none"],
        remedy: "say what happens: \"without\", \"lacks\", or the positive fact",
        ceiling: 110,
    },
    SentenceKind {
        name: "clauses without their noun",
        phrases: &[
            "that which",
            "those that",
            "those which",
            "those who",
            "one that",
            "one which",
            "ones that",
            "of what",
            "by what",
            "with what",
            "from what",
            "to what",
            "for what",
            "than what",
            "as what",
            "in what",
            "on what",
            "of whom",
            "by whom",
            "of whose",
        ],
        remedy: "repeat the noun: \"the tools that …\", \"the text that …\"",
        ceiling: 155,
    },
];

/// A phrase at a place.
struct Place<'a> {
    path: &'a str,
    /// Line of the comment or paragraph.
    line: usize,
    kind: usize,
    phrase: &'static str,
}

/// Returns the number of times that `phrase` stands in `text`, as whole words.
fn count(text: &str, phrase: &str) -> usize {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    text.match_indices(phrase)
        .filter(|(at, _)| {
            let before = text.get(..*at).and_then(|text| text.chars().next_back());
            let after = text.get(at + phrase.len()..).and_then(|text| text.chars().next());
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        })
        .count()
}

/// Returns a text in lower case, without code spans and with single spaces.
fn normalized(lines: &[&str]) -> String {
    let joined = lines.join(" ");
    let words = joined.split('`').step_by(2).collect::<Vec<_>>().join(" code ");
    words.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// Returns the paragraphs of a page, with their first lines.
fn paragraphs(text: &str) -> Vec<(usize, Vec<&str>)> {
    let mut paragraphs: Vec<(usize, Vec<&str>)> = Vec::new();
    let mut last = 0;
    for (number, line) in prose(text).filter(|(_, line)| !line.trim().is_empty()) {
        match paragraphs.last_mut() {
            Some((_, lines)) if last + 1 == number && !line.starts_with('|') => lines.push(line),
            _ => paragraphs.push((number, vec![line])),
        }
        last = number;
    }
    paragraphs
}

/// Returns every place, in comments of Rust files and in pages that are written by hand.
fn places(repository: &Repository) -> Vec<Place<'_>> {
    let mut places = Vec::new();
    for file in repository.files.iter().filter(|file| !file.path.starts_with("tests/tidy/src/")) {
        let texts: Vec<(usize, Vec<&str>)> = if file.ends_in(&[".rs"]) {
            blocks(&file.text).into_iter().map(|block| (block.line, block.lines)).collect()
        } else if file.ends_in(&[".md"]) && !is_generated(&file.text) {
            paragraphs(&file.text)
        } else {
            continue;
        };
        for (line, lines) in texts {
            let text = normalized(&lines);
            for (kind, phrases) in KINDS.iter().enumerate() {
                for phrase in phrases.phrases {
                    let place = || Place { path: &file.path, line, kind, phrase };
                    places.extend((0..count(&text, phrase)).map(|_| place()));
                }
            }
        }
    }
    places
}

/// True for a page that says at its beginning that it is generated.
fn is_generated(page: &str) -> bool {
    page.lines().take(8).any(|line| line.contains("Generated"))
}

/// Returns each kind whose count is above its ceiling, or far below.
pub(crate) fn keep_below_ceilings(repository: &Repository) -> Vec<Finding> {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for place in places(repository) {
        *counts.entry(place.kind).or_default() += 1;
    }
    let kinds = KINDS.iter().enumerate();
    kinds
        .filter_map(|(at, kind)| {
            judge(kind.name, counts.get(&at).copied().unwrap_or_default(), kind.ceiling, kind.remedy)
        })
        .map(|message| Finding { path: "tests/tidy/src/sentences.rs".to_owned(), line: 0, message })
        .collect()
}

/// Returns the message about a count that breaks the rule of its ceiling.
fn judge(name: &str, count: usize, ceiling: usize, remedy: &str) -> Option<String> {
    if count > ceiling {
        let see = "`cargo run -q -p vmcp-tidy -- --sentences PATH` shows the places";
        return Some(format!("{name}: {count}, {ceiling} at most; {remedy}. {see}"));
    }
    (count + SLACK < ceiling).then(|| format!("{name}: only {count} left; lower the ceiling of {ceiling}"))
}

/// Returns every counted place, as findings.
pub fn counted_sentences(repository: &Repository) -> Vec<Finding> {
    let finding = |place: Place<'_>| {
        let kind = KINDS.get(place.kind).map_or("", |kind| kind.name);
        Finding {
            path: place.path.to_owned(),
            line: place.line,
            message: format!("{kind}: {:?}", place.phrase),
        }
    };
    places(repository).into_iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_whole_words_across_lines_and_outside_of_code() {
        let text = normalized(&["There is", "no lock. `is no`, is noted, this is no", "one."]);
        assert_eq!(count(&text, "is no"), 2);
    }

    #[test]
    fn paragraphs_end_at_blank_lines_and_rows() {
        let found = paragraphs("a\nb\n\n| c |\n| d |\n```\ne\n```\n");
        let found: Vec<_> = found.into_iter().map(|(line, lines)| (line, lines.len())).collect();
        assert_eq!(found, [(1, 2), (4, 1), (5, 1)]);
    }

    #[test]
    fn a_ceiling_holds_and_falls() {
        assert!(judge("k", 11, 10, "r").is_some_and(|message| message.starts_with("k: 11, 10 at most; r")));
        assert_eq!(judge("k", 10, 10, "r"), None);
        assert_eq!(judge("k", 10, 10 + SLACK, "r"), None);
        assert!(judge("k", 10, 11 + SLACK, "r").is_some_and(|message| message.contains("lower the ceiling")));
    }
}

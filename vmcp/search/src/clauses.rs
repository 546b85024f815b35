//! A query that asks for several things, taken apart.

use crate::analysis::content_words;
use crate::stopwords::is_stop_word;

/// Clauses that are looked at. Each costs one embedding while someone waits.
pub const MAX_CLAUSES: usize = 8;
/// A fragment with fewer words that say something belongs to the clause before it: `by title, label and author`.
const MIN_CONTENT_WORDS: usize = 2;

/// The clauses of a query, at most [`MAX_CLAUSES`]; empty when there is just one.
///
/// Several sentences (or lines, or parts between semicolons) are the clauses. A single sentence is taken apart at its
/// commas and before `and`, `then`, `plus` and `also`. Split the task's description only: keywords have no clauses.
pub fn split_clauses(query: &str) -> Vec<String> {
    let mut clauses = join_short(&fragments(query, Separators::Sentences));
    if clauses.len() < 2 {
        clauses = join_short(&fragments(query, Separators::Conjunctions));
    }
    clauses.truncate(MAX_CLAUSES);
    if clauses.len() < 2 { Vec::new() } else { clauses }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Separators {
    Sentences,
    Conjunctions,
}

/// Pieces of the query, without the punctuation and the words between them.
fn fragments(query: &str, cut: Separators) -> Vec<String> {
    let fine = cut == Separators::Conjunctions;
    let mut fragments = vec![String::new()];
    for line in query.split(|character| {
        matches!(character, '\n' | ';' | '；' | '。' | '！' | '？')
            || (fine && matches!(character, '，' | '、'))
    }) {
        fragments.push(String::new());
        for word in line.split_whitespace() {
            if fine && matches!(word.to_lowercase().as_str(), "and" | "then" | "plus" | "also" | "&") {
                fragments.push(String::new());
                continue;
            }
            let bare = word.trim_end_matches(['.', '!', '?']);
            let bare = if fine { bare.trim_end_matches([',']) } else { bare };
            if let Some(fragment) = fragments.last_mut().filter(|_| !bare.is_empty()) {
                if !fragment.is_empty() {
                    fragment.push(' ');
                }
                fragment.push_str(bare);
            }
            if bare.len() < word.len() {
                fragments.push(String::new());
            }
        }
    }
    fragments.retain(|fragment| !fragment.is_empty());
    fragments
}

/// Joins fragments that say too little to stand alone.
fn join_short(fragments: &[String]) -> Vec<String> {
    let is_short =
        |text: &str| content_words(text).filter(|word| !is_stop_word(word)).count() < MIN_CONTENT_WORDS;
    let mut clauses: Vec<String> = Vec::new();
    for fragment in fragments {
        match clauses.last_mut() {
            Some(clause) if is_short(fragment) || is_short(clause) => {
                clause.push(' ');
                clause.push_str(fragment);
            }
            _ => clauses.push(fragment.clone()),
        }
    }
    clauses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_tasks_are_two_clauses() {
        assert_eq!(
            split_clauses("create word cloud visualization and generate PDF documents"),
            ["create word cloud visualization", "generate PDF documents"]
        );
        assert_eq!(
            split_clauses("Load the audio file, then detect its beats. Also compute MFCC features;"),
            ["Load the audio file, then detect its beats", "Also compute MFCC features"]
        );
    }

    #[test]
    fn one_task_has_no_clauses() {
        for query in [
            "",
            " ,;\n",
            "list issues",
            "search issues by title, label and author",
            "v1.2 of example.com",
            "How are you? List issues",
        ] {
            assert_eq!(split_clauses(query), Vec::<String>::new(), "{query}");
        }
    }

    #[test]
    fn a_short_opening_joins_what_follows() {
        assert_eq!(
            split_clauses("Hello, search open issues and create pull requests"),
            ["Hello search open issues", "create pull requests"]
        );
    }

    #[test]
    fn their_number_is_bounded() {
        assert_eq!(split_clauses(&"search open issues, ".repeat(100)).len(), MAX_CLAUSES);
        assert_eq!(split_clauses(&"Search open issues. ".repeat(100)).len(), MAX_CLAUSES);
    }
}

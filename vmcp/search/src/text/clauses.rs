//! Query decomposition: takes a query that asks for several things apart, so that each clause is searched by
//! itself.

use super::analysis::content_words;
use super::stopwords::is_stop_word;

/// The most clauses of a query that are searched; further ones are dropped. Each costs one embedding while a
/// client waits.
pub const MAX_CLAUSES: usize = 8;
/// Content words that a fragment needs to be a clause; a shorter one joins the clause before it: `by title,
/// label and author`.
const MIN_CONTENT_WORDS: usize = 2;

/// Splits a query into clauses, at most [`MAX_CLAUSES`]; returns an empty list for a query of a single
/// clause.
///
/// Several sentences (or lines, or parts between semicolons) are the clauses. A single sentence is split at
/// its commas and before `and`, `then`, `plus` and `also`. Pass the task's description only: keywords have no
/// clauses.
///
/// ```
/// use vmcp_search::split_clauses;
///
/// let clauses = split_clauses("find the open issues of the project, then send a summary to the team");
/// assert_eq!(clauses, ["find the open issues of the project", "send a summary to the team"]);
/// assert!(split_clauses("list the issues by title and author").is_empty());
/// ```
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

/// Cuts the query at the separators; neither they nor the punctuation are part of a fragment.
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

/// Joins each fragment of fewer than [`MIN_CONTENT_WORDS`] words to its neighbor.
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

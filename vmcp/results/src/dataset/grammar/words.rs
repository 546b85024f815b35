//! Words of the grammar.

use super::{Comparison, Function};

/// Words without a meaning here.
const FILLERS: &[&str] = &[
    "a",
    "all",
    "also",
    "an",
    "and",
    "any",
    "are",
    "as",
    "at",
    "be",
    "but",
    "calculate",
    "compute",
    "data",
    "dataset",
    "display",
    "do",
    "entries",
    "entry",
    "every",
    "extract",
    "filter",
    "find",
    "for",
    "from",
    "get",
    "give",
    "has",
    "have",
    "having",
    "i",
    "if",
    "in",
    "is",
    "it",
    "item",
    "items",
    "its",
    "keep",
    "list",
    "me",
    "need",
    "objects",
    "of",
    "on",
    "only",
    "out",
    "output",
    "please",
    "record",
    "records",
    "result",
    "results",
    "return",
    "row",
    "rows",
    "select",
    "show",
    "so",
    "table",
    "take",
    "that",
    "the",
    "their",
    "them",
    "then",
    "these",
    "this",
    "those",
    "to",
    "want",
    "what",
    "when",
    "where",
    "which",
    "who",
    "whose",
    "with",
    "each",
    "just",
    ",",
    "(",
    ")",
    "fetch",
    "pick",
    "values",
    "lines",
    "was",
    "were",
    "does",
    "project",
    "fields",
    "columns",
];

/// Nouns that may follow the name of a field.
const FIELD_NOUNS: &[&str] = &[
    "field",
    "fields",
    "column",
    "columns",
    "value",
    "values",
    "attribute",
    "attributes",
    "key",
    "keys",
    "property",
    "properties",
    "address",
    "addresses",
];

/// Nouns for rows, which may follow a number.
const ROW_NOUNS: &[&str] = &[
    "row", "rows", "item", "items", "record", "records", "entry", "entries", "result", "results", "values",
    "value", "lines", "groups",
];

/// Words before fields that are asked for.
const SELECTS: &[&str] = &[
    "select", "extract", "pick", "project", "return", "show", "list", "get", "display", "fields", "columns",
    "field", "column", "only", "output", "give", "fetch", "keep",
];

/// Comparisons, longer phrases first; the flag negates.
const COMPARISONS: &[(&str, Comparison, bool)] = &[
    ("is greater than or equal to", Comparison::AtLeast, false),
    ("greater than or equal to", Comparison::AtLeast, false),
    ("is less than or equal to", Comparison::AtMost, false),
    ("less than or equal to", Comparison::AtMost, false),
    ("is not equal to", Comparison::Equal, true),
    ("does not start with", Comparison::StartsWith, true),
    ("does not end with", Comparison::EndsWith, true),
    ("is greater than", Comparison::Greater, false),
    ("is more than", Comparison::Greater, false),
    ("is larger than", Comparison::Greater, false),
    ("is higher than", Comparison::Greater, false),
    ("is less than", Comparison::Less, false),
    ("is lower than", Comparison::Less, false),
    ("is smaller than", Comparison::Less, false),
    ("is at least", Comparison::AtLeast, false),
    ("is at most", Comparison::AtMost, false),
    ("is equal to", Comparison::Equal, false),
    ("does not contain", Comparison::Contains, true),
    ("does not include", Comparison::Contains, true),
    ("does not equal", Comparison::Equal, true),
    ("not equal to", Comparison::Equal, true),
    ("is not null", Comparison::Missing, true),
    ("is not empty", Comparison::Missing, true),
    ("is not missing", Comparison::Missing, true),
    ("greater than", Comparison::Greater, false),
    ("more than", Comparison::Greater, false),
    ("larger than", Comparison::Greater, false),
    ("higher than", Comparison::Greater, false),
    ("bigger than", Comparison::Greater, false),
    ("later than", Comparison::Greater, false),
    ("less than", Comparison::Less, false),
    ("lower than", Comparison::Less, false),
    ("smaller than", Comparison::Less, false),
    ("fewer than", Comparison::Less, false),
    ("earlier than", Comparison::Less, false),
    ("at least", Comparison::AtLeast, false),
    ("at most", Comparison::AtMost, false),
    ("equal to", Comparison::Equal, false),
    ("starts with", Comparison::StartsWith, false),
    ("starting with", Comparison::StartsWith, false),
    ("begins with", Comparison::StartsWith, false),
    ("ends with", Comparison::EndsWith, false),
    ("ending with", Comparison::EndsWith, false),
    ("doesn't contain", Comparison::Contains, true),
    ("not containing", Comparison::Contains, true),
    ("not contains", Comparison::Contains, true),
    ("is null", Comparison::Missing, false),
    ("is empty", Comparison::Missing, false),
    ("is missing", Comparison::Missing, false),
    ("is above", Comparison::Greater, false),
    ("is over", Comparison::Greater, false),
    ("is below", Comparison::Less, false),
    ("is under", Comparison::Less, false),
    ("is after", Comparison::Greater, false),
    ("is before", Comparison::Less, false),
    ("is not", Comparison::Equal, true),
    ("are not", Comparison::Equal, true),
    ("isn't", Comparison::Equal, true),
    ("contains", Comparison::Contains, false),
    ("containing", Comparison::Contains, false),
    ("contain", Comparison::Contains, false),
    ("includes", Comparison::Contains, false),
    ("including", Comparison::Contains, false),
    ("above", Comparison::Greater, false),
    ("over", Comparison::Greater, false),
    ("exceeds", Comparison::Greater, false),
    ("exceeding", Comparison::Greater, false),
    ("after", Comparison::Greater, false),
    ("below", Comparison::Less, false),
    ("under", Comparison::Less, false),
    ("before", Comparison::Less, false),
    ("equals", Comparison::Equal, false),
    ("is", Comparison::Equal, false),
    ("are", Comparison::Equal, false),
    (">=", Comparison::AtLeast, false),
    ("≥", Comparison::AtLeast, false),
    ("<=", Comparison::AtMost, false),
    ("≤", Comparison::AtMost, false),
    ("!=", Comparison::Equal, true),
    ("<>", Comparison::Equal, true),
    ("≠", Comparison::Equal, true),
    ("==", Comparison::Equal, false),
    (">", Comparison::Greater, false),
    ("<", Comparison::Less, false),
    ("=", Comparison::Equal, false),
];

/// True for a word without a meaning here.
pub(super) fn is_filler(word: &str) -> bool {
    FILLERS.contains(&word)
}

/// True for a noun that may follow a field.
pub(super) fn is_field_noun(word: &str) -> bool {
    FIELD_NOUNS.contains(&word)
}

/// True for a noun that may follow a number of rows.
pub(super) fn is_row_noun(word: &str) -> bool {
    ROW_NOUNS.contains(&word)
}

/// True for a word before fields that are asked for.
pub(super) fn selects(word: &str) -> bool {
    SELECTS.contains(&word)
}

/// Returns the comparisons, longer phrases first: words, comparison, negation.
pub(super) fn comparisons() -> impl Iterator<Item = (&'static str, Comparison, bool)> {
    COMPARISONS.iter().copied()
}

/// Returns the functions that a word asks for.
pub(super) fn functions(word: &str) -> &'static [Function] {
    match word {
        "sum" | "sums" | "total" | "totals" | "add" | "summing" => &[Function::Sum],
        "average" | "averages" | "avg" | "mean" => &[Function::Avg],
        "min" | "minimum" | "smallest" | "lowest" => &[Function::Min],
        "max" | "maximum" | "largest" | "highest" | "biggest" => &[Function::Max],
        "median" | "medians" => &[Function::Median],
        "deviation" | "stdev" | "stddev" | "std" => &[Function::Deviation],
        "count" | "counts" | "counting" | "number" => &[Function::Count],
        "statistics" | "stats" | "statistic" | "summarize" | "summary" | "describe" => {
            &[Function::Count, Function::Min, Function::Max, Function::Avg, Function::Sum]
        }
        _ => &[],
    }
}

/// Returns true for descending, false for ascending, if the word is a direction.
pub(super) fn direction(word: &str) -> Option<bool> {
    match word {
        "desc" | "descending" | "decreasing" | "highest" | "largest" | "biggest" | "newest" | "latest" => {
            Some(true)
        }
        "asc" | "ascending" | "increasing" | "lowest" | "smallest" | "oldest" | "earliest" => Some(false),
        _ => None,
    }
}

//! Two values side by side, each with the part in which they differ marked.

use maud::{Markup, html};

use crate::text::{self, MAX_DOCUMENT};

/// Shows a value before and after its change, side by side where the window is wide; `None`: absent.
pub(crate) fn side_by_side(before: Option<&str>, after: Option<&str>) -> Markup {
    html! {
        div.sides {
            @for (class, word, value, other) in [("before", "Before", before, after), ("after", "After", after, before)] {
                div {
                    @if let Some(value) = value {
                        p.hint { (word) }
                        div class=(class) { (document(word, value, other)) }
                    } @else { p.hint { (word) ": absent" } }
                }
            }
        }
    }
}

/// As [`text::document`], with the part that differs from `other` marked.
fn document(label: &str, value: &str, other: Option<&str>) -> Markup {
    let Some(other) = other else { return text::document(label, value) };
    let (begin, middle, end) = difference(value, other);
    html! {
        pre.scroll tabindex="0" role="region" aria-label=(label) {
            code {
                (text::inert(begin, MAX_DOCUMENT))
                @if !middle.is_empty() { mark { (text::inert(middle, MAX_DOCUMENT)) } }
                (text::inert(end, MAX_DOCUMENT))
            }
        }
    }
}

/// Splits a text into its begin, which `other` has too, the part that differs, and its end, which `other` has
/// too.
fn difference<'a>(text: &'a str, other: &str) -> (&'a str, &'a str, &'a str) {
    let is_common = |(one, another): &(char, char)| one == another;
    let bytes = |(one, _): (char, char)| one.len_utf8();
    let begin = text.chars().zip(other.chars()).take_while(is_common).map(bytes).sum();
    let (begin, rest) = text.split_at(begin);
    let other = other.get(begin.len()..).unwrap_or_default();
    let end: usize = rest.chars().rev().zip(other.chars().rev()).take_while(is_common).map(bytes).sum();
    let (middle, end) = rest.split_at(rest.len().saturating_sub(end));
    (begin, middle, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_that_differs_is_found() {
        for (text, other, expected) in [
            ("Adds a note.", "Adds and sends a note.", ("Adds a", "", " note.")),
            ("Adds and sends a note.", "Adds a note.", ("Adds a", "nd sends a", " note.")),
            ("same", "same", ("same", "", "")),
            ("aa", "aaa", ("aa", "", "")),
            ("aaa", "aa", ("aa", "a", "")),
            ("", "x", ("", "", "")),
            ("日本", "日木", ("日", "本", "")),
            ("éa", "èa", ("", "é", "a")),
        ] {
            assert_eq!(difference(text, other), expected, "{text} and {other}");
        }
    }

    #[test]
    fn both_sides_are_inert_and_bounded_and_an_absent_one_is_named() {
        let (before, after) = ("Adds a <b>note", "Adds a <i>\u{202e}note");
        let shown = side_by_side(Some(before), Some(after)).into_string();
        assert!(
            shown.contains("<mark>b</mark>&gt;note") || shown.contains("<mark>b&gt;</mark>note"),
            "{shown}"
        );
        assert!(shown.contains("⟨U+202E⟩") && !shown.contains("<b>") && !shown.contains("<i>"), "{shown}");
        let only = side_by_side(None, Some("x")).into_string();
        assert!(only.contains("Before: absent") && !only.contains("<mark>"), "{only}");
        let (long, longer) = ("a".repeat(1 << 20), "b".repeat(1 << 20));
        assert!(side_by_side(Some(&long), Some(&longer)).into_string().len() < 3 * MAX_DOCUMENT);
    }
}

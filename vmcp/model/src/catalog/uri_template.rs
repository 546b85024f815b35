//! Matching of URIs against templates (RFC 6570), to find the backend that serves a URI.
//!
//! The backend decides what the URI means, so the match is generous about the end of a variable's value:
//! `{x}` stays within one path segment, `{+x}`, `{#x}` and an exploded `{x*}` cross segments, and query
//! parameters may be absent.

use crate::definition::MAX_URI_BYTES;

/// Most expressions in a template; one with more fits nothing.
const MAX_EXPRESSIONS: usize = 16;
/// Bytes of literals that one match compares, for each byte of the URI; a template with more work fits
/// nothing. A literal of one repeated character would else be compared whole at each place of such a URI.
const MAX_COMPARED_PER_BYTE: usize = 32;
/// Bytes of literals that one match compares on top of these.
const MIN_COMPARED: usize = 4096;

/// Returns true if `uri` fits `template`. The work is linear in the length of the URI.
pub(crate) fn matches(template: &str, uri: &str) -> bool {
    if uri.len() > MAX_URI_BYTES || template.matches('{').count() > MAX_EXPRESSIONS {
        return false;
    }
    // Positions in the URI at which the part of the template matched so far can end, ascending (the states of
    // a nondeterministic automaton).
    let mut ends = vec![0];
    let mut budget = MIN_COMPARED + MAX_COMPARED_PER_BYTE * uri.len();
    let mut template = template;
    while !template.is_empty() && !ends.is_empty() {
        let (literal, rest) = template.split_at(template.find('{').unwrap_or(template.len()));
        ends = after_literal(literal, uri, &ends, &mut budget);
        template = match rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            Some((expression, rest)) => {
                ends = after_expression(expression, uri, ends, &mut budget);
                rest
            }
            // An expression without an end stands for itself.
            None if rest.is_empty() => rest,
            None => {
                ends = after_literal(rest, uri, &ends, &mut budget);
                ""
            }
        };
    }
    ends.last() == Some(&uri.len())
}

/// Returns the positions behind a literal; none once the `budget` of compared bytes is used up.
fn after_literal(literal: &str, uri: &str, starts: &[usize], budget: &mut usize) -> Vec<usize> {
    if literal.is_empty() {
        return starts.to_vec();
    }
    let mut ends = Vec::new();
    for start in starts {
        let rest = uri.as_bytes().get(*start..).unwrap_or_default();
        let same = literal.bytes().zip(rest).take_while(|(one, other)| one == *other).count();
        let Some(left) = budget.checked_sub(same + 1) else { return Vec::new() };
        *budget = left;
        if same == literal.len() {
            ends.push(start + same);
        }
    }
    ends
}

fn after_expression(expression: &str, uri: &str, starts: Vec<usize>, budget: &mut usize) -> Vec<usize> {
    let exploded = expression.ends_with('*');
    let in_segment = |c: char| exploded || !matches!(c, '/' | '?' | '#');
    match expression.chars().next() {
        Some('+') => after_value(|_| true, uri, &starts),
        Some('#') => after_value(|_| true, uri, &after_literal("#", uri, &starts, budget)),
        Some(operator @ ('/' | '.')) => {
            let present = after_literal(operator.encode_utf8(&mut [0; 4]), uri, &starts, budget);
            after_value(in_segment, uri, &present)
        }
        Some(operator @ (';' | '?' | '&')) => {
            let present = after_literal(operator.encode_utf8(&mut [0; 4]), uri, &starts, budget);
            let mut ends = after_value(|c| c != '#' && (operator != ';' || in_segment(c)), uri, &present);
            ends.extend(starts);
            ends.sort_unstable();
            ends.dedup();
            ends
        }
        _ => after_value(in_segment, uri, &starts),
    }
}

/// Returns all positions that one or more allowed characters lead to.
fn after_value(allowed: impl Fn(char) -> bool, uri: &str, starts: &[usize]) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut starts = starts.iter().peekable();
    let mut inside = false;
    for (at, c) in uri.char_indices() {
        inside |= starts.next_if_eq(&&at).is_some();
        inside &= allowed(c);
        if inside {
            ends.push(at + c.len_utf8());
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_stay_in_their_segment() {
        assert!(matches("users://{id}/profile", "users://42/profile"));
        assert!(!matches("users://{id}/profile", "users:///profile"), "a value is not empty");
        assert!(!matches("users://{id}", "users://42/profile"));
        assert!(matches("a://{x}-{y}", "a://1-2-3") && !matches("a://{x}-{y}", "a://12"));
        assert!(matches("a://größe/{x}", "a://größe/日本"));
        assert!(matches("plain", "plain") && !matches("plain", "plain2") && !matches("plain", "plai"));
    }

    #[test]
    fn operators() {
        assert!(matches("file://{+path}", "file:///a/b?c") && matches("file:///{path*}", "file:///a/b"));
        assert!(matches("a://x{/y}", "a://x/1") && !matches("a://x{/y}", "a://x/1/2"));
        assert!(matches("a://x{?q,r}", "a://x?q=1&r=2") && matches("a://x{?q}", "a://x"));
        assert!(!matches("a://x{?q}", "a://xq") && !matches("a://x{?q}", "a://x?q#f"));
        assert!(matches("a://x{#f}", "a://x#f/g") && matches("a://x{.ext}", "a://x.md"));
        assert!(matches("a://{unclosed", "a://{unclosed") && !matches("a://{unclosed", "a://x"));
    }

    #[test]
    fn bounded() {
        let uri = format!("a://{}", "x".repeat(MAX_URI_BYTES - 4));
        assert!(matches(&format!("a://{}", "{+x}".repeat(MAX_EXPRESSIONS)), &uri));
        assert!(!matches(&format!("a://{}", "{+x}".repeat(MAX_EXPRESSIONS + 1)), &uri));
        assert!(!matches("{+x}", &format!("{uri}x")));
    }

    #[test]
    fn a_template_that_repeats_one_character_costs_little() {
        let uri = format!("a:{}", "a".repeat(MAX_URI_BYTES - 2));
        let literal = "a".repeat(400);
        assert!(!matches(&format!("a:{}b", format!("{{+x}}{literal}").repeat(15)), &uri));
        assert!(!matches(&format!("a:{{+x}}{literal}"), &uri), "its work is beyond the bound");
        let folders = format!("file:///{}notes.md", "folder/".repeat(1000));
        assert!(matches("file:///{+path}/notes.md", &folders) && matches("file:///{+path}{?q}", &folders));
    }

    proptest! {
        #[test]
        fn an_expansion_fits(literals in prop::collection::vec("[a-z:/é]{0,4}", 1..6), value in "[a-zé0-9.-]{1,6}") {
            let template = literals.join("{v}");
            prop_assert!(matches(&template, &literals.join(&value)), "{}", template);
        }

        #[test]
        fn never_panics(template in "[{}+?/#&;.*a-bé]{0,30}", uri in "[{}+?/#&;.*a-bé]{0,30}") {
            matches(&template, &uri);
        }
    }
}

//! Matching of URIs against templates (RFC 6570), to find the backend that serves a URI.
//!
//! The backend decides what the URI means, so the match is generous about the end of a variable's value:
//! `{x}` stays within one path segment, `{+x}`, `{#x}` and an exploded `{x*}` cross segments, and query
//! parameters may be absent.

use crate::definition::MAX_URI_BYTES;

/// Most expressions in a template; one with more fits nothing. The work of a match is at most this times the
/// length of the URI.
const MAX_EXPRESSIONS: usize = 16;

/// Returns true if `uri` fits `template`.
pub(crate) fn matches(template: &str, uri: &str) -> bool {
    if uri.len() > MAX_URI_BYTES || template.matches('{').count() > MAX_EXPRESSIONS {
        return false;
    }
    // Positions in the URI at which the part of the template matched so far can end, ascending (the states of
    // a nondeterministic automaton).
    let mut ends = vec![0];
    let mut template = template;
    while !template.is_empty() && !ends.is_empty() {
        let (literal, rest) = template.split_at(template.find('{').unwrap_or(template.len()));
        ends = after_literal(literal, uri, &ends);
        template = match rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            Some((expression, rest)) => {
                ends = after_expression(expression, uri, ends);
                rest
            }
            // An expression without an end stands for itself.
            None if rest.is_empty() => rest,
            None => {
                ends = after_literal(rest, uri, &ends);
                ""
            }
        };
    }
    ends.last() == Some(&uri.len())
}

fn after_literal(literal: &str, uri: &str, starts: &[usize]) -> Vec<usize> {
    let fits = |start: &&usize| uri.get(**start..).is_some_and(|rest| rest.starts_with(literal));
    starts.iter().filter(fits).map(|start| start + literal.len()).collect()
}

fn after_expression(expression: &str, uri: &str, starts: Vec<usize>) -> Vec<usize> {
    let exploded = expression.ends_with('*');
    let in_segment = |c: char| exploded || !matches!(c, '/' | '?' | '#');
    match expression.chars().next() {
        Some('+') => after_value(|_| true, uri, &starts),
        Some('#') => after_value(|_| true, uri, &after_literal("#", uri, &starts)),
        Some(operator @ ('/' | '.')) => {
            after_value(in_segment, uri, &after_literal(operator.encode_utf8(&mut [0; 4]), uri, &starts))
        }
        Some(operator @ (';' | '?' | '&')) => {
            let present = after_literal(operator.encode_utf8(&mut [0; 4]), uri, &starts);
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

//! Balance of blocks: each `if`, `range`, `with`, `define` and `block` has its `end`. The engine reads a
//! template without one as if it were there, and ignores all that follows a surplus one.

/// A block that is open.
struct Open<'a> {
    keyword: &'a str,
    has_else: bool,
}

/// Checks the blocks of a template. The error says which one is wrong.
pub(super) fn check(source: &str) -> Result<(), String> {
    let mut open: Vec<Open<'_>> = Vec::new();
    let mut rest = source;
    while let Some((_, after)) = rest.split_once("{{") {
        let (action, following) = split_action(after);
        rest = following;
        let words = behind_marker(action).trim_start();
        let keyword = words.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
        match keyword {
            "if" | "range" | "with" | "define" | "block" => open.push(Open { keyword, has_else: false }),
            "end" if open.pop().is_none() => return Err("unexpected {{end}}".to_owned()),
            "else" => match open.last_mut() {
                Some(Open { keyword: "if" | "range" | "with", has_else: has_else @ false }) => {
                    // `else if` begins no block of its own, but another `else` may follow.
                    *has_else =
                        words.split_whitespace().nth(1).is_none_or(|next| !matches!(next, "if" | "with"));
                }
                _ => return Err("unexpected {{else}}".to_owned()),
            },
            "break" | "continue" if !is_in_range(&open) => {
                return Err(format!("{{{{{keyword}}}}} outside {{{{range}}}}"));
            }
            _ => {}
        }
    }
    match open.last() {
        Some(block) => Err(format!("{{{{{}}}}} without {{{{end}}}}", block.keyword)),
        None => Ok(()),
    }
}

/// True within a `range` of the same template: a `define` or `block` begins another.
fn is_in_range(open: &[Open<'_>]) -> bool {
    let is_of_template = |block: &&Open<'_>| !matches!(block.keyword, "define" | "block");
    open.iter().rev().take_while(is_of_template).any(|block| block.keyword == "range")
}

/// Returns the text behind a marker that trims: a dash and a blank.
fn behind_marker(text: &str) -> &str {
    text.strip_prefix('-').filter(|rest| rest.starts_with([' ', '\t', '\r', '\n'])).unwrap_or(text)
}

/// Splits the text behind `{{` into the action and what follows its `}}`.
fn split_action(text: &str) -> (&str, &str) {
    let comment = behind_marker(text).trim_start();
    if let Some(comment) = comment.strip_prefix("/*") {
        let following = comment.split_once("*/").map_or("", |(_, following)| following);
        return ("", following.split_once("}}").map_or("", |(_, following)| following));
    }
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match quote {
            _ if escaped => escaped = false,
            Some('"' | '\'') if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if matches!(c, '"' | '`' | '\'') => quote = Some(c),
            None => {
                if let Some((action, following)) = text.split_at_checked(at)
                    && let Some(following) = following.strip_prefix("}}")
                {
                    return (action, following);
                }
            }
        }
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_its_end() {
        for right in [
            "",
            "{{if .a}}{{end}}",
            "{{- if .a -}}{{else if .b}}{{else}}{{- end -}}",
            "{{range .a}}{{break}}{{end}}",
            "{{with .a}}{{\"{{end}}\"}}{{end}}",
            "{{/* {{if}} */}}",
            "{{define \"x\"}}{{end}}{{block \"y\" .}}{{end}}",
            "{{`}}`}}{{ifx}}",
            "{{-\n  if .a\n-}}x{{-\tend}}{{-\n/* {{if}} */ -}}",
        ] {
            assert_eq!(check(right), Ok(()), "{right}");
        }
        for wrong in [
            "{{if .a}}",
            "{{end}}",
            "{{range .a}}{{if .b}}{{end}}",
            "{{else}}",
            "{{if .a}}{{else}}{{else}}{{end}}",
            "{{break}}",
            "{{if .a}}{{continue}}{{end}}",
            "{{define \"x\"}}{{else}}{{end}}",
            "{{range .a}}{{block \"x\" .}}{{break}}{{end}}{{end}}",
            "{{if \"}}\"}}",
        ] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
    }
}

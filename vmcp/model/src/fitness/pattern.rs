//! Syntax of regular expressions by ECMA-262 with the flag `u`, with which clients compile patterns. One pass
//! over the pattern, without recursion.

/// Escapes outside of classes: syntax characters, classes, control characters, references.
const ESCAPES: &str = "^$\\.*+?()[]{}|/dDwWsSbBfnrtv0123456789cxukpP";

/// True if a client can compile the pattern.
pub(super) fn compiles(pattern: &str) -> bool {
    let mut chars = pattern.chars().peekable();
    let mut open_groups = 0_usize;
    // True if a quantifier may follow.
    let mut has_atom = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped) if ESCAPES.contains(escaped) => {
                    if !skip_braces(&mut chars, escaped) {
                        return false;
                    }
                    has_atom = !matches!(escaped, 'b' | 'B');
                }
                _ => return false,
            },
            '[' => {
                if !skip_class(&mut chars) {
                    return false;
                }
                has_atom = true;
            }
            '(' => {
                if chars.next_if_eq(&'?').is_some() && !skip_group_kind(&mut chars) {
                    return false;
                }
                open_groups += 1;
                has_atom = false;
            }
            ')' if open_groups > 0 => {
                open_groups -= 1;
                has_atom = true;
            }
            '*' | '+' | '?' if has_atom => {
                chars.next_if_eq(&'?');
                has_atom = false;
            }
            '{' if has_atom => {
                if !skip_count(&mut chars) {
                    return false;
                }
                chars.next_if_eq(&'?');
                has_atom = false;
            }
            ')' | '*' | '+' | '?' | '{' | '}' | ']' => return false,
            '^' | '$' | '|' => has_atom = false,
            _ => has_atom = true,
        }
    }
    open_groups == 0
}

/// True if groups and classes end, as they must in the regular expressions of every language.
pub(super) fn is_balanced(pattern: &str) -> bool {
    let (mut open_groups, mut is_class) = (0_usize, false);
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.next().is_none() => return false,
            '[' if !is_class => is_class = true,
            ']' => is_class = false,
            '(' if !is_class => open_groups += 1,
            ')' if !is_class && open_groups == 0 => return false,
            ')' if !is_class => open_groups -= 1,
            _ => {}
        }
    }
    open_groups == 0 && !is_class
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Skips a character class behind its `[`; false if the class does not end.
fn skip_class(chars: &mut Chars<'_>) -> bool {
    chars.next_if_eq(&'^');
    // True behind `\w` and its like, with which no range may begin.
    let mut is_behind_class = false;
    while let Some(c) = chars.next() {
        match c {
            ']' => return true,
            '\\' => match chars.next() {
                Some('-') => is_behind_class = false,
                Some(escaped) if ESCAPES.contains(escaped) && escaped != 'B' && escaped != 'k' => {
                    if !skip_braces(chars, escaped) {
                        return false;
                    }
                    is_behind_class = matches!(escaped, 'd' | 'D' | 'w' | 'W' | 's' | 'S');
                }
                _ => return false,
            },
            '-' if is_behind_class && chars.peek().is_some_and(|next| *next != ']') => return false,
            _ => is_behind_class = false,
        }
    }
    false
}

/// Skips the braces behind `\p` and `\u`; false if they are missing or do not end.
fn skip_braces(chars: &mut Chars<'_>, escaped: char) -> bool {
    match (escaped, chars.peek()) {
        ('p' | 'P' | 'u', Some('{')) => chars.by_ref().any(|c| c == '}'),
        ('p' | 'P', _) => false,
        _ => true,
    }
}

/// Skips the kind of a group behind `(?`.
fn skip_group_kind(chars: &mut Chars<'_>) -> bool {
    match chars.next() {
        Some(':' | '=' | '!') => true,
        Some('<') => match chars.next() {
            Some('=' | '!') => true,
            Some(first) if first.is_alphabetic() || matches!(first, '_' | '$') => {
                while chars.next_if(|c| c.is_alphanumeric() || matches!(c, '_' | '$')).is_some() {}
                chars.next() == Some('>')
            }
            _ => false,
        },
        _ => false,
    }
}

/// Skips a quantifier's count behind its `{`.
fn skip_count(chars: &mut Chars<'_>) -> bool {
    let digits = |chars: &mut Chars<'_>| {
        let mut count = 0;
        while chars.next_if(char::is_ascii_digit).is_some() {
            count += 1;
        }
        count
    };
    if digits(chars) == 0 {
        return false;
    }
    if chars.next_if_eq(&',').is_some() {
        digits(chars);
    }
    chars.next() == Some('}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_javascript_compile() {
        for pattern in [
            "",
            "^a+$",
            "^[\\w.-]+@[\\w-]+\\.com$",
            "^\\d{4}-\\d{2}$",
            "a{2,}?",
            "(?<year>\\d+)|(?:x)",
            "(?=x)y(?!z)(?<=a)(?<!b)",
            "\\p{L}\\u{1F600}",
            "[^\\]\\-]",
            "[\\w-]",
            "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@$",
            "日本+",
            "\\/\\$\\{\\}",
            "[(*+?]",
        ] {
            assert!(compiles(pattern), "{pattern}");
        }
    }

    #[test]
    fn groups_and_classes_must_end() {
        for pattern in ["([", "(", "[a", "a)", "a\\"] {
            assert!(!is_balanced(pattern), "{pattern}");
        }
        for pattern in ["(?P<n>[(])", "\\(", "(?i)a", "[]a]", "a]"] {
            assert!(is_balanced(pattern), "{pattern}");
        }
    }

    #[test]
    fn others_do_not() {
        for pattern in [
            "(",
            ")",
            "[",
            "[a",
            "*a",
            "a**",
            "a++",
            "(?P<name>x)",
            "(?i)x",
            "\\Ax\\Z",
            "\\@",
            "a{",
            "a{x}",
            "}",
            "]",
            "\\",
            "[\\w-z]",
            "(?#c)",
            "(?<1>x)",
            "\\pL",
            "\\u{1",
            "(*)",
            "|*",
        ] {
            assert!(!compiles(pattern), "{pattern}");
        }
    }
}

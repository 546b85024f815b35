//! Names of objects, checked before `kubectl` sees them.

use crate::cli::console::failure::{CommandFailure, Exit};

/// Most characters of a name: a label of RFC 1123.
const MAX_CHARS: usize = 63;

/// Refuses a name that no object can have, or that could be read as an option. `what` is the kind of object.
pub(in crate::cli) fn check(what: &str, name: &str) -> Result<(), CommandFailure> {
    let ends = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let fits = name.starts_with(ends) && name.ends_with(ends) && name.len() <= MAX_CHARS;
    if fits && name.chars().all(|c| ends(c) || c == '-') {
        return Ok(());
    }
    let shown: String = name.chars().take(MAX_CHARS).collect();
    Err(CommandFailure::new(format!("`{shown}` cannot be the name of a {what}"))
        .exit(Exit::Usage)
        .remedy("use lower-case letters, digits and `-`, at most 63"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_labels_and_never_options() {
        for name in ["x", "team-tools", "0", &"a".repeat(63)] {
            assert!(check("resource", name).is_ok(), "{name}");
        }
        for name in ["", "-x", "x-", "X", "a.b", "a b", "a/b", "--all", "x;y", "$(x)", &"a".repeat(64)] {
            let failure = check("namespace", name).unwrap_err();
            assert_eq!(failure.exit_code(), Exit::Usage, "{name}");
            assert!(failure.message().ends_with("cannot be the name of a namespace"), "{name}");
        }
        assert!(check("resource", &"a".repeat(100_000)).unwrap_err().message().len() < 200);
    }
}

//! Remarks for people, on standard error.

use std::io::{self, IsTerminal as _, Write as _};

/// Writes a remark for people. Nobody is told when that fails: there is nowhere left to tell it.
pub(in crate::cli) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", without_controls(text));
}

/// Whether remarks are read by a person.
pub(in crate::cli) fn people_read_notes() -> bool {
    io::stderr().is_terminal()
}

/// Removes control characters but line ends and tabs, so that text from a backend cannot move the cursor.
pub(super) fn without_controls(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_do_not_reach_a_terminal() {
        assert_eq!(without_controls("a\u{1b}[2Jb\u{7}\n\tc"), "a[2Jb\n\tc");
    }
}

//! Notes for people, on standard error.

use std::io::{self, IsTerminal as _, Write as _};

use console::Term;
use vmcp_config::sanitize::is_unseen;

use super::paint;
use super::wrap::wrapped;

/// Writes a note, in color where it is painted and the terminal takes it. A failure to write is ignored:
/// there is nowhere left to report it.
pub(in crate::cli) fn note(text: &str) {
    let text = without_controls(text);
    let text = match Term::stderr().size_checked().filter(|_| is_terminal()) {
        Some((_, columns)) => wrapped(&text, columns.into()),
        None => text,
    };
    let _ = writeln!(io::stderr().lock(), "{}", paint::render(&text, paint::on_stderr()));
}

/// Returns a number with its noun, in the plural unless it is one.
pub(in crate::cli) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Returns true if standard error is a terminal.
pub(in crate::cli) fn is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Removes control characters except line ends and tabs, so that text of a backend cannot move the cursor.
pub(super) fn without_controls(text: &str) -> String {
    text.chars().filter(|c| matches!(c, '\n' | '\t') || !(c.is_control() || is_unseen(*c))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_do_not_reach_a_terminal() {
        assert_eq!(without_controls("a\u{1b}[2Jb\u{7}\n\tc"), "a[2Jb\n\tc");
        assert_eq!(without_controls("txt\u{202e}gpj.exe\u{2066}"), "txtgpj.exe");
    }
}

//! Questions to the person at the terminal.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};

use super::notes;

/// Longest answer that is read; the rest is left.
const MAX_ANSWER_BYTES: u64 = 256;

/// Returns true if a person can be asked: standard input and standard error are a terminal.
pub(in crate::cli) fn is_possible() -> bool {
    io::stdin().is_terminal() && notes::is_terminal()
}

/// Asks, and returns the answer in lower case without blanks around it. The caller has checked
/// [`is_possible`].
pub(in crate::cli) fn ask(question: &str) -> io::Result<String> {
    let _ = write!(io::stderr(), "{} ", notes::without_controls(question));
    let mut answer = String::new();
    io::stdin().lock().take(MAX_ANSWER_BYTES).read_line(&mut answer)?;
    Ok(answer.trim().to_ascii_lowercase())
}

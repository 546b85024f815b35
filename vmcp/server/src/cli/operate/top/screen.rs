//! [`Screen`]: the alternate screen of a terminal, on which text is replaced in place.

use std::io::{self, IsTerminal as _, Write as _};

use console::Term;

use crate::cli::console::failure::CommandFailure;

/// Switches to the alternate screen, hides the cursor, and cuts long lines (xterm control sequences).
const OPEN: &str = "\u{1b}[?1049h\u{1b}[?25l\u{1b}[?7l";
/// Wraps lines, shows the cursor, and switches back.
const CLOSE: &str = "\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l";
/// Moves to the upper left corner.
const HOME: &str = "\u{1b}[H";
/// Clears the rest of a line.
const CLEAR_LINE: &str = "\u{1b}[K";
/// Clears everything below.
const CLEAR_BELOW: &str = "\u{1b}[J";

/// The alternate screen; dropping it brings the terminal back.
pub(super) struct Screen(Term);

impl Screen {
    /// Opens the screen; `None` without a terminal as standard output.
    pub(super) fn open() -> Option<Screen> {
        if !io::stdout().is_terminal() {
            return None;
        }
        write(OPEN).ok()?;
        Some(Screen(Term::stdout()))
    }

    /// Replaces the text; lines that do not fit are left out.
    pub(super) fn show(&mut self, text: &str) -> Result<(), CommandFailure> {
        let (height, _) = self.0.size();
        write(&frame(text, usize::from(height)))
            .map_err(|error| CommandFailure::of_pipe("cannot write the table", &error))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Without a terminal there is nothing to bring back.
        let _ = write(CLOSE);
    }
}

/// Returns the control sequences and text that replace a screen of `height` lines.
fn frame(text: &str, height: usize) -> String {
    let lines: Vec<_> = text.lines().take(height.max(1)).collect();
    format!("{HOME}{}{CLEAR_LINE}{CLEAR_BELOW}", lines.join(&format!("{CLEAR_LINE}\r\n")))
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_replaces_line_by_line_and_never_scrolls() {
        assert_eq!(frame("a\nb\nc", 2), "\u{1b}[Ha\u{1b}[K\r\nb\u{1b}[K\u{1b}[J");
        assert_eq!(frame("a", 0), "\u{1b}[Ha\u{1b}[K\u{1b}[J");
    }
}

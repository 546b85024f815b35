//! [`LastWords`]: the last lines that a program wrote, which explain why it ended or why it does not answer.

use std::collections::VecDeque;

use parking_lot::Mutex;

/// Lines kept; older ones are forgotten.
const MAX_LINES: usize = 5;

/// The last lines of a program's standard error, and those of its standard output that are no messages.
#[derive(Debug, Default)]
pub(crate) struct LastWords(Mutex<VecDeque<String>>);

impl LastWords {
    pub(super) fn push(&self, line: String) {
        let mut lines = self.0.lock();
        if lines.len() == MAX_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// Forgets the lines of a former process.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }

    /// Returns `what`, followed by the lines if there are any.
    pub(crate) fn explain(&self, what: &str) -> String {
        let lines = self.0.lock();
        if lines.is_empty() {
            what.to_owned()
        } else {
            format!("{what}: {}", Vec::from(lines.clone()).join(" | "))
        }
    }
}

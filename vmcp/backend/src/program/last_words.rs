//! [`LastWords`]: the last lines that a program wrote, which explain why it ended or why it does not answer.

use std::collections::VecDeque;

use parking_lot::Mutex;
use vmcp_config::KnownSecrets;

/// Lines kept; older ones are forgotten.
const MAX_LINES: usize = 5;

/// The last lines of a program's standard error, and those of its standard output that are not messages.
#[derive(Debug)]
pub(crate) struct LastWords {
    lines: Mutex<VecDeque<String>>,
    /// Secrets that the program was started with: it may repeat them.
    secrets: KnownSecrets,
}

impl LastWords {
    pub(crate) fn new(secrets: KnownSecrets) -> Self {
        Self { lines: Mutex::default(), secrets }
    }

    /// Adds a line; returns it as it may be shown.
    pub(crate) fn push(&self, line: &str) -> String {
        let line = self.secrets.mask(line).into_owned();
        let mut lines = self.lines.lock();
        if lines.len() == MAX_LINES {
            lines.pop_front();
        }
        lines.push_back(line.clone());
        line
    }

    /// Forgets the lines of a former process.
    pub(crate) fn clear(&self) {
        self.lines.lock().clear();
    }

    /// Returns `what`, followed by the lines if there are any.
    pub(crate) fn explain(&self, what: &str) -> String {
        let lines = self.lines.lock();
        if lines.is_empty() {
            what.to_owned()
        } else {
            format!("{what}: {}", Vec::from(lines.clone()).join(" | "))
        }
    }
}

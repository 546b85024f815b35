//! Standard error of a program: logged, its bursts folded, and its last lines kept to explain an exit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::process::ChildStderr;

use super::last_words::LastWords;
use super::{LineRead, next_line};
use crate::policy::log_allowance::{LineFate, LogAllowance};

/// Most bytes of a line; the rest of a longer one comes as the next.
const MAX_STDERR_LINE_BYTES: usize = 500;
/// Lines of a burst that are logged at info level; the rest of it, such as a traceback or the dozens of lines
/// with which SDKs refuse an unknown method, is logged at debug level.
const MAX_BURST_LINES: u32 = 8;
/// Pause that ends a burst.
const BURST_PAUSE: Duration = Duration::from_secs(1);

/// Follows the standard error of a program until it ends; `pass` writes it to that of vmcp instead of the
/// log.
pub(super) async fn follow(stderr: ChildStderr, tail: Arc<LastWords>, pass: bool) {
    let mut fold = Fold::default();
    let mut allowance = LogAllowance::new(Instant::now());
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    // The length limit cuts a longer line; its rest comes as the next one.
    while let Ok(LineRead::Whole | LineRead::TooLong) =
        next_line(&mut reader, &mut line, MAX_STDERR_LINE_BYTES).await
    {
        if pass {
            // Writing fails if vmcp's own standard error is closed, and nothing can be done about it.
            let _ = tokio::io::stderr().write_all(&line).await;
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        if !text.is_empty() {
            let text = tail.push(text);
            let now = Instant::now();
            if !pass && let LineFate::Logged { held_back } = allowance.take(text.len(), now) {
                if held_back > 0 {
                    tracing::warn!(
                        held_back,
                        "the program wrote too much to its standard error; lines were left out"
                    );
                }
                fold.log(&text, now);
            }
        }
    }
}

/// Folds bursts of lines.
#[derive(Debug, Default)]
struct Fold {
    /// Lines of the present burst.
    lines: u32,
    last: Option<Instant>,
}

impl Fold {
    fn log(&mut self, line: &str, now: Instant) {
        match self.place(now) {
            lines if lines < MAX_BURST_LINES => tracing::info!(target: "vmcp_backend::stderr", "{line}"),
            MAX_BURST_LINES => tracing::info!(
                target: "vmcp_backend::stderr",
                "more lines follow; --log-level info,vmcp_backend::stderr=debug shows them"
            ),
            _ => {}
        }
        if self.lines > MAX_BURST_LINES {
            tracing::debug!(target: "vmcp_backend::stderr", "{line}");
        }
    }

    /// Returns the place of a line in its burst, from 0.
    fn place(&mut self, now: Instant) -> u32 {
        if self.last.is_some_and(|last| now.duration_since(last) > BURST_PAUSE) {
            self.lines = 0;
        }
        self.last = Some(now);
        self.lines = self.lines.saturating_add(1);
        self.lines - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_ends_with_a_pause() {
        let (mut fold, start) = (Fold::default(), Instant::now());
        let places: Vec<_> = (0..20).map(|n| fold.place(start + Duration::from_millis(n * 10))).collect();
        assert_eq!(places, (0..20).collect::<Vec<_>>());
        assert_eq!(fold.place(start + Duration::from_secs(3)), 0);
    }
}

//! Standard error of a program: logged, its bursts folded, and its last lines kept to explain an exit.

use std::sync::Arc;
use std::time::Instant;

use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::process::ChildStderr;
use tokio::task::coop;

use super::{LineRead, next_line};
use crate::program::last_words::LastWords;
use crate::server_log::log_allowance::{LineFate, LogAllowance};
use crate::server_log::log_fold::{LinePlace, LogFold};

/// Most bytes of a line; the rest of a longer one comes as the next.
const MAX_STDERR_LINE_BYTES: usize = 500;

/// Follows the standard error of a program until it ends; `pass` writes it to that of vmcp instead of the
/// log.
pub(super) async fn follow(stderr: ChildStderr, tail: Arc<LastWords>, pass: bool) {
    let mut fold = LogFold::default();
    let mut allowance = LogAllowance::new(Instant::now());
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    // The length limit cuts a longer line; its rest comes as the next one.
    while let Ok(LineRead::Whole | LineRead::TooLong) =
        next_line(&mut reader, &mut line, MAX_STDERR_LINE_BYTES).await
    {
        // The buffer may hold thousands of lines: other tasks have their turn between them.
        coop::consume_budget().await;
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
                log(&text, fold.place(now));
            }
        }
    }
}

fn log(line: &str, place: LinePlace) {
    match place {
        LinePlace::Logged { folded } => {
            if folded > 0 {
                tracing::info!(
                    target: "vmcp_backend::stderr",
                    folded, "lines before this one were logged at debug level only"
                );
            }
            tracing::info!(target: "vmcp_backend::stderr", "{line}");
        }
        LinePlace::FirstFolded => {
            tracing::info!(
                target: "vmcp_backend::stderr",
                "more lines follow; --log-level info,vmcp_backend::stderr=debug shows them"
            );
            tracing::debug!(target: "vmcp_backend::stderr", "{line}");
        }
        LinePlace::Folded => tracing::debug!(target: "vmcp_backend::stderr", "{line}"),
    }
}

//! [`serve`]: the I/O around an [`Adapter`].

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;
use tokio::task::coop;
use vmcp_lines::{Line, LineReader};

use crate::adapter::{Adapter, AdapterSettings, Effect};

/// Messages to Codex that wait to be written; at one more, Codex counts as gone.
const MAX_QUEUED: usize = 256;
/// Time to resolve a working directory; beyond it the call fails. Other calls of the connection wait so long.
const LOCATE_TIMEOUT: Duration = Duration::from_secs(5);

/// A two-way stream of JSON lines.
#[derive(Debug)]
pub struct Lines<R, W> {
    /// Messages of the other side.
    pub reader: R,
    /// Messages to the other side.
    pub writer: W,
}

/// Serves one MCP client until either side has ended. Skips lines of more than `max_line` bytes, and
/// lines that do not parse as JSON.
pub async fn serve(
    client: Lines<impl AsyncRead + Unpin, impl AsyncWrite + Unpin>,
    codex: Lines<impl AsyncRead + Unpin, impl AsyncWrite + Unpin + Send + 'static>,
    mut settings: AdapterSettings,
    max_line: usize,
) {
    settings.workspaces = resolved(settings.workspaces).await;
    let mut adapter = Adapter::new(settings);
    let mut from_client = LineReader::new(BufReader::new(client.reader), max_line);
    let mut from_codex = LineReader::new(BufReader::new(codex.reader), max_line);
    let mut to_client = client.writer;
    // A task of its own: a Codex that writes without reading must not stop this loop from reading.
    let (to_codex, queued) = mpsc::channel(MAX_QUEUED);
    tokio::spawn(write(codex.writer, queued));
    loop {
        // The buffers may hold hundreds of lines: other tasks have their turn between them.
        coop::consume_budget().await;
        let effects = tokio::select! {
            line = from_client.next() => match parsed(line, max_line) {
                ReadLine::Message(message) => adapter.take_from_client(&message),
                ReadLine::Skipped => continue,
                ReadLine::End => return,
            },
            line = from_codex.next() => match parsed(line, max_line) {
                ReadLine::Message(message) => adapter.take_from_codex(&message),
                ReadLine::Skipped => continue,
                ReadLine::End => {
                    let effects = adapter.codex_ended();
                    carry_out(&mut adapter, effects, &mut to_client, &to_codex).await;
                    return;
                }
            },
        };
        if !carry_out(&mut adapter, effects, &mut to_client, &to_codex).await {
            let effects = adapter.codex_ended();
            carry_out(&mut adapter, effects, &mut to_client, &to_codex).await;
            return;
        }
    }
}

/// A line that was read.
enum ReadLine {
    /// The JSON of the line.
    Message(Value),
    /// The line was too long, or no JSON.
    Skipped,
    /// The stream has ended, or failed.
    End,
}

/// Parses a line of a stream whose lines have at most `max_line` bytes.
fn parsed(line: io::Result<Line>, max_line: usize) -> ReadLine {
    match line {
        Ok(Line::Whole(text)) => match serde_json::from_slice(&text) {
            Ok(message) => ReadLine::Message(message),
            Err(error) => {
                tracing::debug!(%error, "a line that is no JSON is skipped");
                ReadLine::Skipped
            }
        },
        Ok(Line::TooLong) => {
            tracing::warn!(limit = max_line, "a line beside Codex is longer than the limit, and is skipped");
            ReadLine::Skipped
        }
        Ok(Line::End) | Err(_) => ReadLine::End,
    }
}

/// Carries effects out, and the effects that follow. Returns false once Codex takes no more messages.
async fn carry_out(
    adapter: &mut Adapter,
    effects: Vec<Effect>,
    to_client: &mut (impl AsyncWrite + Unpin),
    to_codex: &mpsc::Sender<Value>,
) -> bool {
    let mut queue = std::collections::VecDeque::from(effects);
    let mut takes_messages = true;
    while let Some(effect) = queue.pop_front() {
        match effect {
            // The end of the client is read, too.
            Effect::ToClient(message) => drop(write_line(to_client, &message).await),
            Effect::ToCodex(message) => takes_messages &= to_codex.try_send(message).is_ok(),
            Effect::Locate(call, path) => {
                let located = tokio::time::timeout(LOCATE_TIMEOUT, tokio::fs::canonicalize(&path)).await;
                let located = located.unwrap_or_else(|elapsed| Err(elapsed.into()));
                let located = located.map_err(|error| format!("cwd {}: {error}", path.display()));
                queue.extend(adapter.located(call, located));
            }
        }
    }
    takes_messages
}

/// Resolves the symbolic links of directories. Leaves out a directory that does not exist, and the root,
/// which the configuration cannot tell from its spelling alone (`/srv/..`, a link, `.` in a container).
async fn resolved(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut resolved = Vec::new();
    for path in paths {
        match tokio::fs::canonicalize(&path).await {
            Ok(path) if path.parent().is_none() => tracing::warn!("`/` is no workspace of Codex"),
            Ok(path) => resolved.push(path),
            Err(error) => tracing::warn!(path = %path.display(), %error, "no workspace of Codex"),
        }
    }
    resolved
}

async fn write(mut writer: impl AsyncWrite + Unpin, mut messages: mpsc::Receiver<Value>) {
    while let Some(message) = messages.recv().await {
        if write_line(&mut writer, &message).await.is_err() {
            return;
        }
    }
}

async fn write_line(writer: &mut (impl AsyncWrite + Unpin), message: &Value) -> io::Result<()> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    writer.write_all(&line).await?;
    writer.flush().await
}

#[cfg(test)]
mod tests;

//! [`LineReader`]: JSON lines of bounded length.

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// A line that was read.
#[derive(Debug, PartialEq)]
pub(super) enum Line {
    /// The JSON of the line.
    Message(Value),
    /// The line was too long, or no JSON.
    Skipped,
    /// The stream has ended, or failed.
    End,
}

/// Reads lines; the rest of a line that is too long is dropped as it arrives.
#[derive(Debug)]
pub(super) struct LineReader<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    is_too_long: bool,
    limit: usize,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Makes a reader of lines of at most `limit` bytes.
    pub(super) fn new(reader: R, limit: usize) -> LineReader<R> {
        LineReader { reader: BufReader::new(reader), line: Vec::new(), is_too_long: false, limit }
    }

    /// Returns the next line. A call that is dropped before its end loses nothing.
    pub(super) async fn next(&mut self) -> Line {
        loop {
            let Ok(available) = self.reader.fill_buf().await else { return Line::End };
            if available.is_empty() {
                return Line::End;
            }
            let newline = available.iter().position(|byte| *byte == b'\n');
            let (part, used) = match newline.and_then(|at| available.get(..at)) {
                Some(part) => (part, part.len().saturating_add(1)),
                None => (available, available.len()),
            };
            if self.is_too_long || self.line.len().saturating_add(part.len()) > self.limit {
                self.is_too_long = true;
                self.line = Vec::new();
            } else {
                self.line.extend_from_slice(part);
            }
            self.reader.consume(used);
            if newline.is_some() {
                return self.end_of_line();
            }
        }
    }

    fn end_of_line(&mut self) -> Line {
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.is_too_long) {
            tracing::warn!(
                limit = self.limit,
                "a line beside Codex is longer than the limit, and is skipped"
            );
            return Line::Skipped;
        }
        match serde_json::from_slice(&line) {
            Ok(message) => Line::Message(message),
            Err(error) => {
                tracing::debug!(%error, "a line that is no JSON is skipped");
                Line::Skipped
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn long_lines_and_garbage_are_skipped_and_the_next_line_is_read() {
        let input = format!("{{\"a\":1}}\n{}\nno JSON\n[2]\nhalf", "x".repeat(20_000));
        let mut reader = LineReader::new(input.as_bytes(), 100);
        assert_eq!(reader.next().await, Line::Message(json!({"a": 1})));
        assert_eq!(reader.next().await, Line::Skipped);
        assert_eq!(reader.next().await, Line::Skipped);
        assert_eq!(reader.next().await, Line::Message(json!([2])));
        assert_eq!(reader.next().await, Line::End);
    }
}

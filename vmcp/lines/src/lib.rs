//! [`LineReader`]: lines of bounded length, from any stream. A longer line is skipped, and the next one is
//! read as usual.

use std::io;

use bytes::Bytes;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// A reader of lines.
pub struct LineReader<R> {
    input: R,
    /// Most bytes of a line, without its line break.
    limit: usize,
    line: Vec<u8>,
    /// True while the rest of a line that is too long is dropped.
    skipping: bool,
}

/// The next line.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A line, without its line break.
    Whole(Bytes),
    /// A line beyond the limit, read to its end and dropped.
    TooLong,
    /// The end of the input.
    End,
}

impl<R: AsyncBufRead + Unpin> LineReader<R> {
    /// Reads lines of at most `limit` bytes.
    pub fn new(input: R, limit: usize) -> Self {
        Self { input, limit, line: Vec::new(), skipping: false }
    }

    /// Reads the next line. Cancel safe: what was read stays for the next call.
    pub async fn next(&mut self) -> io::Result<Line> {
        loop {
            let available = self.input.fill_buf().await?;
            if available.is_empty() {
                // The last line may lack its line break.
                let rest = std::mem::take(&mut self.line);
                let skipped = std::mem::take(&mut self.skipping);
                return Ok(match (skipped, rest.is_empty()) {
                    (true, _) => Line::TooLong,
                    (false, true) => Line::End,
                    (false, false) => Line::Whole(rest.into()),
                });
            }
            let (part, ends) = match available.iter().position(|byte| *byte == b'\n') {
                Some(at) => (available.get(..at).unwrap_or_default(), true),
                None => (available, false),
            };
            if self.skipping || self.line.len() + part.len() > self.limit {
                self.skipping = true;
                self.line = Vec::new();
            } else {
                self.line.extend_from_slice(part);
            }
            let consumed = part.len() + usize::from(ends);
            self.input.consume(consumed);
            if ends {
                let line = std::mem::take(&mut self.line);
                let skipped = std::mem::take(&mut self.skipping);
                return Ok(if skipped { Line::TooLong } else { Line::Whole(line.into()) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_beyond_the_limit_is_skipped_and_the_next_one_read() {
        let input = [&b"one\n"[..], b"\xe9\n", &vec![b'x'; 100_000], b"\n\n12345678\nlast"].concat();
        let mut lines = LineReader::new(&input[..], 8);
        let whole = |line: &'static [u8]| Line::Whole(Bytes::from_static(line));
        let expected = [
            whole(b"one"),
            whole(b"\xe9"),
            Line::TooLong,
            whole(b""),
            whole(b"12345678"),
            whole(b"last"),
            Line::End,
            Line::End,
        ];
        for line in expected {
            assert_eq!(lines.next().await.unwrap(), line);
        }
    }
}

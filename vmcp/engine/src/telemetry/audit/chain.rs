//! [`HashChain`]: each line holds the SHA-256 of the line before it, so that a changed, removed or added line
//! shows.

use sha2::{Digest as _, Sha256};
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::field::{hex_digits, hex_text};

/// Value of `prev` in the first line of a series.
pub(super) const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Name of the series of lines in the file.
pub(super) const MAIN: &str = "main";
/// Name of the series in the second file, and that file's suffix.
pub(super) const BUSY: &str = "busy";
/// Name of the series on the console, at syslog and at a collector.
pub(super) const STREAM: &str = "stream";
/// Longest line that is read back, 16 MiB: an event with the most arguments that can be configured is
/// shorter.
pub(super) const MAX_LINE_BYTES: u64 = 16 << 20;

/// The end of one series of lines.
#[derive(Debug, Clone, Copy)]
pub(super) struct HashChain {
    series: &'static str,
    /// SHA-256 of the last line, without its line end; zeros before the first one.
    last: [u8; 32],
}

impl HashChain {
    /// Begins a series, or continues one whose last line is known.
    pub(super) fn new(series: &'static str, last_line: Option<&[u8]>) -> HashChain {
        HashChain { series, last: last_line.map_or([0; 32], sha256) }
    }

    /// Adds the line of an event to `lines`, with its place in the chain and its line end, and puts it at the
    /// end of the chain. Returns the line.
    pub(super) fn add<'a>(
        &mut self,
        json: &[u8],
        process: Uuid,
        number: u64,
        lines: &'a mut Vec<u8>,
    ) -> &'a [u8] {
        let begin = lines.len();
        lines.extend_from_slice(json.strip_suffix(b"}").unwrap_or(json));
        lines.extend_from_slice(br#","chain":{"process":""#);
        lines.extend_from_slice(process.hyphenated().encode_lower(&mut [0; Hyphenated::LENGTH]).as_bytes());
        lines.extend_from_slice(br#"","series":""#);
        lines.extend_from_slice(self.series.as_bytes());
        lines.extend_from_slice(br#"","seq":"#);
        // Writing to a vector does not fail.
        let _ = serde_json::to_writer(&mut *lines, &number);
        lines.extend_from_slice(br#","prev":""#);
        lines.extend_from_slice(hex_digits(&self.last).as_flattened());
        lines.extend_from_slice(b"\"}}\n");
        let line = lines.get(begin..).unwrap_or_default();
        self.append(line);
        line
    }

    /// True before the first line.
    pub(super) fn is_empty(&self) -> bool {
        self.last == [0; 32]
    }

    /// Puts a line at the end.
    pub(super) fn append(&mut self, line: &[u8]) {
        self.last = sha256(line);
    }
}

/// Returns the digest of a line, in hex.
pub(super) fn digest(line: &[u8]) -> String {
    hex_text(&sha256(line))
}

fn sha256(line: &[u8]) -> [u8; 32] {
    Sha256::digest(line.strip_suffix(b"\n").unwrap_or(line)).into()
}

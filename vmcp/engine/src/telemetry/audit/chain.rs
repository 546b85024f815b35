//! [`HashChain`]: each line holds the SHA-256 of the line before it, so that a changed, removed or added line
//! shows.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// Value of `prev` in the first line of a series.
pub(super) const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The end of one series of lines.
#[derive(Debug)]
pub(super) struct HashChain {
    series: &'static str,
    /// SHA-256 of the last line, without its line end.
    last: String,
}

impl HashChain {
    /// Begins a series, or continues one whose last line is known.
    pub(super) fn new(series: &'static str, last_line: Option<&[u8]>) -> HashChain {
        HashChain { series, last: last_line.map_or_else(|| GENESIS.to_owned(), digest) }
    }

    /// Returns the line of an event, with its place in the chain and its line end.
    pub(super) fn line(&self, json: &str, process: Uuid, number: u64) -> Vec<u8> {
        let open = json.strip_suffix('}').unwrap_or(json);
        let mut line = String::with_capacity(json.len() + 192);
        line.push_str(open);
        let (series, last) = (self.series, &self.last);
        // Writing to a string does not fail.
        let _ = writeln!(
            line,
            r#","chain":{{"process":"{process}","series":"{series}","seq":{number},"prev":"{last}"}}}}"#
        );
        line.into_bytes()
    }

    /// Puts a line at the end, once it is written.
    pub(super) fn append(&mut self, line: &[u8]) {
        self.last = digest(line);
    }
}

/// Returns the digest of a line, in hex.
pub(super) fn digest(line: &[u8]) -> String {
    hex::encode(Sha256::digest(line.strip_suffix(b"\n").unwrap_or(line)))
}

//! [`HashChain`]: each line holds the SHA-256 of the line before it, so that a changed, removed or added line
//! shows.

use std::ops::Range;

use sha2::{Digest as _, Sha256};
use uuid::Uuid;
use vmcp_json::decimal::Decimal;

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

// The name of one series in files takes the place of the other in a line.
const _: () = assert!(MAIN.len() == BUSY.len());
/// Text between the name of the series and the number.
const SEQ: &str = r#"","seq":"#;
/// Text between the number and the digest of the line before.
const PREV: &str = r#","prev":""#;
/// The end of each line.
const END: &str = "\"}}\n";
/// Bytes of a line from the digest of the line before it on.
const LAST_BYTES: usize = GENESIS.len() + END.len();

/// The member `chain`, at the end of each line of a process.
#[derive(Debug)]
pub(super) struct ChainMember {
    /// Its text up to the number, with the name of the main series.
    begin: String,
}

impl ChainMember {
    /// Prepares the lines of a process.
    pub(super) fn new(process: Uuid) -> ChainMember {
        ChainMember { begin: format!(r#","chain":{{"process":"{process}","series":"{MAIN}{SEQ}"#) }
    }

    /// Ends the line of an event, whose text is the end of `lines`: appends the member `chain`, with zeros
    /// for the digest of the line before it. [`HashChain::link`] writes that digest.
    pub(super) fn end_line(&self, number: u64, lines: &mut Vec<u8>) {
        lines.pop_if(|last| *last == b'}');
        lines.extend_from_slice(self.begin.as_bytes());
        lines.extend_from_slice(Decimal::new(number).as_bytes());
        lines.extend_from_slice(PREV.as_bytes());
        lines.extend_from_slice(GENESIS.as_bytes());
        lines.extend_from_slice(END.as_bytes());
    }
}

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

    /// Puts a line of [`ChainMember`] at the end of a chain in a file: writes the name of the series and the
    /// digest of the line before it in their places.
    pub(super) fn link(&mut self, line: &mut [u8]) {
        if self.series != MAIN
            && let Some(place) = series_place(line)
            && let Some(name) = line.get_mut(place)
        {
            overwrite(name, self.series.as_bytes());
        }
        self.append_linked(line);
    }

    /// Returns a line of [`ChainMember`] with a name of the series of any length, at the end of the chain.
    pub(super) fn link_copy(&mut self, line: &[u8]) -> Vec<u8> {
        let place = series_place(line).unwrap_or_default();
        let (before, after) = (line.get(..place.start), line.get(place.end..));
        let series = self.series.as_bytes();
        let mut line = [before.unwrap_or_default(), series, after.unwrap_or_default()].concat();
        self.append_linked(&mut line);
        line
    }

    /// Writes the digest of the line before into a line, and puts that at the end.
    fn append_linked(&mut self, line: &mut [u8]) {
        if let Some((_, last)) = line.split_last_chunk_mut::<LAST_BYTES>() {
            overwrite(last, hex_digits(&self.last).as_flattened());
        }
        self.append(line);
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

/// Returns the place of the name of the series in a line of [`ChainMember`].
fn series_place(line: &[u8]) -> Option<Range<usize>> {
    let (before, _) = line.split_last_chunk::<{ PREV.len() + LAST_BYTES }>()?;
    let digits = before.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let end = before.len().checked_sub(digits + SEQ.len())?;
    Some(end.checked_sub(MAIN.len())?..end)
}

/// Writes a text over the begin of `place`.
fn overwrite(place: &mut [u8], text: &[u8]) {
    for (before, byte) in place.iter_mut().zip(text) {
        *before = *byte;
    }
}

/// Returns the digest of a line, in hex.
pub(super) fn digest(line: &[u8]) -> String {
    hex_text(&sha256(line))
}

fn sha256(line: &[u8]) -> [u8; 32] {
    Sha256::digest(line.strip_suffix(b"\n").unwrap_or(line)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the line as it is written out in full.
    fn expected(event: &str, series: &str, number: u64, before: &[u8; 32]) -> String {
        let (process, prev) = (Uuid::nil(), hex::encode(before));
        let event = event.strip_suffix('}').unwrap();
        let chain = format!(
            r#","chain":{{"process":"{process}","series":"{series}","seq":{number},"prev":"{prev}"}}}}"#
        );
        format!("{event}{chain}\n")
    }

    #[test]
    fn a_line_names_its_process_its_series_its_number_and_the_line_before() {
        let member = ChainMember::new(Uuid::nil());
        // An event may end as a line does, and numbers have any length.
        let events = [r#"{"a":1}"#, "{}", r#"{"main":"\",\"seq\":7,\"prev\":\"main"}"#];
        for series in [MAIN, BUSY, STREAM] {
            let (mut chain, mut before) = (HashChain::new(series, None), [0; 32]);
            for (event, number) in events.into_iter().zip([1, 90, u64::MAX]) {
                let mut line = event.as_bytes().to_vec();
                member.end_line(number, &mut line);
                if series == STREAM {
                    line = chain.link_copy(&line);
                } else {
                    chain.link(&mut line);
                }
                assert_eq!(String::from_utf8(line).unwrap(), expected(event, series, number, &before));
                before = chain.last;
            }
        }
    }
}

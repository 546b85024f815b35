//! [`FileSeries`]: the file of events, and beside it `NAME.busy` for principals beyond their share of it.

use std::io;
use std::path::Path;

use uuid::Uuid;

use super::chain::{BUSY, HashChain, MAIN};
use super::event::queued_event::QueuedEvent;
use super::rotating_file::RotatingFile;
use super::shares::FileShares;

/// Bytes of lines that are written at once at most, 64 KiB. A file is rotated before such a piece.
const MAX_PENDING_BYTES: usize = 64 << 10;

/// The file that an event goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Main,
    Busy,
}

/// The outcome of writing what was added to a file.
#[derive(Debug, Default)]
pub(super) struct Flushed {
    /// Lines that are in the file.
    pub(super) lines: usize,
    /// The reason why further ones are not.
    pub(super) fault: Option<io::Error>,
}

impl Flushed {
    /// Returns the outcome of the next line, in their order.
    pub(super) fn next(&mut self) -> io::Result<()> {
        if self.lines > 0 {
            self.lines -= 1;
            return Ok(());
        }
        // The reason itself comes with the first line; later ones were not tried.
        Err(self.fault.take().unwrap_or_else(|| io::Error::other("a line before it could not be written")))
    }
}

/// The files.
#[derive(Debug)]
pub(super) struct FileSeries {
    main: ChainedFile,
    busy: ChainedFile,
    shares: FileShares,
}

/// A file, its chain and the lines that wait to be written. The file holds a whole chain: a line that could
/// not be written has no successor.
#[derive(Debug)]
struct ChainedFile {
    file: RotatingFile,
    /// The chain up to the last line in the file.
    written: HashChain,
    /// The chain up to the last line that waits.
    chain: HashChain,
    pending: Vec<u8>,
    /// Lines in `pending`.
    lines: usize,
}

impl FileSeries {
    /// Continues the files at `path`; the first line opens them.
    pub(super) fn new(path: &Path, max_bytes: u64, max_files: u32) -> FileSeries {
        let mut busy_path = path.to_owned().into_os_string();
        busy_path.push(format!(".{BUSY}"));
        let main = RotatingFile::new(path.to_owned(), max_bytes, max_files);
        let busy = RotatingFile::new(busy_path.into(), max_bytes, max_files);
        let (main, busy) = (ChainedFile::new(MAIN, main), ChainedFile::new(BUSY, busy));
        let has_earlier = !main.chain.is_empty();
        FileSeries { main, busy, shares: FileShares::new(max_bytes, has_earlier) }
    }

    /// Adds an event; returns its line and where it goes. It is written by [`Self::flush`].
    pub(super) fn add(&mut self, event: &QueuedEvent, json: &[u8], process: Uuid) -> (&[u8], Place) {
        let bytes = json.len() as u64 + super::chain::GENESIS.len() as u64;
        let (file, place) = if self.shares.admit(event.share, event.is_denial, bytes) {
            (&mut self.main, Place::Main)
        } else {
            (&mut self.busy, Place::Busy)
        };
        file.lines += 1;
        (file.chain.add(json, process, event.number, &mut file.pending), place)
    }

    /// True when as much waits as is written at once.
    pub(super) fn is_full(&self) -> bool {
        self.main.pending.len().max(self.busy.pending.len()) >= MAX_PENDING_BYTES
    }

    /// Writes what was added: to the first file, and to that of principals beyond their share.
    pub(super) fn flush(&mut self) -> [Flushed; 2] {
        let flushed = [self.main.flush(), self.busy.flush()];
        if self.main.file.take_rotated() {
            self.shares.begin_file();
        }
        flushed
    }
}

impl ChainedFile {
    fn new(series: &'static str, file: RotatingFile) -> ChainedFile {
        let chain = HashChain::new(series, file.last_line().as_deref());
        ChainedFile { file, written: chain, chain, pending: Vec::new(), lines: 0 }
    }

    fn flush(&mut self) -> Flushed {
        let mut flushed = Flushed { lines: 0, fault: None };
        if self.pending.is_empty() {
            return flushed;
        }
        if self.file.append(&self.pending).is_ok() {
            flushed.lines = self.lines;
            self.written = self.chain;
        } else {
            // As many lines as have room.
            for line in self.pending.split_inclusive(|byte| *byte == b'\n') {
                if let Err(error) = self.file.append(line) {
                    flushed.fault = Some(error);
                    break;
                }
                self.written.append(line);
                flushed.lines += 1;
            }
            self.chain = self.written;
        }
        self.pending.clear();
        self.lines = 0;
        flushed
    }
}

#[cfg(test)]
mod tests {
    use super::super::event::queued_event::ShareKey;
    use super::super::otlp_logs::EventTrace;
    use super::super::verify;
    use super::*;
    use crate::access::identity::Principal;

    fn event(number: u64, address: &str, size: usize) -> (QueuedEvent, String) {
        let json = format!(r#"{{"by":"{address}","text":"{}"}}"#, "x".repeat(size));
        let event = QueuedEvent {
            kind: "mcp_tool_call",
            number,
            trace: EventTrace::default(),
            share: ShareKey::Principal(Principal::at(address).key()),
            is_denial: false,
            written: None,
        };
        (event, json)
    }

    fn write(series: &mut FileSeries, (event, json): &(QueuedEvent, String), process: Uuid) {
        series.add(event, json.as_bytes(), process);
        let written: usize = series.flush().into_iter().map(|flushed| flushed.lines).sum();
        assert_eq!(written, 1);
    }

    #[test]
    fn no_client_rotates_the_event_of_another_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let mut series = FileSeries::new(&path, 100_000, 2);
        let process = Uuid::new_v4();
        write(&mut series, &event(1, "10.0.0.1", 10), process);
        for number in 2..3000 {
            write(&mut series, &event(number, "10.0.0.2", 1000), process);
        }
        let kept = std::fs::read_to_string(&path).unwrap();
        assert!(kept.contains("10.0.0.1"), "the event of the first client");
        assert!(!path.with_extension("jsonl.1").exists());
        assert!(folder.path().join("audit.jsonl.busy.2").exists(), "the flood rotates its own files");
        let report = verify::verify(&[path]).unwrap();
        assert!(report.faults.is_empty(), "{report:?}");
    }

    #[test]
    fn another_process_continues_the_chain_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        for _ in 0..2 {
            let mut series = FileSeries::new(&path, 100_000, 2);
            let process = Uuid::new_v4();
            for number in 1..4 {
                write(&mut series, &event(number, "10.0.0.1", 10), process);
            }
        }
        let report = verify::verify(std::slice::from_ref(&path)).unwrap();
        assert!(report.faults.is_empty() && report.events == 6, "{report:?}");
        let text = std::fs::read_to_string(&path).unwrap();
        let without = text.lines().enumerate().filter(|(at, _)| *at != 2).map(|(_, line)| line);
        std::fs::write(&path, without.collect::<Vec<_>>().join("\n") + "\n").unwrap();
        let report = verify::verify(&[path]).unwrap();
        assert_eq!(report.faults.len(), 1, "the end of the first process was removed: {report:?}");
    }

    #[test]
    fn a_piece_of_many_lines_is_one_chain_and_what_cannot_be_written_has_no_successor() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/audit.jsonl");
        std::fs::write(folder.path().join("a"), "a file in place of the folder").unwrap();
        let mut series = FileSeries::new(&path, 100_000, 2);
        let process = Uuid::new_v4();
        let mut add = |numbers: std::ops::Range<u64>| {
            for number in numbers {
                let (event, json) = event(number, "10.0.0.1", 10);
                assert_eq!(series.add(&event, json.as_bytes(), process).1, Place::Main);
            }
            let [main, _] = series.flush();
            (main.lines, main.fault.is_some())
        };
        assert_eq!(add(1..4), (0, true));
        std::fs::remove_file(folder.path().join("a")).unwrap();
        assert_eq!(add(4..7), (3, false));
        assert_eq!(add(7..9), (2, false));
        let report = verify::verify(&[path]).unwrap();
        assert!(report.faults.is_empty() && report.events == 5, "{report:?}");
    }
}

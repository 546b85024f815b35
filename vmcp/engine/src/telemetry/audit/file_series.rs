//! [`FileSeries`]: the file of events, and beside it `NAME.busy` for principals beyond their share of it.

use std::io;
use std::path::Path;

use super::chain::{BUSY, HashChain, MAIN};
use super::event::queued_event::QueuedEvent;
use super::rotating_file::RotatingFile;
use super::shares::FileShares;

/// Bytes of lines that are written at once, 64 KiB and the rest of the last line. A file is rotated before
/// such a piece.
pub(super) const MAX_PIECE_BYTES: usize = 64 << 10;

/// The file that a line goes to, and the number of its lines before it that are not written yet either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinePlace {
    Main(usize),
    Busy(usize),
}

/// The outcome of writing lines to a file.
#[derive(Debug, Default)]
pub(super) struct Flushed {
    /// Number of the first lines, which are in the file.
    pub(super) written: usize,
    /// Number of further lines, which are not.
    pub(super) lost: usize,
    /// The reason for that.
    pub(super) fault: Option<io::Error>,
}

/// The files.
#[derive(Debug)]
pub(super) struct FileSeries {
    main: ChainedFile,
    busy: ChainedFile,
    /// Lines that wait to be written to the second file; the caller keeps those of the first one.
    busy_lines: Vec<u8>,
    shares: FileShares,
}

/// A file and its chain. The file holds a whole chain: a line that could not be written has no successor.
#[derive(Debug)]
struct ChainedFile {
    file: RotatingFile,
    /// The chain up to the last line in the file.
    written: HashChain,
    /// The chain up to the last line that waits.
    chain: HashChain,
    /// Lines that wait.
    waiting: usize,
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
        let shares = FileShares::new(max_bytes, has_earlier);
        FileSeries { main, busy, busy_lines: Vec::new(), shares }
    }

    /// Puts the line of an event at the end of the chain of a file, and returns its place. The caller keeps
    /// the lines of the first file for [`Self::flush`].
    pub(super) fn add(&mut self, event: &QueuedEvent, line: &mut [u8]) -> LinePlace {
        if self.shares.admit(event.share, event.is_denial, line.len() as u64) {
            return LinePlace::Main(self.main.link(line));
        }
        let before = self.busy.link(line);
        self.busy_lines.extend_from_slice(line);
        LinePlace::Busy(before)
    }

    /// True when as much waits for the second file as is written at once.
    pub(super) fn is_full(&self) -> bool {
        self.busy_lines.len() >= MAX_PIECE_BYTES
    }

    /// Writes the lines that were added: to the first file, and to that of principals beyond their share.
    pub(super) fn flush(&mut self, main_lines: &[u8]) -> [Flushed; 2] {
        let flushed = [self.main.flush(main_lines), self.busy.flush(&self.busy_lines)];
        self.busy_lines.clear();
        // A large event may have made it large.
        self.busy_lines.shrink_to(2 * MAX_PIECE_BYTES);
        if self.main.file.take_rotated() {
            self.shares.begin_file();
        }
        flushed
    }
}

impl ChainedFile {
    fn new(series: &'static str, file: RotatingFile) -> ChainedFile {
        let chain = HashChain::new(series, file.last_line().as_deref());
        ChainedFile { file, written: chain, chain, waiting: 0 }
    }

    /// Puts a line at the end of the chain; returns the number of lines that wait before it.
    fn link(&mut self, line: &mut [u8]) -> usize {
        self.chain.link(line);
        self.waiting += 1;
        self.waiting - 1
    }

    /// Writes the lines that wait.
    fn flush(&mut self, lines: &[u8]) -> Flushed {
        let waiting = std::mem::take(&mut self.waiting);
        if lines.is_empty() {
            return Flushed::default();
        }
        if self.file.append(lines).is_ok() {
            self.written = self.chain;
            return Flushed { written: waiting, ..Flushed::default() };
        }
        let mut flushed = Flushed::default();
        // As many lines as have room.
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            if let Err(error) = self.file.append(line) {
                flushed.fault = Some(error);
                break;
            }
            self.written.append(line);
            flushed.written += 1;
        }
        flushed.lost = waiting.saturating_sub(flushed.written);
        self.chain = self.written;
        flushed
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::super::chain::ChainMember;
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

    fn line((event, json): &(QueuedEvent, String), process: Uuid) -> Vec<u8> {
        let mut line = json.clone().into_bytes();
        ChainMember::new(process).end_line(event.number, &mut line);
        line
    }

    fn write(series: &mut FileSeries, event: &(QueuedEvent, String), process: Uuid) {
        let mut line = line(event, process);
        let is_main = matches!(series.add(&event.0, &mut line), LinePlace::Main(0));
        let flushed = series.flush(if is_main { &line } else { &[] });
        assert_eq!(flushed.map(|flushed| flushed.written).into_iter().sum::<usize>(), 1);
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
            let mut piece = Vec::new();
            for (before, number) in numbers.enumerate() {
                let event = event(number, "10.0.0.1", 10);
                let mut line = line(&event, process);
                assert_eq!(series.add(&event.0, &mut line), LinePlace::Main(before));
                piece.extend_from_slice(&line);
            }
            let [main, _] = series.flush(&piece);
            (main.written, main.lost, main.fault.is_some())
        };
        assert_eq!(add(1..4), (0, 3, true));
        std::fs::remove_file(folder.path().join("a")).unwrap();
        assert_eq!(add(4..7), (3, 0, false));
        assert_eq!(add(7..9), (2, 0, false));
        let report = verify::verify(&[path]).unwrap();
        assert!(report.faults.is_empty() && report.events == 5, "{report:?}");
    }
}

//! [`FileSeries`]: the file of events, and beside it `NAME.busy` for principals beyond their share of it.

use std::io;
use std::path::Path;

use uuid::Uuid;

use super::chain::HashChain;
use super::queue::QueuedEvent;
use super::rotating_file::RotatingFile;
use super::shares::FileShares;

/// Suffix of the second file.
pub(super) const BUSY: &str = "busy";
/// Name of the first series of lines.
const MAIN: &str = "main";

/// The files, each with its chain.
#[derive(Debug)]
pub(super) struct FileSeries {
    main: RotatingFile,
    main_chain: HashChain,
    busy: RotatingFile,
    busy_chain: HashChain,
    shares: FileShares,
}

impl FileSeries {
    /// Continues the files at `path`; the first line opens them.
    pub(super) fn new(path: &Path, max_bytes: u64, max_files: u32) -> FileSeries {
        let mut busy_path = path.to_owned().into_os_string();
        busy_path.push(format!(".{BUSY}"));
        let main = RotatingFile::new(path.to_owned(), max_bytes, max_files);
        let busy = RotatingFile::new(busy_path.into(), max_bytes, max_files);
        let last = main.last_line();
        let shares = FileShares::new(max_bytes, last.is_some());
        FileSeries {
            main_chain: HashChain::new(MAIN, last.as_deref()),
            busy_chain: HashChain::new(BUSY, busy.last_line().as_deref()),
            main,
            busy,
            shares,
        }
    }

    /// Writes an event; returns its line. The chain holds written lines only.
    pub(super) fn write(&mut self, event: &QueuedEvent, process: Uuid) -> (Vec<u8>, io::Result<()>) {
        let bytes = event.json.len() as u64 + super::chain::GENESIS.len() as u64;
        let (file, chain) = if self.shares.admit(event.share, event.is_denial, bytes) {
            (&mut self.main, &mut self.main_chain)
        } else {
            (&mut self.busy, &mut self.busy_chain)
        };
        let line = chain.line(&event.json, process, event.number);
        let outcome = file.append(&line);
        if outcome.is_ok() {
            chain.append(&line);
        }
        if self.main.take_rotated() {
            self.shares.begin_file();
        }
        (line, outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::super::otlp_logs::EventTrace;
    use super::super::queue::ShareKey;
    use super::super::verify;
    use super::*;
    use crate::access::identity::Principal;

    fn event(number: u64, address: &str, size: usize) -> QueuedEvent {
        QueuedEvent {
            json: format!(r#"{{"by":"{address}","text":"{}"}}"#, "x".repeat(size)),
            kind: "mcp_tool_call",
            number,
            trace: EventTrace::default(),
            share: ShareKey::Principal(Principal::at(address).key()),
            is_denial: false,
            written: None,
        }
    }

    #[test]
    fn no_client_rotates_the_event_of_another_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let mut series = FileSeries::new(&path, 100_000, 2);
        let process = Uuid::new_v4();
        series.write(&event(1, "10.0.0.1", 10), process).1.unwrap();
        for number in 2..3000 {
            series.write(&event(number, "10.0.0.2", 1000), process).1.unwrap();
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
                series.write(&event(number, "10.0.0.1", 10), process).1.unwrap();
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
}

//! Verification of files of events: every line names the digest of the line before it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::chain::{self, BUSY, GENESIS, MAX_LINE_BYTES, STREAM};

/// Faults that are reported; further ones are counted only.
const MAX_FAULTS: usize = 100;

/// The outcome of a verification.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditReport {
    /// Files that were read, the oldest of each series first.
    pub files: Vec<PathBuf>,
    /// Lines whose place in the chain is right.
    pub events: u64,
    /// Processes that wrote them.
    pub processes: usize,
    /// Events that their process could not write or keep: numbers that are missing between others. They may
    /// also be in files that were not given.
    pub missing: u64,
    /// Series of files whose first lines are not there: rotated away, removed, or not given.
    pub cut_beginnings: usize,
    /// Places where a line was changed, removed or put in.
    pub faults: Vec<AuditFault>,
}

/// A place where the chain is broken.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditFault {
    /// The file.
    pub file: PathBuf,
    /// The number of the line, from 1.
    pub line: u64,
    /// The reason.
    pub reason: &'static str,
}

#[derive(Deserialize)]
struct Line {
    chain: ChainPlace,
}

#[derive(Deserialize)]
struct ChainPlace {
    process: String,
    series: String,
    seq: u64,
    prev: String,
}

/// Verifies files, each with its rotated files (`NAME.1`, `NAME.2`, …) and those of busy principals
/// (`NAME.busy`).
pub fn verify(files: &[PathBuf]) -> io::Result<AuditReport> {
    let mut report = AuditReport::default();
    let mut numbers: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    for file in files {
        for first in [file.clone(), with_suffix(file, BUSY)] {
            if first == *file || rotated_files(&first)?.iter().any(|path| path.exists()) {
                verify_series(&first, &mut report, &mut numbers)?;
            }
        }
    }
    report.processes = numbers.len();
    report.missing = numbers.values().map(missing).fold(0, u64::saturating_add);
    Ok(report)
}

/// Returns a file with its rotated files, the oldest first: all that are there, so that a file which was
/// removed between two others shows.
fn rotated_files(newest: &Path) -> io::Result<Vec<PathBuf>> {
    let folder = newest.parent().filter(|folder| !folder.as_os_str().is_empty());
    let name = newest.file_name().unwrap_or_default().to_string_lossy();
    let Ok(entries) = std::fs::read_dir(folder.unwrap_or(Path::new("."))) else {
        // Reading the file itself tells why.
        return Ok(vec![newest.to_owned()]);
    };
    let mut numbers = BTreeSet::new();
    for entry in entries {
        let other = entry?.file_name();
        numbers.extend(other.to_string_lossy().strip_prefix(&*name).and_then(rotation_number));
    }
    let older = numbers.into_iter().rev().map(|number| with_suffix(newest, &number.to_string()));
    let mut paths: Vec<PathBuf> = older.collect();
    if newest.exists() || paths.is_empty() {
        paths.push(newest.to_owned());
    }
    Ok(paths)
}

/// Reads the number in a suffix such as `.12`, in the spelling in which files are rotated.
fn rotation_number(suffix: &str) -> Option<u32> {
    let digits = suffix.strip_prefix('.')?;
    digits.parse().ok().filter(|number: &u32| *number > 0 && number.to_string() == digits)
}

/// Verifies a file with its rotated files, the oldest first.
fn verify_series(
    newest: &Path,
    report: &mut AuditReport,
    numbers: &mut BTreeMap<String, BTreeSet<u64>>,
) -> io::Result<()> {
    // The digest of the last line, and the series.
    let mut last: Option<(String, Option<String>)> = None;
    for path in rotated_files(newest)? {
        let mut reader = BufReader::new(File::open(&path)?);
        let mut number = 0;
        loop {
            let mut line = Vec::new();
            if io::Read::take(&mut reader, MAX_LINE_BYTES).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            number += 1;
            let mut series = last.as_ref().and_then(|(_, series)| series.clone());
            let fault = match serde_json::from_slice::<Line>(&line) {
                Err(_) => Some("not an event with a place in a chain"),
                Ok(Line { chain }) => {
                    let is_of_series = *series.get_or_insert_with(|| chain.series.clone()) == chain.series;
                    let fits = match &last {
                        None => {
                            report.cut_beginnings += usize::from(chain.prev != GENESIS);
                            true
                        }
                        // Each process that writes to a console begins another chain.
                        Some(_) if chain.series == STREAM && chain.prev == GENESIS => {
                            !numbers.contains_key(&chain.process)
                        }
                        Some((last, _)) => *last == chain.prev,
                    };
                    let is_twice = !numbers.entry(chain.process).or_default().insert(chain.seq);
                    match (fits && is_of_series, is_twice) {
                        (false, _) => {
                            Some("the line before it was changed or removed, or this one was put in")
                        }
                        (true, true) => Some("its number occurs twice"),
                        (true, false) => None,
                    }
                }
            };
            last = Some((chain::digest(&line), series));
            match fault {
                None => report.events += 1,
                Some(reason) if report.faults.len() < MAX_FAULTS => {
                    report.faults.push(AuditFault { file: path.clone(), line: number, reason });
                }
                Some(_) => {}
            }
        }
        report.files.push(path);
    }
    Ok(())
}

/// Returns how many numbers are missing between the first and the last one.
fn missing(numbers: &BTreeSet<u64>) -> u64 {
    match (numbers.first(), numbers.last()) {
        (Some(first), Some(last)) => (last - first).saturating_add(1).saturating_sub(numbers.len() as u64),
        _ => 0,
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(format!(".{suffix}"));
    name.into()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::super::chain::{ChainMember, HashChain, MAIN};
    use super::*;

    /// Appends the line of an event to a text.
    fn add(chain: &mut HashChain, process: u128, number: u64, text: &mut Vec<u8>) {
        let mut line = br#"{"event":"x"}"#.to_vec();
        ChainMember::new(Uuid::from_u128(process)).end_line(number, &mut line);
        text.extend(chain.link_copy(&line));
    }

    /// Writes the lines of one chain, `lines` to each file; the first file is the oldest.
    fn write(newest: &Path, files: u32, lines: u64) {
        let (mut chain, mut number) = (HashChain::new(MAIN, None), 0);
        for file in (0..files).rev() {
            let mut text = Vec::new();
            for _ in 0..lines {
                number += 1;
                add(&mut chain, 7, number, &mut text);
            }
            let path = if file == 0 { newest.to_owned() } else { with_suffix(newest, &file.to_string()) };
            std::fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn a_removed_file_shows_wherever_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let newest = folder.path().join("audit.jsonl");
        let check = || verify(std::slice::from_ref(&newest)).unwrap();
        for removed in 0..=12_u32 {
            write(&newest, 13, 3);
            // Files of the same folder that are no part of the series.
            for other in ["audit.jsonl.01", "audit.jsonl.bak", "audit.jsonl2.1", "audit.jsonl.0"] {
                std::fs::write(folder.path().join(other), "x").unwrap();
            }
            let whole = check();
            assert_eq!((whole.files.len(), whole.events, whole.cut_beginnings), (13, 39, 0), "{whole:?}");
            assert!(whole.faults.is_empty(), "{whole:?}");
            let path = if removed == 0 { newest.clone() } else { with_suffix(&newest, &removed.to_string()) };
            std::fs::remove_file(path).unwrap();
            let report = check();
            match removed {
                // The end of a chain can be cut off.
                0 => assert_eq!((report.events, report.faults.len()), (36, 0)),
                // The oldest file may have been rotated away.
                12 => assert_eq!((report.cut_beginnings, report.faults.len()), (1, 0)),
                _ => assert_eq!((report.missing, report.faults.len()), (3, 1), "{report:?}"),
            }
        }
    }

    #[test]
    fn files_in_another_order_and_lines_of_another_series_show() {
        let folder = tempfile::tempdir().unwrap();
        let newest = folder.path().join("audit.jsonl");
        write(&newest, 3, 2);
        std::fs::rename(&newest, folder.path().join("a")).unwrap();
        std::fs::rename(with_suffix(&newest, "1"), &newest).unwrap();
        std::fs::rename(folder.path().join("a"), with_suffix(&newest, "1")).unwrap();
        assert!(!verify(std::slice::from_ref(&newest)).unwrap().faults.is_empty());
        // Numbers that no process reaches are no panic.
        let mut text = Vec::new();
        let mut chain = HashChain::new(MAIN, None);
        for number in [0, u64::MAX] {
            add(&mut chain, 7, number, &mut text);
        }
        let odd = folder.path().join("odd.jsonl");
        std::fs::write(&odd, text).unwrap();
        assert_eq!(verify(&[odd]).unwrap().missing, u64::MAX - 2);
        // A line that begins a chain of its own, as the first line of a console does.
        write(&newest, 1, 2);
        let mut text = std::fs::read(&newest).unwrap();
        add(&mut HashChain::new(STREAM, None), 8, 1, &mut text);
        std::fs::write(&newest, text).unwrap();
        std::fs::remove_file(with_suffix(&newest, "1")).unwrap();
        std::fs::remove_file(with_suffix(&newest, "2")).unwrap();
        assert_eq!(verify(std::slice::from_ref(&newest)).unwrap().faults.len(), 1);
    }
}

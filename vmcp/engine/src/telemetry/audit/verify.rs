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
    chain: Place,
}

#[derive(Deserialize)]
struct Place {
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
            if first == *file || first.exists() || with_suffix(&first, "1").exists() {
                verify_series(&first, &mut report, &mut numbers)?;
            }
        }
    }
    report.processes = numbers.len();
    report.missing = numbers.values().map(missing).sum();
    Ok(report)
}

/// Verifies a file with its rotated files, the oldest first.
fn verify_series(
    newest: &Path,
    report: &mut AuditReport,
    numbers: &mut BTreeMap<String, BTreeSet<u64>>,
) -> io::Result<()> {
    let older =
        (1..).map(|number: u32| with_suffix(newest, &number.to_string())).take_while(|path| path.exists());
    let mut paths: Vec<PathBuf> = older.collect();
    paths.reverse();
    if newest.exists() || paths.is_empty() {
        paths.push(newest.to_owned());
    }
    let mut last: Option<String> = None;
    for path in paths {
        let mut reader = BufReader::new(File::open(&path)?);
        let mut number = 0;
        loop {
            let mut line = Vec::new();
            if io::Read::take(&mut reader, MAX_LINE_BYTES).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            number += 1;
            let fault = match serde_json::from_slice::<Line>(&line) {
                Err(_) => Some("not an event with a place in a chain"),
                Ok(Line { chain }) => {
                    let fits = match &last {
                        // The lines before the first one were rotated away.
                        None => true,
                        // Each process that writes to a console begins another chain.
                        Some(_) if chain.series == STREAM && chain.prev == GENESIS => {
                            !numbers.contains_key(&chain.process)
                        }
                        Some(last) => *last == chain.prev,
                    };
                    let is_twice = !numbers.entry(chain.process).or_default().insert(chain.seq);
                    match (fits, is_twice) {
                        (false, _) => {
                            Some("the line before it was changed or removed, or this one was put in")
                        }
                        (true, true) => Some("its number occurs twice"),
                        (true, false) => None,
                    }
                }
            };
            last = Some(chain::digest(&line));
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
        (Some(first), Some(last)) => last - first + 1 - numbers.len() as u64,
        _ => 0,
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(format!(".{suffix}"));
    name.into()
}

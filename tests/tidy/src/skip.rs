//! Skipped tests: the one way to say that a test did not run, which reaches people and the summary of `make`.

use std::fs::OpenOptions;
use std::io::Write as _;

/// Records that the current test is skipped, or cut short, and why; the caller then returns.
///
/// The line goes to standard error, past libtest, which keeps what a passing test prints; and, where
/// `VMCP_SKIPPED` names a file, to its end. `scripts/report-skips.sh` sets that variable and prints the lines
/// when everything has run.
///
/// # Panics
///
/// If that file cannot be appended to: the skip would be counted nowhere.
#[expect(clippy::expect_used, reason = "called by tests alone, which fail by it")]
pub fn skipped(reason: &str) {
    let test = std::thread::current();
    let line = format!("{}: {reason}\n", test.name().unwrap_or("a test"));
    // Written straight to the stream: libtest captures what macros print. A closed stream is no reason to
    // fail.
    let _unheard = write!(std::io::stderr(), "skipped: {line}");
    let Some(file) = std::env::var_os("VMCP_SKIPPED") else { return };
    // Several test binaries append at once: one write of one short line does not mix with those of others.
    let file = OpenOptions::new().append(true).create(true).open(file);
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .expect("the file of VMCP_SKIPPED can be appended to");
}

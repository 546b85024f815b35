//! Measurements of a running operator, for benchmarks.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Operator;

/// Time without a write after which an operator counts as quiet.
const QUIET: Duration = Duration::from_secs(5);
/// Interval at which writes are counted.
const POLL: Duration = Duration::from_millis(200);
/// Clock ticks in a second, as Linux shows them in `/proc`.
const TICKS: f64 = 100.0;

impl Operator {
    /// Waits until nothing was written for five seconds.
    pub async fn quiet(&self) {
        let mut before = (self.writes().await, Instant::now());
        while before.1.elapsed() < QUIET {
            sleep(POLL).await;
            let now = self.writes().await;
            if now != before.0 {
                before = (now, Instant::now());
            }
        }
    }

    /// Returns the number of open sockets of the process.
    ///
    /// # Panics
    ///
    /// If the process has ended.
    pub fn sockets(&self) -> usize {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.process.id())).expect("a process");
        let targets = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
    }

    /// Returns the user and system time of the process in seconds.
    ///
    /// # Panics
    ///
    /// If the process has ended.
    pub fn cpu_seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).expect("a process");
        // The name in parentheses may hold blanks; behind it, the times are the fields 11 and 12.
        let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / TICKS
    }
}

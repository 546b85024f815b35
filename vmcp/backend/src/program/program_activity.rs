//! [`ProgramActivity`]: CPU time of a program's process group, which tells a program that is being installed
//! or is loading from one that hangs; and the ports on which it listens.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::program::listening_ports;

/// CPU time of one tick in `/proc/PID/stat`: Linux has 100 of them a second (`USER_HZ`) on all platforms.
const TICK: Duration = Duration::from_millis(10);
/// Share of an interval that a working program spends on a CPU, at least: one in 100. A runtime that only
/// waits stays below it; an installation on a machine with ten other busy programs a core does not.
const MIN_CPU_SHARE: u32 = 100;

/// The process group of the main connection's program, and how busy it is.
#[derive(Debug, Default)]
pub(crate) struct ProgramActivity {
    /// Id of the group; 0 before the first start.
    group: AtomicU32,
}

impl ProgramActivity {
    /// Follows another process group from now on.
    pub(crate) fn follow(&self, group: u32) {
        self.group.store(group, Ordering::Relaxed);
    }

    /// Returns once the program has used next to no CPU time for `interval`. On systems without `/proc` each
    /// program counts as idle.
    pub(crate) async fn until_idle(&self, interval: Duration) {
        let mut before = self.cpu_time().await;
        loop {
            sleep(interval).await;
            let after = self.cpu_time().await;
            // A program that was started again, or whose children were reaped elsewhere, has a smaller sum.
            if after.abs_diff(before) < interval / MIN_CPU_SHARE {
                return;
            }
            before = after;
        }
    }

    /// Returns a TCP port that the program chose and listens on; `None` on systems without `/proc`.
    pub(crate) async fn fixed_port(&self) -> Option<u16> {
        let group = self.group.load(Ordering::Relaxed);
        let found = spawn_blocking(move || listening_ports::fixed_port(&processes_of(group))).await;
        found.ok().flatten()
    }

    async fn cpu_time(&self) -> Duration {
        let group = self.group.load(Ordering::Relaxed);
        // Hundreds of small reads: not for a thread that serves requests.
        spawn_blocking(move || group_cpu_time(group)).await.unwrap_or_default()
    }
}

/// Returns the CPU time of all processes of a group and of their children that have ended.
fn group_cpu_time(group: u32) -> Duration {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Duration::ZERO };
    let ticks = processes.flatten().filter_map(|process| {
        let stat = std::fs::read_to_string(process.path().join("stat")).ok()?;
        ticks_in_group(&stat, group)
    });
    TICK * u32::try_from(ticks.sum::<u64>()).unwrap_or(u32::MAX)
}

/// Returns the ids of all processes of a group.
fn processes_of(group: u32) -> Vec<u32> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let in_group = processes.flatten().filter_map(|process| {
        let stat = std::fs::read_to_string(process.path().join("stat")).ok()?;
        ticks_in_group(&stat, group)?;
        process.file_name().to_str()?.parse().ok()
    });
    in_group.collect()
}

/// Returns the CPU ticks in a line of `/proc/PID/stat`; `None` if the process is of another group.
fn ticks_in_group(stat: &str, group: u32) -> Option<u64> {
    // The name of the program comes before in parentheses, and may hold blanks and parentheses itself.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    // After the name: state, parent, group.
    let of_group = fields.nth(2)?.parse() == Ok(group);
    // Eight fields on: utime, stime, cutime, cstime.
    of_group.then(|| fields.skip(8).take(4).filter_map(|ticks| ticks.parse::<u64>().ok()).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_a_process_and_its_ended_children_count_for_its_group() {
        let stat = "4711 (npm exec (x) 1) S 4710 4700 4700 0 -1 4194304 9 8 7 6 11 22 33 44 20 0 12 0 99 1 2";
        assert_eq!(ticks_in_group(stat, 4700), Some(110));
        assert_eq!(ticks_in_group(stat, 4711), None);
        assert_eq!(ticks_in_group("4711 (sh", 4700), None);
    }
}

//! CPU time and memory of a process, read from outside; Linux only.

use std::time::Duration;

use anyhow::{Context as _, Result};

/// Returns the CPU time of all threads of a process, ended ones included.
#[cfg(target_os = "linux")]
pub(crate) fn cpu(pid: u32) -> Result<Duration> {
    // The clock of the process has nanoseconds; `/proc/PID/stat` would round to 10 ms.
    let clock = nix::time::clock_getcpuclockid(nix::unistd::Pid::from_raw(pid.try_into()?))?;
    Ok(nix::time::clock_gettime(clock)?.into())
}

/// Raises the limit of open files to the hard limit, for this process and those it starts; returns the limit.
#[cfg(target_os = "linux")]
pub(crate) fn raise_open_files() -> Result<u64> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    Ok(hard)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn cpu(_: u32) -> Result<Duration> {
    anyhow::bail!("CPU time of another process is read on Linux only")
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn raise_open_files() -> Result<u64> {
    anyhow::bail!("the limit of open files is raised on Linux only")
}

/// Returns the resident memory in bytes.
pub(crate) fn resident(pid: u32) -> Result<f64> {
    status_bytes(pid, "VmRSS:")
}

/// Returns the highest resident memory since the last [`reset_peak`], in bytes.
pub(crate) fn peak(pid: u32) -> Result<f64> {
    status_bytes(pid, "VmHWM:")
}

/// Forgets the highest resident memory of a process.
pub(crate) fn reset_peak(pid: u32) -> Result<()> {
    // `man 5 proc_pid_clear_refs`: 5 resets VmHWM to VmRSS.
    Ok(std::fs::write(format!("/proc/{pid}/clear_refs"), "5")?)
}

/// Returns the proportional memory (PSS) in bytes: a page that processes share counts in parts, so that sums
/// over processes count it once.
pub(crate) fn proportional(pid: u32) -> Result<f64> {
    bytes_in(&format!("/proc/{pid}/smaps_rollup"), "Pss:")
}

/// Returns a process and all processes below it.
pub(crate) fn family(pid: u32) -> Vec<u32> {
    let mut family = vec![pid];
    let mut next = 0;
    while let Some(parent) = family.get(next).copied() {
        next += 1;
        // Children are listed by thread. A thread, or the process, may have ended meanwhile.
        let threads = std::fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
        for thread in threads {
            let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            family.extend(children.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
        }
    }
    family
}

/// Returns how often the threads of a process have gone to sleep: voluntary context switches. Threads that
/// have ended are not counted.
pub(crate) fn sleeps(pid: u32) -> Result<u64> {
    let mut total = 0;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end meanwhile.
        let Ok(status) = std::fs::read_to_string(thread?.path().join("status")) else { continue };
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        total += line.context("voluntary_ctxt_switches")?.trim().parse::<u64>()?;
    }
    Ok(total)
}

fn status_bytes(pid: u32, key: &'static str) -> Result<f64> {
    bytes_in(&format!("/proc/{pid}/status"), key)
}

/// Returns the size in a line of a file of `/proc`, in bytes.
fn bytes_in(path: &str, key: &'static str) -> Result<f64> {
    let status = std::fs::read_to_string(path)?;
    let line = status.lines().find_map(|line| line.strip_prefix(key)).context(key)?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024.0)
}

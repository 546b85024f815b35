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
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024.0)
}

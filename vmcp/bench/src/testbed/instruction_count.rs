//! Instructions of a process, counted by `perf stat`.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::Command;
use tokio::time::sleep;

/// Time that `perf` has to attach to all threads.
const ATTACH_TIME: Duration = Duration::from_millis(300);

/// Runs `work` and returns the instructions that all threads of a process executed meanwhile in user mode;
/// `None` without `perf` or without hardware counters, as in many virtual machines.
pub(crate) async fn count(pid: u32, work: impl AsyncFnOnce() -> Result<()>) -> Result<Option<f64>> {
    let mut command = Command::new("perf");
    command.args(["stat", "--field-separator", ",", "--event", "instructions:u", "--pid", &pid.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let Ok(perf) = command.spawn() else { return Ok(None) };
    sleep(ATTACH_TIME).await;
    work().await?;
    let perf_pid = perf.id().context("perf ended")?;
    kill(Pid::from_raw(perf_pid.try_into()?), Signal::SIGINT)?;
    let output = perf.wait_with_output().await?;
    Ok(parse(&String::from_utf8_lossy(&output.stderr)))
}

/// Returns the number in `1234,,instructions:u,…`; `None` for `<not supported>,,instructions:u,…`.
fn parse(output: &str) -> Option<f64> {
    let line = output.lines().find(|line| line.contains("instructions"))?;
    line.split(',').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn the_first_field_is_the_count() {
        assert_eq!(parse("1234567,,instructions:u,50123,100.00,,\n"), Some(1_234_567.0));
        assert_eq!(parse("<not supported>,,instructions:u,0,100.00,,\n"), None);
        assert_eq!(parse("Error: no permission\n"), None);
    }
}

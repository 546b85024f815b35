//! A server in the background, with its log in a file.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cli::console::failure::CommandFailure;
use crate::cli::console::progress;
use crate::cli::running_server::serve_options::ServeOptions;
use crate::cli::running_server::{self, RunningServer};
use crate::config_file::secret_store::private;

/// Variable that tells the server in the background to leave the session of the terminal.
const VARIABLE: &str = "VMCP_DETACHED";
/// Time that the server has to come up; longer than a slow disk takes to read the configuration.
const START_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Lines from the end of the log that are shown if the start fails.
const SHOWN_LINES: usize = 12;

/// In the background: leaves the session of the terminal, whose end must not end the server.
pub(in crate::cli) fn leave_terminal() {
    if std::env::var_os(VARIABLE).is_some() {
        // Fails for the leader of a group, which the server is not: it has just been started.
        let _ = nix::unistd::setsid();
    }
}

/// Starts a server over `config`, an absolute path, in the folder of that file, and waits until it serves.
/// The caller holds the lock and has looked for a running server.
pub(super) fn start(config: &Path, options: &ServeOptions) -> Result<RunningServer, CommandFailure> {
    let log = running_server::log_path(config).ok_or_else(|| CommandFailure::new("there is no such file"))?;
    if let Some(folder) = log.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let file = private(OpenOptions::new().create(true).write(true).truncate(true)).open(&log)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(options.arguments(config)).env(VARIABLE, "1");
    // The first client's folder would otherwise be that of the servers of all clients.
    if let Some(folder) = config.parent() {
        command.current_dir(folder);
    }
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).spawn()?;
    let spinner = progress::spinner("starting vmcp");
    let running = wait(config, &mut child, &log);
    spinner.finish_and_clear();
    running
}

#[expect(clippy::disallowed_methods, reason = "no runtime is running")]
fn wait(config: &Path, child: &mut Child, log: &Path) -> Result<RunningServer, CommandFailure> {
    let started = Instant::now();
    while started.elapsed() < START_TIMEOUT {
        if let Some(running) = RunningServer::all_of(config).into_iter().find(|it| it.pid == child.id()) {
            return Ok(running);
        }
        if let Some(status) = child.try_wait()? {
            let text = std::fs::read(log).unwrap_or_default();
            let end = last_lines(&String::from_utf8_lossy(&text));
            return Err(CommandFailure::new(format!("vmcp did not start ({status}):\n{end}"))
                .remedy(format!("its whole log is {}", log.display())));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    // Ends it: no command waits for it any more, and the next start would begin a second one beside it.
    if let Ok(process) = i32::try_from(child.id()) {
        let _ = kill(Pid::from_raw(process), Signal::SIGTERM);
        let _ = child.wait();
    }
    Err(CommandFailure::new(format!("vmcp did not serve within {} seconds", START_TIMEOUT.as_secs()))
        .remedy(format!("look into {}", log.display())))
}

/// Returns the last [`SHOWN_LINES`] lines.
fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.trim().lines().collect();
    let shown = lines.get(lines.len().saturating_sub(SHOWN_LINES)..).unwrap_or_default();
    shown.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_is_shown() {
        let text = (1..=20).map(|line| line.to_string()).collect::<Vec<_>>().join("\n");
        let shown = last_lines(&format!("{text}\n\n"));
        assert_eq!((shown.lines().next(), shown.lines().last()), (Some("9"), Some("20")));
        assert_eq!(last_lines("one\n"), "one");
    }
}

//! `vmcp serve --detach`: the server in the background, with its log in a file.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::{notes, progress};
use crate::cli::running_server::{self, RunningServer};
use crate::config_file::secret_store::private;

/// Variable that tells the server in the background to leave the session of the terminal.
const VARIABLE: &str = "VMCP_DETACHED";
/// Time that the server has to come up; longer than a slow disk takes to read the configuration.
const START_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Bytes from the end of the log that are shown if the start fails.
const SHOWN_BYTES: usize = 2000;

/// In the background: leaves the session of the terminal, whose end must not end the server.
pub(super) fn leave_terminal() {
    if std::env::var_os(VARIABLE).is_some() {
        // Fails for the leader of a group, which the server is not: it has just been started.
        let _ = nix::unistd::setsid();
    }
}

/// Starts this command again in the background, and waits until it serves.
pub(super) fn start(config: &Path) -> Result<Exit, CommandFailure> {
    if let Some(running) = RunningServer::find(config) {
        return Err(CommandFailure::new(format!(
            "process {} serves this configuration already",
            running.pid
        ))
        .remedy("`vmcp status` shows it, `vmcp stop` ends it"));
    }
    let log = running_server::log_path(config).ok_or_else(|| CommandFailure::new("there is no such file"))?;
    if let Some(folder) = log.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let file = private(OpenOptions::new().create(true).write(true).truncate(true)).open(&log)?;
    let arguments = std::env::args_os().skip(1).filter(|argument| argument != "--detach");
    let mut child = Command::new(std::env::current_exe()?)
        .args(arguments)
        .env(VARIABLE, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(file)
        .spawn()?;
    let spinner = progress::spinner("starting vmcp");
    let running = wait(config, &mut child, &log);
    spinner.finish_and_clear();
    let running = running?;
    notes::note(&format!(
        "vmcp serves {} in the background (process {}); its log is {}\n\
         `vmcp status`, `vmcp logs -f` and `vmcp stop` are for it",
        running.url(),
        running.pid,
        log.display()
    ));
    Ok(Exit::Done)
}

#[expect(clippy::disallowed_methods, reason = "no runtime is running yet")]
fn wait(config: &Path, child: &mut Child, log: &Path) -> Result<RunningServer, CommandFailure> {
    let started = Instant::now();
    while started.elapsed() < START_TIMEOUT {
        if let Some(running) = RunningServer::find(config).filter(|running| running.pid == child.id()) {
            return Ok(running);
        }
        if let Some(status) = child.try_wait()? {
            let text = std::fs::read(log).unwrap_or_default();
            let end = text.get(text.len().saturating_sub(SHOWN_BYTES)..).unwrap_or_default();
            let end = String::from_utf8_lossy(end);
            return Err(CommandFailure::new(format!("vmcp did not start ({status}):\n{}", end.trim())));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Err(CommandFailure::new("vmcp is not up yet").remedy(format!("look into {}", log.display())))
}

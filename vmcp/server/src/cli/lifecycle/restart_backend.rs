//! Restart of one backend of a running server.

use std::time::{Duration, Instant};

use vmcp_config::status::BackendState;

use crate::cli::connection::{self, ServerOptions};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::{notes, progress};
use crate::cli::options::GlobalOptions;

/// Time that a restarted backend has to come up before the command ends without it.
const RESTART_TIMEOUT: Duration = Duration::from_mins(1);
/// Interval at which its state is asked.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Restarts a backend and waits until it is up or has failed.
pub(super) fn run(
    backend: &str,
    server_options: &ServerOptions,
    global: &GlobalOptions,
) -> Result<Exit, CommandFailure> {
    connection::with_server(global, server_options, async |connection| {
        let known = connection.status().await?.backends;
        if !known.iter().any(|one| one.name == backend) {
            let names: Vec<_> = known.iter().map(|one| one.name.as_str()).collect();
            return Err(CommandFailure::new(format!("no backend is called `{backend}`"))
                .exit(Exit::NothingFound)
                .remedy(format!("there are {}", names.join(", "))));
        }
        connection.post(&format!("admin/restart?backend={backend}")).await?;
        let spinner = progress::spinner(format!("restarting {backend}"));
        let started = Instant::now();
        let after = loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            let status = connection.status().await?;
            let found = status.backends.into_iter().find(|one| one.name == backend).unwrap_or_default();
            let settled = matches!(found.state, BackendState::Connected | BackendState::Failed);
            if settled || started.elapsed() > RESTART_TIMEOUT {
                break found;
            }
        };
        spinner.finish_and_clear();
        match after.state {
            BackendState::Connected => {
                notes::note(&format!("{backend} is connected again"));
                Ok(Exit::Done)
            }
            state => Err(CommandFailure::new(format!(
                "{backend} is {}: {}",
                state.as_str(),
                after.last_error.as_deref().unwrap_or("it does not answer")
            ))
            .exit(Exit::Unreachable)
            .remedy(format!("`vmcp doctor {backend}` says what to do"))),
        }
    })
}

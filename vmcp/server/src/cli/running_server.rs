//! State file of a running server: the addresses at which `vmcp serve` listens with a configuration file, for
//! commands that ask it. With `--listen`, or while values are missing, the configuration alone does not say.

pub(super) mod local_socket;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use vmcp_config::status::digest;

use crate::config_file::secret_store::write_private;
use crate::engine::folders;

/// A server that runs with a configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunningServer {
    /// Its process. A killed server leaves its file behind; the id tells it from its successor.
    pub(super) pid: u32,
    /// Address of the client port.
    pub(super) mcp: SocketAddr,
    /// Address of the admin port.
    pub(super) admin: SocketAddr,
}

impl RunningServer {
    /// Returns the server that last wrote the state file for `config`; it may have ended since.
    pub(super) fn of(config: &Path) -> Option<RunningServer> {
        RunningServer::read(&state_path(&folders::cache_dir(), config)?)
    }

    /// True if the process exists; its id may by now belong to another one.
    pub(super) fn is_alive(&self) -> bool {
        let pid = i32::try_from(self.pid).map(Pid::from_raw);
        pid.is_ok_and(|pid| kill(pid, None).is_ok())
    }

    fn read(path: &Path) -> Option<RunningServer> {
        serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()
    }
}

/// The state file of this process; removed when dropped, unless another server has replaced it.
pub(super) struct StateFile {
    path: PathBuf,
    server: RunningServer,
}

impl StateFile {
    /// Writes the state file for `config`. Without a writable cache folder there is none, and commands look
    /// at the configured addresses.
    pub(super) fn write(config: &Path, server: &RunningServer) -> Option<StateFile> {
        StateFile::write_below(&folders::cache_dir(), config, server)
    }

    fn write_below(cache: &Path, config: &Path, server: &RunningServer) -> Option<StateFile> {
        let path = state_path(cache, config)?;
        let written = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| {
            let text = serde_json::to_string(server)?;
            write_private(&path, &text)
        });
        match written {
            Ok(()) => Some(StateFile { path, server: server.clone() }),
            Err(error) => {
                tracing::debug!(%error, path = %path.display(), "no state file; commands find the server by its configured addresses");
                None
            }
        }
    }
}

impl Drop for StateFile {
    fn drop(&mut self) {
        if RunningServer::read(&self.path).as_ref() == Some(&self.server) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Returns the log file of a server in the background that runs with `config`.
pub(super) fn log_path(config: &Path) -> Option<PathBuf> {
    Some(state_path(&folders::cache_dir(), config)?.with_extension("log"))
}

/// Returns the path of the state file: one for each configuration file, whatever name leads to it.
fn state_path(cache: &Path, config: &Path) -> Option<PathBuf> {
    Some(cache.join("run").join(format!("{}.json", file_prefix(config)?)))
}

/// Returns the beginning of the names of all files that belong to `config`.
fn file_prefix(config: &Path) -> Option<String> {
    let config = config.canonicalize().ok()?;
    digest(&config.to_string_lossy()).get(..16).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_found_by_its_file_until_it_ends() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("vmcp.yaml");
        std::fs::write(&config, "backends: []").unwrap();
        let server =
            |pid| RunningServer { pid, mcp: ([127, 0, 0, 1], 1).into(), admin: ([127, 0, 0, 1], 2).into() };
        let found = || RunningServer::read(&state_path(dir.path(), &config)?);
        let first = StateFile::write_below(dir.path(), &config, &server(1));
        assert_eq!(found(), Some(server(1)));
        let second = StateFile::write_below(dir.path(), &config, &server(2));
        drop(first);
        assert_eq!(found(), Some(server(2)), "the first one leaves the file of its successor alone");
        drop(second);
        assert_eq!(found(), None);
    }
}

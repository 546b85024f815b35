//! State file of a running server: the addresses at which `vmcp serve` listens with a configuration file, for
//! commands that ask it. With `--listen`, or while values are missing, the configuration alone does not say.
//! Each process has a file of its own, so that a second server leaves the first one found.
//!
//! | module | holds |
//! |---|---|
//! | `client_socket` | the socket at which a server takes clients of this user |
//! | `local_socket` | the socket of a server that a client started, for commands |
//! | `serve_options` | options of `vmcp serve` that a restart repeats |
//! | `start_lock` | one start at a time, and the mark of a server that was stopped |

pub(super) mod client_socket;
pub(super) mod local_socket;
mod process_files;
pub(super) mod serve_options;
pub(super) mod start_lock;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use vmcp_config::status::digest;

use self::serve_options::ServeOptions;
use crate::config_file::secret_store::write_private;
use vmcp_engine::folders;

/// End of the names of state files.
const STATE_SUFFIX: &str = ".json";

/// A server that runs with a configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunningServer {
    /// Its process.
    pub(super) pid: u32,
    /// Address of the client port.
    pub(super) mcp: SocketAddr,
    /// True if the client port speaks TLS alone.
    #[serde(default)]
    pub(super) tls: bool,
    /// Address of the admin port.
    pub(super) admin: SocketAddr,
    /// Address of the events port.
    #[serde(default)]
    pub(super) events: Option<SocketAddr>,
    /// Absolute path of its configuration file; empty in files of older versions.
    #[serde(default)]
    pub(super) config: PathBuf,
    /// Options that it was started with.
    #[serde(default)]
    pub(super) options: ServeOptions,
}

impl RunningServer {
    /// Returns the newest server that runs with `config`.
    pub(super) fn find(config: &Path) -> Option<RunningServer> {
        RunningServer::all_of(config).into_iter().next()
    }

    /// Returns the URL of the client port.
    pub(super) fn url(&self) -> String {
        mcp_url(self.mcp, self.tls)
    }

    /// Returns the servers that run with `config`, the newest first. One of them may be dead, if another
    /// program has got its process id.
    pub(super) fn all_of(config: &Path) -> Vec<RunningServer> {
        RunningServer::all_below(&folders::cache_dir(), config)
    }

    /// Returns the configuration file of the running servers, if all of them run with the same one: commands
    /// in other folders mean that one.
    pub(super) fn only_config() -> Option<PathBuf> {
        RunningServer::only_config_below(&folders::cache_dir())
    }

    /// Returns true if a server runs with a configuration file.
    pub(super) fn is_any_running() -> bool {
        RunningServer::is_any_running_below(&folders::cache_dir())
    }

    fn is_any_running_below(cache: &Path) -> bool {
        let files = process_files::of_living(&folder(cache), None, STATE_SUFFIX);
        files.iter().any(|path| RunningServer::read(path).is_some())
    }

    fn only_config_below(cache: &Path) -> Option<PathBuf> {
        let files = process_files::of_living(&folder(cache), None, STATE_SUFFIX);
        let mut configs = files.iter().filter_map(|path| Some(RunningServer::read(path)?.config));
        let first = configs.next().filter(|config| config.is_file())?;
        configs.all(|other| other == first).then_some(first)
    }

    fn all_below(cache: &Path, config: &Path) -> Vec<RunningServer> {
        let Some(prefix) = file_prefix(config) else { return Vec::new() };
        let files = process_files::of_living(&folder(cache), Some(&prefix), STATE_SUFFIX);
        files.iter().filter_map(|path| RunningServer::read(path)).collect()
    }

    fn read(path: &Path) -> Option<RunningServer> {
        serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()
    }
}

/// Returns the URL of a client port that listens at `address`, for clients of this machine.
pub(super) fn mcp_url(address: SocketAddr, tls: bool) -> String {
    let scheme = if tls { "https" } else { "http" };
    format!("{scheme}://{}/mcp", connectable(address))
}

/// Replaces the unspecified address, on which a server listens, by loopback, to which a client can connect.
pub(super) fn connectable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// The state file of this process; removed when dropped.
pub(super) struct StateFile(PathBuf);

impl StateFile {
    /// Writes the state file for `config`. Without a writable cache folder, commands look at the
    /// configured addresses.
    pub(super) fn write(config: &Path, server: &RunningServer) -> Option<StateFile> {
        StateFile::write_below(&folders::cache_dir(), config, server)
    }

    fn write_below(cache: &Path, config: &Path, server: &RunningServer) -> Option<StateFile> {
        let path = process_files::path(&folder(cache), &file_prefix(config)?, server.pid, STATE_SUFFIX);
        let written = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| {
            let text = serde_json::to_string(server)?;
            write_private(&path, &text)
        });
        match written {
            Ok(()) => Some(StateFile(path)),
            Err(error) => {
                tracing::debug!(%error, path = %path.display(), "no state file; commands find the server by its configured addresses");
                None
            }
        }
    }
}

impl Drop for StateFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Returns the log file of a server in the background that runs with `config`.
pub(super) fn log_path(config: &Path) -> Option<PathBuf> {
    Some(folder(&folders::cache_dir()).join(format!("{}.log", file_prefix(config)?)))
}

fn folder(cache: &Path) -> PathBuf {
    cache.join("run")
}

/// Returns the beginning of the names of all files that belong to `config`, whatever name leads to it.
fn file_prefix(config: &Path) -> Option<String> {
    let config = config.canonicalize().ok()?;
    digest(&config.to_string_lossy()).get(..16).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_all_addresses_is_reached_by_loopback() {
        for (listen, tls, url) in [
            ("0.0.0.0:8080", false, "http://127.0.0.1:8080/mcp"),
            ("[::]:8080", true, "https://[::1]:8080/mcp"),
            ("10.0.0.7:8080", false, "http://10.0.0.7:8080/mcp"),
        ] {
            assert_eq!(mcp_url(listen.parse().unwrap(), tls), url);
        }
    }

    #[test]
    fn each_living_server_is_found_by_its_file_until_it_ends() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("vmcp.yaml");
        std::fs::write(&config, "backends: []").unwrap();
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let server = |pid| RunningServer {
            pid,
            mcp: at(1),
            tls: true,
            admin: at(2),
            events: None,
            config: config.clone(),
            options: ServeOptions::default(),
        };
        assert_eq!(server(1).url(), "https://127.0.0.1:1/mcp");
        let found = || RunningServer::all_below(dir.path(), &config);
        let (own, parent) = (std::process::id(), std::os::unix::process::parent_id());
        let first = StateFile::write_below(dir.path(), &config, &server(own)).unwrap();
        let written = std::fs::File::options().write(true).open(&first.0).unwrap();
        written.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        let second = StateFile::write_below(dir.path(), &config, &server(parent));
        assert_eq!(found(), [server(parent), server(own)], "the newest is the first");
        drop(second);
        assert_eq!(found(), [server(own)], "the end of the second hides the first no more");

        // A killed server leaves its file behind.
        std::mem::forget(StateFile::write_below(dir.path(), &config, &server(i32::MAX.cast_unsigned())));
        assert_eq!(found(), [server(own)]);
        assert_eq!(RunningServer::only_config_below(dir.path()), Some(config.clone()));
        let other = dir.path().join("other.yaml");
        std::fs::write(&other, "backends: []").unwrap();
        let of_other = RunningServer { config: other.clone(), ..server(parent) };
        let of_other = StateFile::write_below(dir.path(), &other, &of_other);
        assert_eq!(RunningServer::only_config_below(dir.path()), None, "two files, and no way to choose");
        assert!(RunningServer::is_any_running_below(dir.path()));
        drop(of_other);
        assert_eq!(std::fs::read_dir(folder(dir.path())).unwrap().count(), 1);
        drop(first);
        assert!(found().is_empty() && !RunningServer::is_any_running_below(dir.path()));
    }
}

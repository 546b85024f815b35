//! [`ServeOptions`]: the options of a `vmcp serve` in the background, kept in its state file, so that a
//! restart repeats them.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Options of a server, besides its configuration file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::cli) struct ServeOptions {
    /// Address of the client port in place of `server.listen`.
    pub(in crate::cli) listen: Option<SocketAddr>,
    /// Address of the admin port in place of `server.adminListen`.
    pub(in crate::cli) admin_listen: Option<SocketAddr>,
    /// Time without a client after which the server ends.
    pub(in crate::cli) end_after_idle: Option<Duration>,
    /// Absolute paths of files of environment variables.
    pub(in crate::cli) env_files: Vec<PathBuf>,
    /// Log level in place of `operational.logLevel`.
    pub(in crate::cli) log_level: Option<String>,
    /// Format of log lines, unless it is the default.
    pub(in crate::cli) log_format: Option<String>,
}

impl ServeOptions {
    /// Returns the arguments of `vmcp` that start such a server over `config`, an absolute path.
    pub(in crate::cli) fn arguments(&self, config: &Path) -> Vec<OsString> {
        let ServeOptions { listen, admin_listen, end_after_idle, env_files, log_level, log_format } = self;
        let address = |address: &SocketAddr| OsString::from(address.to_string());
        let options = [
            ("--config", Some(config.as_os_str().to_owned())),
            ("--listen", listen.as_ref().map(address)),
            ("--admin-listen", admin_listen.as_ref().map(address)),
            ("--end-after-idle", end_after_idle.map(|time| format!("{}ms", time.as_millis()).into())),
            ("--log-level", log_level.as_ref().map(OsString::from)),
            ("--log-format", log_format.as_ref().map(OsString::from)),
        ];
        let files = env_files.iter().map(|file| ("--env-file", Some(file.as_os_str().to_owned())));
        let given = options.into_iter().chain(files).filter_map(|(name, value)| Some((name, value?)));
        let words = given.flat_map(|(name, value)| [OsString::from(name), value]);
        std::iter::once(OsString::from("serve")).chain(words).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_become_arguments_and_survive_the_state_file() {
        let options = ServeOptions {
            listen: Some("127.0.0.1:8765".parse().unwrap()),
            end_after_idle: Some(Duration::from_mins(15)),
            env_files: vec!["/me/.env".into()],
            ..ServeOptions::default()
        };
        let words = options.arguments(Path::new("/me/vmcp.yaml"));
        let expected = "serve --config /me/vmcp.yaml --listen 127.0.0.1:8765 --end-after-idle 900000ms \
                        --env-file /me/.env";
        assert_eq!(words, expected.split(' ').map(OsString::from).collect::<Vec<_>>());
        let text = serde_json::to_string(&options).unwrap();
        assert_eq!(serde_json::from_str::<ServeOptions>(&text).unwrap(), options);
    }
}

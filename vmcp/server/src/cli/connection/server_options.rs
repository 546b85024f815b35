//! Options that say which server a command asks.

use std::time::Duration;

use clap::Args;
use url::Url;
use vmcp_config::{Secret, parse_duration};

/// Options that choose the server a command asks.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which server")]
pub(in crate::cli) struct ServerOptions {
    /// MCP endpoint of a running server, such as http://127.0.0.1:8080/mcp [default: the server that runs
    /// with the configuration file; if none runs, its backends are started in this process]
    #[arg(long, value_name = "URL", env = "VMCP_URL")]
    pub(super) url: Option<Url>,
    /// Key or token for the MCP endpoint, where `incomingAuth` wants one
    #[arg(long, value_name = "TOKEN", env = "VMCP_TOKEN", hide_env_values = true)]
    pub(super) token: Option<Secret>,
    /// Admin port of a running server, such as http://127.0.0.1:9090
    #[arg(long, value_name = "URL", env = "VMCP_ADMIN_URL")]
    pub(super) admin_url: Option<Url>,
    /// Bearer token for the admin port [default: the first of server.adminTokens of the configuration file]
    #[arg(long, value_name = "TOKEN", env = "VMCP_ADMIN_TOKEN", hide_env_values = true)]
    pub(super) admin_token: Option<Secret>,
    /// Ask no running server; start the backends of the configuration file in this process
    #[arg(long)]
    pub(super) local: bool,
    /// Time to wait for backends to start or refresh; the command then goes on without those that are missing
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub(in crate::cli) wait: Duration,
}

impl ServerOptions {
    /// Returns true if an address names the server.
    pub(in crate::cli) fn names_server(&self) -> bool {
        self.url.is_some() || self.admin_url.is_some()
    }
}

/// Parses a duration as the configuration writes it, such as `500ms`, `30s` or `1m30s`.
pub(in crate::cli) fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "write it like 500ms, 30s or 1m30s".to_owned())
}

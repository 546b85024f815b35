//! Socket at which a server takes clients of this user: `vmcp mcp-server` connects there and carries the
//! lines of its client. Each connection begins with a [`Hello`] line, which the server answers by a
//! [`Welcome`] line; MCP follows.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokio::net::UnixListener;

use super::local_socket::{self, LocalSocket};
use super::process_files;
use vmcp_engine::folders;

/// End of the names of these sockets.
const SUFFIX: &str = ".mcp";
/// Most bytes of a [`Hello`] or a [`Welcome`].
pub(in crate::cli) const MAX_GREETING: u64 = 4096;

/// First line of a client.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::cli) struct Hello {
    /// One of `profiles` of the configuration; everything without one.
    #[serde(default)]
    pub(in crate::cli) profile: Option<String>,
}

/// First line of the server.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::cli) struct Welcome {
    /// Process of the server.
    pub(in crate::cli) pid: u32,
    /// Reason why the server refuses the client; it closes the connection behind this line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) refused: Option<String>,
}

/// Opens the socket of this process, which serves `config`. `None` without a writable cache folder, or,
/// except on Linux, if the path is too long for a socket.
pub(in crate::cli) fn listen(config: &Path) -> Option<(UnixListener, LocalSocket)> {
    let prefix = super::file_prefix(config)?;
    let folder = local_socket::folder(&folders::cache_dir());
    // Removes the sockets of killed servers.
    let _ = process_files::of_living(&folder, None, SUFFIX);
    match local_socket::bind(&folder, &prefix, std::process::id(), SUFFIX) {
        Ok(opened) => Some(opened),
        Err(error) => {
            tracing::debug!(%error, folder = %folder.display(), "no socket for clients; `vmcp mcp-server` does not find this server");
            None
        }
    }
}

/// Returns the path of the socket of the process `pid`, a server over `config`.
pub(in crate::cli) fn socket_of(config: &Path, pid: u32) -> Option<PathBuf> {
    let folder = local_socket::folder(&folders::cache_dir());
    Some(process_files::path(&folder, &super::file_prefix(config)?, pid, SUFFIX))
}

//! [`LocalClients`]: clients of this user at the server's socket. Each is the other end of a
//! `vmcp mcp-server`, which carries the lines of one MCP client.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use vmcp_edge::Edge;
use vmcp_edge::transport::stdio;
use vmcp_engine::access::identity::Principal;

use crate::cli::options::profile_of;
use crate::cli::running_server::client_socket::{self, Hello, MAX_GREETING, Welcome};
use crate::cli::running_server::local_socket::LocalSocket;

/// Clients at the socket at a time; a further one is refused.
const MAX_CLIENTS: usize = 256;
/// Time that a client has to say [`Hello`].
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest interval at which the clients are counted.
const COUNT_INTERVAL: Duration = Duration::from_secs(5);
/// Pause after an accept that failed, for instance because too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// The socket and its clients.
pub(super) struct LocalClients {
    connections: TaskTracker,
    /// Cancelled once further clients are refused.
    closing: CancellationToken,
    open: Option<(AbortOnDropHandle<()>, LocalSocket)>,
}

impl LocalClients {
    /// Opens the socket of this process, which serves `config`.
    pub(super) fn start(config: &Path, edge: &Arc<Edge>) -> LocalClients {
        let (connections, closing) = (TaskTracker::new(), CancellationToken::new());
        let open = client_socket::listen(config).map(|(listener, socket)| {
            let accepting = accept(listener, Arc::clone(edge), connections.clone());
            let accepting = closing.clone().run_until_cancelled_owned(accepting).map(drop);
            (AbortOnDropHandle::new(tokio::spawn(accepting)), socket)
        });
        LocalClients { connections, closing, open }
    }

    /// Refuses further clients: a server that is ending would close their connections at once.
    pub(super) fn refuse_more(&self) {
        self.closing.cancel();
    }

    /// Waits until there has been no client for `limit`: none at the socket and none `over_http`. Without a
    /// limit it waits for ever.
    pub(super) async fn until_idle(&self, limit: Option<Duration>, over_http: impl Fn() -> usize) {
        let Some(limit) = limit else { return std::future::pending().await };
        let mut idle = IdleSince::default();
        while !idle.is_over(Instant::now(), self.connections.len() + over_http(), limit) {
            tokio::time::sleep(COUNT_INTERVAL.min(limit)).await;
        }
        tracing::info!("no client for {}; ending", humantime::format_duration(limit));
    }

    /// Removes the socket, and waits up to `grace` for requests in flight; the edge is closing.
    pub(super) async fn drain(self, grace: Duration) {
        drop(self.open);
        self.connections.close();
        if tokio::time::timeout(grace, self.connections.wait()).await.is_err() {
            tracing::warn!("some requests of local clients did not end in time (server.drainTimeout)");
        }
    }
}

/// Time of the end of the last client; `None` while a client is connected.
#[derive(Debug, Default)]
struct IdleSince(Option<Instant>);

impl IdleSince {
    /// Notes the number of clients, and returns true if there has been none for `limit`.
    fn is_over(&mut self, now: Instant, clients: usize, limit: Duration) -> bool {
        if clients > 0 {
            self.0 = None;
            return false;
        }
        now.duration_since(*self.0.get_or_insert(now)) >= limit
    }
}

async fn accept(listener: UnixListener, edge: Arc<Edge>, connections: TaskTracker) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (edge, is_full) = (Arc::clone(&edge), connections.len() >= MAX_CLIENTS);
                connections.spawn(async move {
                    if let Err(error) = serve(stream, edge, is_full).await {
                        tracing::debug!(%error, "a local client is gone");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept local clients");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves one client from its [`Hello`] to the end of its input.
async fn serve(stream: UnixStream, edge: Arc<Edge>, is_full: bool) -> io::Result<()> {
    let (input, mut output) = stream.into_split();
    let mut input = BufReader::new(input);
    let mut line = Vec::new();
    let mut head = (&mut input).take(MAX_GREETING);
    let greeting = head.read_until(b'\n', &mut line);
    tokio::time::timeout(HELLO_TIMEOUT, greeting).await.map_err(io::Error::other)??;
    let profile = match serde_json::from_slice::<Hello>(&line) {
        _ if is_full => Err(format!("{MAX_CLIENTS} clients are connected, which is the limit")),
        Err(error) => Err(format!("not a greeting of vmcp: {error}")),
        Ok(Hello { profile: None }) => Ok(None),
        Ok(Hello { profile: Some(name) }) => profile_of(&edge.engine().snapshot().config, &name)
            .map(Some)
            .map_err(|failure| failure.message().to_owned()),
    };
    let (profile, refused) = match profile {
        Ok(profile) => (profile, None),
        Err(reason) => (None, Some(reason)),
    };
    let is_refused = refused.is_some();
    let mut welcome = serde_json::to_vec(&Welcome { pid: std::process::id(), refused })?;
    welcome.push(b'\n');
    output.write_all(&welcome).await?;
    if is_refused {
        return output.shutdown().await;
    }
    stdio::serve_one_of_many(edge, Principal { profile, ..Principal::default() }, input, output).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_idle_from_the_end_of_its_last_client() {
        let limit = Duration::from_mins(15);
        let (mut idle, start) = (IdleSince::default(), Instant::now());
        let mut at = |minutes, clients| idle.is_over(start + Duration::from_mins(minutes), clients, limit);
        assert!(!at(0, 0), "no client has come yet");
        assert!(!at(14, 1) && !at(60, 1));
        assert!(!at(61, 0) && !at(75, 0));
        assert!(at(76, 0));
    }
}

//! [`ServerLink`]: the connection to the running server, as two queues of lines.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use vmcp_lines::{Line, LineReader};

use crate::cli::running_server::RunningServer;
use crate::cli::running_server::client_socket::{self, Hello, MAX_GREETING, Welcome};
use crate::cli::running_server::local_socket;

/// Time that a server has to take a client.
const GREET_TIMEOUT: Duration = Duration::from_secs(2);
/// Lines that wait for a server or a client that does not read; beyond them their sender waits.
const QUEUE: usize = 256;
/// Most bytes of a message. The server has smaller limits of its own, which name their settings.
pub(super) const MAX_LINE: usize = 256 << 20;

/// A connection to a server; closed when dropped.
pub(super) struct ServerLink {
    /// Lines for the server; `None` once the client has sent its last one.
    pub(super) to_server: Option<mpsc::Sender<Bytes>>,
    /// Lines of the server; they end with the connection.
    pub(super) from_server: mpsc::Receiver<Bytes>,
    /// Begin of the connection.
    pub(super) since: Instant,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

impl ServerLink {
    /// Connects to the newest server over `config` that takes clients. `None` without one, an error if it
    /// refuses this client.
    pub(super) async fn join(config: &Path, profile: Option<&str>) -> Result<Option<ServerLink>, String> {
        for running in RunningServer::all_of(config) {
            let Some(socket) = client_socket::socket_of(config, running.pid) else { continue };
            // A server that is ending has closed its socket; one of an older version has none. A stopped
            // process takes connections and says nothing.
            let greeting = async {
                let stream = UnixStream::connect(local_socket::address(&socket)?).await?;
                greet(stream, profile).await
            };
            let greeting = timeout(GREET_TIMEOUT, greeting);
            let Ok(Ok((input, output, welcome))) = greeting.await else { continue };
            if let Some(reason) = welcome.refused {
                return Err(reason);
            }
            return Ok(Some(ServerLink::over(input, output)));
        }
        Ok(None)
    }

    fn over(input: BufReader<OwnedReadHalf>, output: OwnedWriteHalf) -> ServerLink {
        let (to_server, outgoing) = mpsc::channel(QUEUE);
        let (incoming, from_server) = mpsc::channel(QUEUE);
        let tasks = [tokio::spawn(write_lines(output, outgoing)), tokio::spawn(read_lines(input, incoming))];
        ServerLink::new(to_server, from_server, tasks.map(AbortOnDropHandle::new).into())
    }

    /// Makes a link of two queues; its end ends the tasks that carry them.
    pub(super) fn new(
        to_server: mpsc::Sender<Bytes>,
        from_server: mpsc::Receiver<Bytes>,
        tasks: Vec<AbortOnDropHandle<()>>,
    ) -> ServerLink {
        ServerLink { to_server: Some(to_server), from_server, since: Instant::now(), _tasks: tasks }
    }
}

/// Says [`Hello`] and waits for the [`Welcome`].
async fn greet(
    stream: UnixStream,
    profile: Option<&str>,
) -> io::Result<(BufReader<OwnedReadHalf>, OwnedWriteHalf, Welcome)> {
    let (input, mut output) = stream.into_split();
    let mut hello = serde_json::to_vec(&Hello { profile: profile.map(str::to_owned) })?;
    hello.push(b'\n');
    output.write_all(&hello).await?;
    let (mut input, mut line) = (BufReader::new(input), Vec::new());
    (&mut input).take(MAX_GREETING).read_until(b'\n', &mut line).await?;
    Ok((input, output, serde_json::from_slice(&line)?))
}

/// Writes lines until their queue is closed, then tells the other end that no more come.
pub(super) async fn write_lines(
    mut output: impl tokio::io::AsyncWrite + Unpin,
    mut lines: mpsc::Receiver<Bytes>,
) {
    while let Some(line) = lines.recv().await {
        let written = async {
            output.write_all(&line).await?;
            output.write_all(b"\n").await?;
            // Flushed once a burst is written, not after each line.
            if lines.is_empty() { output.flush().await } else { Ok(()) }
        };
        if written.await.is_err() {
            return;
        }
    }
    // The other end is gone if this fails.
    let _ = output.shutdown().await;
}

async fn read_lines(input: BufReader<OwnedReadHalf>, lines: mpsc::Sender<Bytes>) {
    let mut input = LineReader::new(input, MAX_LINE);
    loop {
        match input.next().await {
            Ok(Line::Whole(line)) => {
                if lines.send(line).await.is_err() {
                    return;
                }
            }
            Ok(Line::TooLong) => tracing::error!("an answer of the server has more than {MAX_LINE} bytes"),
            Ok(Line::End) | Err(_) => return,
        }
    }
}

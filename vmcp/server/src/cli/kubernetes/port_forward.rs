//! [`PortForward`]: a port of a pod, forwarded to a free port of this machine by `kubectl port-forward`.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use vmcp_backend::WatchedGroup;

use super::cluster_server::ClusterServer;
use super::refusal;
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::process::orphan_reaper;

/// Time that `kubectl` has to forward the port.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of `kubectl`'s complaints that are kept, the latest ones.
const MAX_COMPLAINTS: usize = 4 << 10;

/// A forwarded port. Its `kubectl` ends when this is dropped, and when this process is killed.
#[derive(Debug)]
pub(in crate::cli) struct PortForward {
    child: Child,
    /// Port on 127.0.0.1.
    pub(in crate::cli) port: u16,
    pod: String,
    complaints: JoinHandle<String>,
    _output: AbortOnDropHandle<()>,
    _guard: Option<WatchedGroup>,
}

impl PortForward {
    /// Forwards a port of a pod.
    pub(in crate::cli) async fn open(
        server: &ClusterServer,
        pod: &str,
        port: u16,
    ) -> Result<PortForward, CommandFailure> {
        let mut command = Command::from(server.kubectl().command());
        // Without a time limit of requests, which would end the connection.
        command.args([
            "port-forward",
            "--address=127.0.0.1",
            "--",
            &format!("pod/{pod}"),
            &format!(":{port}"),
        ]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own, which the guard ends.
        let mut child =
            command.process_group(0).kill_on_drop(true).spawn().map_err(|error| refusal::not_run(&error))?;
        let guard = child.id().and_then(|id| orphan_reaper::guard()?.watch(id));
        let complaints = tokio::spawn(last_words(child.stderr.take()));
        let Some(output) = child.stdout.take() else {
            return Err(CommandFailure::new("kubectl port-forward has no output"));
        };
        let mut lines = BufReader::new(output).lines();
        let forwarded = timeout(START_TIMEOUT, async {
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some(port) = local_port(&line) {
                    return Some(port);
                }
            }
            None
        });
        match forwarded.await {
            Ok(Some(local)) => {
                // A pipe that is full would stop it.
                let drain = tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                let (pod, output) = (pod.to_owned(), AbortOnDropHandle::new(drain));
                Ok(PortForward { child, port: local, pod, complaints, _output: output, _guard: guard })
            }
            Ok(None) => {
                let words = complaints.await.unwrap_or_default();
                Err(refusal::explain(&words))
            }
            Err(_) => Err(CommandFailure::new(format!(
                "kubectl port-forward did not forward a port of pod {pod} within {} seconds",
                START_TIMEOUT.as_secs()
            ))
            .exit(Exit::Unreachable)
            .remedy("`kubectl get pod` shows whether it runs; try again")),
        }
    }

    /// Waits until the connection ends by itself, as with its pod, and returns why.
    pub(in crate::cli) async fn ended(&mut self) -> CommandFailure {
        let status = self.child.wait().await;
        let words = (&mut self.complaints).await.unwrap_or_default();
        let words = match (words.trim(), status) {
            ("", Ok(status)) => status.to_string(),
            ("", Err(error)) => error.to_string(),
            (words, _) => words.lines().last().unwrap_or_default().to_owned(),
        };
        CommandFailure::new(format!("the connection to pod {} ended: {words}", self.pod))
            .exit(Exit::Unreachable)
            .remedy("run the command again: it connects to another pod")
    }
}

/// Returns the local port that a line of `kubectl port-forward` tells.
fn local_port(line: &str) -> Option<u16> {
    let (address, _) = line.strip_prefix("Forwarding from ")?.split_once(" -> ")?;
    address.rsplit_once(':')?.1.parse().ok()
}

/// Reads a stream to its end; returns the last [`MAX_COMPLAINTS`] bytes.
async fn last_words(stream: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut stream) = stream else { return String::new() };
    let (mut kept, mut piece) = (Vec::new(), [0; 1024]);
    while let Ok(length @ 1..) = stream.read(&mut piece).await {
        kept.extend_from_slice(piece.get(..length).unwrap_or_default());
        let surplus = kept.len().saturating_sub(MAX_COMPLAINTS);
        kept.drain(..surplus);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_local_port_is_read_from_the_line_that_kubectl_prints() {
        assert_eq!(local_port("Forwarding from 127.0.0.1:40123 -> 9090"), Some(40123));
        assert_eq!(local_port("Forwarding from [::1]:40123 -> 9090"), Some(40123));
        for line in [
            "",
            "Handling connection for 40123",
            "Forwarding from 127.0.0.1 -> 9090",
            "Forwarding from x:99999 -> 1",
        ] {
            assert_eq!(local_port(line), None, "{line}");
        }
    }

    #[tokio::test]
    async fn the_latest_complaints_are_kept() {
        let text = format!("{}error: lost connection to pod\n", "x".repeat(3 * MAX_COMPLAINTS));
        let kept = last_words(Some(text.as_bytes())).await;
        assert_eq!(kept.len(), MAX_COMPLAINTS);
        assert!(kept.ends_with("error: lost connection to pod\n"));
    }
}

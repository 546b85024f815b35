//! Standard error that is not read, or lies in a folder that is watched.

use std::fs::File;
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::process::Child;
use tokio::time::sleep;
use vmcp_integration::{Client, eventually, free_port, http_client, vmcp_command};

/// A server whose standard error goes where the test says.
struct Server {
    child: Child,
    url: String,
    _home: tempfile::TempDir,
}

impl Server {
    async fn start(level: &str, stderr: impl FnOnce(&std::path::Path) -> Stdio) -> Server {
        let home = tempfile::tempdir().expect("a temporary folder");
        let config = json!({"backends": [], "optimizer": {"embeddings": {"provider": "none"},
            "storage": {"dir": home.path().join("storage")}}});
        std::fs::write(home.path().join("vmcp.yaml"), config.to_string()).expect("writing");
        let [listen, admin] = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
        let mut command = vmcp_command();
        command.args(["serve", "--listen", &listen, "--admin-listen", &admin, "--log-level", level]);
        command.current_dir(home.path()).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(stderr(home.path())).kill_on_drop(true).spawn().expect("vmcp starts");
        eventually("the server is ready", async || {
            let ready = http_client().get(format!("http://{admin}/readyz")).send().await.ok()?;
            ready.status().is_success().then_some(())
        })
        .await;
        Server { child, url: format!("http://{listen}/mcp"), _home: home }
    }
}

#[tokio::test]
async fn a_reader_of_the_log_that_stalls_stalls_no_request() {
    let mut server = Server::start("trace", |_| Stdio::piped()).await;
    let client = Client::modern(&server.url);
    // Each call leaves lines of some kilobytes; a pipe holds 64 KiB.
    for _ in 0..300 {
        let found = client.find_tool(json!({"tool_description": "anything"})).await;
        assert_eq!(found.status, 200);
    }
    let mut log = vec![0; 60_000];
    let mut pipe = server.child.stderr.take().expect("a pipe");
    pipe.read_exact(&mut log).await.expect("the log was written up to the size of the pipe");
}

#[tokio::test]
async fn a_trace_log_beside_the_configuration_does_not_feed_itself() {
    let mut path = None;
    let server = Server::start("trace", |home| {
        let log = home.join("vmcp.log");
        let file = File::create(&log).expect("a log");
        path = Some(log);
        file.into()
    })
    .await;
    let size = || std::fs::metadata(path.as_ref().expect("a path")).expect("a log").len();
    sleep(Duration::from_secs(2)).await;
    let before = size();
    sleep(Duration::from_secs(2)).await;
    assert!(size() < before + 100_000, "{before} then {} bytes", size());
    drop(server);
}

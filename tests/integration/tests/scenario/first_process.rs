//! `vmcp` as PID 1 of a container: it reaps orphans, forwards signals and ends with its worker.
//!
//! A PID namespace stands for the container. Making one takes root, or a system that lets users make
//! namespaces; elsewhere the scenarios are skipped.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::Command;
use vmcp_integration::{
    Client, Fixture, Process, binary, children, eventually, free_port, http_client, skipped,
};

/// `vmcp` as the first process of a PID namespace, seen from outside of it.
struct Contained {
    /// The `unshare` that waits for the first process and ends with its status.
    outside: Process,
    url: String,
    admin: String,
}

impl Contained {
    async fn start(mut args: Vec<String>) -> Option<Self> {
        let Some(namespace) = pid_namespace().await else {
            skipped(
                "no PID namespace can be made here: it takes root, or a system that lets users make namespaces",
            );
            return None;
        };
        let [client, admin] = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
        let ports = ["--listen", &client, "--admin-listen", &admin].map(str::to_owned);
        args.splice(1..1, ports);
        let mut command = Command::new("unshare");
        let outside =
            Process::start("vmcp in a namespace", command.args(&namespace).arg(binary("vmcp")).args(args));
        Some(Self { outside, url: format!("http://{client}/mcp"), admin: format!("http://{admin}") })
    }

    async fn bridge(options: &[&str], program: &[String]) -> Option<Self> {
        let words = ["bridge"].iter().chain(options).chain(&["--"]).map(|word| (*word).to_owned());
        Self::start(words.chain(program.iter().cloned()).collect()).await
    }

    /// Returns the id of the first process, once it is there.
    async fn first(&self) -> u32 {
        eventually("the first process", async || children(self.outside.id()).first().copied()).await
    }

    /// Returns the id of the process that does the work.
    async fn worker(&self) -> u32 {
        let first = self.first().await;
        eventually("the process that works", async || children(first).first().copied()).await
    }

    /// Waits until `tool` can be called, and returns a modern client.
    async fn with_tool(&self, tool: &str) -> Client {
        let tools = format!("{}/admin/tools", self.admin);
        eventually(tool, async || {
            let found: Value = http_client().get(&tools).send().await.ok()?.json().await.ok()?;
            found["tools"].as_array()?.iter().any(|known| known["name"] == tool).then_some(())
        })
        .await;
        Client::modern(&self.url)
    }
}

/// Returns the flags of `unshare` that make a PID namespace here: as root, or else inside a user namespace.
async fn pid_namespace() -> Option<Vec<&'static str>> {
    let pid = ["--pid", "--fork", "--kill-child", "--mount-proc"];
    for user in [&[][..], &["--user", "--map-root-user"]] {
        let flags = [user, &pid].concat();
        let tried = Command::new("unshare").args(&flags).arg("true").stderr(Stdio::null()).status().await;
        if tried.is_ok_and(|status| status.success()) {
            return Some(flags);
        }
    }
    None
}

async fn signal(name: &str, process: u32) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(process.to_string()).status().await;
    assert!(sent.is_ok_and(|status| status.success()), "kill -{name} {process}");
}

const ORPHANS: usize = 3;

#[tokio::test]
async fn orphans_are_waited_for() {
    for serve in [false, true] {
        let echo = Fixture::stdio("echo", "echo").start().await;
        let folder = tempfile::tempdir().expect("a folder");
        let end = folder.path().join("end");
        // The shell that starts an orphan ends at once; the orphan ends when the file is there, and no
        // process waits for it but PID 1.
        let orphan = format!("(while [ ! -e '{}' ]; do sleep 0.05; done) &", end.display());
        let script = format!("for n in 1 2 3; do sh -c \"{orphan}\"; done; exec \"$@\"");
        let mut program = vec!["sh".to_owned(), "-c".to_owned(), script, "sh".to_owned()];
        program.extend(echo.command());
        let started = if serve {
            let config = folder.path().join("vmcp.yaml");
            let settings = json!({
                "backends": [{"name": "echo", "command": program}],
                "optimizer": {"embeddings": {"provider": "none"}, "storage": {"dir": folder.path().join("storage")}},
            });
            std::fs::write(&config, settings.to_string()).expect("writing");
            Contained::start(vec!["serve".to_owned(), format!("--config={}", config.display())]).await
        } else {
            Contained::bridge(&[], &program).await
        };
        let Some(contained) = started else { return };
        let tool = if serve { "echo_echo" } else { "echo" };
        let client = contained.with_tool(tool).await;
        let first = contained.first().await;
        let all = ORPHANS + 1;
        eventually("the orphans", async || (children(first).len() >= all).then_some(())).await;
        std::fs::write(&end, "").expect("writing");
        eventually("their end", async || (children(first).len() == 1).then_some(())).await;
        let answer = client.call_tool(tool, json!({"message": "still here"})).await;
        assert!(answer.content_text().contains("still here"), "{}", answer.text);
    }
}

#[tokio::test]
async fn sigterm_drains_through_the_first_process() {
    let echo = Fixture::stdio("echo", "echo").start().await;
    let started = Contained::bridge(&["--shutdown-delay", "1s"], &echo.command()).await;
    let Some(mut contained) = started else { return };
    let client = contained.with_tool("sleep").await;
    let first = contained.first().await;
    let call = client.call_tool("sleep", json!({"ms": 3000}));
    let end = async {
        eventually("the call to arrive", async || (echo.calls("sleep").await == 1).then_some(())).await;
        signal("TERM", first).await;
        contained.outside.line_after("requests in flight may end").await;
        let late = Client::modern(&contained.url).call_tool("echo", json!({"message": "late"})).await;
        assert!(late.content_text().contains("late"), "within the delay: {}", late.text);
    };
    let (answer, ()) = futures::join!(call, end);
    assert_eq!(answer.content_text(), "slept 3000 ms", "{}", answer.text);
    let status = contained.outside.ended().await;
    assert!(status.success(), "{status}: {}", contained.outside.output());
    assert!(contained.outside.output().contains("stopped"), "it came to its own end");
}

#[tokio::test]
async fn a_second_signal_ends_at_once() {
    let echo = Fixture::stdio("echo", "echo").start().await;
    let Some(mut contained) = Contained::bridge(&["--shutdown-delay", "10m"], &echo.command()).await else {
        return;
    };
    contained.with_tool("echo").await;
    let first = contained.first().await;
    signal("INT", first).await;
    contained.outside.line_after("requests in flight may end").await;
    signal("TERM", first).await;
    assert_eq!(contained.outside.ended().await.code(), Some(130));
}

#[tokio::test]
async fn it_ends_as_the_process_that_works_does() {
    let echo = Fixture::stdio("echo", "echo").start().await;
    let Some(mut contained) = Contained::bridge(&[], &echo.command()).await else { return };
    let worker = contained.worker().await;
    signal("KILL", worker).await;
    assert_eq!(contained.outside.ended().await.code(), Some(137));

    let words = ["serve", "--config", "/nonexistent/vmcp.yaml"].map(str::to_owned);
    let Some(mut contained) = Contained::start(words.to_vec()).await else { return };
    assert_eq!(contained.outside.ended().await.code(), Some(1));
    contained.outside.line_after("error: there is no file /nonexistent/vmcp.yaml").await;
}

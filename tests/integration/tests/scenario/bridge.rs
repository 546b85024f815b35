//! `vmcp bridge`: a program that speaks on its standard streams, served over HTTP as if it did so itself.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::process::Command;
use vmcp_integration::{Bridge, Client, Fixture, eventually, http_client, node, python, vmcp_command};

async fn bridge(fixture: &Fixture) -> Bridge {
    let command = fixture.command();
    Bridge::start(&command.iter().map(String::as_str).collect::<Vec<_>>(), &[]).await
}

#[tokio::test]
async fn what_a_program_says_of_itself_and_defines_is_what_clients_get_in_both_eras() {
    let (direct, behind) =
        (Fixture::http("same", "jira").start().await, Fixture::stdio("same", "jira").start().await);
    let bridge = bridge(&behind).await;
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}});
    for (method, params) in [("initialize", hello), ("server/discover", json!({}))] {
        let introduced = async |url: &str| {
            let client = Client::modern(url);
            let answer = if method == "initialize" {
                client.as_legacy().request(method, params.clone()).await
            } else {
                client.request(method, params.clone()).await
            };
            answer.result().clone()
        };
        let (expected, got) = (introduced(direct.url()).await, introduced(&bridge.url).await);
        assert_eq!(got["instructions"], "Instructions of same");
        for key in ["serverInfo", "instructions", "protocolVersion"] {
            assert_eq!(got[key], expected[key], "{method}: {key}");
        }
        let info = "io.modelcontextprotocol/serverInfo";
        assert_eq!(got["_meta"][info], expected["_meta"][info], "{method}");
        let declared = |result: &Value| {
            let names = result["capabilities"].as_object().expect("capabilities").keys().cloned();
            names.collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(declared(&got), declared(&expected), "{method}");
    }
    for (method, list) in
        [("tools/list", "tools"), ("prompts/list", "prompts"), ("resources/list", "resources")]
    {
        let sorted = |answer: &Value| {
            let mut entries: Vec<_> =
                answer[list].as_array().expect("a list").iter().map(Value::to_string).collect();
            entries.sort();
            entries
        };
        let listed = async |client: Client| sorted(client.request(method, json!({})).await.result());
        assert_eq!(listed(bridge.modern()).await, listed(Client::modern(direct.url())).await, "{method}");
        let legacy = Client::legacy(direct.url(), "2025-11-25", "raw").await;
        assert_eq!(listed(bridge.legacy().await).await, listed(legacy).await, "{method}");
    }
}

#[tokio::test]
async fn real_programs_are_called_in_both_eras_and_see_the_environment_of_the_bridge() {
    let time = python("mcp-server-time").display().to_string();
    let zone = ("TZ", "Asia/Tokyo".as_ref());
    let bridge = Bridge::start(&[&time, "--local-timezone", "Asia/Tokyo"], &[zone]).await;
    for client in [bridge.modern(), bridge.legacy().await] {
        assert!(client.tools().await.contains_key("get_current_time"));
        let answer = client.call_tool("get_current_time", json!({"timezone": "Asia/Tokyo"})).await;
        assert!(answer.content_text().contains("+09:00"), "{}", answer.text);
    }
    let everything = node("mcp-server-everything").display().to_string();
    let path = std::env::var("PATH").expect("PATH");
    let bridge = Bridge::start(
        &[&everything],
        &[("PATH", path.as_ref()), ("API_KEY", "for the program alone".as_ref())],
    )
    .await;
    for client in [bridge.modern(), bridge.legacy().await] {
        let tools = client.tools().await;
        let tool =
            ["get-env", "printEnv"].into_iter().find(|name| tools.contains_key(*name)).expect("the tool");
        let answer = client.call_tool(tool, json!({})).await;
        assert!(answer.content_text().contains("for the program alone"), "{}", answer.text);
        let answer = client.call_tool("echo", json!({"message": "hello"})).await;
        assert!(answer.content_text().contains("hello"), "{}", answer.text);
    }
}

#[tokio::test]
async fn a_variable_need_not_be_text() {
    let echo = Fixture::stdio("echo", "echo").start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let found = folder.path().join("found");
    let script = format!("printf %s \"$ODD\" > '{}'; exec \"$@\"", found.display());
    let mut program = vec!["/bin/sh", "-c", &script, "sh"];
    let command = echo.command();
    program.extend(command.iter().map(String::as_str));
    let odd = b"caf\xe9";
    let _bridge = Bridge::start(&program, &[("ODD", OsStr::from_bytes(odd))]).await;
    assert_eq!(std::fs::read(&found).expect("what the program saw"), odd);
}

#[tokio::test]
async fn a_program_that_crashes_is_started_again_and_until_then_calls_fail_at_once_and_readiness_says_why() {
    let echo = Fixture::stdio("echo", "echo").start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let broken = folder.path().join("broken");
    let script = format!(
        "if [ -e '{}' ]; then echo 'the disk is on fire' >&2; exit 7; fi; exec {}",
        broken.display(),
        echo.command().iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ")
    );
    let bridge = Bridge::start(&["/bin/sh", "-c", &script], &[]).await;
    let session = bridge.legacy().await;
    let works = async |client: &Client| {
        let answer = client.call_tool("echo", json!({"message": "here"})).await;
        answer.message.get("result").is_some() && answer.content_text().contains("here")
    };
    assert!(works(&session).await);

    std::fs::write(&broken, "").expect("writing");
    bridge.kill_program().await;
    bridge.readiness("to say why", 503, "exit status: 7: the disk is on fire").await;
    eventually("the line as it was written", async || {
        bridge.process.output().lines().any(|line| line == "the disk is on fire").then_some(())
    })
    .await;
    for client in [&session, &bridge.modern()] {
        let start = Instant::now();
        let answer = client.call_tool("echo", json!({"message": "here"})).await;
        assert!(answer.text.contains("is being started again"), "{}", answer.text);
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    }
    assert!(session.tools().await.contains_key("echo"), "what it offers is known");

    std::fs::remove_file(&broken).expect("removing");
    bridge.ready().await;
    assert!(works(&session).await, "the session goes on");
    assert!(works(&bridge.modern()).await);
}

#[tokio::test]
async fn last_words_are_for_who_has_the_token_and_the_token_may_be_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    let put = |token: &str| {
        let new = folder.path().join("new");
        std::fs::write(&new, format!("{token}\n")).expect("writing");
        std::fs::rename(&new, &file).expect("replacing");
    };
    let [old, new] = ["the first token of the bridge", "the second token of the bridge"];
    put(old);
    let options = ["--admin-token-file", file.to_str().expect("a path")];
    let program = ["/bin/sh", "-c", "echo 'API_KEY=hunter2 is refused' >&2; exit 3"];
    let bridge = Bridge::spawn_with(&options, &program, &[]);
    let ask = async |path: &str, token: Option<&str>| {
        let mut request = http_client().get(format!("{}{path}", bridge.admin));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let answer = request.send().await.ok()?;
        Some((answer.status().as_u16(), answer.text().await.ok()?))
    };
    bridge.readiness("to be without its program", 503, "/admin/status has the reason").await;
    for path in ["/readyz", "/admin/status"] {
        let told = async |token| ask(path, token).await.filter(|(_, said)| said.contains("hunter2"));
        eventually(&format!("the reason at {path}"), async || told(Some(old)).await).await;
        for token in [None, Some(new)] {
            assert!(told(token).await.is_none(), "{path} {token:?}");
        }
    }
    assert_eq!(ask("/admin/status", None).await.expect("an answer").0, 401);
    assert_eq!(ask("/healthz", None).await.expect("an answer").0, 200);
    put(new);
    eventually("the new token in force", async || {
        ask("/admin/status", Some(new)).await.filter(|(status, _)| *status == 200)
    })
    .await;
    assert_eq!(ask("/admin/status", Some(old)).await.expect("an answer").0, 401);
}

#[tokio::test]
async fn a_program_that_cannot_be_started_leaves_the_bridge_unready_with_the_reason() {
    let bridge = Bridge::spawn(&["/nonexistent/server"], &[]);
    bridge.readiness("to say why", 503, "cannot start `/nonexistent/server`").await;
    let answer = bridge.modern().request("tools/list", json!({})).await;
    assert_eq!(answer.status, 503);
    assert_eq!(answer.error()["code"], -32603);
}

#[tokio::test]
async fn sigterm_ends_the_program_after_calls_in_flight() {
    let echo = Fixture::stdio("echo", "echo").start().await;
    let mut bridge = bridge(&echo).await;
    let programs = bridge.programs();
    assert_eq!(programs.len(), 1);
    let client = bridge.modern();
    let call = client.call_tool("sleep", json!({"ms": 1000}));
    let end = async {
        eventually("the call to arrive", async || (echo.calls("sleep").await == 1).then_some(())).await;
        bridge.process.signal("TERM").await;
    };
    let (answer, ()) = futures::join!(call, end);
    assert_eq!(answer.content_text(), "slept 1000 ms", "{}", answer.text);
    let status = bridge.process.ended().await;
    assert!(status.success(), "{status}");
    assert!(!std::path::Path::new(&format!("/proc/{}", programs[0])).exists());
}

#[tokio::test]
async fn it_installs_itself_for_another_container() {
    let folder = tempfile::tempdir().expect("a folder");
    let installed = folder.path().join("vmcp");
    for _ in 0..2 {
        let install =
            vmcp_command().args(["bridge", "--install"]).arg(folder.path()).env_clear().status().await;
        assert!(install.is_ok_and(|status| status.success()));
    }
    let version =
        Command::new(&installed).arg("--version").env_clear().output().await.expect("running the copy");
    assert!(version.status.success() && version.stdout.starts_with(b"vmcp "), "{version:?}");
    let missing =
        vmcp_command().args(["bridge", "--install", "/nonexistent"]).output().await.expect("running");
    assert!(String::from_utf8_lossy(&missing.stderr).contains("/nonexistent"), "{missing:?}");
}

//! Diagnosis in a terminal: the commands of the built binary, asked about a running server.

use std::process::Command;

use serde_json::{Value, json};
use vmcp_integration::{Cli, Fixture, Vmcp, eventually};

const ALICE: &str = "alice-0123456789abcdef";
const BOB: &str = "bob-0123456789abcdef";
/// Words of a call, which no report may repeat.
const WORDS: &str = "words of the call";

/// A server whose tool `echo_fail` is denied to bob.
async fn guarded() -> (Vmcp, Fixture) {
    let echo = Fixture::http("echo", "echo").start().await;
    let keys = json!([{"subject": "alice", "key": ALICE}, {"subject": "bob", "key": BOB}]);
    let policies = [
        "permit(principal, action, resource);",
        r#"@id("no-failures-by-bob") forbid(principal == Client::"bob", action, resource == Tool::"echo_fail");"#,
    ];
    let config =
        json!({"incomingAuth": {"type": "apiKeys", "apiKeys": keys, "authz": {"policies": policies}}});
    let vmcp = Vmcp::new().backend(&echo).config(config).start().await;
    vmcp.with_tool("echo_fail").await;
    (vmcp, echo)
}

fn parsed(answer: &Cli) -> Value {
    serde_json::from_str(&answer.stdout)
        .unwrap_or_else(|_| panic!("no JSON: {}{}", answer.stdout, answer.stderr))
}

#[tokio::test]
async fn a_call_is_followed_from_the_table_to_its_parts() {
    let (vmcp, _echo) = guarded().await;
    let alice = vmcp.modern().bearing(ALICE);
    alice.call_tool("echo_echo", json!({"message": WORDS})).await;
    let top = eventually("the call in the table", async || {
        let top = parsed(&vmcp.cli(&["top", "--once", "-o", "json"]).await);
        // The figures of backends are another answer than the list of calls.
        let is_counted = top["backends"][0]["figures"]["calls"] == 1;
        (is_counted && top["calls"][0]["item"] == "echo_echo").then_some(top)
    })
    .await;
    assert_eq!(top["backends"][0]["name"], "echo", "{top}");
    // Into a pipe, the live table is printed once.
    let table = vmcp.cli(&["top"]).await;
    for part in ["BACKEND", "CALLS/MIN", "LATEST CALLS", "echo_echo"] {
        assert!(table.stdout.contains(part), "{part}: {}", table.stdout);
    }
    let number = top["calls"][0]["id"].to_string();
    let trace = vmcp.cli(&["trace", &number, "-o", "json"]).await;
    let call = &parsed(&trace)["calls"][0];
    assert_eq!(
        (&call["item"], &call["original"], &call["who"], &call["outcome"]),
        (&json!("echo_echo"), &json!("echo"), &json!("alice"), &json!("ok")),
        "{call}"
    );
    let plain = vmcp.cli(&["trace", &number]).await;
    assert!(plain.success && plain.stdout.contains("alice"), "{}{}", plain.stdout, plain.stderr);
    for answer in [&table, &trace, &plain] {
        assert!(!answer.stdout.contains(WORDS), "arguments are kept nowhere: {}", answer.stdout);
    }
    let unknown = vmcp.cli(&["trace", "999999"]).await;
    assert_eq!(unknown.code, Some(3), "{}", unknown.stderr);
}

#[tokio::test]
async fn a_tool_is_explained_for_a_client_by_its_claims() {
    let (vmcp, _echo) = guarded().await;
    let folder = tempfile::tempdir().expect("a folder");
    let explained = async |tool: &str, subject: &str| {
        let file = folder.path().join(format!("{subject}.json"));
        std::fs::write(&file, json!({"sub": subject, "iss": "apiKeys"}).to_string()).expect("a file");
        vmcp.cli(&["explain-tool", tool, "--as", &file.display().to_string()]).await
    };
    let denied = explained("echo_fail", "bob").await;
    assert_eq!(denied.code, Some(1), "{}{}", denied.stdout, denied.stderr);
    for part in ["echo_fail, for bob: may not be called", "no-failures-by-bob"] {
        assert!(denied.stdout.contains(part), "{part}: {}", denied.stdout);
    }
    for (tool, subject) in [("echo_fail", "alice"), ("echo_echo", "bob")] {
        let allowed = explained(tool, subject).await;
        assert_eq!(allowed.code, Some(0), "{tool} {subject}: {}{}", allowed.stdout, allowed.stderr);
        assert!(allowed.stdout.contains("may be called"), "{}", allowed.stdout);
    }
    let unknown = explained("echo_fial", "alice").await;
    assert_eq!(unknown.code, Some(3), "{}{}", unknown.stdout, unknown.stderr);
    assert!(unknown.stdout.contains("unknown"), "{}", unknown.stdout);
}

#[tokio::test]
async fn the_level_of_log_lines_changes_while_the_server_runs() {
    let echo = Fixture::stdio("echo", "echo").start().await;
    let vmcp = Vmcp::new().backend(&echo).start().await;
    vmcp.with_tool("echo_echo").await;
    let lines = || vmcp.process.output().matches("connected").count();
    let restarted = async |times: u64| {
        assert!(vmcp.cli(&["restart", "echo"]).await.success);
        eventually("the backend to be back", async || {
            let backend = vmcp.status().await["backends"][0].clone();
            (backend["restarts"] == times && backend["state"] == "connected").then_some(())
        })
        .await;
    };
    eventually("the first line", async || (lines() > 0).then_some(())).await;
    let changed = vmcp.cli(&["log-level", "error", "--for", "10m"]).await;
    assert!(changed.stdout.contains("changed       vmcp=error"), "{}{}", changed.stdout, changed.stderr);
    assert!(changed.stdout.contains("until         "), "{}", changed.stdout);
    let before = lines();
    restarted(1).await;
    assert_eq!(lines(), before, "info lines are left out");
    let reset = vmcp.cli(&["log-level", "--reset"]).await;
    assert!(reset.success && !reset.stdout.contains("changed"), "{}{}", reset.stdout, reset.stderr);
    restarted(2).await;
    eventually("a line again", async || (lines() > before).then_some(())).await;
    for wrong in [&["log-level", "loud"][..], &["log-level", "info", "--module", "a b"][..]] {
        let refused = vmcp.cli(wrong).await;
        assert!(!refused.success && refused.stderr.contains("is no "), "{wrong:?}: {}", refused.stderr);
    }
}

#[tokio::test]
async fn a_support_bundle_of_a_running_server_has_none_of_its_secrets() {
    const SECRETS: [&str; 4] =
        ["header-s3cret-of-echo", "query-s3cret-of-gone", ALICE, "an admin token of this test"];
    let echo = Fixture::http("echo", "echo").start().await;
    let entry = json!({"name": "keyed", "url": echo.url(), "headers": {"X-Api-Key": SECRETS[0]}});
    let gone = json!({"name": "gone", "url": format!("http://127.0.0.1:1/mcp?api_key={}", SECRETS[1])});
    let config = json!({
        "incomingAuth": {"type": "apiKeys", "apiKeys": [{"subject": "alice", "key": ALICE}]},
        "server": {"metricsTokens": [SECRETS[3]]},
    });
    let vmcp = Vmcp::new().backend_entry(entry).backend_entry(gone).config(config).start().await;
    vmcp.with_tool("keyed_echo").await;
    let alice = vmcp.modern().bearing(ALICE);
    // The server repeats a secret in its error, which a call's record keeps.
    alice.call_tool("keyed_fail", json!({"message": SECRETS[0]})).await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("bundle.tar.gz").display().to_string();
    let written = vmcp.cli(&["support-bundle", &file, "-o", "json"]).await;
    let contents = parsed(&written)["contents"].to_string();
    for part in ["MANIFEST.txt", "status.json", "config.json", "calls.json", "log.json", "metrics.txt"] {
        assert!(contents.contains(part), "{part}: {contents}");
    }
    let unpacked = Command::new("tar").args(["-xzOf", &file]).output().expect("tar");
    let text = String::from_utf8_lossy(&unpacked.stdout);
    assert!(text.contains("Support bundle of vmcp") && text.contains("keyed"), "{text}");
    for secret in SECRETS {
        assert!(!text.contains(secret), "{secret} is in the bundle");
    }
}

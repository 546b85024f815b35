//! A VirtualMCPServer of a cluster from a laptop, with a `kubectl` that plays the cluster and notes its
//! arguments.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use vmcp_integration::{Fixture, Vmcp, eventually};

use super::laptop::{Laptop, Run};
use super::stdio_edge::Pipe;

/// Plays the API server: `object.json` is the resource, and a patch makes it `wanted.json`. `says` is what it
/// refuses with, `port` where a forwarded port leads.
const KUBECTL: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 1
echo "$@" >> arguments
if [ -s says ]; then cat says >&2; exit 1; fi
case "$*" in
*"get pods"*) cat pods.json ;;
*jsonpath*) printf 'other another' ;;
*" get "*) [ ! -e object.json ] || cat object.json ;;
*" patch "*) cp wanted.json object.json; cat object.json ;;
*port-forward*)
  echo $$ >> forwards
  echo "Forwarding from 127.0.0.1:$(cat port) -> 4483"
  exec sleep 600 ;;
esac
"#;

/// A laptop whose `kubectl` has one VirtualMCPServer `x` of two pods.
fn laptop(object: &Value) -> Laptop {
    let laptop = Laptop::new(&json!({}));
    std::fs::create_dir(laptop.path("bin")).expect("a folder");
    laptop.write("bin/kubectl", KUBECTL);
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(laptop.path("bin/kubectl"), executable).expect("a program");
    laptop.write("bin/object.json", &object.to_string());
    let pod = json!({
        "metadata": {
            "name": "x-5d4f-abcde", "labels": { "pod-template-hash": "5d4f" },
            "ownerReferences": [{ "kind": "ReplicaSet", "name": "x-5d4f", "controller": true }],
        },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
    });
    laptop.write("bin/pods.json", &json!({ "items": [pod] }).to_string());
    laptop
}

/// Returns the resource in one of its states.
fn resource(generation: u64, spec: &Value, ready: (&str, &str), pods: u64) -> Value {
    let condition = |kind: &str, (status, reason): (&str, &str)| json!({ "type": kind, "status": status, "reason": reason, "message": format!("{kind} is {reason}") });
    let conditions = [
        condition("Ready", ready),
        condition("Reconciling", ("False", "RolloutComplete")),
        condition("Stalled", ("False", "NotStalled")),
    ];
    json!({
        "metadata": { "name": "x", "namespace": "team", "generation": generation }, "spec": spec,
        "status": {
            "observedGeneration": generation, "replicas": pods, "readyReplicas": pods, "phase": "Ready",
            "url": "http://vmcp-x.team.svc.cluster.local:4483/mcp", "conditions": conditions,
        },
    })
}

fn serving(generation: u64) -> Value {
    resource(generation, &json!({}), ("True", "PodsReady"), 2)
}

fn suspended(generation: u64) -> Value {
    resource(generation, &json!({ "suspend": true }), ("False", "Suspended"), 0)
}

/// Runs `vmcp` with this `kubectl`.
async fn run(laptop: &Laptop, arguments: &[&str]) -> Run {
    let output = command(laptop, arguments).output().await.expect("vmcp");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Run { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

fn command(laptop: &Laptop, arguments: &[&str]) -> tokio::process::Command {
    let mut command = laptop.command(arguments);
    command.env("PATH", format!("{}:/usr/bin:/bin", laptop.path("bin").display()));
    command.env_remove("VMCP_URL").env_remove("VMCP_TOKEN").env_remove("DISPLAY");
    command
}

/// Returns the arguments of each call of `kubectl` so far, one a line.
fn arguments(laptop: &Laptop) -> String {
    std::fs::read_to_string(laptop.path("bin/arguments")).unwrap_or_default()
}

#[tokio::test]
async fn a_suspension_and_its_end_are_patches_that_are_waited_for() {
    let laptop = laptop(&serving(1));
    laptop.write("bin/wanted.json", &suspended(2).to_string());
    let place = ["--kubernetes", "x", "--namespace", "team", "--context", "a cluster/1"];
    let stopped = run(&laptop, &[&["stop"], &place[..]].concat()).await;
    assert_eq!(stopped.code, Some(0), "{}", stopped.stderr);
    assert!(stopped.stderr.contains("x is suspended: no pods run"), "{}", stopped.stderr);
    let seen = arguments(&laptop);
    let cluster = "--context=a cluster/1 --namespace=team --request-timeout=30s ";
    let get = "get virtualmcpservers.toolhive.stacklok.com --ignore-not-found --output=json -- x";
    assert!(seen.starts_with(&format!("{cluster}{get}\n")), "{seen}");
    let patch = r#"--type=merge --patch={"spec":{"suspend":true}} --output=json -- x"#;
    assert!(seen.contains(patch), "{seen}");
    let again = run(&laptop, &[&["stop"], &place[..]].concat()).await;
    assert_eq!(again.code, Some(4), "nothing to stop: {}", again.stderr);

    laptop.write("bin/wanted.json", &serving(3).to_string());
    let started = run(&laptop, &[&["start", "-o", "json"], &place[..]].concat()).await;
    let report: Value = serde_json::from_str(&started.stdout).expect("JSON");
    assert_eq!((&report["success"], &report["healthy"]), (&json!(true), &json!(true)), "{report}");
    assert!(arguments(&laptop).contains(r#"--patch={"spec":{"suspend":false}}"#));
    let running = run(&laptop, &[&["start", "-o", "json"], &place[..]].concat()).await;
    assert!(running.stdout.contains("\"already_running\": true"), "{}", running.stdout);
    assert_eq!(arguments(&laptop).matches(" patch ").count(), 2, "a server that runs is not patched");
    let status = run(&laptop, &[&["status"], &place[..]].concat()).await;
    assert!(status.stdout.starts_with("VirtualMCPServer x in namespace team: Ready\n"), "{}", status.stdout);
    assert!(
        status.stdout.contains("2 of 2 ready") && status.stdout.contains("PodsReady"),
        "{}",
        status.stdout
    );
}

#[tokio::test]
async fn a_change_that_stalls_ends_with_the_reason() {
    let laptop = laptop(&suspended(1));
    let mut stalled = resource(2, &json!({}), ("False", "ImagePullError"), 1);
    stalled["status"]["conditions"][2]["status"] = json!("True");
    stalled["status"]["conditions"][2]["message"] = json!("the image cannot be pulled");
    laptop.write("bin/wanted.json", &stalled.to_string());
    let failed = run(&laptop, &["start", "--kubernetes", "x"]).await;
    assert_eq!(failed.code, Some(4), "{}", failed.stderr);
    assert!(failed.stderr.contains("the image cannot be pulled"), "{}", failed.stderr);
    assert!(failed.stderr.contains("vmcp status --kubernetes x"), "{}", failed.stderr);
}

#[tokio::test]
async fn each_refusal_says_what_to_do() {
    let laptop = laptop(&serving(1));
    for (arguments, code, says) in [
        (&["start", "--kubernetes", "x;reboot"][..], 2, "cannot be the name of a VirtualMCPServer"),
        (&["stop", "--kubernetes", "--all"], 2, "--all"),
        (&["mcp-server", "--kubernetes", "x", "--token", "a\nb"], 2, "VMCP_TOKEN"),
        (&["status", "--kubernetes", "x", "--namespace", "Team"], 2, "cannot be the name of a namespace"),
        (&["status", "--namespace", "team"], 2, "--kubernetes"),
        (&["restart", "github", "--kubernetes", "x"], 2, "cannot be used with"),
        (&["start", "--any-port", "--kubernetes", "x"], 2, "cannot be used with"),
    ] {
        let refused = run(&laptop, arguments).await;
        assert_eq!(refused.code, Some(code), "{arguments:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(says), "{arguments:?}: {}", refused.stderr);
    }
    assert_eq!(arguments(&laptop), "", "nothing is run for what is refused");

    std::fs::remove_file(laptop.path("bin/object.json")).expect("removing");
    let absent = run(&laptop, &["status", "--kubernetes", "x"]).await;
    assert_eq!(absent.code, Some(3), "{}", absent.stderr);
    assert!(absent.stderr.contains("there are other, another"), "{}", absent.stderr);

    let forbidden = "Error from server (Forbidden): virtualmcpservers.toolhive.stacklok.com \"x\" is forbidden: User \
                     \"eve\" cannot get resource \"virtualmcpservers\" in API group \"toolhive.stacklok.com\" in the \
                     namespace \"team\"";
    laptop.write("bin/says", forbidden);
    let refused = run(&laptop, &["console", "--kubernetes", "x"]).await;
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("the right to get virtualmcpservers"), "{}", refused.stderr);

    std::fs::remove_file(laptop.path("bin/kubectl")).expect("removing");
    let mut alone = laptop.command(&["status", "--kubernetes", "x"]);
    let output = alone.env("PATH", laptop.path("bin")).output().await.expect("vmcp");
    let says = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(says.contains("there is no kubectl on the PATH") && says.contains("try:"), "{says}");
}

/// Returns true while the process of a forwarded port runs.
fn is_forwarded(laptop: &Laptop) -> bool {
    let pids = std::fs::read_to_string(laptop.path("bin/forwards")).unwrap_or_default();
    let is_alive = |pid: &str| {
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.starts_with("sleep")
    };
    pids.lines().any(is_alive)
}

#[tokio::test]
async fn the_console_of_a_pod_is_open_until_the_command_ends() {
    let vmcp = Vmcp::new().start().await;
    let laptop = laptop(&serving(1));
    laptop.write("bin/port", vmcp.admin.rsplit(':').next().expect("a port"));
    for signal in ["INT", "KILL"] {
        let mut shown = command(&laptop, &["console", "--kubernetes", "x", "--no-open"]);
        let mut shown = shown.stdout(std::process::Stdio::piped()).spawn().expect("vmcp");
        let mut lines = BufReader::new(shown.stdout.take().expect("a pipe")).lines();
        let line = lines.next_line().await.expect("a line").expect("an address");
        assert_eq!(line, format!("{}/console/", vmcp.admin));
        assert!(is_forwarded(&laptop));
        let pid = shown.id().expect("a process").to_string();
        let sent = tokio::process::Command::new("kill").args([&format!("-{signal}"), &pid]).status().await;
        assert!(sent.expect("kill").success());
        let status = tokio::time::timeout(Duration::from_secs(10), shown.wait()).await.expect("an end");
        assert_eq!(status.expect("a status").success(), signal == "INT");
        eventually("the end of kubectl", async || (!is_forwarded(&laptop)).then_some(())).await;
    }
    let seen = arguments(&laptop);
    assert!(seen.contains("port-forward --address=127.0.0.1 -- pod/x-5d4f-abcde :9090"), "{seen}");

    let off = resource(2, &json!({ "console": { "access": "off" } }), ("True", "PodsReady"), 2);
    laptop.write("bin/object.json", &off.to_string());
    let refused = run(&laptop, &["console", "--kubernetes", "x"]).await;
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("spec.console.access is `off`"), "{}", refused.stderr);
    laptop.write("bin/object.json", &suspended(3).to_string());
    let refused = run(&laptop, &["console", "--kubernetes", "x"]).await;
    assert!(refused.stderr.contains("`vmcp start --kubernetes x` starts it"), "{}", refused.stderr);
}

#[tokio::test]
async fn a_client_uses_a_server_of_a_cluster_and_starts_it_again() {
    let echo = Fixture::http("echo", "echo").start().await;
    let vmcp = Vmcp::new().backend(&echo).start().await;
    vmcp.with_tool("echo_add").await;
    let laptop = laptop(&serving(1));
    let port = vmcp.url.rsplit(':').next().and_then(|rest| rest.strip_suffix("/mcp")).expect("a port");
    laptop.write("bin/port", port);
    let proxy = command(&laptop, &["mcp-server", "--kubernetes", "x", "--namespace", "team"]);
    let mut pipe = Pipe::start(proxy, tempfile::tempdir().expect("a folder"));
    let client = json!({ "name": "x", "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    let opened = pipe.ask(0, "initialize", params).await;
    assert_eq!(opened["result"]["protocolVersion"], "2025-11-25", "{opened}");
    pipe.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    pipe.until_listed("echo_add", 100).await;
    let listed = pipe.ask(1, "tools/list", json!({})).await.to_string();
    assert!(listed.contains("\"name\":\"init_project\""), "own tools join: {listed}");
    let call = json!({ "name": "echo_add", "arguments": { "a": 2, "b": 3 } });
    let called = pipe.ask(2, "tools/call", call.clone()).await;
    assert!(called["result"]["content"][0]["text"].to_string().contains('5'), "{called}");

    // The pods end, and the connection with them; this client does not start the server again.
    let status = pipe.ask(3, "tools/call", json!({ "name": "status", "arguments": {} })).await;
    assert_eq!(status["result"]["structuredContent"]["daemon_details"]["namespace"], "team", "{status}");
    laptop.write("bin/wanted.json", &suspended(2).to_string());
    let stopped = pipe.ask(4, "tools/call", json!({ "name": "stop", "arguments": {} })).await;
    assert_eq!(stopped["result"]["structuredContent"]["success"], true, "{stopped}");
    let pids = std::fs::read_to_string(laptop.path("bin/forwards")).expect("a forwarded port");
    let killed = tokio::process::Command::new("kill").args(pids.lines()).status().await;
    assert!(killed.expect("kill").success());
    eventually("the answer of a stopped server", async || {
        let refused = pipe.ask(5, "tools/call", call.clone()).await;
        refused.to_string().contains("Start it with start() first").then_some(())
    })
    .await;
    assert_eq!(arguments(&laptop).matches(" patch ").count(), 1, "{}", arguments(&laptop));

    laptop.write("bin/wanted.json", &serving(3).to_string());
    let started = pipe.ask(6, "tools/call", json!({ "name": "start", "arguments": {} })).await;
    assert_eq!(started["result"]["structuredContent"]["success"], true, "{started}");
    let called = pipe.ask(7, "tools/call", call).await;
    assert!(called["result"]["content"][0]["text"].to_string().contains('5'), "{called}");
    pipe.end().await;
    eventually("the end of kubectl", async || (!is_forwarded(&laptop)).then_some(())).await;
}

#[tokio::test]
async fn a_new_client_starts_a_suspended_server() {
    let vmcp = Vmcp::new().start().await;
    let laptop = laptop(&suspended(1));
    laptop.write("bin/wanted.json", &serving(2).to_string());
    let port = vmcp.url.rsplit(':').next().and_then(|rest| rest.strip_suffix("/mcp")).expect("a port");
    laptop.write("bin/port", port);
    let proxy = command(&laptop, &["mcp-server", "--kubernetes", "x"]);
    let mut pipe = Pipe::start(proxy, tempfile::tempdir().expect("a folder"));
    let client = json!({ "name": "x", "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    let opened = pipe.ask(0, "initialize", params).await;
    let instructions = opened["result"]["instructions"].to_string();
    assert!(!instructions.contains("No vmcp daemon serves this client"), "{opened}");
    assert!(arguments(&laptop).contains(r#"--patch={"spec":{"suspend":false}}"#), "{}", arguments(&laptop));
    pipe.end().await;
}

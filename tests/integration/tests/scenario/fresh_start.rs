//! First requests of a fresh start: they wait for servers that are starting, and for no server that hangs.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vmcp_integration::{Fixture, Vmcp};

/// A server that accepts connections and never answers.
async fn hung() -> (tokio::net::TcpListener, Value) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("its address"));
    (listener, json!({"name": "hung", "url": url}))
}

/// Far longer than a list takes, so that a slow machine does not blur which of the two limits it met.
const FIRST_LIST_WAIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_hung_server_delays_the_first_complete_list_by_little() {
    let quick = Fixture::http("quick", "echo").start().await;
    let (_listener, hung) = hung().await;
    let wait = json!({"proxy": {"firstListWait": format!("{}s", FIRST_LIST_WAIT.as_secs())}});
    let vmcp = Vmcp::new().config(wait).backend(&quick).backend_entry(hung).start().await;
    // The first list of an empty catalog has nothing to show, and waits for the first server that answers.
    for round in 1..=2 {
        let begun = Instant::now();
        let tools = vmcp.modern().tools().await;
        assert!(tools.contains_key("quick_echo"), "{:?}", tools.keys().collect::<Vec<_>>());
        let waited = begun.elapsed();
        assert!(waited < FIRST_LIST_WAIT / 3, "list {round} waited {waited:?} for a server that hangs");
    }
}

#[tokio::test]
async fn first_calls_and_searches_wait_for_a_program_that_is_starting() {
    let slow = Fixture::stdio("slow", "echo").start().await;
    let command = format!("sleep 0.7; exec {}", slow.command().join(" "));
    let start = async || {
        let entry = json!({"name": "slow", "command": ["sh", "-c", command]});
        let wait = json!({"proxy": {"firstListWait": format!("{}s", FIRST_LIST_WAIT.as_secs())}});
        Vmcp::new().config(wait).backend_entry(entry).start().await
    };
    let vmcp = start().await;
    let (direct, called, found) = futures::join!(
        async { vmcp.modern().call_tool("slow_echo", json!({"message": "x"})).await },
        async { vmcp.modern().call_found("slow_echo", json!({"message": "x"})).await },
        async { vmcp.modern().find_tool(json!({"tool_description": "echo"})).await },
    );
    assert!(!direct.is_failure(), "{}", direct.text);
    assert!(!called.is_failure(), "{}", called.text);
    assert!(found.text.contains("slow_echo"), "{}", found.text);
    let begun = Instant::now();
    let unknown = vmcp.modern().call_tool("unknown_tool", json!({})).await;
    assert!(unknown.is_failure() && begun.elapsed() < FIRST_LIST_WAIT / 3, "all have started");
}

/// Time after which a restarted server checks saved definitions by itself.
const REVALIDATION: Duration = Duration::from_secs(3);

#[tokio::test]
async fn a_saved_server_is_listed_at_once_and_started_by_its_first_call() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("starts");
    let starts = || std::fs::read_to_string(&log).unwrap_or_default().lines().count();
    let echo = Fixture::stdio("lazy", "echo").start().await;
    let command = format!("echo started >>'{}'; exec {}", log.display(), echo.command().join(" "));
    let entry = json!({"name": "lazy", "command": ["sh", "-c", command]});
    let mut vmcp = Vmcp::new().backend_entry(entry).start().await;
    vmcp.with_tool("lazy_echo").await;
    let before = starts();
    assert!(before > 0);

    let ended = vmcp.terminate().await;
    assert!(ended.success(), "{ended}");
    let begun = Instant::now();
    vmcp.start_again().await;
    let tools = vmcp.modern().tools().await;
    assert!(tools.contains_key("lazy_echo"), "{:?}", tools.keys().collect::<Vec<_>>());
    let started = starts();
    // On a machine that is so slow, the check of the definitions has started it.
    if begun.elapsed() < REVALIDATION {
        assert_eq!(started, before, "a list starts nothing");
    }
    let called = vmcp.modern().call_tool("lazy_echo", json!({"message": "hello"})).await;
    assert!(!called.is_failure() && called.text.contains("hello"), "{}", called.text);
    assert!(starts() > before);
}

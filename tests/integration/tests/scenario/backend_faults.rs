//! Fault isolation: a backend that hangs, dies or answers nonsense fails the calls of its own tools, with an
//! error in time, and delays nothing else. The circuit breaker and retries of idempotent tools are tested
//! here too.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vmcp_integration::{Fixture, Vmcp, VmcpBuilder, eventually};

/// Deadline of tool calls and of connection attempts under [`with_short_timeouts`].
const TOOL_TIMEOUT: Duration = Duration::from_secs(2);

/// An upper bound for a call that meets its deadline of [`TOOL_TIMEOUT`]: five times as long, for a busy
/// machine, and a sixth of the 60 s that a call may take by default.
const IN_TIME: Duration = Duration::from_secs(10);

fn with_short_timeouts(builder: VmcpBuilder) -> VmcpBuilder {
    let breaker = json!({"circuitBreaker": {"enabled": true, "failureThreshold": 3, "timeout": "2s"}});
    builder.config(json!({"proxy": {"toolTimeout": "2s", "connectionTimeout": "2s"},
        "operational": {"failureHandling": breaker}}))
}

/// Returns every fault that a backend can show in place of an answer to its first message.
fn first_faults() -> [Value; 6] {
    [
        json!({"do": "hang"}),
        json!({"do": "die"}),
        json!({"do": "garbage"}),
        json!({"do": "endless"}),
        json!({"do": "status", "code": 503}),
        json!({"do": "error", "code": -32603, "message": "not today"}),
    ]
}

#[tokio::test]
async fn a_backend_that_fails_at_once_delays_neither_readiness_nor_the_others() {
    let jira = Fixture::http("jira", "jira").start().await;
    let mut bad = Vec::new();
    for (number, fault) in first_faults().iter().enumerate() {
        bad.push(Fixture::http(&format!("http{number}"), "echo").fault(fault).start().await);
        bad.push(Fixture::stdio(&format!("stdio{number}"), "echo").fault(fault).start().await);
    }
    let vmcp = bad.iter().fold(Vmcp::new().backend(&jira), VmcpBuilder::backend);
    let nobody = json!({"name": "nobody", "url": "http://127.0.0.1:9/mcp"});
    let vmcp =
        vmcp.backend_entry(nobody).backend_entry(json!({"name": "nothing", "command": ["no-such-program"]}));
    let vmcp = with_short_timeouts(vmcp).start().await;
    let client = vmcp.with_tool("jira_get_jira_issue").await;
    let answer = client.call_found("jira_get_jira_issue", json!({"issueKey": "PROJ-123"})).await;
    assert!(!answer.is_tool_error(), "{}", answer.text);
    // Each failed backend is named, with its error.
    for name in bad.iter().map(|fixture| fixture.name.as_str()).chain(["nobody", "nothing"]) {
        eventually(&format!("{name} to be explained"), async || {
            let shown = vmcp.cli(&["backends", "-o", "json"]).await;
            let shown: Value = serde_json::from_str(&shown.stdout).ok()?;
            let all = shown.as_array().or_else(|| shown["backends"].as_array())?.clone();
            let one = all.into_iter().find(|backend| backend["name"] == name)?;
            let error = one["lastError"].as_str();
            error.filter(|error| !error.is_empty()).map(|_| ())
        })
        .await;
    }
}

#[tokio::test]
async fn a_backend_that_dies_mid_call_fails_that_call_and_comes_back() {
    let http = Fixture::http("http", "echo").start().await;
    let stdio = Fixture::stdio("stdio", "echo").start().await;
    let other = Fixture::http("other", "echo").start().await;
    let vmcp = with_short_timeouts(Vmcp::new().backend(&http).backend(&stdio).backend(&other)).start().await;
    for tool in ["http_echo", "stdio_echo"] {
        vmcp.with_tool(tool).await;
    }
    let client = vmcp.with_tool("other_sleep").await;
    for backend in [&http, &stdio] {
        backend.control(json!({"do": "die", "method": "tools/call"})).await;
        let start = Instant::now();
        let long = client.call_tool("other_sleep", json!({"ms": 500}));
        let tool = format!("{}_count", backend.name);
        let doomed = client.call_tool(&tool, json!({}));
        let (long, doomed) = futures::join!(long, doomed);
        assert_eq!(long.content_text(), "slept 500 ms");
        assert!(doomed.is_failure(), "{}", doomed.text);
        assert!(start.elapsed() < IN_TIME, "{:?}", start.elapsed());
        assert!(!doomed.text.contains("127.0.0.1"), "no address in {}", doomed.text);
    }
    // vmcp starts its own child again.
    eventually("the stdio backend to be back", async || {
        let answer = client.call_tool("stdio_echo", json!({"message": "again"})).await;
        (answer.message["result"]["content"][0]["text"] == "again").then_some(())
    })
    .await;
}

#[tokio::test]
async fn only_a_tool_that_says_it_may_be_repeated_is_called_again_after_a_crash() {
    let stdio = Fixture::stdio("stdio", "echo").start().await;
    let vmcp = Vmcp::new().backend(&stdio).start().await;
    let client = vmcp.with_tool("stdio_echo").await;
    stdio.control(json!({"do": "die", "method": "tools/call"})).await;
    // `echo` has idempotentHint, `count` has not.
    let repeated = client.call_tool("stdio_echo", json!({"message": "hi"})).await;
    assert_eq!(repeated.content_text(), "hi", "{}", repeated.text);
    stdio.control(json!({"do": "die", "method": "tools/call"})).await;
    let once = client.call_tool("stdio_count", json!({})).await;
    assert!(once.is_failure(), "{}", once.text);
}

#[tokio::test]
async fn a_call_that_is_answered_with_nonsense_is_an_error_in_time() {
    for fixture in [
        Fixture::http("bad", "echo"),
        Fixture::http("bad", "echo").args(["--stream"]),
        Fixture::http("bad", "echo").args(["--era", "legacy"]),
        Fixture::sse("bad", "echo").args(["--era", "legacy"]),
        Fixture::stdio("bad", "echo"),
    ] {
        let bad = fixture.start().await;
        let jira = Fixture::http("jira", "jira").start().await;
        let vmcp = with_short_timeouts(Vmcp::new().backend(&bad).backend(&jira)).start().await;
        vmcp.with_tool("jira_get_jira_issue").await;
        let client = vmcp.with_tool("bad_echo").await;
        for fault in ["hang", "garbage", "endless"] {
            bad.control(json!({"do": fault, "method": "tools/call", "times": 1})).await;
            let start = Instant::now();
            let answer = client.call_tool("bad_count", json!({})).await;
            assert!(answer.is_failure(), "{fault}: {}", answer.text);
            assert!(start.elapsed() < IN_TIME, "{fault} took {:?}", start.elapsed());
            let fine = client.call_tool("jira_get_jira_issue", json!({"issueKey": "PROJ-1"})).await;
            assert!(!fine.is_failure(), "{fault}: {}", fine.text);
            eventually("the backend to serve again", async || {
                let answer = client.call_tool("bad_echo", json!({"message": "again"})).await;
                (!answer.is_failure()).then_some(())
            })
            .await;
        }
        // The allocator returns freed pages some time later, while others are used.
        eventually("the memory of an endless answer to be free", async || {
            client.call_tool("bad_echo", json!({"message": "again"})).await;
            (vmcp.process.resident_mib() < 300).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn the_breaker_opens_answers_at_once_and_closes_again() {
    let bad = Fixture::http("bad", "echo").start().await;
    let vmcp = with_short_timeouts(Vmcp::new().backend(&bad)).start().await;
    let client = vmcp.with_tool("bad_echo").await;
    bad.control(json!({"do": "hang", "method": "tools/call"})).await;
    let mut reached = Vec::new();
    loop {
        let (before, start) = (bad.calls("echo").await, Instant::now());
        let answer = client.call_found("bad_echo", json!({"message": "hi"})).await;
        let is_open = answer.structured()["error_type"] == "CircuitOpen";
        reached.push(bad.calls("echo").await - before);
        if is_open {
            // A call that reached the backend would have hung for all of the timeout.
            assert!(start.elapsed() < TOOL_TIMEOUT, "{:?}", start.elapsed());
            break;
        }
        assert!(reached.len() < 6, "still closed: {}", vmcp.status().await);
    }
    assert_eq!(reached, [1, 1, 1, 0], "three failures reach the backend, the fourth call does not");
    bad.control(json!({"do": "behave"})).await;
    eventually("the breaker to close", async || {
        let answer = client.call_found("bad_echo", json!({"message": "hi"})).await;
        (!answer.is_failure()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_backend_that_freezes_delays_no_call_to_another() {
    let frozen = Fixture::http("frozen", "echo").start().await;
    let jira = Fixture::http("jira", "jira").start().await;
    let vmcp = Vmcp::new().backend(&frozen).backend(&jira);
    let vmcp = vmcp.config(json!({"proxy": {"refreshInterval": "1s"}})).start().await;
    vmcp.with_tool("frozen_echo").await;
    let client = vmcp.with_tool("jira_get_jira_issue").await;
    frozen.signal("STOP").await;
    // Both backends are listed at the same pace: after three more listings of the healthy one, vmcp has
    // certainly tried to list the frozen one, and waits for it.
    let listings = jira.received("tools/list").await;
    let mut slowest = Duration::ZERO;
    while jira.received("tools/list").await < listings + 3 {
        let start = Instant::now();
        let answer = client.call_tool("jira_get_jira_issue", json!({"issueKey": "PROJ-1"})).await;
        assert!(!answer.is_failure(), "{}", answer.text);
        vmcp.legacy().await.tools().await;
        slowest = slowest.max(start.elapsed());
    }
    frozen.signal("CONT").await;
    // A call that waited for the frozen backend would take its connection timeout, 30 s by default.
    assert!(slowest < Duration::from_secs(5), "slowest call to the healthy backend: {slowest:?}");
}

#[tokio::test]
async fn a_restarted_backend_that_forgot_its_sessions_is_greeted_again() {
    let old = Fixture::http("old", "echo").args(["--era", "legacy"]).start().await;
    let vmcp = Vmcp::new().backend(&old).start().await;
    let client = vmcp.with_tool("old_echo").await;
    old.control(json!({"do": "drop_sessions"})).await;
    let answer = client.call_tool("old_echo", json!({"message": "hi"})).await;
    assert_eq!(answer.content_text(), "hi", "{}", answer.text);
}

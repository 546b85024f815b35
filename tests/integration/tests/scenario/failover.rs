//! Failover without a shared store: two processes behind one balancer serve the same sessions, for a session
//! is sealed into its id.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures::future::join_all;
use serde_json::json;
use vmcp_integration::{Client, Fixture, RoundRobin, Vmcp, eventually};

const KEY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Starts two processes with the same key and backends of both eras, called `old` and `new`.
async fn pair(old: &Fixture, new: &Fixture) -> [Vmcp; 2] {
    let start = async || {
        let vmcp = Vmcp::new().backend(old).backend(new);
        let vmcp =
            vmcp.config(json!({"server": {"sessionKeys": ["${SESSION_KEY}"]}})).env("SESSION_KEY", KEY);
        let vmcp = vmcp.start().await;
        vmcp.with_tool("old_sleep").await;
        vmcp.with_tool("new_sleep").await;
        vmcp
    };
    [start().await, start().await]
}

/// Calls both backends in turns until told to stop; every call must succeed.
async fn call_on(client: &Client, calls: &AtomicU64, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        for tool in ["old_sleep", "new_sleep"] {
            let answer = client.call_tool(tool, json!({"ms": 5})).await;
            assert_eq!(answer.content_text(), "slept 5 ms", "{}", answer.text);
            calls.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[tokio::test]
async fn processes_are_restarted_one_after_the_other_under_load_and_nobody_loses_a_session_or_a_call() {
    let old = Fixture::http("old", "echo").args(["--era", "legacy"]).start().await;
    let new = Fixture::http("new", "echo").args(["--era", "modern"]).start().await;
    let mut processes = pair(&old, &new).await;
    let balancer = RoundRobin::start(&[&processes[0].url, &processes[1].url]).await;
    let mut clients = Vec::new();
    for revision in ["2025-06-18", "2025-11-25", "2025-11-25"] {
        clients.push(Client::legacy(&balancer.url, revision, "raw").await.reconnecting());
        clients.push(Client::modern(&balancer.url).reconnecting());
    }
    let counts: Vec<AtomicU64> = clients.iter().map(|_| AtomicU64::new(0)).collect();
    let stop = AtomicBool::new(false);
    let load = join_all(clients.iter().zip(&counts).map(|(client, calls)| call_on(client, calls, &stop)));
    // Waits for twenty more calls of each client, dealt out to the servers in rotation.
    let get_on = async || {
        let before: Vec<u64> = counts.iter().map(|calls| calls.load(Ordering::Relaxed)).collect();
        eventually("twenty more calls of each client", async || {
            let more = |(calls, before): (&AtomicU64, &u64)| calls.load(Ordering::Relaxed) >= before + 20;
            counts.iter().zip(&before).all(more).then_some(())
        })
        .await;
    };
    let rollout = async {
        get_on().await;
        for process in &mut processes {
            balancer.take_out(&process.url);
            process.restart().await;
            get_on().await;
            balancer.put_back(&process.url);
            get_on().await;
        }
        stop.store(true, Ordering::Relaxed);
    };
    futures::join!(load, rollout);
    for client in &clients {
        assert!(client.tools().await.contains_key("old_sleep"));
    }
}

#[tokio::test]
async fn a_session_is_served_by_both_processes_and_a_stranger_with_another_key_refuses_it() {
    let old = Fixture::http("old", "echo").args(["--era", "legacy"]).start().await;
    let new = Fixture::http("new", "echo").args(["--era", "modern"]).start().await;
    let [one, other] = pair(&old, &new).await;
    let stranger = Vmcp::new().backend(&old).start().await;
    let opened = one.legacy().await;
    let id = opened.session.clone().expect("a session");
    let moved = other.legacy().await.with_session(&id);
    assert_eq!(moved.call_tool("old_sleep", json!({"ms": 1})).await.content_text(), "slept 1 ms");
    assert_eq!(opened.call_tool("new_sleep", json!({"ms": 1})).await.content_text(), "slept 1 ms");
    let refused = stranger.legacy().await.with_session(&id).request("tools/list", json!({})).await;
    assert_eq!(refused.status, 404, "{}", refused.text);
}

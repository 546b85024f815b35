//! Storms in every pairing of eras: a hundred cancellations at once, five hundred progress notifications in
//! one call.

use std::sync::Arc;

use futures::future::join_all;
use serde_json::json;
use vmcp_integration::{Fixture, Vmcp, eventually};

/// Calls that are cancelled together.
const CALLS: u64 = 100;

async fn pair() -> ([Fixture; 2], Vmcp) {
    let backends = [
        Fixture::http("old", "echo").args(["--era", "legacy"]).start().await,
        Fixture::http("new", "echo").args(["--era", "modern"]).start().await,
    ];
    let vmcp = Vmcp::new().backend(&backends[0]).backend(&backends[1]).start().await;
    vmcp.with_tool("old_sleep").await;
    vmcp.with_tool("new_sleep").await;
    (backends, vmcp)
}

#[tokio::test]
async fn every_one_of_many_cancellations_reaches_its_backend_and_nothing_else_does() {
    let (backends, vmcp) = pair().await;
    for backend in &backends {
        let params = json!({"name": format!("{}_sleep", backend.name), "arguments": {"ms": 600_000}});
        let running = async |count: u64| {
            eventually("all calls to run", async || (backend.calls("sleep").await == count).then_some(()))
                .await;
        };
        let cancelled = async |count: u64| {
            let what = format!("{count} cancellations at {}", backend.name);
            eventually(&what, async || (backend.stats().await["cancelled"] == count).then_some(())).await;
        };

        // Modern clients cancel by leaving.
        let client = Arc::new(vmcp.modern());
        let calls: Vec<_> = (0..CALLS)
            .map(|_| {
                let (client, params) = (Arc::clone(&client), params.clone());
                tokio::spawn(async move { client.request("tools/call", params).await })
            })
            .collect();
        running(CALLS).await;
        calls.iter().for_each(tokio::task::JoinHandle::abort);
        cancelled(CALLS).await;

        // Legacy clients cancel by a notification, each in a session of its own, all with the same ids.
        let sessions = join_all((0..CALLS / 10).map(async |_| Arc::new(vmcp.legacy().await))).await;
        let mut calls = Vec::new();
        for (client, id) in sessions.iter().flat_map(|client| (1000..1010).map(move |id| (client, id))) {
            let (client, params) = (Arc::clone(client), params.clone());
            calls.push(tokio::spawn(
                async move { client.open_as(id, "tools/call", params).await.text().await },
            ));
        }
        running(2 * CALLS).await;
        for client in &sessions {
            join_all(
                (1000..1010).map(|id| client.notify("notifications/cancelled", json!({"requestId": id}))),
            )
            .await;
        }
        cancelled(2 * CALLS).await;
        calls.iter().for_each(tokio::task::JoinHandle::abort);

        let echo = format!("{}_echo", backend.name);
        for client in [vmcp.modern(), vmcp.legacy().await] {
            assert_eq!(client.call_tool(&echo, json!({"message": "hi"})).await.content_text(), "hi");
        }
        assert_eq!(backend.stats().await["cancelled"], 2 * CALLS, "no call of anybody else");
    }
}

#[tokio::test]
async fn a_burst_of_progress_arrives_whole_in_order_and_before_the_answer() {
    let (backends, vmcp) = pair().await;
    for backend in &backends {
        for client in [vmcp.modern(), vmcp.legacy().await] {
            let params = json!({"name": format!("{}_progress", backend.name), "arguments": {"steps": 500},
                "_meta": {"progressToken": 7}});
            let answer = client.request("tools/call", params).await;
            let steps = answer.notifications.iter().filter_map(|n| n["params"]["progress"].as_f64());
            assert!(steps.eq((1..=500).map(f64::from)), "{}: {}", backend.name, answer.text);
        }
    }
}

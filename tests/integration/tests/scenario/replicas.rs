//! Two replicas with one session key: what lives in one process is reached through the other.

use serde_json::{Value, json};
use vmcp_integration::{Client, Fixture, Messages, Vmcp, eventually};

const REVISION: &str = "2025-11-25";

async fn replica(backend: &Fixture) -> Vmcp {
    let keys = json!({"server": {"sessionKeys": ["0123456789abcdef".repeat(4)]}});
    let mut vmcp = Vmcp::new().backend(backend).config(keys).start().await;
    vmcp.with_tool("old_ask").await;
    let address = vmcp.url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    vmcp.reconfigure(json!({"server": {"peerAddress": address}}));
    eventually("the address to be in force", async || {
        (vmcp.metric("vmcp_config_reloads_total{outcome=\"applied\"}").await == 1).then_some(())
    })
    .await;
    vmcp
}

async fn two() -> (Fixture, Vmcp, Vmcp) {
    let old = Fixture::http("old", "echo").args(["--era", "legacy"]).start().await;
    let (one, other) = futures::join!(replica(&old), replica(&old));
    (old, one, other)
}

/// Returns the same client at another replica.
fn at(vmcp: &Vmcp, client: &Client) -> Client {
    Client::modern(&vmcp.url).as_legacy().with_session(client.session.as_deref().expect("a session"))
}

fn ask() -> Value {
    json!({"name": "old_ask", "arguments": {"message": "?"}})
}

#[tokio::test]
async fn the_answer_to_a_question_finds_its_way_from_the_wrong_replica() {
    let (_old, one, other) = two().await;
    let client = Client::legacy_with(&one.url, REVISION, "raw", json!({"elicitation": {}})).await;
    let mut messages = Messages::of(client.open("tools/call", ask()).await);
    let question = messages.next().await.expect("a question");
    let replied = at(&other, &client).reply(&question["id"], &json!({"action": "decline"})).await;
    assert_eq!(replied.status(), 202, "{:?}", replied.text().await);
    let answer = messages.next().await.expect("an answer").to_string();
    assert!(answer.contains("decline"), "{answer}");
    assert_eq!(other.metric("vmcp_requests_forwarded_total").await, 1);
    // The session of another client gets nowhere with the id.
    let mut messages = Messages::of(client.open("tools/call", ask()).await);
    let question = messages.next().await.expect("a question");
    let stranger = Client::legacy(&other.url, REVISION, "stranger").await;
    stranger.reply(&question["id"], &json!({"action": "accept", "content": {}})).await;
    at(&other, &client).reply(&question["id"], &json!({"action": "cancel"})).await;
    let answer = messages.next().await.expect("an answer").to_string();
    assert!(answer.contains("cancel"), "{answer}");
}

#[tokio::test]
async fn a_parked_call_is_taken_up_through_the_wrong_replica() {
    let (old, one, other) = two().await;
    let capable = json!({"elicitation": {"form": {}}});
    let (here, there) = (one.modern().declaring(capable.clone()), other.modern().declaring(capable));
    let asked = here.request("tools/call", ask()).await;
    let mut retry = ask();
    let key = asked.result()["inputRequests"].as_object().expect("questions").keys().next().expect("one");
    retry["inputResponses"] = json!({key: {"action": "decline"}});
    retry["requestState"] = asked.result()["requestState"].clone();
    let answer = there.request("tools/call", retry).await;
    assert!(answer.content_text().contains("decline"), "{}", answer.text);
    assert_eq!((old.calls("ask").await, other.metric("vmcp_requests_forwarded_total").await), (1, 1));
}

#[tokio::test]
async fn a_call_is_resumed_through_the_wrong_replica_as_long_as_its_own_lives() {
    let (_old, one, other) = two().await;
    let client = Client::legacy(&one.url, REVISION, "raw").await;
    let progress = json!({"name": "old_progress", "arguments": {"steps": 4, "delayMs": 300}, "_meta": {"progressToken": 1}});
    let mut messages = Messages::of(client.open("tools/call", progress.clone()).await);
    messages.next().await.expect("progress");
    let last = messages.last_id.clone().expect("an id");
    drop(messages);
    let elsewhere = at(&other, &client);
    let mut resumed = Messages::of(elsewhere.resume(&last).await);
    let mut seen = Vec::new();
    while let Some(message) = resumed.next().await {
        seen.push(message);
    }
    assert_eq!(seen.last().expect("an answer")["result"]["content"][0]["text"], "4 steps");
    assert_eq!(seen.len(), 4, "three steps and the answer");
    drop(one);
    eventually("its process to be gone", async || {
        (elsewhere.resume(&last).await.status() == 400).then_some(())
    })
    .await;
    // An address that vmcp has not sealed is not asked.
    let forged = format!("{}.MTI3LjAuMC4xOjE-1", "00".repeat(16));
    assert_eq!(elsewhere.resume(&forged).await.status(), 400);
}

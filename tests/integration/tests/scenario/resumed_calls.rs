//! A legacy client whose network breaks in mid-call resumes with `Last-Event-ID` and loses nothing.

use serde_json::{Value, json};
use vmcp_integration::{
    Client, Fixture, Messages, RoundRobin, Vmcp, eventually, installed, node, python, run_script,
};

async fn echo() -> (Fixture, Vmcp) {
    let echo = Fixture::http("echo", "echo").start().await;
    let vmcp = Vmcp::new().backend(&echo).start().await;
    vmcp.with_tool("echo_progress").await;
    (echo, vmcp)
}

fn progress(steps: u64, delay_ms: u64) -> Value {
    json!({"name": "echo_progress", "arguments": {"steps": steps, "delayMs": delay_ms}, "_meta": {"progressToken": "t"}})
}

fn step(message: &Value) -> Option<u64> {
    message["params"]["progress"].as_f64().map(|step| step as u64)
}

/// Reads a stream to its end: the steps of its progress, and the text of the answer.
async fn rest(messages: &mut Messages) -> (Vec<u64>, String) {
    let mut steps = Vec::new();
    while let Some(message) = messages.next().await {
        if let Some(step) = step(&message) {
            steps.push(step);
            continue;
        }
        assert!(messages.next().await.is_none(), "the answer is last");
        return (steps, message["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned());
    }
    panic!("no answer behind {steps:?}")
}

#[tokio::test]
async fn a_call_is_resumed_behind_the_last_event_and_nothing_is_lost_or_repeated() {
    let (_echo, vmcp) = echo().await;
    for revision in ["2025-11-25", "2025-06-18"] {
        let client = Client::legacy(&vmcp.url, revision, "raw").await;
        let mut messages = Messages::of(client.open("tools/call", progress(6, 200)).await);
        assert_eq!(step(&messages.next().await.unwrap()), Some(1));
        let last = messages.last_id.clone().expect("an id");
        drop(messages);
        let mut resumed = Messages::of(client.resume(&last).await);
        assert_eq!(step(&resumed.next().await.unwrap()), Some(2));
        let last = resumed.last_id.clone().expect("an id");
        // Broken again; by now the answer may be there.
        drop(resumed);
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        let mut resumed = Messages::of(client.resume(&last).await);
        assert_eq!(rest(&mut resumed).await, (vec![3, 4, 5, 6], "6 steps".to_owned()), "{revision}");
        // The end may have been lost, too.
        let mut again = Messages::of(client.resume(&last).await);
        assert_eq!(rest(&mut again).await.0, [3, 4, 5, 6]);
    }
    let metrics = vmcp.metrics().await;
    assert!(metrics.contains("vmcp_call_streams_resumed_total 6"), "{metrics}");
}

#[tokio::test]
async fn a_silent_call_can_be_resumed_after_two_seconds() {
    let (echo, vmcp) = echo().await;
    let client = Client::legacy(&vmcp.url, "2025-11-25", "raw").await;
    let sleep = json!({"name": "echo_sleep", "arguments": {"ms": 4000}});
    let mut messages = Messages::of(client.open("tools/call", sleep.clone()).await);
    let last = messages.next_id().await;
    // The connection stays open, and dead: nothing reads from it.
    let mut resumed = Messages::of(client.resume(&last).await);
    assert_eq!(rest(&mut resumed).await.1, "slept 4000 ms");
    drop(messages);
    assert_eq!(echo.calls("sleep").await, 1, "the call ran once");
    // A client of an older revision cannot read the empty event that would prime it.
    let old = Client::legacy(&vmcp.url, "2025-06-18", "raw").await;
    let answer = old.request("tools/call", sleep).await;
    assert_eq!((answer.content_text().as_str(), answer.notifications.len()), ("slept 4000 ms", 0));
}

#[tokio::test]
async fn a_stream_is_of_use_to_its_own_session_only() {
    let (_echo, vmcp) = echo().await;
    let (client, other) = (vmcp.legacy().await, vmcp.legacy().await);
    let mut messages = Messages::of(client.open("tools/call", progress(3, 300)).await);
    messages.next().await.unwrap();
    let last = messages.last_id.clone().expect("an id");
    let (stream, number) = last.rsplit_once('-').expect("a number");
    let beyond = format!("{stream}-9{number}");
    let made_up = format!("{}-{number}", "0".repeat(32));
    for (client, id) in
        [(&other, &*last), (&client, &beyond), (&client, &made_up), (&client, "7"), (&client, "")]
    {
        let refused = client.resume(id).await;
        assert_eq!(refused.status(), 400, "{id}");
        let text = refused.text().await.unwrap();
        assert!(text.contains("Last-Event-ID names no stream of this session"), "{text}");
    }
    assert_eq!(rest(&mut messages).await.0, [2, 3], "the stream itself is untouched");
    assert_eq!(client.close().await.status(), 200);
    assert_eq!(client.resume(&last).await.status(), 404, "an ended session");
}

#[tokio::test]
async fn a_question_can_be_answered_while_its_stream_is_resumed() {
    let old = Fixture::http("old", "echo").args(["--era", "legacy"]).start().await;
    let vmcp = Vmcp::new().backend(&old).start().await;
    vmcp.with_tool("old_ask").await;
    let client = Client::legacy_with(&vmcp.url, "2025-11-25", "raw", json!({"elicitation": {}})).await;
    let ask =
        json!({"name": "old_ask", "arguments": {"message": "?", "steps": 2}, "_meta": {"progressToken": 1}});
    let mut messages = Messages::of(client.open("tools/call", ask).await);
    let question = messages.next().await.unwrap();
    assert_eq!(question["method"], "elicitation/create");
    let last = messages.last_id.clone().expect("an id");
    drop(messages);
    let mut resumed = Messages::of(client.resume(&last).await);
    let replied = client.reply(&question["id"], &json!({"action": "decline"})).await;
    assert_eq!(replied.status(), 202);
    let (steps, answer) = rest(&mut resumed).await;
    assert_eq!(steps, [1, 2]);
    assert!(answer.contains("decline"), "{answer}");
}

#[tokio::test]
async fn a_large_answer_is_kept_up_to_a_limit_and_beyond_it_the_client_is_told() {
    let slow = json!({"do": "slow", "ms": 3000, "method": "tools/call"});
    let echo = Fixture::http("echo", "echo").fault(&slow).start().await;
    let vmcp = Vmcp::new().backend(&echo).start().await;
    vmcp.with_tool("echo_big").await;
    let client = vmcp.legacy().await;
    let answer = async |bytes: u64| {
        let call = json!({"name": "echo_big", "arguments": {"bytes": bytes}});
        let mut messages = Messages::of(client.open("tools/call", call).await);
        let last = messages.next_id().await;
        drop(messages);
        Messages::of(client.resume(&last).await).next().await.expect("an answer")
    };
    let (large, huge) = futures::join!(answer(500_000), answer(2_000_000));
    assert_eq!(large["result"]["content"][0]["text"].as_str().map(str::len), Some(500_000));
    let told = huge["error"]["message"].as_str().unwrap_or_default();
    assert!(told.contains("too large to be kept; repeat the request"), "{huge}");
}

#[tokio::test]
async fn the_official_clients_survive_a_broken_connection() {
    let (echo, vmcp) = echo().await;
    let clients = [
        (node("node"), vec!["--input-type=module", "-"], include_str!("../../clients/resume.mjs"), "node"),
        (python("python"), vec!["-"], include_str!("../../clients/resume.py"), "python"),
    ];
    for (n, (program, args, script, folder)) in clients.into_iter().enumerate() {
        let network = RoundRobin::start(&[&vmcp.url]).await;
        let args: Vec<_> = args.into_iter().chain([&*network.url]).collect();
        let folder = installed(folder);
        let client = run_script(&program, &args, script, &folder);
        let cut = async {
            eventually("the call to run", async || (echo.calls("progress").await as usize > n).then_some(()))
                .await;
            tokio::time::sleep(std::time::Duration::from_millis(700)).await;
            network.cut();
        };
        let (seen, ()) = futures::join!(client, cut);
        assert_eq!(seen["answer"], "8 steps", "{seen}");
        let steps: Vec<_> =
            seen["progress"].as_array().expect("steps").iter().filter_map(Value::as_f64).collect();
        assert_eq!(steps, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        assert_eq!(echo.calls("progress").await as usize, n + 1, "the call ran once");
    }
}

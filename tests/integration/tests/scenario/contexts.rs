//! Contexts: a client says what it is busy with, and gets the tools that fit, once such tasks are known.

use std::time::{Duration, Instant};

use futures::{Stream, StreamExt as _};
use serde_json::{Value, json};
use vmcp_embed::testing::FakeService;
use vmcp_integration::{Client, Fixture, HttpAnswer, MODERN, Vmcp, WAIT_TIMEOUT, eventually};

const TASK: &str = "see who follows the tickets of my team";
const LIST_CHANGED: &str = "notifications/tools/list_changed";
/// Time after the answer of set_context in which the session is told of its new list.
const TOLD_WITHIN: Duration = Duration::from_secs(1);
/// Time in which nothing more about it is said.
const QUIET: Duration = Duration::from_millis(1500);
/// Tools of vmcp's own under `exposure: Contextual`.
const OWN: usize = 4;

async fn jira(service: &FakeService) -> (Fixture, Vmcp) {
    let jira = Fixture::http("jira", "jira").start().await;
    let settings = json!({"operational": {"logLevel": "debug"}, "optimizer": {"exposure": "Contextual", "contextual": {"topK": 3},
        "embeddings": {"provider": "tei", "tei": {"endpoint": service.url(), "timeout": "2s"}}}});
    let vmcp = Vmcp::new().backend(&jira).config(settings).start().await;
    vmcp.with_tool("jira_create_note").await;
    eventually("every tool to be embedded", async || {
        (vmcp.status().await["embeddings"]["embedded"] == 9).then_some(())
    })
    .await;
    (jira, vmcp)
}

async fn set_context(client: &Client, query: &str) -> HttpAnswer {
    client.call_tool("optim_set_context", json!({"query": query})).await
}

/// Appends the next chunk of an event stream.
async fn read_chunk<C: AsRef<[u8]>, E: std::fmt::Debug>(
    stream: &mut (impl Stream<Item = Result<C, E>> + Unpin),
    seen: &mut String,
) {
    let chunk = stream.next().await.expect("an open stream").expect("a chunk");
    seen.push_str(&String::from_utf8_lossy(chunk.as_ref()));
}

/// Waits until so much is known about the task that tools are chosen for it.
async fn known(client: &Client) -> Value {
    eventually("the task to be known", async || {
        let set = set_context(client, TASK).await;
        (set.structured()["confidence"] == 0.3).then(|| set.structured().clone())
    })
    .await
}

#[tokio::test]
async fn a_session_is_told_when_its_list_changes_and_gets_the_tools_that_fit() {
    let service = FakeService::start().await.expect("a port");
    let (_jira, mut vmcp) = jira(&service).await;
    let (client, other) = (vmcp.legacy().await, vmcp.legacy().await);
    let mut stream = client.listen().await.bytes_stream();
    assert_eq!(client.tools().await.len(), 9 + OWN);

    let set = set_context(&client, TASK).await;
    assert!(set.content_text().starts_with("Context updated."), "{}", set.text);
    assert!(set.structured().get("context_id").is_none(), "a session needs no handle: {}", set.text);
    let answered = Instant::now();
    let mut seen = String::new();
    let told = tokio::time::timeout(WAIT_TIMEOUT, async {
        while !seen.contains(LIST_CHANGED) {
            read_chunk(&mut stream, &mut seen).await;
        }
    });
    assert!(told.await.is_ok(), "the session is told");
    let waited = answered.elapsed();
    eprintln!("told {waited:.1?} after the answer");
    assert!(waited <= TOLD_WITHIN, "{waited:?}");
    let more = async {
        loop {
            read_chunk(&mut stream, &mut seen).await;
        }
    };
    assert!(tokio::time::timeout(QUIET, more).await.is_err(), "the stream stays open");
    assert_eq!(seen.matches(LIST_CHANGED).count(), 1, "told once: {seen}");
    assert_eq!(client.tools().await.len(), 9 + OWN, "a cold start hides nothing");
    vmcp.process.line_after("cold start confidence=0.00").await;

    let issue = json!({"issueKey": "PROJ-123"});
    for tool in ["get_jira_issue_watchers", "get_jira_issue", "get_jira_issue_comments"] {
        let called = client.call_tool(&format!("jira_{tool}"), issue.clone()).await;
        assert!(!called.is_failure(), "{}", called.text);
    }
    let set = known(&client).await;
    assert_eq!(set["listed_tools"], 3, "{set}");
    let listed = client.tools().await;
    assert_eq!(listed.len(), 3 + OWN, "{:?}", listed.keys());
    assert!(listed.contains_key("jira_get_jira_issue_watchers"), "{:?}", listed.keys());
    assert_eq!(other.tools().await.len(), 9 + OWN, "another session has its own context");
    let unlisted = client.call_tool("jira_create_note", json!({"title": "a", "content": "b"})).await;
    assert!(!unlisted.is_failure(), "{}", unlisted.text);

    let missing = client.call_tool("optim_search_available_tools", json!({"query": "sprints"})).await;
    assert!(missing.content_text().contains("- **jira_get_jira_issue_sprints**: "), "{}", missing.text);
    let missing =
        client.call_tool("optim_search_available_tools", json!({"query": "xyznonexistent99"})).await;
    assert_eq!(missing.content_text(), "No tools found matching \"xyznonexistent99\"");

    // Learned pairs outlive the process; the context does not.
    vmcp.restart().await;
    vmcp.with_tool("jira_create_note").await;
    let client = vmcp.legacy().await;
    assert_eq!(client.tools().await.len(), 9 + OWN);
    let confidence = eventually("the pairs to be loaded", async || {
        set_context(&client, TASK).await.structured()["confidence"].as_f64().filter(|known| *known >= 0.3)
    })
    .await;
    assert!(confidence <= 0.4, "three tools, and the one that was not listed: {confidence}");
}

/// Lets a session teach which tools its task takes, and returns its list once the task is known.
async fn taught(client: &Client, task: &str, calls: &[(&str, Value)]) -> Vec<String> {
    set_context(client, task).await;
    for (tool, arguments) in calls {
        let called = client.call_tool(&format!("jira_{tool}"), arguments.clone()).await;
        assert!(!called.is_failure(), "{}", called.text);
    }
    eventually("the task to be known", async || {
        let set = set_context(client, task).await;
        set.structured()["listed_tools"].as_u64()
    })
    .await;
    let listed = client.tools().await;
    listed.keys().filter(|name| name.starts_with("jira_")).cloned().collect()
}

#[tokio::test]
async fn each_of_two_sessions_has_the_tools_of_its_own_context() {
    let service = FakeService::start().await.expect("a port");
    let (_jira, vmcp) = jira(&service).await;
    let (one, two) = (vmcp.legacy().await, vmcp.legacy().await);
    let issue = json!({"issueKey": "PROJ-123"});
    let watched = ["get_jira_issue_watchers", "get_jira_issue", "get_jira_issue_comments"];
    let planned = ["create_note", "get_jira_issue_sprints", "search_jira_issues"];
    let of_one = taught(&one, TASK, &watched.map(|tool| (tool, issue.clone()))).await;
    let arguments = [json!({"title": "a", "content": "b"}), issue.clone(), json!({"jql": "x"})];
    let calls: Vec<_> = planned.into_iter().zip(arguments).collect();
    let of_two = taught(&two, "jot down what scrum iterations hold", &calls).await;
    let named = |tools: &[&str]| {
        let mut names: Vec<_> = tools.iter().map(|tool| format!("jira_{tool}")).collect();
        names.sort();
        names
    };
    assert_eq!((of_one, of_two), (named(&watched), named(&planned)));
    assert_eq!(one.tools().await.len(), 3 + OWN, "the other's context changes nothing here");
}

#[tokio::test]
async fn without_its_embedding_service_a_context_is_one_warning_and_calls_go_on() {
    let mut service = FakeService::start().await.expect("a port");
    let (_jira, mut vmcp) = jira(&service).await;
    let client = vmcp.legacy().await;
    set_context(&client, TASK).await;
    service.stop().await;
    let set = set_context(&client, "something that was never embedded").await;
    assert!(set.structured()["degraded_reason"].is_string(), "{}", set.text);
    for _ in 0..3 {
        let called = client.call_tool("jira_get_jira_issue", json!({"issueKey": "PROJ-123"})).await;
        assert!(!called.is_failure(), "{}", called.text);
    }
    // Counted when nothing more can be written.
    assert!(vmcp.terminate().await.success());
    let log = vmcp.process.output();
    let about = |words: &str| log.lines().filter(|line| line.contains(words)).count();
    assert_eq!(about("a context could not be embedded"), 1, "{log}");
    let state = vmcp_store::StateStore::open(&vmcp.storage()).expect("the database");
    assert_eq!(state.all_learned().expect("its pairs").len(), 0);
}

#[tokio::test]
async fn a_client_without_a_session_carries_its_context_by_a_handle() {
    let service = FakeService::start().await.expect("a port");
    let (_jira, vmcp) = jira(&service).await;
    let client = vmcp.client(MODERN).await;
    let set = set_context(&client, TASK).await;
    let id = set.structured()["context_id"].as_str().expect("a handle").to_owned();
    for tool in ["get_jira_issue_watchers", "get_jira_issue", "get_jira_issue_comments"] {
        let call = json!({"tool_name": format!("jira_{tool}"), "parameters": {"issueKey": "PROJ-123"},
            "context_id": id});
        let called = client.call_tool("optim_call_tool", call).await;
        assert!(!called.is_tool_error(), "{}", called.text);
    }
    let known = known(&client).await;
    let list = json!({"_meta": {"vmcp/context_id": known["context_id"]}});
    let listed = client.request("tools/list", list).await;
    assert_eq!(listed.result()["tools"].as_array().map(Vec::len), Some(3 + OWN), "{}", listed.text);
    assert_eq!(listed.result()["cacheScope"], "private", "{}", listed.text);
    assert_eq!(client.tools().await.len(), 9 + OWN, "without the handle, everything");
}

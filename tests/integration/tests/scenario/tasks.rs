//! Tasks of 2025-11-25 and of the 2026-07-28 extension, at more than one backend.

use serde_json::{Value, json};
use vmcp_integration::{Client, Fixture, HttpAnswer, Vmcp, VmcpBuilder};

fn with_tasks() -> Value {
    json!({"extensions": {"io.modelcontextprotocol/tasks": {}}})
}

async fn two(era: &str) -> Vec<Fixture> {
    let start = |name| Fixture::http(name, "extended").args(["--era", era, "--page-size", "1"]).start();
    vec![start("one").await, start("two").await]
}

async fn start_with_backends(backends: &[Fixture]) -> Vmcp {
    let keys = json!({"server": {"sessionKeys": ["one key of enough characters"]}});
    let vmcp = backends.iter().fold(Vmcp::new().config(keys), VmcpBuilder::backend).start().await;
    for backend in backends {
        vmcp.with_tool(&format!("{}_show", backend.name)).await;
    }
    vmcp
}

/// The id in a task, which differs from the backend's own.
fn id_of(task: &Value) -> String {
    let id = task["taskId"].as_str().unwrap_or_else(|| panic!("{task}"));
    assert!(id.len() > 64, "{id} is sealed");
    id.to_owned()
}

async fn of_task(client: &Client, method: &str, id: &str) -> HttpAnswer {
    client.request(method, json!({"taskId": id, "inputResponses": {}})).await
}

#[tokio::test]
async fn a_modern_task_is_followed_at_the_backend_that_has_it() {
    let backends = two("modern").await;
    let vmcp = start_with_backends(&backends).await;
    let client = vmcp.modern().declaring(with_tasks());
    for name in ["one", "two"] {
        let created = client.call_tool(&format!("{name}_work"), json!({})).await;
        assert_eq!(created.result()["resultType"], "task", "{}", created.text);
        assert_eq!(created.result()["vendor"], "kept");
        let id = id_of(created.result());
        let working = of_task(&client, "tasks/get", &id).await;
        assert_eq!(working.result()["status"], "working", "{}", working.text);
        assert_eq!(working.result()["taskId"], id);
        assert_eq!(working.result()["resultType"], "complete");
        assert_eq!(of_task(&client, "tasks/update", &id).await.result()["resultType"], "complete");
        assert_eq!(of_task(&client, "tasks/get", &id).await.result()["status"], "completed");
        assert_eq!(of_task(&client, "tasks/cancel", &id).await.result()["resultType"], "complete");
    }
    for backend in &backends {
        for (method, count) in [("tasks/get", 2), ("tasks/update", 1), ("tasks/cancel", 1)] {
            assert_eq!(backend.received(method).await, count, "{method} at {}", backend.name);
        }
    }
    // A task that begins through call_tool is the same.
    let found = client.call_found("two_work", json!({})).await;
    let id = id_of(found.result());
    assert_eq!(of_task(&client, "tasks/get", &id).await.result()["status"], "working");

    for unknown in ["nobodys", "two-1"] {
        let unknown = of_task(&client, "tasks/get", unknown).await;
        assert_eq!(unknown.error()["code"], -32602, "{}", unknown.text);
    }

    // Another process with the same keys has never heard of the task: its id says where it is.
    let other = start_with_backends(&backends).await;
    let elsewhere = other.modern().declaring(with_tasks());
    let before = backends[0].received("tasks/get").await;
    assert_eq!(of_task(&elsewhere, "tasks/cancel", &id).await.result()["resultType"], "complete");
    assert_eq!(of_task(&elsewhere, "tasks/get", &id).await.result()["status"], "cancelled");
    assert_eq!(backends[0].received("tasks/get").await, before, "only the task's own backend is asked");
}

#[tokio::test]
async fn a_client_without_tasks_gets_none() {
    let backends = two("modern").await;
    let vmcp = start_with_backends(&backends).await;
    let client = vmcp.modern();
    assert_eq!(client.call_tool("one_work", json!({})).await.content_text(), "done by one");
    let forced = client.call_tool("one_work", json!({"force": true})).await;
    assert!(forced.is_tool_error() && forced.text.contains("answered with a task"), "{}", forced.text);
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let refused = of_task(&client, method, "one-0").await;
        assert_eq!((refused.status.as_u16(), &refused.error()["code"]), (400, &json!(-32021)));
        assert_eq!(refused.error()["data"]["requiredCapabilities"], with_tasks());
        // A legacy client is not offered modern tasks, whatever it declares.
        let legacy = Client::legacy_with(&vmcp.url, "2025-11-25", "raw", with_tasks()).await;
        assert_eq!(of_task(&legacy, method, "one-0").await.error()["code"], -32601);
        let params = json!({"name": "one_work", "arguments": {}, "task": {"ttl": 1}});
        assert_eq!(legacy.request("tools/call", params).await.content_text(), "done by one");
    }
    assert_eq!(backends[0].received("tasks/get").await, 0);
    let last = &backends[0].stats().await["last_call"]["params"];
    assert!(last.get("task").is_none(), "{last}");
}

#[tokio::test]
async fn core_tasks_are_relayed_between_peers_of_their_revision() {
    let backends = two("legacy").await;
    let vmcp = start_with_backends(&backends).await;
    let client = vmcp.legacy().await;
    let mut all = Vec::new();
    for name in ["one", "two"] {
        for status in ["working", "cancelled"] {
            let params = json!({"name": format!("{name}_work"), "arguments": {}, "task": {"ttl": 60_000}});
            let created = client.request("tools/call", params).await;
            all.push((json!(id_of(&created.result()["task"])), json!(status)));
        }
        let id = all.last().and_then(|(id, _)| id.as_str()).expect("a task").to_owned();
        assert_eq!(of_task(&client, "tasks/get", &id).await.result()["status"], "working");
        let result = of_task(&client, "tasks/result", &id).await;
        assert_eq!(result.content_text(), format!("done by {name}"));
        assert_eq!(result.result()["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], id);
        assert_eq!(of_task(&client, "tasks/cancel", &id).await.result()["status"], "cancelled");
    }

    let (mut listed, mut params) = (Vec::new(), json!({}));
    loop {
        let page = client.request("tasks/list", params).await;
        let tasks = page.result()["tasks"].as_array().expect("tasks").clone();
        listed.extend(tasks.iter().map(|task| (task["taskId"].clone(), task["status"].clone())));
        match page.result().get("nextCursor") {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => break,
        }
    }
    assert_eq!(listed, all);
    let stranger = vmcp.legacy().await;
    let none = stranger.request("tasks/list", json!({})).await;
    assert_eq!(none.result()["tasks"], json!([]), "a list has the tasks of its own session");
    let bad = client.request("tasks/list", json!({"cursor": "at:1"})).await;
    assert_eq!(bad.error()["code"], -32602, "{}", bad.text);

    let earlier = vmcp.client("2025-06-18").await;
    assert_eq!(earlier.request("tasks/list", json!({})).await.error()["code"], -32601);
    let modern = vmcp.modern().declaring(with_tasks());
    let refused = of_task(&modern, "tasks/get", "one-0").await;
    assert_eq!((refused.status.as_u16(), &refused.error()["code"]), (404, &json!(-32601)));
}

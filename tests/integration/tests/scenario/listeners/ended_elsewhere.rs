//! Ends of questions and tasks that a backend reports outside of their call.

use vmcp_integration::FixtureBuilder;

use super::*;

#[tokio::test]
async fn what_ends_elsewhere_is_told_to_the_session_that_it_belongs_to() {
    let backend = old().await;
    let vmcp = start_with_backends(std::slice::from_ref(&backend)).await;
    let (_client, mut get) = session(&vmcp, &backend, json!({"elicitation": {"url": {}}})).await;
    let mut nobody = Messages::of(vmcp.legacy().await.listen().await);
    listening(&backend, 2).await;
    for (method, params) in [
        ("notifications/elicitation/complete", json!({"elicitationId": "e"})),
        ("notifications/vendor", json!({"any": "thing"})),
    ] {
        send(&backend, method, &params).await;
        assert_eq!(next_message(&mut get, method).await, params);
    }
    add_tool(&backend, "another").await;
    next_message(&mut nobody, TOOLS_CHANGED).await;
}

#[tokio::test]
async fn what_ends_on_a_shared_connection_is_told_to_the_session_in_whose_call_it_began() {
    let shared = async |transport: fn(&str, &str) -> FixtureBuilder, name: &str, toolset: &str| {
        transport(name, toolset).args(["--era", "legacy"]).shared().start().await
    };
    let backends = [
        shared(Fixture::stdio, "process", "echo").await,
        shared(Fixture::stdio, "process-tasks", "extended").await,
        shared(Fixture::sse, "stream", "echo").await,
        shared(Fixture::sse, "stream-tasks", "extended").await,
    ];
    let vmcp = backends.iter().fold(Vmcp::new(), VmcpBuilder::backend).start().await;
    let able = json!({"elicitation": {"url": {}}});
    for kind in ["process", "stream"] {
        let of_kind = |suffix: &str| {
            let name = format!("{kind}{suffix}");
            backends.iter().find(|backend| backend.name == name).expect("a backend")
        };
        let (visits, works) = (of_kind(""), of_kind("-tasks"));
        vmcp.with_tool(&format!("{kind}_rpc_error")).await;
        vmcp.with_tool(&format!("{kind}-tasks_work")).await;
        let mut people = Vec::new();
        for (number, name) in ["ann", "bob"].into_iter().enumerate() {
            let client = Client::legacy_with(&vmcp.url, "2025-11-25", "raw", able.clone()).await;
            let messages = Messages::of(client.listen().await);
            let visit =
                json!({"mode": "url", "url": "https://example.com", "elicitationId": name, "message": "Go"});
            let error = json!({"code": -32042, "data": {"elicitations": [visit]}});
            let demanded = client.call_tool(&format!("{kind}_rpc_error"), error).await;
            assert_eq!(demanded.error()["code"], -32042, "{}", demanded.text);
            let call = json!({"name": format!("{kind}-tasks_work"), "arguments": {}, "task": {}});
            let begun = client.request("tools/call", call).await;
            let task = begun.result()["task"]["taskId"].clone();
            assert!(task.is_string(), "{}", begun.text);
            people.push((name, messages, task, format!("{kind}-tasks-{number}")));
        }
        for (name, messages, task, own_id) in &mut people {
            let ended = json!({"elicitationId": name});
            send(visits, "notifications/elicitation/complete", &ended).await;
            let heard = next_of(messages, "notifications/elicitation/complete").await;
            assert_eq!(heard, ended, "{name} over {kind}");
            let ended = json!({"taskId": own_id, "status": "completed"});
            send(works, "notifications/tasks/status", &ended).await;
            let heard = next_of(messages, "notifications/tasks/status").await;
            assert_eq!(heard, json!({"taskId": task, "status": "completed"}), "{name} over {kind}");
        }
        // An unknown id reaches no session.
        send(visits, "notifications/elicitation/complete", &json!({"elicitationId": "nobody's"})).await;
        for (name, ..) in &people {
            send(visits, "notifications/elicitation/complete", &json!({"elicitationId": name})).await;
        }
        for (name, messages, ..) in &mut people {
            let heard = next_of(messages, "notifications/elicitation/complete").await;
            assert_eq!(heard, json!({"elicitationId": name}));
        }
    }
}

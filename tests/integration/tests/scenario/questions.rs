//! Questions of backends (elicitation, sampling, roots) to clients, in all four pairings of eras.

use serde_json::{Value, json};
use vmcp_integration::{Client, Fixture, HttpAnswer, MODERN, Messages, Vmcp, VmcpBuilder, eventually};

/// Returns capabilities with which a client can be asked every kind of question.
fn capable() -> Value {
    json!({"elicitation": {"form": {}}, "sampling": {}, "roots": {}})
}

/// Answers questions as a user called Ada.
fn ada(method: &str, params: &Value) -> Value {
    match method {
        "sampling/createMessage" => {
            json!({"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m", "stopReason": "endTurn"})
        }
        "roots/list" => json!({"roots": [{"uri": "file:///home/ada", "name": "home"}]}),
        _ => {
            let properties = params["requestedSchema"]["properties"].as_object().expect("a form");
            let content: serde_json::Map<_, _> = properties
                .iter()
                .map(|(key, schema)| {
                    (key.clone(), if schema["type"] == "boolean" { json!(true) } else { json!("Ada") })
                })
                .collect();
            json!({"action": "accept", "content": content})
        }
    }
}

async fn both() -> (Vec<Fixture>, Vmcp) {
    let backends = vec![Fixture::rmcp("old", "legacy").await, Fixture::rmcp("new", "modern").await];
    let vmcp = backends.iter().fold(Vmcp::new(), VmcpBuilder::backend).start().await;
    for backend in &backends {
        vmcp.with_tool(&format!("{}_test_elicitation", backend.name)).await;
    }
    (backends, vmcp)
}

async fn clients(vmcp: &Vmcp) -> Vec<(&'static str, Client)> {
    let mut clients = vec![(MODERN, vmcp.modern().declaring(capable()))];
    for revision in ["2025-11-25", "2025-06-18"] {
        clients.push((revision, Client::legacy_with(&vmcp.url, revision, "raw", capable()).await));
    }
    clients
}

fn call(tool: &str, arguments: &Value) -> Value {
    json!({"name": tool, "arguments": arguments})
}

#[tokio::test]
async fn every_question_reaches_every_client_and_its_answer_comes_back() {
    let (backends, vmcp) = both().await;
    let cases = [
        ("test_elicitation", json!({"message": "Who?"}), 1, "accept"),
        ("test_sampling", json!({"prompt": "Capital?"}), 1, "Paris"),
        ("test_input_required_result_list_roots", json!({}), 1, "file:///home/ada"),
        ("test_input_required_result_request_state", json!({}), 1, "state-ok: accept"),
        ("test_input_required_result_multi_round", json!({}), 2, "Ada likes Ada"),
        ("test_input_required_result_multiple_inputs", json!({}), 3, "Paris Ada of file:///home/ada"),
    ];
    for (revision, client) in clients(&vmcp).await {
        for backend in &backends {
            for (tool, arguments, questions, expected) in &cases {
                let name = format!("{}_{tool}", backend.name);
                let found = call("optim.call_tool", &json!({"tool_name": name, "parameters": arguments}));
                for params in [call(&name, arguments), found] {
                    let (answer, asked) = client.converse("tools/call", params, &ada).await;
                    assert_eq!(asked.len(), *questions, "{revision} {name}: {asked:?} {}", answer.text);
                    assert!(answer.content_text().contains(expected), "{revision} {name}: {}", answer.text);
                }
            }
            let prompt = format!("{}_test_input_required_result_prompt", backend.name);
            let (answer, asked) = client.converse("prompts/get", json!({"name": prompt}), &ada).await;
            assert_eq!(asked.len(), 1, "{revision} {prompt}: {}", answer.text);
            assert!(answer.result()["messages"].is_array(), "{}", answer.text);
        }
    }
}

#[tokio::test]
async fn a_client_that_cannot_be_asked_is_not() {
    let (backends, vmcp) = both().await;
    for client in [vmcp.modern(), vmcp.legacy().await] {
        for backend in &backends {
            let name = format!("{}_test_elicitation", backend.name);
            let (answer, asked) =
                client.converse("tools/call", call(&name, &json!({"message": "?"})), &ada).await;
            assert!(asked.is_empty(), "{asked:?}");
            if client.session.is_none() && backend.name == "new" {
                assert_eq!((answer.status.as_u16(), &answer.error()["code"]), (400, &json!(-32021)));
                assert_eq!(
                    answer.error()["data"]["requiredCapabilities"],
                    json!({"elicitation": {"form": {}}})
                );
            }
            let refused = answer.message.get("error").is_some() || answer.is_tool_error();
            assert!(refused, "{name}: {}", answer.text);
        }
    }
}

#[tokio::test]
async fn what_a_user_refuses_is_told_to_the_backend() {
    let (backends, vmcp) = both().await;
    let declines = |_: &str, _: &Value| json!({"action": "decline"});
    for (revision, client) in clients(&vmcp).await {
        for backend in &backends {
            let params = call(&format!("{}_test_elicitation", backend.name), &json!({"message": "?"}));
            let (answer, _) = client.converse("tools/call", params, &declines).await;
            assert!(
                answer.content_text().contains("decline"),
                "{revision} {}: {}",
                backend.name,
                answer.text
            );
        }
    }
    // An error in place of an answer becomes the error of the call.
    let fails = |_: &str, _: &Value| json!({"error": {"code": -1, "message": "no model here"}});
    let client = Client::legacy_with(&vmcp.url, "2025-11-25", "raw", capable()).await;
    for backend in &backends {
        let params = call(&format!("{}_test_sampling", backend.name), &json!({"prompt": "?"}));
        let (answer, _) = client.converse("tools/call", params, &fails).await;
        assert!(answer.text.contains("no model here"), "{}: {}", backend.name, answer.text);
    }
}

/// Sends a modern call up to its question.
async fn asked(client: &Client, params: &Value) -> HttpAnswer {
    let answer = client.request("tools/call", params.clone()).await;
    assert_eq!(answer.result()["resultType"], "input_required", "{}", answer.text);
    answer
}

fn repeated(params: &Value, state: &Value) -> Value {
    let mut params = params.clone();
    params["requestState"] = state.clone();
    params["inputResponses"] = json!({});
    params
}

#[tokio::test]
async fn a_state_is_good_for_its_own_request_only() {
    let (backends, vmcp) = both().await;
    let client = vmcp.modern().declaring(capable());
    for backend in &backends {
        let params = call(&format!("{}_test_input_required_result_request_state", backend.name), &json!({}));
        let state = asked(&client, &params).await.result()["requestState"].clone();
        let text = state.as_str().expect("a state").to_owned();
        let middle = text.len() / 2;
        let flipped = if text[middle..].starts_with('A') { "B" } else { "A" };
        let other = call(&format!("{}_test_elicitation", backend.name), &json!({"message": "?"}));
        for (params, state, expected) in [
            (&params, json!(format!("{}{flipped}{}", &text[..middle], &text[middle + 1..])), "altered"),
            (&params, json!(&text[..middle]), "token"),
            (&params, json!("made up"), "not a token"),
            (&params, json!(7), "not a token"),
            (&other, state.clone(), "another request"),
        ] {
            let refused = client.request("tools/call", repeated(params, &state)).await;
            assert_eq!(refused.error()["code"], -32602, "{}", refused.text);
            assert!(refused.text.contains(expected), "{}: {}", expected, refused.text);
        }
    }
}

#[tokio::test]
async fn another_process_goes_on_with_a_relayed_state_and_refuses_a_parked_one() {
    let key = json!({"server": {"sessionKeys": ["a key of the two processes, long enough"]}});
    let backends = [Fixture::rmcp("old", "legacy").await, Fixture::rmcp("new", "modern").await];
    let mut processes = Vec::new();
    for _ in 0..2 {
        let vmcp = backends.iter().fold(Vmcp::new(), VmcpBuilder::backend).config(key.clone()).start().await;
        for backend in &backends {
            vmcp.with_tool(&format!("{}_test_elicitation", backend.name)).await;
        }
        processes.push(vmcp);
    }
    let [first, second] = &processes[..] else { unreachable!() };
    let first_client = first.modern().declaring(capable());
    let second_client = second.modern().declaring(capable());

    let params = call("new_test_input_required_result_request_state", &json!({}));
    let question = asked(&first_client, &params).await;
    let mut retry = repeated(&params, &question.result()["requestState"]);
    retry["inputResponses"] = json!({"confirm": {"action": "accept", "content": {"ok": true}}});
    let answer = second_client.request("tools/call", retry).await;
    assert_eq!(answer.content_text(), "state-ok: accept", "{}", answer.text);

    let params = call("old_test_elicitation", &json!({"message": "?"}));
    let question = asked(&first_client, &params).await;
    let retry = repeated(&params, &question.result()["requestState"]);
    let refused = second_client.request("tools/call", retry.clone()).await;
    assert_eq!(refused.error()["code"], -32602, "{}", refused.text);
    assert!(refused.text.contains("another process"), "{}", refused.text);

    // Unanswered questions are asked again, and the state of a round is good once.
    let again = asked(&first_client, &retry).await;
    assert_eq!(again.result()["inputRequests"], question.result()["inputRequests"]);
    let gone = first_client.request("tools/call", retry).await;
    assert!(
        gone.error()["message"].as_str().expect("a message").contains("waits no longer"),
        "{}",
        gone.text
    );
}

#[tokio::test]
async fn answers_to_nothing_are_told_apart_from_late_ones() {
    let (_backends, vmcp) = both().await;
    let client = Client::legacy_with(&vmcp.url, "2025-11-25", "raw", capable()).await;
    let params = call("old_test_elicitation", &json!({"message": "?"}));
    let mut messages = Messages::of(client.open("tools/call", params).await);
    let question = messages.next().await.expect("a question");
    assert_eq!(question["method"], "elicitation/create");
    for (id, status) in
        [(json!(7), 400), (json!("vmcp-0123456789abcdef-0"), 400), (question["id"].clone(), 202)]
    {
        let sent = client.reply(&id, &json!({"action": "cancel"})).await;
        assert_eq!(sent.status(), status, "{id}: {:?}", sent.text().await);
    }
    let answer = messages.next().await.expect("an answer");
    assert!(answer.get("result").is_some(), "{answer}");
    let late = client.reply(&question["id"], &json!({"action": "accept"})).await;
    assert_eq!(late.status(), 202, "{:?}", late.text().await);
}

#[tokio::test]
async fn a_question_is_taken_back_when_its_call_ends() {
    let (_backends, vmcp) = both().await;
    for name in ["old_test_elicitation", "new_test_elicitation"] {
        let client = Client::legacy_with(&vmcp.url, "2025-11-25", "raw", capable()).await;
        let params = call(name, &json!({"message": "?"}));
        let mut messages = Messages::of(client.open_as(71, "tools/call", params).await);
        let question = messages.next().await.expect("a question");
        client.notify("notifications/cancelled", json!({"requestId": 71})).await;
        let taken_back = messages.next().await.expect("a message");
        assert_eq!(taken_back["method"], "notifications/cancelled", "{name}: {taken_back}");
        assert_eq!(taken_back["params"]["requestId"], question["id"]);
    }
}

#[tokio::test]
async fn a_client_that_leaves_a_call_it_took_up_cancels_it() {
    let fixture = Fixture::http("slow", "echo").args(["--era", "legacy"]).start().await;
    let vmcp = Vmcp::new().backend(&fixture).start().await;
    let client = std::sync::Arc::new(vmcp.with_tool("slow_ask").await.declaring(capable()));
    let params = json!({"name": "slow_ask", "arguments": {"message": "?", "ms": 600_000, "steps": 3},
        "_meta": {"progressToken": "first"}});
    let question = asked(&client, &params).await;
    let mut retry = repeated(&params, &question.result()["requestState"]);
    retry["_meta"] = json!({"progressToken": "second"});
    retry["inputResponses"] = json!({"q1": {"action": "accept", "content": {}}});
    let mut messages = Messages::of(client.open("tools/call", retry).await);
    // Progress goes to the request that took up the call again, under the token of that request.
    let progress = messages.next().await.expect("progress");
    assert_eq!(progress["params"]["progressToken"], "second", "{progress}");
    drop(messages);
    eventually("the call to be cancelled", async || (fixture.stats().await["cancelled"] == 1).then_some(()))
        .await;
}

#[tokio::test]
async fn a_url_to_visit_first_is_a_question_to_a_modern_client_that_can_visit_it() {
    let fixture = Fixture::http("old", "echo").args(["--era", "legacy"]).start().await;
    let vmcp = Vmcp::new().backend(&fixture).start().await;
    vmcp.with_tool("old_rpc_error").await;
    let visit = json!({"mode": "url", "url": "https://example.com/sign-in", "elicitationId": "e", "message": "Sign in"});
    let params = call("old_rpc_error", &json!({"code": -32042, "data": {"elicitations": [visit]}}));

    let able = vmcp.modern().declaring(json!({"elicitation": {"url": {}}}));
    let question = asked(&able, &params).await;
    let mut named = visit.clone();
    named["message"] = "The server old asks: Sign in".into();
    named["_meta"] = json!({"vmcp/server": "old"});
    assert_eq!(
        question.result()["inputRequests"]["url-1"],
        json!({"method": "elicitation/create", "params": named})
    );
    assert!(question.result().get("requestState").is_none(), "{}", question.text);

    let refused = vmcp.modern().declaring(capable()).request("tools/call", params.clone()).await;
    assert_eq!(refused.error()["code"], -32603, "{}", refused.text);
    let legacy = vmcp.legacy().await.request("tools/call", params).await;
    assert_eq!(legacy.error()["code"], -32042, "{}", legacy.text);
}

#[tokio::test]
async fn a_silent_backend_reaches_no_user() {
    let (old, new) = (Fixture::rmcp("old", "legacy").await, Fixture::rmcp("new", "modern").await);
    let entry = |server: &Fixture| json!({"name": server.name, "url": server.url(), "questions": false});
    let vmcp = Vmcp::new().backend_entry(entry(&old)).backend_entry(entry(&new)).start().await;
    for backend in [&old, &new] {
        vmcp.with_tool(&format!("{}_test_elicitation", backend.name)).await;
    }
    for (revision, client) in clients(&vmcp).await {
        for backend in [&old, &new] {
            for tool in ["test_elicitation", "test_sampling", "test_input_required_result_list_roots"] {
                let name = format!("{}_{tool}", backend.name);
                let arguments = json!({"message": "Who?", "prompt": "Capital?"});
                let (answer, asked) = client.converse("tools/call", call(&name, &arguments), &ada).await;
                assert!(asked.is_empty(), "{revision} {name}: {asked:?}");
                assert!(!answer.text.contains("accept\""), "{revision} {name}: {}", answer.text);
            }
        }
    }
}

//! Calls as models and agent frameworks send them, and tools whose definitions they could not take.

use serde_json::{Value, json};
use vmcp_wire::lists::pages::List;

use super::{error_text, structured};
use crate::testing::{KEYWORDS, Scripted, backends, call, engine};
use vmcp_engine::engine::Engine;
use vmcp_engine::optim::names::NameStyle;

const ALL: &str = "optimizer: { exposure: All, embeddings: { provider: none } }\n";

async fn setup(tools: &[(&str, &str, Value)], more: &str) -> (Engine, Scripted) {
    let server = Scripted::start(tools).await;
    (engine(&backends(&[("s", &server.url)], more)).await, server)
}

/// Calls `s_TOOL` by call_tool.
async fn call_tool(engine: &Engine, tool: &str, parameters: Value) -> Result<Value, Value> {
    call(engine, "call_tool", json!({"tool_name": format!("s_{tool}"), "parameters": parameters})).await
}

/// Returns the arguments of the last call that the server got.
fn last_arguments(server: &Scripted) -> Value {
    server.calls().last().unwrap()["arguments"].clone()
}

#[tokio::test]
async fn arguments_take_the_types_of_the_schema() {
    let filter = json!({"type": "object", "properties": {"top": {"type": "integer"}}});
    let ids = json!({"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]});
    let (engine, server) =
        setup(&[("find", "Finds.", json!({"filter": filter, "ids": ids}))], KEYWORDS).await;
    for (sent, got) in [
        (
            json!({"filter": "{\"top\": \"3\"}", "ids": "[1, \"2\"]"}),
            json!({"filter": {"top": 3}, "ids": [1, 2]}),
        ),
        (json!({"filter": {"top": null}, "ids": null}), json!({"filter": {}, "ids": null})),
        (json!({"filter": {"top": 3.0}, "ids": "7"}), json!({"filter": {"top": 3}, "ids": [7]})),
        // The server may know how to read it.
        (json!({"filter": {"top": "three"}, "ids": ["1"]}), json!({"filter": {"top": "three"}, "ids": [1]})),
    ] {
        let answer = call_tool(&engine, "find", sent.clone()).await.unwrap();
        assert!(answer.get("isError").is_none(), "{sent}: {answer}");
        assert_eq!(last_arguments(&server).to_string(), got.to_string(), "{sent}");
    }
    let before = server.calls().len();
    let text = error_text(&call_tool(&engine, "find", json!({"filter": null, "ids": []})).await);
    assert!(text.contains("/filter: is required"), "{text}");
    let text = error_text(&call_tool(&engine, "find", json!({"filter": {"top": {"a": 1}}, "ids": []})).await);
    assert!(text.contains("/filter/top"), "{text}");
    assert_eq!(server.calls().len(), before, "the server was not asked");
}

#[tokio::test]
async fn keys_of_a_framework_reach_only_tools_that_declare_them() {
    let session = json!({"sessionId": {"type": "string"}});
    let (engine, server) =
        setup(&[("now", "Tells.", json!({})), ("chat", "Chats.", session)], KEYWORDS).await;
    let extra = json!({"toolCallId": "c", "sessionId": "s", "action": "sendMessage", "chatInput": "hi"});
    let with = |more: Value| {
        let mut arguments = extra.clone();
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    call(&engine, "call_tool", with(json!({"tool_name": "s_now"}))).await.unwrap();
    assert_eq!(last_arguments(&server), json!({}));
    call(&engine, "call_tool", with(json!({"tool_name": "s_now", "parameters": {"a": 1}}))).await.unwrap();
    assert_eq!(last_arguments(&server), json!({"a": 1}));
    call(&engine, "s_now", with(json!({"zone": "UTC"}))).await.unwrap();
    assert_eq!(last_arguments(&server), json!({"zone": "UTC"}));
    call(&engine, "call_tool", with(json!({"tool_name": "s_chat"}))).await.unwrap();
    assert_eq!(last_arguments(&server), json!({"sessionId": "s"}));
    call(&engine, "s_now", json!({"action": "start"})).await.unwrap();
    assert_eq!(last_arguments(&server), json!({"action": "start"}));
}

#[tokio::test]
async fn an_alias_calls_the_tool_that_it_stands_for() {
    let tools = [("find", "Finds.", json!({})), ("look", "Looks.", json!({}))];
    let aliases = "aggregation: { aliases: { search: s_find, s_look: s_find, gone: s_gone } }\n";
    let own = "optimizer: { tools: [call_tool, get_tool_schema], embeddings: { provider: none } }\n";
    let (engine, server) = setup(&tools, &format!("{own}{aliases}")).await;
    let called = async |name: &str| {
        let answer = call(&engine, "call_tool", json!({"tool_name": name, "parameters": {}})).await;
        (answer.is_ok(), server.calls().last().map(|call| call["name"].clone()))
    };
    assert_eq!(called("search").await, (true, Some(json!("find"))));
    assert_eq!(called("s_look").await, (true, Some(json!("look"))), "a tool of that very name wins");
    let schema = call(&engine, "get_tool_schema", json!({"tool_name": "search"})).await.unwrap();
    assert!(schema.to_string().contains("s_find"), "{schema}");
    let missing = json!({"tool_name": "gone", "parameters": {}});
    let missing = error_text(&call(&engine, "call_tool", missing).await);
    assert!(missing.contains("tool not found: gone"), "{missing}");
}

#[tokio::test]
async fn a_tool_that_no_list_can_have_is_found_and_called() {
    let odd = json!({"first name": {"type": "string"}});
    let tools = [
        ("odd", "Greets a person by name.", odd),
        ("good", "Waves.", json!({})),
        ("screens", "Lists screens.", json!({})),
    ];
    for more in [ALL, KEYWORDS] {
        let server = Scripted::start(&tools).await;
        server.promise("screens", json!({"type": "object", "properties": {"s": {"$ref": "#/$defs/S"}}}));
        let engine = engine(&backends(&[("s", &server.url)], more)).await;
        let snapshot = engine.snapshot();
        let list = snapshot.whole_view().list(List::Tools, NameStyle::Underscore);
        let entry = |name: &str| list.entries().iter().find(|entry| entry.key == name);
        assert!(entry("s_odd").is_none() && entry("s_good").is_some());
        assert!(!entry("s_screens").unwrap().raw.get().contains("outputSchema"));
        let found = call(&engine, "find_tool", json!({"tool_description": "greet a person"})).await.unwrap();
        assert_eq!(structured(&found)["tools"][0]["name"], "s_odd");
        call_tool(&engine, "odd", json!({"first name": "Ann"})).await.unwrap();
        call(&engine, "s_odd", json!({"first name": "Ann"})).await.unwrap();
        assert_eq!(server.calls().len(), 2);
        let issues: Vec<_> = snapshot.unfiltered().issues.iter().map(ToString::to_string).collect();
        assert!(
            issues.iter().any(|issue| issue.starts_with("UnlistedDefinition: tool odd of backend s: ")),
            "{issues:?}"
        );
        assert!(
            issues.iter().any(|issue| issue.starts_with("MendedDefinition: tool screens of backend s: ")),
            "{issues:?}"
        );
    }
}

//! Tests of execute_code: the calls of a script, from its handler to the backends and back. Scripts
//! themselves, and their workers, are tested in `vmcp-script`.

use serde_json::{Map, Value, json};
use vmcp_script::pool::{Called, ToolHost as _};
use vmcp_script::protocol::{CallEnd, HostCall, Raised, ToolUse};

use super::*;
use crate::Caller;
use crate::testing::{DenyTool, KEYWORDS, Scripted, backends, call, engine, engine_with};
use vmcp_engine::engine::{Engine, Options};

const OFFERED: &str =
    "optimizer: { tools: [find_tool, call_tool, execute_code], embeddings: { provider: none } }\n";

async fn server() -> Scripted {
    let schema = json!({ "n": { "type": "integer" } });
    let tools =
        [("work", "Works hard.", schema), ("do-it", "Does it.", json!({})), ("fail", "Fails.", json!({}))];
    Scripted::start(&tools).await
}

async fn made(engine: &Engine, made: HostCall) -> CallEnd {
    let snapshot = engine.snapshot();
    let caller = Caller::default();
    let view = snapshot.view(&caller.principal);
    let context = CallContext { engine, snapshot: &snapshot, view: &view, caller: &caller };
    match Host::new(context, Dialect::Python).call(made).await {
        Called::Ended(end) => end,
        Called::Asks(asking) => panic!("{asking:?}"),
    }
}

fn tool(server: Option<&str>, tool: &str, arguments: &Value) -> HostCall {
    let arguments: Map<_, _> = arguments.as_object().cloned().unwrap_or_default();
    HostCall::Tool { server: server.map(str::to_owned), tool: tool.to_owned(), arguments }
}

fn raised(end: CallEnd) -> (Raised, String) {
    match end {
        CallEnd::Raised { kind, message } => (kind, message),
        CallEnd::Value(value) => panic!("{value}"),
    }
}

#[tokio::test]
async fn calls_of_a_script_reach_the_tool_that_they_name() {
    let server = server().await;
    let engine = engine(&backends(&[("my-fs", &server.url)], OFFERED)).await;
    let structured = json!({ "n": 1, "structured": { "a": [1] } });
    for named in [
        tool(Some("my_fs"), "work", &structured),
        tool(Some("my-fs"), "work", &structured),
        tool(None, "my-fs.work", &structured),
        tool(None, "my_fs.work", &structured),
    ] {
        assert_eq!(made(&engine, named.clone()).await, CallEnd::Value(json!({ "a": [1] })), "{named:?}");
    }
    made(&engine, tool(Some("my_fs"), "do_it", &json!({}))).await;
    assert_eq!(server.calls().last().unwrap()["name"], "do-it");
    let (kind, message) = raised(made(&engine, tool(Some("my_fs"), "fail", &json!({}))).await);
    assert_eq!((kind, message.as_str()), (Raised::Failed, "it is broken"));
    let calls = server.calls().len();
    let (kind, message) = raised(made(&engine, tool(Some("my_fs"), "work", &json!({ "n": [] }))).await);
    assert!(kind == Raised::Arguments && message.contains("do not fit the schema"), "{message}");
    for (wrong, named) in
        [(json!({ "n": "many" }), "n"), (json!({ "m": 1 }), "n"), (json!({ "n": 1.5 }), "n")]
    {
        let (kind, message) = raised(made(&engine, tool(Some("my_fs"), "work", &wrong)).await);
        assert!(kind == Raised::Arguments && message.contains(named), "{wrong}: {message}");
    }
    assert_eq!(server.calls().len(), calls, "arguments that do not fit are not sent");
    let found = made(&engine, HostCall::Search { query: "work hard".to_owned(), limit: Some(1) }).await;
    let CallEnd::Value(found) = found else { panic!("{found:?}") };
    assert_eq!(found[0]["tool"], "work", "{found}");
    assert!(found[0]["signature"].as_str().unwrap().contains("def my_fs.work(*,\n    n: int,"), "{found}");
    let described = made(&engine, HostCall::Describe { name: "my_fs.do_it".to_owned() }).await;
    let CallEnd::Value(described) = described else { panic!("{described:?}") };
    assert!(
        described.as_str().unwrap().starts_with("def my_fs.do_it() -> Any: ...  # Does it."),
        "{described}"
    );
}

#[tokio::test]
async fn a_denied_tool_is_like_a_missing_one() {
    let server = server().await;
    let options = Options { policy: Some(DenyTool::named("fs_do-it")), ..Options::default() };
    let engine = engine_with(&backends(&[("fs", &server.url)], OFFERED), options).await;
    let denied = raised(made(&engine, tool(Some("fs"), "do_it", &json!({}))).await);
    let missing = raised(made(&engine, tool(Some("fs"), "no_it", &json!({}))).await);
    assert_eq!(denied.1.replace("do_it", "no_it"), missing.1);
    assert_eq!((denied.0, missing.0), (Raised::Unknown, Raised::Unknown));
    assert!(server.calls().is_empty());
    let own = raised(made(&engine, tool(None, "optim.call_tool", &json!({ "tool_name": "fs_do-it" }))).await);
    assert_eq!(own.0, Raised::Unknown, "scripts reach no tool by an own one");
}

#[tokio::test]
async fn tools_that_a_script_names_are_checked_in_the_view_of_its_caller() {
    let server = server().await;
    let policies = r#"
incomingAuth:
  type: anonymous
  authz:
    policies:
      - 'permit(principal, action, resource);'
      - 'forbid(principal, action, resource == Tool::"my-fs_fail");'
"#;
    let engine = engine(&backends(&[("my-fs", &server.url)], &format!("{OFFERED}{policies}"))).await;
    let (snapshot, caller) = (engine.snapshot(), Caller::default());
    let view = snapshot.view(&caller.principal);
    let context = CallContext { engine: &engine, snapshot: &snapshot, view: &view, caller: &caller };
    let on_line =
        |tool: &str| ToolUse { server: "my_fs".to_owned(), tool: tool.to_owned(), line: 1, arguments: None };
    let checked =
        Host::new(context, Dialect::Python).check(["do_it", "fail", "gone"].map(on_line).into()).await;
    assert_eq!(checked[0], None);
    let denied = checked[1].clone().unwrap();
    assert!(denied.starts_with("no tool my_fs.fail"), "{denied}");
    assert_eq!(Some(denied.replace("fail", "gone")), checked[2]);
    assert!(server.calls().is_empty());
    let with = |tool: &str, arguments: Value| ToolUse {
        arguments: Some(arguments.as_object().unwrap().clone()),
        ..on_line(tool)
    };
    let calls = [
        with("work", json!({ "n": 1 })),
        with("work", json!({ "n": "1" })),
        with("work", json!({ "n": "many" })),
        with("fail", json!({ "n": "many" })),
        with("gone", json!({})),
    ];
    let checked = Host::new(context, Dialect::Python).check(calls.into()).await;
    assert_eq!((&checked[0], &checked[1], &checked[3], &checked[4]), (&None, &None, &None, &None));
    assert!(checked[2].as_ref().unwrap().contains("do not fit the schema of"), "{checked:?}");
    assert!(server.calls().is_empty());
}

#[tokio::test]
async fn mistakes_in_the_arguments_name_their_field() {
    let server = server().await;
    let engine = engine(&backends(&[("fs", &server.url)], OFFERED)).await;
    for (arguments, text) in [
        (json!({}), "code is required"),
        (json!({ "code": "1", "timeout_ms": 999_999_999 }), "timeout_ms must be more than 0 and at most 2m"),
        (json!({ "code": "1", "timeout": 0 }), "timeout must be more than 0"),
        (json!({ "code": "1", "language": "ruby" }), "Language 'ruby' not supported"),
        (json!({ "code": "1" }), "cannot start workers"),
    ] {
        let result = call(&engine, "optim.execute_code", arguments.clone()).await.unwrap();
        assert_eq!(result["isError"], true, "{result}");
        assert!(result["content"][0]["text"].as_str().unwrap().contains(text), "{arguments}: {result}");
    }
    let ruby = json!({ "code": "1", "language": "ruby" });
    let refused = call(&engine, "optim.execute_code", ruby).await.unwrap();
    assert_eq!(refused["structuredContent"]["supported_languages"], json!(["python"]));
    let off = crate::testing::engine(&backends(&[("fs", &server.url)], KEYWORDS)).await;
    assert!(call(&off, "optim.execute_code", json!({ "code": "1" })).await.is_err(), "off by default");
}

#[test]
fn the_context_is_in_the_answer_if_the_call_has_one() {
    for context in [Some(json!({ "who": "Ada" })), None] {
        let arguments = CodeArguments {
            code: "1".to_owned(),
            task: None,
            context: context.clone(),
            context_with_values: None,
            data: Map::new(),
            timeout: Duration::from_secs(1),
            dialect: Dialect::Python,
            is_over_rows: false,
            start_failure: None,
        };
        let finished = Finished { end: Ok(json!(1)), output: String::new(), pictures: Vec::new() };
        let result = report::result(Ran { finished, calls: 0, took: Duration::ZERO }, &arguments);
        let result: Value = serde_json::from_str(result.get()).unwrap();
        assert_eq!(result["structuredContent"].get("context"), context.as_ref());
        assert_eq!(result["structuredContent"]["result"], "1");
    }
}

/// An engine that keeps results, and a reference to `{"rows": [5, 6]}`.
async fn with_reference(server: &Scripted) -> (Engine, String) {
    let offered = OFFERED.replace("embeddings", "largeResults: { enabled: true }, embeddings");
    let engine = engine(&backends(&[("fs", &server.url)], &offered)).await;
    let parameters = json!({ "n": 1, "structured": { "rows": [5, 6] } });
    let keep = json!({ "tool_name": "fs_work", "parameters": parameters, "store_result": true });
    let kept = call(&engine, "optim.call_tool", keep).await.unwrap();
    let envelope: Value = serde_json::from_str(kept["content"][0]["text"].as_str().unwrap()).unwrap();
    (engine, envelope["result_ref"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_reference_stands_for_its_value_in_the_calls_of_a_script() {
    let server = server().await;
    let (engine, reference) = with_reference(&server).await;
    let second = json!({ "n": { "$result_ref": reference, "path": "$.rows[1]" } });
    assert!(matches!(made(&engine, tool(Some("fs"), "work", &second)).await, CallEnd::Value(_)));
    assert_eq!(server.calls().pop().unwrap()["arguments"], json!({ "n": 6 }));
    let calls = server.calls().len();
    let list = json!({ "n": { "$result_ref": reference, "path": "$.rows" } });
    let unknown = json!({ "n": { "$result_ref": "res_AAAAAAAAAAAAAAAAAAAAAA" } });
    let (snapshot, caller) = (engine.snapshot(), Caller::default());
    let view = snapshot.view(&caller.principal);
    let context = CallContext { engine: &engine, snapshot: &snapshot, view: &view, caller: &caller };
    let named = |arguments: &Value| ToolUse {
        server: "fs".to_owned(),
        tool: "work".to_owned(),
        line: 1,
        arguments: arguments.as_object().cloned(),
    };
    let uses = [&second, &list, &unknown].map(named);
    let checked = Host::new(context, Dialect::Python).check(uses.into()).await;
    assert_eq!(checked[0], None);
    for (wrong, text, checked) in
        [(&list, "do not fit the schema", &checked[1]), (&unknown, "result_ref is unknown", &checked[2])]
    {
        let (kind, message) = raised(made(&engine, tool(Some("fs"), "work", wrong)).await);
        assert!(kind == Raised::Arguments && message.contains(text), "{message}");
        assert!(checked.as_ref().unwrap().contains(text), "before the script begins: {checked:?}");
    }
    assert_eq!(server.calls().len(), calls, "nothing is sent");
}

#[tokio::test]
async fn calls_of_a_script_send_the_metadata_of_the_client() {
    let server = server().await;
    let engine = engine(&backends(&[("fs", &server.url)], OFFERED)).await;
    let (snapshot, caller) = (engine.snapshot(), Caller::default());
    let view = snapshot.view(&caller.principal);
    let context = CallContext { engine: &engine, snapshot: &snapshot, view: &view, caller: &caller };
    let meta = json!({ "com.example/tenant": "blue", "progressToken": "of-client", "vmcp/own": 1 });
    let params = OwnedParams::from_text(json!({ "name": "x", "_meta": meta }).to_string()).unwrap();
    let host = Host::new(context, Dialect::Python).with_meta(call::own_meta(&params));
    let answer = host.call(tool(Some("fs"), "work", &json!({ "n": 1 }))).await;
    assert!(matches!(answer, Called::Ended(CallEnd::Value(_))), "{answer:?}");
    let sent = server.calls().pop().unwrap();
    assert_eq!(sent["_meta"]["com.example/tenant"], "blue", "{sent}");
    assert!(sent["_meta"].get("vmcp/own").is_none() && sent["_meta"]["progressToken"] != "of-client");
}

/// ToolHive: its rate limits leave out inner calls.
#[tokio::test]
async fn a_call_of_a_script_beyond_the_rate_of_its_tool_is_not_sent() {
    let server = server().await;
    let limits =
        "rateLimiting: { tools: [{ name: fs_work, perUser: { maxTokens: 1, refillPeriod: 1h } }] }\n";
    let engine = engine(&backends(&[("fs", &server.url)], &format!("{OFFERED}{limits}"))).await;
    let work = || tool(Some("fs"), "work", &json!({ "n": 1 }));
    assert!(matches!(made(&engine, work()).await, CallEnd::Value(_)));
    let (kind, message) = raised(made(&engine, work()).await);
    assert!(kind == Raised::Unanswered && message.contains("rate limit"), "{message}");
    assert_eq!(server.calls().len(), 1);
}

#[tokio::test]
async fn a_script_over_rows_reaches_no_tool_and_no_search() {
    let server = server().await;
    let engine = engine(&backends(&[("fs", &server.url)], OFFERED)).await;
    let (snapshot, caller) = (engine.snapshot(), Caller::default());
    let view = snapshot.view(&caller.principal);
    let context = CallContext { engine: &engine, snapshot: &snapshot, view: &view, caller: &caller };
    for call in [
        tool(Some("fs"), "do_it", &json!({})),
        tool(None, "fs_do-it", &json!({})),
        HostCall::Search { query: "work".to_owned(), limit: None },
        HostCall::Describe { name: "fs.do_it".to_owned() },
    ] {
        let host = Host::new(context, Dialect::Python).over_rows(true);
        let Called::Ended(end) = host.call(call.clone()).await else { panic!("{call:?}") };
        let (kind, message) = raised(end);
        assert!(kind == Raised::Asks && message.contains("calls no tool"), "{call:?}: {message}");
        assert!(!host.may_have_changed());
    }
    assert!(server.calls().is_empty());
}

#[tokio::test]
async fn find_tool_answers_with_signatures() {
    let server = server().await;
    let engine = engine(&backends(&[("fs", &server.url)], OFFERED)).await;
    let arguments = json!({ "tool_description": "work hard", "limit": 1, "detail": "signatures" });
    let found = call(&engine, "optim.find_tool", arguments).await.unwrap();
    let tool = &found["structuredContent"]["tools"][0];
    assert!(tool["signature"].as_str().unwrap().starts_with("def fs.work("), "{tool}");
    assert_eq!(tool.get("parameters"), None);
}

mod jobs;
mod observed_shapes;
mod questions;
mod tasks;
mod tool_script;

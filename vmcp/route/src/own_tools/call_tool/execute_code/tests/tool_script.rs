//! execute_tool_script: its name, arguments and results, as ToolHive's clients know them. Scripts themselves
//! are tested in `vmcp-script-worker`.

use std::sync::Arc;

use super::*;
use crate::testing::SeenCalls;
use vmcp_engine::optim::names::NameStyle;
use vmcp_script::picture::{Picture, PictureFormat};
use vmcp_wire::lists::pages::List;

const TOOL_SCRIPTS: &str =
    "optimizer: { tools: [execute_tool_script], exposure: All, embeddings: { provider: none } }\n";

fn ran(end: Result<Value, vmcp_script::protocol::Failure>, output: &str) -> Ran {
    let finished = Finished { end, output: output.to_owned(), pictures: Vec::new() };
    Ran { finished, calls: 0, took: Duration::ZERO }
}

fn arguments() -> CodeArguments {
    CodeArguments {
        code: "return 1".to_owned(),
        task: None,
        context: None,
        context_with_values: None,
        data: Map::new(),
        timeout: Duration::from_secs(1),
        dialect: Dialect::ToolHive,
        is_over_rows: false,
        start_failure: None,
    }
}

/// ToolHive: "should advertise execute_tool_script alongside the backend tools".
#[tokio::test]
async fn it_is_listed_alone_beside_the_tools_of_backends() {
    let server = server().await;
    let engine = engine(&backends(&[("fs", &server.url)], TOOL_SCRIPTS)).await;
    let view = engine.snapshot().view(&Caller::default().principal);
    for style in [NameStyle::Dotted, NameStyle::Underscore] {
        let entries = view.list(List::Tools, style).entries();
        let names: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(names, ["execute_tool_script", "fs_do-it", "fs_fail", "fs_work"]);
    }
}

#[tokio::test]
async fn mistakes_in_the_arguments_name_their_field() {
    let server = server().await;
    let engine = engine(&backends(&[("fs", &server.url)], TOOL_SCRIPTS)).await;
    for (arguments, text) in [
        (json!({}), "script is required"),
        (json!({ "script": "" }), "script"),
        (json!({ "script": 42 }), "script"),
        (json!({ "script": "return 1", "data": "not-an-object" }), "data"),
        (json!({ "script": "return 1", "data": { "my-key": 1 } }), "data"),
        (json!({ "script": "return 1", "data": { "call_tool": 1 } }), "\"call_tool\" conflicts with"),
        (json!({ "script": "return 1", "data": { "fs_do_it": 1 } }), "\"fs_do_it\" conflicts with"),
        (json!({ "script": "return 1" }), "cannot start workers"),
    ] {
        for name in ["execute_tool_script", "optim_execute_tool_script"] {
            let result = call(&engine, name, arguments.clone()).await.unwrap();
            assert_eq!(result["isError"], true, "{result}");
            assert!(result["content"][0]["text"].as_str().unwrap().contains(text), "{arguments}: {result}");
        }
    }
    let off = crate::testing::engine(&backends(&[("fs", &server.url)], KEYWORDS)).await;
    assert!(call(&off, "execute_tool_script", json!({ "script": "1" })).await.is_err(), "off by default");
}

#[test]
fn it_runs_in_a_worker_where_other_scripts_are_jobs() {
    let config = vmcp_engine::testing::config("code: { engine: job }");
    assert!(job_of(&config, Dialect::Python).is_some());
    assert!(job_of(&config, Dialect::ToolHive).is_none());
}

#[test]
fn results_have_the_form_of_toolhive() {
    let result = |ran| serde_json::from_str::<Value>(report::result(ran, &arguments()).get()).unwrap();
    let done = result(ran(Ok(json!({ "count": 2 })), "log line 1\nlog line 2\n"));
    assert_eq!(
        done,
        json!({ "content": [
            { "type": "text", "text": "{\"count\":2}" },
            { "type": "text", "text": "Script logs:\nlog line 1\nlog line 2" },
        ], "isError": false })
    );
    let failure = vmcp_script::protocol::Failure::new("RuntimeError", "it is broken");
    let failure = vmcp_script::protocol::Failure { line: Some(3), ..failure };
    let failed = result(ran(Err(failure), ""));
    let text = "script execution failed: it is broken (RuntimeError, line 3)";
    assert_eq!(failed, json!({ "content": [{ "type": "text", "text": text }], "isError": true }));
}

#[tokio::test]
async fn a_denied_call_by_a_python_name_is_recorded_with_its_tool() {
    let (server, seen) = (server().await, Arc::<SeenCalls>::default());
    let options = Options {
        policy: Some(DenyTool::named("fs_do-it")),
        observers: vec![Arc::clone(&seen) as _],
        ..Options::default()
    };
    let engine = engine_with(&backends(&[("fs", &server.url)], TOOL_SCRIPTS), options).await;
    for (server, name) in [(None, "fs_do_it"), (None, "fs.do_it"), (Some("fs"), "do_it")] {
        let (kind, _) = raised(made(&engine, tool(server, name, &json!({}))).await);
        assert_eq!(kind, Raised::Unknown, "{name}");
        let records = seen.take();
        let [record] = records.as_slice() else { panic!("{name}: {records:?}") };
        let denied = record.tool.as_ref().map(|tool| tool.name.as_str());
        assert_eq!((denied, record.outcome), (Some("fs_do-it"), Outcome::Denied), "{name}");
    }
    raised(made(&engine, tool(None, "fs_no_it", &json!({}))).await);
    assert!(seen.take().is_empty(), "an unknown tool has no record of a call");
    assert!(server.calls().is_empty());
}

#[test]
fn a_script_out_of_time_keeps_its_pictures() {
    let picture = Picture { format: PictureFormat::Png, data: "AAAA".to_owned() };
    let failure = vmcp_script::protocol::Failure::new("TimeoutError", "it took too long");
    let mut ran = ran(Err(failure), "");
    ran.finished.pictures = vec![picture];
    let arguments = CodeArguments { dialect: Dialect::Python, ..arguments() };
    let result: Value = serde_json::from_str(report::result(ran, &arguments).get()).unwrap();
    assert_eq!(result["content"][1], json!({ "type": "image", "data": "AAAA", "mimeType": "image/png" }));
    let answer = result["structuredContent"].as_object().unwrap();
    assert_eq!(answer.keys().collect::<Vec<_>>(), ["success", "error", "error_type", "timeout"]);
    assert_eq!(result["isError"], true);
}

#[tokio::test]
async fn functions_are_the_listed_names_that_the_text_has() {
    let server = server().await;
    let engine = engine(&backends(&[("fs", &server.url)], TOOL_SCRIPTS)).await;
    let (snapshot, caller) = (engine.snapshot(), Caller::default());
    let view = snapshot.view(&caller.principal);
    let named = toolhive_value::functions(&view, "x = fs_do_it(a=1)\nreturn fs_work_(n=1)");
    assert_eq!(named, ["fs_do_it"]);
    let context = CallContext { engine: &engine, snapshot: &snapshot, view: &view, caller: &caller };
    let host = Host::new(context, Dialect::ToolHive);
    let call = tool(None, "fs_do_it", &json!({ "structured": { "result": [1.0] } }));
    let Called::Ended(end) = host.call(call).await else { panic!("it asks") };
    assert_eq!(end, CallEnd::Value(json!([1])));
    assert_eq!(server.calls().last().unwrap()["name"], "do-it");
    let describe = HostCall::Describe { name: "fs_do_it".to_owned() };
    let Called::Ended(CallEnd::Value(signature)) = host.call(describe).await else { panic!("it asks") };
    assert!(signature.as_str().unwrap().starts_with("def fs_do_it()"), "{signature}");
}

#[tokio::test]
async fn references_in_data_stand_for_their_values() {
    let server = server().await;
    let (engine, reference) = with_reference(&server).await;
    let (snapshot, caller) = (engine.snapshot(), Caller::default());
    let view = snapshot.view(&caller.principal);
    let context = CallContext { engine: &engine, snapshot: &snapshot, view: &view, caller: &caller };
    let data = |reference: &str| json!({ "rows": { "$result_ref": reference, "path": "$.rows" }, "n": 1 });
    let with = |data: Value| CodeArguments { data: data.as_object().unwrap().clone(), ..arguments() };
    let mut known = with(data(&reference));
    assert!(prepare(context, &ScriptPart::New, &mut known).await.is_ok());
    assert_eq!(Value::Object(known.data), json!({ "rows": [5, 6], "n": 1 }));
    let mut unknown = with(data("res_AAAAAAAAAAAAAAAAAAAAAA"));
    let refused = prepare(context, &ScriptPart::New, &mut unknown).await.err().unwrap();
    assert!(refused.contains("result_ref is unknown"), "{refused}");
}

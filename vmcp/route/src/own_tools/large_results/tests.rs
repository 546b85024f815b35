//! Large results from the client's call to every way of reading them.

mod language_model;

use serde_json::{Value, json};
use vmcp_wire::owned::OwnedParams;

use crate::testing::{DenyTool, Scripted, backends, call_with, engine, engine_with};
use crate::{CallContext, Caller};
use vmcp_engine::access::identity::Principal;
use vmcp_engine::engine::{Engine, Options};

const SETTINGS: &str = "optimizer: { embeddings: { provider: none }, largeResults: { enabled: true } }\n";

async fn server() -> Scripted {
    let count = json!({"count": {"type": "integer"}});
    let server = Scripted::start(&[
        ("rows", "Returns many rows.", count.clone()),
        ("content", "Returns blocks.", json!({"content": {"type": "array"}})),
        ("typed", "Returns what it promises.", json!({"structured": {"type": "object"}})),
        ("echo", "Returns its parameters.", json!({"data": {}})),
        ("fail", "Fails.", json!({})),
    ])
    .await;
    server.promise("typed", json!({"type": "object"}));
    server
}

async fn setup() -> (Engine, Scripted) {
    let server = server().await;
    (engine(&backends(&[("one", &server.url)], SETTINGS)).await, server)
}

fn alice() -> Caller {
    Caller { principal: Principal::at("10.0.0.1"), ..Caller::default() }
}

fn bob() -> Caller {
    Caller { principal: Principal::at("10.0.0.2"), ..Caller::default() }
}

async fn own(engine: &Engine, caller: &Caller, tool: &str, arguments: Value) -> Value {
    call_with(engine, caller, json!({"name": tool, "arguments": arguments})).await.unwrap()
}

async fn found(engine: &Engine, tool: &str, parameters: Value) -> Value {
    own(engine, &alice(), "optim.call_tool", json!({"tool_name": tool, "parameters": parameters})).await
}

/// The envelope in a result.
fn envelope(result: &Value) -> Value {
    serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap()
}

async fn rows(engine: &Engine, count: usize) -> String {
    let result = found(engine, "one_rows", json!({ "count": count })).await;
    envelope(&result)["result_ref"].as_str().unwrap().to_owned()
}

async fn read_resource(engine: &Engine, caller: &Caller, uri: &str) -> Result<Value, Value> {
    let value = |raw: &serde_json::value::RawValue| serde_json::from_str(raw.get()).unwrap();
    let snapshot = engine.snapshot();
    let view = snapshot.view(&caller.principal);
    let context = CallContext { engine, snapshot: &snapshot, view: &view, caller };
    let params = OwnedParams::from_text(json!({ "uri": uri }).to_string()).unwrap();
    let answer = crate::read_resource(context, &params).await;
    answer.content.settled().map(|raw| value(&raw)).map_err(|raw| value(&raw))
}

#[tokio::test]
async fn fifty_thousand_rows_become_an_envelope_and_ten_rows() {
    let (engine, _server) = setup().await;
    let result = found(&engine, "one_rows", json!({"count": 50_000})).await;
    assert!(result.to_string().len() < 1_024, "{result}");
    let told = envelope(&result);
    assert_eq!(told["rows"], 50_000);
    assert_eq!(told["shape"], "{id: integer, team: string, amount: integer, note: string}[50000]");
    assert_eq!(told["preview"][0], json!({"id": 0, "team": "team 0", "amount": 0, "note": "a row"}));
    let reference = told["result_ref"].as_str().unwrap();
    assert_eq!(result["content"][1]["uri"], format!("vmcp://results/{reference}"));
    for data in
        [json!(reference), json!({"$ref": reference}), json!({"$result_ref": reference, "path": "$[*]"})]
    {
        let operation = "filter amount > 90 and top 10";
        // An unoptimized build on a busy machine needs more than the usual five seconds.
        let arguments =
            json!({"data": data, "operation": operation, "parameters": {"limit": 10}, "timeout": 30});
        let processed = own(&engine, &alice(), "optim.process_large_dataset", arguments).await;
        let processed = &processed["structuredContent"];
        assert_eq!(processed["result"].as_array().map(Vec::len), Some(10), "{processed}");
        assert_eq!((&processed["original_size"], &processed["processed_size"]), (&json!(50_000), &json!(10)));
        assert_eq!((&processed["reduction_percent"], &processed["success"]), (&json!(100.0), &json!(true)));
    }
    let usage = engine.results().usage();
    assert_eq!(usage.results, 1);
    assert!(engine.render_metrics().contains("vmcp_large_results_total 1"));
}

#[tokio::test]
async fn a_kept_result_is_read_searched_and_passed_on() {
    let (engine, server) = setup().await;
    let reference = rows(&engine, 2_000).await;
    let arguments = json!({"result_ref": reference, "path": "$[5:8].id"});
    let part = own(&engine, &alice(), "optim.read_result", arguments).await;
    assert_eq!(part["structuredContent"]["value"], json!([5, 6, 7]), "{part}");
    let part = own(&engine, &alice(), "optim.read_result", json!({"result_ref": reference})).await;
    assert!(part["structuredContent"]["next_offset"].as_u64().is_some_and(|next| next < 2_000), "{part}");
    let arguments = json!({"result_ref": reference, "intent": "team", "limit": 2});
    let parts = own(&engine, &alice(), "optim.search_result", arguments).await;
    assert_eq!(parts["structuredContent"]["parts"].as_array().map(Vec::len), Some(2), "{parts}");
    let arguments = json!({"data": {"$result_ref": reference, "path": "$[1999]"}});
    found(&engine, "one_echo", arguments).await;
    let seen = server.calls().pop().unwrap();
    assert_eq!(seen["arguments"]["data"]["id"], 1_999, "the backend gets the value");
    let read = read_resource(&engine, &alice(), &format!("vmcp://results/{reference}")).await.unwrap();
    let contents = &read["contents"][0];
    assert_eq!(contents["mimeType"], "application/json");
    let value: Value = serde_json::from_str(contents["text"].as_str().unwrap()).unwrap();
    assert_eq!(value.as_array().map(Vec::len), Some(2_000));
}

#[tokio::test]
async fn a_reference_stands_for_its_value_in_a_direct_call_too() {
    let (engine, server) = setup().await;
    let reference = rows(&engine, 2_000).await;
    let direct = async |caller: &Caller, reference: &str| {
        let data = json!({"$result_ref": reference, "path": "$[1999].id"});
        let params = json!({"name": "one_echo", "arguments": {"data": data}});
        call_with(&engine, caller, params).await.unwrap()
    };
    direct(&alice(), &reference).await;
    assert_eq!(server.calls().pop().unwrap()["arguments"], json!({"data": 1_999}));
    let calls = server.calls().len();
    for (caller, reference) in [(bob(), reference.as_str()), (alice(), "res_AAAAAAAAAAAAAAAAAAAAAA")] {
        let refused = direct(&caller, reference).await;
        assert!(refused["isError"] == true && refused.to_string().contains("is unknown"), "{refused}");
    }
    assert_eq!(server.calls().len(), calls, "nothing is passed on");
    let settings = "optimizer: { embeddings: { provider: none } }\n";
    let off = crate::testing::engine(&backends(&[("one", &server.url)], settings)).await;
    let written = json!({"data": {"$result_ref": reference}});
    call_with(&off, &alice(), json!({"name": "one_echo", "arguments": written})).await.unwrap();
    assert_eq!(server.calls().pop().unwrap()["arguments"], written, "relayed where results are not kept");
}

#[tokio::test]
async fn a_reference_of_another_reads_as_one_that_never_was() {
    let (engine, server) = setup().await;
    let reference = rows(&engine, 2_000).await;
    let never = format!("res_{}", "A".repeat(22));
    let same = |text: Value| text.to_string().replace(&reference, &never);
    for (tool, arguments) in [
        ("optim.read_result", json!({"result_ref": reference})),
        ("optim.search_result", json!({"result_ref": reference, "intent": "x"})),
        ("optim.process_large_dataset", json!({"data": reference, "operation": "count"})),
        (
            "optim.call_tool",
            json!({"tool_name": "one_echo", "parameters": {"data": {"$result_ref": reference}}}),
        ),
    ] {
        let refused = own(&engine, &bob(), tool, arguments.clone()).await;
        assert_eq!(refused["isError"], true, "{tool}");
        let unknown: Value = serde_json::from_str(&same(arguments)).unwrap();
        assert_eq!(same(refused), own(&engine, &bob(), tool, unknown).await.to_string(), "{tool}");
    }
    let uri = format!("vmcp://results/{reference}");
    let refused = read_resource(&engine, &bob(), &uri).await.unwrap_err();
    let unknown = read_resource(&engine, &bob(), &format!("vmcp://results/{never}")).await.unwrap_err();
    assert_eq!(same(refused), unknown.to_string());
    assert!(server.calls().iter().all(|call| call["name"] == "rows"), "nothing was passed on");
    assert!(read_resource(&engine, &alice(), &uri).await.is_ok());
}

#[tokio::test]
async fn who_may_no_longer_call_the_tool_may_no_longer_read_its_results() {
    let server = server().await;
    let yaml = backends(&[("one", &server.url)], SETTINGS);
    let engine = engine(&yaml).await;
    let reference = rows(&engine, 2_000).await;
    server.remove("rows");
    engine.refresh(None);
    crate::testing::eventually("the tool to be gone", || {
        engine.snapshot().unfiltered().tool("one_rows").is_none()
    })
    .await;
    let refused = own(&engine, &alice(), "optim.read_result", json!({"result_ref": reference})).await;
    assert_eq!(refused["structuredContent"]["error_type"], "NotFound", "{refused}");
    let options = Options { policy: Some(DenyTool::named("one_rows")), ..Options::default() };
    let server = self::server().await;
    let engine = engine_with(&backends(&[("one", &server.url)], SETTINGS), options).await;
    let refused = found(&engine, "one_rows", json!({"count": 2_000})).await;
    assert_eq!(refused["isError"], true);
    assert_eq!(engine.results().usage().results, 0);
}

#[tokio::test]
async fn small_typed_failed_and_pictured_results_stay_as_they_came() {
    let (engine, _server) = setup().await;
    let small = found(&engine, "one_rows", json!({"count": 3})).await;
    assert!(small["content"][0]["text"].as_str().unwrap().starts_with(r#"[{"id":0"#), "{small}");
    let long = "x".repeat(40_000);
    let typed = found(&engine, "one_typed", json!({"structured": {"text": long}})).await;
    assert_eq!(typed["structuredContent"]["text"].as_str().map(str::len), Some(40_000));
    let failed = found(&engine, "one_fail", json!({})).await;
    assert_eq!(failed["isError"], true);
    let image = json!({"type": "image", "mimeType": "image/png", "data": "A".repeat(100_000)});
    let pictured = found(&engine, "one_content", json!({"content": [image]})).await;
    assert_eq!(pictured["content"], json!([image]), "images are not enveloped");
    let both = json!([{"type": "text", "text": long}, image]);
    let both = found(&engine, "one_content", json!({"content": both})).await;
    assert_eq!(both["content"][2], image, "the picture stays beside the envelope");
    assert_eq!(envelope(&both)["shape"], "text, 1 lines");
    assert_eq!(engine.results().usage().results, 1);
}

#[tokio::test]
async fn a_result_is_kept_on_request_and_left_alone_where_results_are_not_kept() {
    let (engine, server) = setup().await;
    let arguments = json!({"tool_name": "one_rows", "parameters": {"count": 2}, "store_result": true});
    let result = own(&engine, &alice(), "optim.call_tool", arguments).await;
    assert_eq!(envelope(&result)["rows"], 2);
    let off = "optimizer: { embeddings: { provider: none } }\n";
    let engine = crate::testing::engine(&backends(&[("one", &server.url)], off)).await;
    let result = found(&engine, "one_rows", json!({"count": 5_000})).await;
    assert_eq!(
        serde_json::from_str::<Vec<Value>>(result["content"][0]["text"].as_str().unwrap()).unwrap().len(),
        5_000
    );
    let unknown = json!({"name": "optim.read_result", "arguments": {"result_ref": "res_x"}});
    assert!(call_with(&engine, &alice(), unknown).await.is_err(), "the tool is not offered");
    assert!(read_resource(&engine, &alice(), "vmcp://results/res_x").await.is_err());
}

#[tokio::test]
async fn the_bounds_hold_and_what_exceeds_them_alone_is_sent_as_it_came() {
    let server = server().await;
    let settings = "optimizer: { embeddings: { provider: none }, largeResults: { enabled: true, threshold: 250, \
                    maxBytesPerPrincipal: 65536, maxBytes: 131072 } }\n";
    let engine = engine(&backends(&[("one", &server.url)], settings)).await;
    let first = rows(&engine, 500).await;
    for _ in 0..4 {
        rows(&engine, 500).await;
    }
    let usage = engine.results().usage();
    assert!(usage.bytes <= 65_536 && usage.evicted > 0, "{usage:?}");
    let gone = own(&engine, &alice(), "optim.read_result", json!({"result_ref": first})).await;
    assert_eq!(gone["structuredContent"]["error_type"], "NotFound");
    let whole = found(&engine, "one_rows", json!({"count": 5_000})).await;
    assert!(whole.to_string().len() > 65_536, "sent as it came");
    assert!(engine.render_metrics().contains("vmcp_large_results_too_large_total 1"));
}

#[tokio::test]
async fn mistakes_of_a_model_are_explained() {
    let (engine, _server) = setup().await;
    let reference = rows(&engine, 2_000).await;
    for (tool, arguments, message) in [
        ("optim.read_result", json!({}), "result_ref is required"),
        ("optim.read_result", json!({"result_ref": reference, "path": "$[?@.id>1]"}), "path has a filter"),
        ("optim.read_result", json!({"result_ref": reference, "path": "$.nope"}), "path: nothing is there"),
        ("optim.search_result", json!({"result_ref": reference}), "intent is required"),
        ("optim.process_large_dataset", json!({"operation": "count"}), "data is required"),
        (
            "optim.process_large_dataset",
            json!({"data": [1], "operation": "make it nicer"}),
            "operation not understood",
        ),
        (
            "optim.process_large_dataset",
            json!({"data": [1], "operation": "python: 1"}),
            "`python:` needs code mode (optim.execute_code), which is off",
        ),
        (
            "optim.process_large_dataset",
            json!({"data": [1], "result_ref": reference, "operation": "count"}),
            "result_ref and data are two names",
        ),
        (
            "optim.process_large_dataset",
            json!({"data": {"$ref": reference, "path": "$[0]"}, "path": "$[1]", "operation": "count"}),
            "path and data.path are two names",
        ),
        (
            "optim.process_large_dataset",
            json!({"result_ref": reference, "path": "$.nope", "operation": "count"}),
            "path: nothing is there",
        ),
        (
            "optim.process_large_dataset",
            json!({"data": [1], "operation": "count", "parameters": 7}),
            "parameters must be an object",
        ),
    ] {
        let refused = own(&engine, &alice(), tool, arguments).await;
        assert_eq!(refused["isError"], true, "{refused}");
        assert!(refused.to_string().contains(message), "{message}: {refused}");
    }
    let grouped = json!({"data": reference, "operation": "sql: SELECT *, 'more' AS extra FROM data"});
    let grouped = own(&engine, &alice(), "optim.process_large_dataset", grouped).await;
    let summary = &grouped["structuredContent"]["result"];
    assert_eq!(summary["rows"], 2_000, "a large answer is kept, too: {grouped}");
    let arguments = json!({"data": summary["result_ref"], "operation": "count"});
    let counted = own(&engine, &alice(), "optim.process_large_dataset", arguments).await;
    assert_eq!(counted["structuredContent"]["result"], 2_000);
}

#[tokio::test]
async fn a_dataset_is_the_part_that_its_path_names() {
    let (engine, _server) = setup().await;
    let reference = rows(&engine, 2_000).await;
    for (named, counted) in [
        (json!({"result_ref": reference}), 2_000),
        (json!({"result_ref": reference, "path": "$[0:5]"}), 5),
        (json!({"$result_ref": reference, "json_path": "$[0:5]"}), 5),
        (json!({"data": reference, "jsonpath": "$[0:5]"}), 5),
        (json!({"data": reference, "result_ref": reference}), 2_000),
        (json!({"data": {"$ref": reference, "path": "$[0:5]"}, "path": "$[0:5]"}), 5),
        (json!({"data": {"rows": [1, 2, 3], "others": [1]}, "path": "rows"}), 3),
    ] {
        let mut arguments = named.clone();
        arguments["operation"] = json!("count");
        let answer = own(&engine, &alice(), "optim.process_large_dataset", arguments).await;
        assert_eq!(answer["structuredContent"]["result"], counted, "{named}: {answer}");
    }
}

#[tokio::test]
async fn numbers_of_an_answer_keep_their_digits() {
    let (engine, _server) = setup().await;
    let row = r#"{"n":123456789012345678901234567890.10}"#;
    let arguments = json!({"data": format!("{row}\n{row}"), "operation": "first 1"});
    let answer = own(&engine, &alice(), "optim.process_large_dataset", arguments).await;
    let text = answer["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(&format!(r#""result":[{row}],"original_size":2"#)), "{text}");
}

#[tokio::test]
async fn python_is_refused_where_code_mode_is_off_and_names_sql() {
    let server = server().await;
    let offered =
        SETTINGS.replace("{ embeddings", "{ tools: [find_tool, call_tool, execute_code], embeddings");
    let denied = format!(
        "{offered}{}",
        r#"
incomingAuth:
  type: anonymous
  authz:
    policies:
      - 'permit(principal, action, resource);'
      - 'forbid(principal, action, resource == Tool::"optim.execute_code") when { context.arg_code like "*no*" };'
"#
    );
    let run = async |settings: &str, script: &str| {
        let engine = engine(&backends(&[("one", &server.url)], settings)).await;
        let arguments = json!({"data": [1, 2], "operation": format!("python: {script}"), "engine": "words"});
        own(&engine, &alice(), "optim.process_large_dataset", arguments).await["structuredContent"].clone()
    };
    let off = run(SETTINGS, "len(rows)").await;
    let error = off["error"].as_str().unwrap();
    assert!(error.contains("needs code mode") && error.contains("use `sql: SELECT … FROM data`"), "{off}");
    assert_eq!(off["error_type"], "InvalidInput");
    assert_eq!(run(&denied, "'no'").await, off, "a policy reads the script");
    for (settings, script) in [(offered.as_str(), "len(rows)"), (denied.as_str(), "len(rows)")] {
        // This process has no program for workers.
        let on = run(settings, script).await;
        assert!(on["error"].as_str().unwrap().contains("cannot start workers for scripts"), "{on}");
        assert_eq!(on["error_type"], "BackendError");
    }
    let with_profile = format!("{offered}profiles: {{ own: {{ codeMode: false }} }}\n");
    let engine = engine(&backends(&[("one", &server.url)], &with_profile)).await;
    let principal = Principal { profile: Some("own".into()), ..alice().principal };
    let client = Caller { principal, ..Caller::default() };
    let arguments = json!({"data": [1, 2], "operation": "python: len(rows)"});
    let in_profile = own(&engine, &client, "optim.process_large_dataset", arguments).await;
    assert_eq!(in_profile["structuredContent"], off, "a profile without code mode");
    let empty = run(&offered, " ").await;
    assert!(empty["error"].as_str().unwrap().contains("needs a script behind it"), "{empty}");
}

//! Tests of composite tools, from the client's request to the backends and back.

use std::sync::Arc;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use vmcp_backend::{ClientFacts, Event, RpcOutcome};
use vmcp_wire::era::Era;

use crate::Caller;
use crate::testing::{
    DenyTool, KEYWORDS, Scripted, SeenCalls, backends, call, call_with, engine, engine_with,
};
use vmcp_engine::engine::{Engine, Options};

/// Looks an issue up, asks, and then notes the answer.
const TRIAGE: &str = r#"
compositeTools:
  - name: triage
    description: Looks an issue up and notes it.
    parameters: { type: object, properties: { q: { type: string }, n: { type: integer, default: 3 } }, required: [q] }
    steps:
      - { id: look, tool: fs.work, arguments: { structured: { found: "{{.params.q}}", n: "{{.params.n}}" } } }
      - { id: note, tool: fs_note, arguments: { structured: { of: "{{.steps.look.output.found}}", n: "{{.steps.look.output.n}}" } } }
    output:
      properties: { noted: { type: string, value: "{{.steps.note.output.of}}" }, n: { type: integer, value: "{{.steps.note.output.n}}" } }
  - name: ask
    description: Asks first.
    steps:
      - { id: sure, type: elicitation, message: "Sure about {{.params.q}}?", schema: { properties: { ok: { type: boolean } } } }
      - { id: do, tool: fs.work, arguments: { structured: { ok: "{{.steps.sure.content.ok}}" } } }
  - name: broken
    description: Fails.
    steps: [{ id: a, tool: fs.fail }]
"#;

async fn server() -> Scripted {
    let tools = ["work", "note", "fail"].map(|name| (name, "Does it.", json!({})));
    Scripted::start(&tools).await
}

async fn setup(more: &str) -> (Engine, Scripted) {
    let server = server().await;
    (engine(&backends(&[("fs", &server.url)], &format!("{KEYWORDS}{TRIAGE}{more}"))).await, server)
}

fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).unwrap()
}

fn asking(era: Era) -> Caller {
    let capabilities = Some(Arc::from(raw(&json!({ "elicitation": { "form": {} } }))));
    Caller { era, client: ClientFacts { capabilities, ..ClientFacts::default() }, ..Caller::default() }
}

#[tokio::test]
async fn steps_run_one_after_another_and_make_one_result() {
    let (engine, server) = setup("").await;
    for name in ["composite.triage", "composite_triage", "triage"] {
        let result = call(&engine, name, json!({ "q": "bug" })).await.unwrap();
        assert_eq!(result["structuredContent"], json!({ "noted": "bug", "n": 3 }), "{name}: {result}");
        assert_eq!(result["content"][0]["text"], r#"{"n":3,"noted":"bug"}"#);
    }
    let arguments = json!({ "tool_name": "composite.triage", "parameters": { "q": "x", "n": "7" } });
    let result = call(&engine, "optim.call_tool", arguments).await.unwrap();
    assert_eq!(result["structuredContent"], json!({ "noted": "x", "n": 7 }), "{result}");
    assert_eq!(server.calls()[1]["name"], "note");
    let failed = call(&engine, "composite.broken", json!({})).await.unwrap();
    assert_eq!(failed["isError"], true);
    assert_eq!(failed["content"][0]["text"], "composite.broken: step `a` failed: fs.fail: it is broken");
}

/// ToolHive: the steps of its composites lose the `_meta` of the call.
#[tokio::test]
async fn steps_send_the_metadata_of_the_client_but_not_those_of_its_request() {
    let (engine, server) = setup("").await;
    let meta = json!({
        "com.example/tenant": { "of": ["blue"] }, "progressToken": "of-client", "vmcp/own": 1,
        "io.modelcontextprotocol/related-task": { "taskId": "t" },
    });
    let found = json!({ "tool_name": "composite.triage", "parameters": { "q": "x" } });
    for (name, arguments) in [("composite.triage", json!({ "q": "x" })), ("optim.call_tool", found)] {
        let calls = server.calls().len();
        let params = json!({ "name": name, "arguments": arguments, "_meta": meta });
        let result = call_with(&engine, &Caller::default(), params).await.unwrap();
        assert_eq!(result["structuredContent"]["noted"], "x", "{result}");
        let sent = server.calls().split_off(calls);
        assert_eq!(sent.len(), 2);
        for call in sent {
            let meta = &call["_meta"];
            assert_eq!(meta["com.example/tenant"], json!({ "of": ["blue"] }), "{call}");
            for key in ["vmcp/own", "io.modelcontextprotocol/related-task"] {
                assert_eq!(meta.get(key), None, "{call}");
            }
            assert_ne!(meta["progressToken"], "of-client", "{call}");
        }
    }
}

/// ToolHive: composites read no recordings.
#[tokio::test]
async fn blocks_of_each_kind_are_read_by_later_steps() {
    let server = Scripted::start(&[("content", "Returns blocks.", json!({}))]).await;
    let composite = r#"
compositeTools:
  - name: blocks
    description: Reads blocks.
    parameters: { type: object, properties: { blocks: { type: array } } }
    steps: [{ id: get, tool: fs.content, arguments: { content: "{{.params.blocks}}" } }]
    output:
      properties:
        texts: { type: string, value: "{{.steps.get.output.text}} {{.steps.get.output.text_1}}" }
        image: { type: string, value: "{{.steps.get.output.image_0}}" }
        recording: { type: string, value: "{{.steps.get.output.audio_0}}" }
        second: { type: string, value: "{{.steps.get.output.audio_1}}" }
        link: { type: string, value: "{{.steps.get.output.resource_0.uri}}" }
"#;
    let engine = engine(&backends(&[("fs", &server.url)], &format!("{KEYWORDS}{composite}"))).await;
    let blocks = json!([
        { "type": "text", "text": "one" },
        { "type": "audio", "data": "UklGRg==", "mimeType": "audio/wav" },
        { "type": "image", "data": "iVBORw==", "mimeType": "image/png" },
        { "type": "resource_link", "uri": "fs://note", "name": "note" },
        { "type": "audio", "data": "T2dnUw==", "mimeType": "audio/ogg" },
        { "type": "text", "text": "two" },
    ]);
    let result = call(&engine, "composite.blocks", json!({ "blocks": blocks })).await.unwrap();
    let expected = json!({
        "texts": "one two", "image": "iVBORw==", "recording": "UklGRg==", "second": "T2dnUw==", "link": "fs://note",
    });
    assert_eq!(result["structuredContent"], expected, "{result}");
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_refused_before_the_first_step() {
    let (engine, server) = setup("").await;
    let found = |arguments: Value| json!({ "tool_name": "composite.triage", "parameters": arguments });
    for (arguments, named) in [(json!({}), "q"), (json!({ "q": "x", "n": "many" }), "n")] {
        let direct = call(&engine, "composite.triage", arguments.clone()).await.unwrap();
        let found = call(&engine, "optim.call_tool", found(arguments)).await.unwrap();
        for refused in [direct, found] {
            assert_eq!(refused["isError"], true, "{refused}");
            let text = refused["content"][0]["text"].as_str().unwrap();
            assert!(text.contains("do not fit the schema") && text.contains(named), "{text}");
        }
    }
    assert!(server.calls().is_empty(), "no step has begun");
    let mended = call(&engine, "triage", json!({ "q": "x", "n": "7" })).await.unwrap();
    assert_eq!(mended["structuredContent"]["n"], 7, "{mended}");
}

#[tokio::test]
async fn a_run_and_its_steps_are_recorded_under_the_id_of_the_run() {
    let (server, seen) = (server().await, Arc::<SeenCalls>::default());
    let options = Options { observers: vec![Arc::clone(&seen) as _], ..Options::default() };
    let yaml = backends(&[("fs", &server.url)], &format!("{KEYWORDS}{TRIAGE}"));
    let engine = engine_with(&yaml, options).await;
    let mut runs = Vec::new();
    for name in ["composite.triage", "composite.broken"] {
        call(&engine, name, json!({ "q": "bug" })).await.unwrap();
        let records = seen.take();
        let ids: Vec<_> = records.iter().map(|record| record.run.clone()).collect();
        assert_eq!(ids.len(), if name == "composite.broken" { 2 } else { 3 }, "{ids:?}");
        assert!(ids.iter().all(|id| id.is_some() && *id == ids[0]), "{name}: {ids:?}");
        runs.push(ids[0].clone());
    }
    assert_ne!(runs[0], runs[1]);
    call(&engine, "fs_work", json!({})).await.unwrap();
    assert_eq!(seen.take().pop().unwrap().run, None);
}

#[tokio::test]
async fn a_dropped_run_is_recorded_under_its_id_too() {
    let (server, seen) =
        (Scripted::start(&[("slow", "Waits.", json!({}))]).await, Arc::<SeenCalls>::default());
    let options = Options { observers: vec![Arc::clone(&seen) as _], ..Options::default() };
    let hang = "compositeTools: [{ name: hang, steps: [{ id: hang, tool: fs.slow }] }]\n";
    let yaml = backends(&[("fs", &server.url)], &format!("{KEYWORDS}{hang}"));
    let engine = engine_with(&yaml, options).await;
    let run = tokio::spawn(async move { call(&engine, "composite.hang", json!({})).await });
    crate::testing::eventually("the step", || !server.calls().is_empty()).await;
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    let ids: Vec<_> = seen.take().into_iter().map(|record| record.run).collect();
    assert!(ids.len() == 2 && ids[0].is_some() && ids[0] == ids[1], "{ids:?}");
}

/// ToolHive: its rate limits leave out the steps.
#[tokio::test]
async fn a_step_beyond_the_rate_of_its_tool_is_not_sent() {
    let limits = "rateLimiting: { tools: [{ name: fs_note, perUser: { maxTokens: 1, refillPeriod: 1h } }] }";
    let (engine, server) = setup(limits).await;
    let first = call(&engine, "composite.triage", json!({ "q": "x" })).await.unwrap();
    assert_eq!(first["structuredContent"]["noted"], "x", "{first}");
    let second = call(&engine, "composite.triage", json!({ "q": "x" })).await.unwrap();
    assert_eq!(second["isError"], true);
    let text = second["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("step `note` failed") && text.contains("rate limit"), "{text}");
    let names: Vec<_> = server.calls().iter().map(|call| call["name"].clone()).collect();
    assert_eq!(names, ["work", "note", "work"]);
}

#[tokio::test]
async fn a_composite_is_found_and_listed() {
    let (engine, _server) = setup("").await;
    let found =
        call(&engine, "optim.find_tool", json!({ "tool_description": "look an issue up and note it" })).await;
    let found = found.unwrap();
    assert_eq!(found["structuredContent"]["tools"][0]["name"], "composite.triage", "{found}");
    let all = engine_all().await;
    let snapshot = all.0.snapshot();
    let view = snapshot.whole_view();
    let names = |style| {
        let list = view.list(vmcp_wire::lists::pages::List::Tools, style);
        list.entries().iter().map(|entry| (entry.key.clone(), entry.raw.get().to_owned())).collect::<Vec<_>>()
    };
    let dotted = names(vmcp_engine::optim::names::NameStyle::Dotted);
    assert!(
        dotted.iter().any(|(key, raw)| key == "composite.triage" && raw.contains(r#""composite.triage""#)),
        "{dotted:?}"
    );
    let underscore = names(vmcp_engine::optim::names::NameStyle::Underscore);
    assert!(
        underscore
            .iter()
            .any(|(key, raw)| key == "composite_triage" && raw.contains(r#""composite_triage""#))
    );
}

async fn engine_all() -> (Engine, Scripted) {
    let server = server().await;
    let engine =
        engine(&backends(&[("fs", &server.url)], &format!("optimizer: {{ exposure: All }}\n{TRIAGE}"))).await;
    (engine, server)
}

#[tokio::test]
async fn hidden_tools_serve_steps_and_missing_ones_hide_the_composite() {
    let hide = "aggregation: { tools: [{ workload: fs, excludeAll: true }] }\n";
    let (engine, _server) = setup(hide).await;
    let result = call(&engine, "composite.triage", json!({ "q": "bug" })).await.unwrap();
    assert_eq!(result["structuredContent"]["noted"], "bug", "{result}");
    assert!(call(&engine, "fs_work", json!({})).await.is_err(), "the tool itself stays hidden");

    let server = Scripted::start(&[("work", "Works.", json!({}))]).await;
    let engine = crate::testing::engine(&backends(&[("fs", &server.url)], TRIAGE)).await;
    assert!(call(&engine, "composite.triage", json!({ "q": "bug" })).await.is_err());
    let snapshot = engine.snapshot();
    let issues = &snapshot.unfiltered().issues;
    assert!(issues.iter().any(|issue| issue.to_string().contains("fs_note")), "{issues:?}");
}

#[tokio::test]
async fn a_tool_of_the_same_name_costs_no_composite() {
    let server = server().await;
    let yaml = r"
aggregation: { conflictResolution: priority, conflictResolutionConfig: { priorityOrder: [fs] } }
compositeTools:
  - { name: work, steps: [{ id: a, tool: fs.note, arguments: { structured: { by: composite } } }] }
  - { name: other, steps: [{ id: a, tool: work, arguments: { structured: { by: other } } }] }
";
    let engine = engine(&backends(&[("fs", &server.url)], &format!("{KEYWORDS}{yaml}"))).await;
    let by = async |name: &str| {
        let result = call(&engine, name, json!({ "structured": { "by": "the tool" } })).await.unwrap();
        result["structuredContent"]["by"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(by("work").await, "the tool");
    assert_eq!(by("composite.work").await, "composite");
    assert_eq!(by("composite_work").await, "composite");
    assert_eq!(by("composite.other").await, "other");
}

#[tokio::test]
async fn a_composite_with_a_denied_step_does_not_exist() {
    let policies = r#"
incomingAuth:
  type: anonymous
  authz:
    policies:
      - 'permit(principal, action, resource);'
      - 'forbid(principal, action, resource == Tool::"fs_note");'
"#;
    let (engine, server) = setup(policies).await;
    let mut denied = call(&engine, "composite.triage", json!({ "q": "bug" })).await.unwrap_err();
    let unknown = call(&engine, "composite.nothing", json!({})).await.unwrap_err();
    let message = denied["message"].as_str().unwrap().replace("composite.triage", "composite.nothing");
    denied["message"] = json!(message);
    assert_eq!(denied, unknown, "but for the name, both answers are the same");
    assert!(server.calls().is_empty());
}

#[tokio::test]
async fn a_step_that_is_denied_at_its_call_fails_the_run() {
    let server = server().await;
    let options = Options { policy: Some(DenyTool::named("fs_note")), ..Options::default() };
    let engine = engine_with(&backends(&[("fs", &server.url)], TRIAGE), options).await;
    let failed = call(&engine, "composite.triage", json!({ "q": "bug" })).await.unwrap();
    let expected = "composite.triage: step `note` failed: fs_note: no backend offers this tool now";
    assert_eq!((&failed["isError"], &failed["content"][0]["text"]), (&json!(true), &json!(expected)));
    assert!(server.calls().iter().all(|call| call["name"] == "work"));
}

#[tokio::test]
async fn a_modern_client_carries_the_state_of_a_run() {
    let (engine, server) = setup("").await;
    let caller = asking(Era::Modern);
    let params = json!({ "name": "composite.ask", "arguments": { "q": "bug" } });
    let asked = call_with(&engine, &caller, params.clone()).await.unwrap();
    assert_eq!(asked["resultType"], "input_required");
    assert_eq!(asked["inputRequests"]["sure"]["params"]["message"], "Sure about bug?");
    assert!(server.calls().is_empty(), "nothing runs before the answer");

    let caller = Caller { continues: Some("composite".into()), ..caller };
    let mut again = params.clone();
    again["requestState"] = asked["requestState"].clone();
    again["inputResponses"] = json!({ "sure": { "action": "accept", "content": { "ok": true } } });
    let result = call_with(&engine, &caller, again.clone()).await.unwrap();
    assert_eq!(result["structuredContent"], json!({ "ok": true }), "{result}");
    let used = call_with(&engine, &caller, again.clone()).await.unwrap();
    assert!(used["isError"] == true && used.to_string().contains("has been used"), "{used}");
    assert_eq!(server.calls().len(), 1, "what follows an answer is not done twice");

    let caller = Caller { continues: None, ..caller };
    let asked = call_with(&engine, &caller, params).await.unwrap();
    again["requestState"] = asked["requestState"].clone();
    again["inputResponses"]["sure"] = json!({ "action": "decline" });
    let caller = Caller { continues: Some("composite".into()), ..caller };
    let declined = call_with(&engine, &caller, again).await.unwrap();
    assert_eq!(declined["content"][0]["text"], "composite.ask: step `sure` failed: the user declined");
}

#[tokio::test]
async fn a_call_that_goes_on_with_a_run_needs_no_arguments() {
    let more = r#"
  - name: confirm
    parameters: { type: object, properties: { q: { type: string } }, required: [q] }
    steps: [{ id: sure, type: elicitation, message: "Sure?", schema: { properties: { ok: { type: boolean } } } }]
"#;
    let (engine, _server) = setup(more).await;
    let caller = asking(Era::Modern);
    let params = json!({ "name": "composite.confirm", "arguments": { "q": "bug" } });
    let asked = call_with(&engine, &caller, params).await.unwrap();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let accepted = json!({ "action": "accept", "content": { "ok": true } });
    let again = json!({
        "name": "composite.confirm", "requestState": asked["requestState"], "inputResponses": { "sure": accepted },
    });
    let stranger = call_with(&engine, &caller, again.clone()).await.unwrap();
    assert!(stranger.to_string().contains("do not fit the schema"), "a state of no seal: {stranger}");
    let caller = Caller { continues: Some("composite".into()), ..caller };
    let stateless = json!({ "name": "composite.confirm" });
    let refused = call_with(&engine, &caller, stateless).await.unwrap();
    assert!(refused.to_string().contains("do not fit the schema"), "{refused}");
    let result = call_with(&engine, &caller, again).await.unwrap();
    assert_eq!(result["structuredContent"]["content"], json!({ "ok": true }), "{result}");

    let found = |parameters: Value| json!({ "tool_name": "composite.confirm", "parameters": parameters });
    let params = json!({ "name": "optim.call_tool", "arguments": found(json!({ "q": "bug" })) });
    let asked = call_with(&engine, &Caller { continues: None, ..caller.clone() }, params).await.unwrap();
    let again = json!({
        "name": "optim.call_tool", "arguments": found(json!({})), "requestState": asked["requestState"],
        "inputResponses": { "sure": accepted },
    });
    let result = call_with(&engine, &caller, again).await.unwrap();
    assert_eq!(result["structuredContent"]["content"], json!({ "ok": true }), "{result}");
}

#[tokio::test]
async fn a_legacy_client_is_asked_on_the_way() {
    let (engine, _server) = setup("").await;
    let (events, mut asked) = vmcp_backend::event_queue(8);
    let caller = Caller { events: Some(events), ..asking(Era::Legacy) };
    let user = tokio::spawn(async move {
        let Some(Event::Question(question)) = asked.recv().await else { panic!("a question") };
        let answer = raw(&json!({ "action": "accept", "content": { "ok": false } }));
        let _ = question.answer.send(RpcOutcome::result(&answer));
        question.params.unwrap().get().to_owned()
    });
    let params = json!({ "name": "composite.ask", "arguments": { "q": "it" } });
    let result = call_with(&engine, &caller, params).await.unwrap();
    assert_eq!(result["structuredContent"], json!({ "ok": false }), "{result}");
    assert!(user.await.unwrap().contains("Sure about it?"));
}

#[tokio::test]
async fn a_state_that_no_seal_held_counts_for_nothing() {
    let (engine, server) = setup("").await;
    let caller = asking(Era::Modern);
    let params = json!({ "name": "composite.ask", "arguments": { "q": "bug" } });
    let asked = call_with(&engine, &caller, params.clone()).await.unwrap();
    let mut forged = params;
    forged["requestState"] = asked["requestState"].clone();
    forged["inputResponses"] = json!({ "sure": { "action": "accept", "content": { "ok": true } } });
    for caller in [caller, Caller { events: None, ..asking(Era::Legacy) }] {
        let answer = call_with(&engine, &caller, forged.clone()).await;
        assert!(server.calls().is_empty(), "a run begins anew, with its question: {answer:?}");
    }
}

#[tokio::test]
async fn a_client_that_cannot_be_asked_is_told_so() {
    let (engine, _server) = setup("").await;
    let result = call(&engine, "composite.ask", json!({ "q": "bug" })).await.unwrap();
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(result["isError"] == true && text.contains("did not declare elicitation"), "{text}");
}

mod continued;

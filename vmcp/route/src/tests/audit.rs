//! Tests of the events that calls leave: one each, whatever its end, with nothing in it that was not asked
//! for.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use vmcp_config::OptimTool;
use vmcp_wire::owned::OwnedParams;

use crate::testing::{DenyTool, KEYWORDS, Scripted, backends, call_with, config, engine_with};
use crate::{CallContext, Caller};
use vmcp_engine::access::identity::{Identity, Principal};
use vmcp_engine::engine::{Engine, Options};
use vmcp_engine::telemetry::audit::{AuditTrail, ConsoleStream};

struct Setup {
    engine: Engine,
    trail: Arc<AuditTrail>,
    caller: Caller,
    folder: tempfile::TempDir,
}

async fn setup(settings: &str) -> Setup {
    setup_with(KEYWORDS, settings).await
}

async fn setup_with(optimizer: &str, settings: &str) -> Setup {
    let tools = ["work", "fail", "refuse", "deny", "ask"].map(|name| (name, "Does it.", json!({})));
    let server = Scripted::start(&tools).await;
    let folder = tempfile::tempdir().unwrap();
    let options = Options::default();
    let trail = Arc::new(AuditTrail::new(ConsoleStream::Stderr, Arc::clone(&options.metrics)));
    let options = Options {
        observers: vec![Arc::clone(&trail) as _],
        policy: Some(DenyTool::named("fs_deny")),
        ..options
    };
    let settings_of_calls = format!("{optimizer}aggregation: {{ confirm: {{ tools: [fs_ask] }} }}\n");
    let engine = engine_with(&backends(&[("fs", &server.url)], &settings_of_calls), options).await;
    trail.apply(config(&audit(folder.path(), settings)).audit.as_ref());
    let claims = json!({"sub": "alice", "email": "alice@example.com", "secret-claim": "c"});
    let claims = claims.as_object().unwrap().clone();
    let identity = Identity::known("https://idp.example", "alice", claims, Some("the-token".into()));
    let principal = Principal { identity, ..Principal::at("10.0.0.7") };
    let caller = Caller { principal, ..Caller::default() };
    Setup { engine, trail, caller, folder }
}

fn audit(folder: &Path, settings: &str) -> String {
    format!("audit: {{ enabled: true, logFile: '{}', {settings} }}", folder.join("audit.jsonl").display())
}

impl Setup {
    async fn call(&self, tool: &str, arguments: Value) {
        let _ = call_with(&self.engine, &self.caller, json!({"name": tool, "arguments": arguments})).await;
    }

    /// Ends the trail, and returns its events.
    fn events(&self) -> Vec<Value> {
        self.trail.apply(None);
        let text = std::fs::read_to_string(self.folder.path().join("audit.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Name, way, outcome, decision.
fn gist(event: &Value) -> (&str, Option<&str>, &str, &str) {
    let text = |path: &str| event.pointer(path).and_then(Value::as_str);
    (
        text("/target/name").unwrap_or_default(),
        text("/target/via"),
        text("/outcome").unwrap_or_default(),
        text("/metadata/extra/decision").unwrap_or_default(),
    )
}

#[tokio::test]
async fn every_call_leaves_one_event_whatever_its_way_and_its_end() {
    let setup = setup("").await;
    let mut expected = Vec::new();
    for (tool, outcome, decision) in [
        ("fs_work", "success", "allowed"),
        ("fs_fail", "application_error", "allowed"),
        ("fs_refuse", "application_error", "allowed"),
        ("fs_deny", "denied", "denied"),
        ("fs_ask", "denied", "unconfirmed"),
    ] {
        setup.call(tool, json!({})).await;
        expected.push((tool, None, outcome, decision));
        setup.call("optim.call_tool", json!({"tool_name": tool, "include_fallbacks": false})).await;
        expected.push((tool, Some("optim.call_tool"), outcome, decision));
    }
    setup.call("fs_never", json!({})).await;
    expected.push(("fs_never", None, "denied", "refused"));
    setup.call("optim.call_tool", json!({"tool_name": "fs_never"})).await;
    expected.push(("fs_never", Some("optim.call_tool"), "denied", "refused"));
    setup.call("optim.call_tool", json!({"tool_name": 1})).await;
    expected.push(("optim.call_tool", None, "application_error", "allowed"));
    setup.call("optim.find_tool", json!({"tool_description": "work"})).await;
    expected.push(("optim.find_tool", None, "success", "allowed"));
    setup.call("optim.list_tools", json!({})).await;
    let events = setup.events();
    let gists: Vec<_> = events.iter().map(gist).collect();
    assert_eq!(gists[..expected.len()], expected);
    assert_eq!(events.len(), expected.len() + 1, "{events:#?}");
    let ids: std::collections::BTreeSet<_> =
        events.iter().map(|event| event["metadata"]["auditId"].to_string()).collect();
    assert_eq!(ids.len(), events.len());
    for event in &events {
        assert_eq!(event["type"], "mcp_tool_call");
        assert_eq!(event["source"], json!({"type": "network", "value": "10.0.0.7"}));
        let subjects = json!({"issuer": "https://idp.example", "name": "alice@example.com", "user": "alice"});
        assert_eq!(event["subjects"], subjects);
        assert_eq!(event["component"], "vmcp");
        assert!(event["data"].is_null());
    }
    let denied = &events[6];
    assert_eq!(denied["metadata"]["extra"]["policy"], "deny-tool");
    assert_eq!(denied["target"]["backend"], "fs");
    let text = Value::from(events).to_string();
    assert!(!text.contains("the-token") && !text.contains("secret-claim"), "{text}");
}

#[tokio::test]
async fn arguments_are_added_only_when_asked_for_and_never_beyond_their_limit() {
    let plain = setup("").await;
    plain.call("fs_work", json!({"key": "s3cret"})).await;
    assert!(!Value::from(plain.events()).to_string().contains("s3cret"));

    let asked = setup("includeRequestData: true, maxDataSize: 20").await;
    asked.call("fs_work", json!({"key": "s3cret"})).await;
    asked.call("optim.call_tool", json!({"tool_name": "fs_work", "parameters": {"key": "a\nb"}})).await;
    asked.call("fs_work", json!({"key": "ä".repeat(50)})).await;
    let params =
        OwnedParams::from_text("{\"name\": \"fs_work\", \"arguments\": {\"a\":\n 1}}".to_owned()).unwrap();
    let snapshot = asked.engine.snapshot();
    let view = snapshot.view(&asked.caller.principal);
    let context =
        CallContext { engine: &asked.engine, snapshot: &snapshot, view: &view, caller: &asked.caller };
    crate::call_tool(context, &params).await;
    let events = asked.events();
    assert_eq!(events[0]["data"], json!({"request": {"key": "s3cret"}}));
    assert_eq!(events[1]["data"], json!({"request": {"key": "a\nb"}}));
    assert_eq!(events[2]["data"], json!({"request": "{\"key\":\"ääääää", "truncated": true}));
    assert_eq!(events[3]["data"], json!({"request": {"a": 1}}), "a line end in the arguments ends no event");
}

#[tokio::test]
async fn arguments_of_every_own_tool_are_recorded() {
    let names: Vec<String> = OptimTool::ALL.iter().map(|tool| tool.bare().to_owned()).collect();
    let optimizer = format!(
        "optimizer: {{ embeddings: {{ provider: none }}, largeResults: {{ enabled: true }}, tools: [{}] }}\n",
        names.join(", ")
    );
    let asked = setup_with(&optimizer, "includeRequestData: true").await;
    for (number, name) in names.iter().enumerate() {
        // A mistake in the arguments leaves them in the event all the same.
        for arguments in [json!({"call": number}), json!([number])] {
            asked.call(&format!("optim.{name}"), arguments).await;
        }
    }
    let events = asked.events();
    for (number, name) in names.iter().enumerate() {
        let recorded = |arguments| json!({"request": arguments});
        let (fields, list) = match name.as_str() {
            // Its arguments may be secrets: only what is known to be none is shown.
            "add_mcp_server" | "install_server" | "call_hook" => {
                (recorded(json!({"call": "***"})), Value::Null)
            }
            _ => (recorded(json!({"call": number})), recorded(json!([number]))),
        };
        for (event, data) in [(2 * number, fields), (2 * number + 1, list)] {
            assert_eq!(events[event]["data"], data, "{name}: {:#?}", events[event]);
        }
    }
}

#[tokio::test]
async fn types_that_are_left_out_leave_nothing() {
    let setup = setup("excludeEventTypes: [mcp_tool_call]").await;
    setup.call("fs_work", json!({})).await;
    assert_eq!(setup.events(), Vec::<Value>::new());
}

#[tokio::test]
async fn decisions_and_arguments_are_named_by_their_digests() {
    let setup = setup("").await;
    setup.call("fs_work", json!({"a": 1})).await;
    setup.call("optim.call_tool", json!({"tool_name": "fs_work", "parameters": {"a": 1}})).await;
    setup.call("fs_work", json!({"a": 2})).await;
    let events = setup.events();
    let digest = |at: usize| events[at]["metadata"]["extra"]["argumentsSha256"].as_str().unwrap().to_owned();
    assert_eq!((digest(0).len(), digest(0)), (64, digest(1)));
    assert_ne!(digest(0), digest(2));
}

#[tokio::test]
async fn a_flood_of_unknown_names_leaves_few_events_and_an_honest_count() {
    let setup = setup("").await;
    let long = "x".repeat(5_000);
    for _ in 0..200 {
        setup.call(&long, json!({})).await;
        setup.call("optim.call_tool", json!({"tool_name": long})).await;
    }
    let dropped = setup.engine.metrics().audit_events_dropped.get();
    let events = setup.events();
    let left_out: u64 =
        events.iter().filter_map(|event| event["metadata"]["extra"]["leftOut"].as_u64()).sum();
    assert!(events.len() < 300, "{}", events.len());
    assert!(left_out > 0 && left_out == dropped, "{left_out} told, {dropped} counted");
    assert!(events.iter().all(|event| event.to_string().len() < 4096), "{:?}", events.last());
}

#[tokio::test]
async fn with_fail_closed_a_call_without_its_event_is_not_made() {
    let setup = setup("failClosed: true").await;
    let result = call_with(&setup.engine, &setup.caller, json!({"name": "fs_work", "arguments": {}})).await;
    assert!(!format!("{result:?}").contains("cannot be recorded"), "{result:?}");
    let settings = config(&audit(setup.folder.path(), "failClosed: true")).audit.map(|mut audit| {
        audit.log_file = Some("/proc/no/audit.jsonl".into());
        audit
    });
    setup.trail.apply(settings.as_ref());
    let result = call_with(&setup.engine, &setup.caller, json!({"name": "fs_work", "arguments": {}})).await;
    assert!(format!("{result:?}").contains("cannot be recorded"), "{result:?}");
    let events = setup.events();
    let results: Vec<_> =
        events.iter().map(|event| event["metadata"]["extra"]["result"].as_str().unwrap()).collect();
    assert_eq!(results, ["begun", "ok"], "the event of the begin comes first");
}

#[tokio::test]
async fn with_fail_closed_own_tools_change_and_hand_out_nothing_without_their_event() {
    let names: Vec<String> = OptimTool::ALL.iter().map(|tool| tool.bare().to_owned()).collect();
    let optimizer = format!(
        "optimizer: {{ embeddings: {{ provider: none }}, largeResults: {{ enabled: true }}, tools: [{}] }}\n",
        names.join(", ")
    );
    let setup = setup_with(&optimizer, "failClosed: true").await;
    let call = async |tool: &str, arguments: Value| {
        let params = json!({"name": tool, "arguments": arguments});
        format!("{:?}", call_with(&setup.engine, &setup.caller, params).await)
    };
    let refreshed = call("optim.refresh_tools", json!({})).await;
    assert!(!refreshed.contains("cannot be recorded"), "{refreshed}");
    let settings = config(&audit(setup.folder.path(), "failClosed: true")).audit.map(|mut audit| {
        audit.log_file = Some("/proc/no/audit.jsonl".into());
        audit
    });
    setup.trail.apply(settings.as_ref());
    for (tool, arguments) in [
        ("optim.refresh_tools", json!({})),
        ("optim.read_result", json!({"result_ref": "res_1"})),
        ("optim.add_mcp_server", json!({"name": "x", "url": "https://x.example/mcp"})),
        ("optim.remove_mcp_server", json!({"name": "fs"})),
    ] {
        let answer = call(tool, arguments).await;
        assert!(answer.contains("cannot be recorded"), "{tool}: {answer}");
    }
    let found = call("optim.find_tool", json!({"tool_description": "work"})).await;
    assert!(!found.contains("cannot be recorded"), "a search calls nothing: {found}");
    let first = &setup.events()[0];
    assert_eq!(first["metadata"]["extra"]["result"], "begun", "the event of the begin comes first");
}

//! Tests of the call seam: no way around the policy, and one record a call.

mod codex;
mod confirmations;
mod policies;
mod policy_cost;
mod policy_security;
mod profiles;
mod rates;
mod rights;
mod tasks;
mod timing;
mod webhooks;

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::time::timeout;
use vmcp_backend::{ClientFacts, Transmission};
use vmcp_wire::owned::OwnedParams;
use vmcp_wire::sealed::task_id::TaskId;

use crate::testing::{KEYWORDS, Scripted, SeenCalls, backends, call, call_with, engine_with};
use crate::{CallContext, Caller, ToolResult, Tools};
use vmcp_engine::access::policy::{AccessRequest, Decision, Policy, PolicyId};
use vmcp_engine::engine::{Engine, Options, Snapshot};
use vmcp_engine::telemetry::calls::{CallRecord, Origin, Outcome};

/// Denies every call.
#[derive(Debug)]
struct DenyAll;

impl Policy for DenyAll {
    fn decide(&self, _: &AccessRequest<'_>) -> Decision {
        Decision::Deny { policy: PolicyId::new("deny-all") }
    }
}

/// An engine with two backends that have everything, and what its observers saw.
struct Setup {
    engine: Engine,
    backends: [Scripted; 2],
    seen: Arc<SeenCalls>,
}

async fn setup(options: Options) -> Setup {
    setup_with(options, KEYWORDS).await
}

/// Sets up with settings besides the backends.
async fn setup_with(options: Options, settings: &str) -> Setup {
    let backends_ = [Scripted::everything("one").await, Scripted::everything("two").await];
    let seen = Arc::<SeenCalls>::default();
    let options = Options { observers: vec![Arc::clone(&seen) as _], ..options };
    let yaml = backends(&[("one", &backends_[0].url), ("two", &backends_[1].url)], settings);
    Setup { engine: engine_with(&yaml, options).await, backends: backends_, seen }
}

fn caller() -> Caller {
    let extensions = json!({"extensions": {"example.com/one": {}, "example.com/two": {}}});
    let capabilities = Some(Arc::from(to_raw_value(&extensions).unwrap()));
    Caller { client: ClientFacts { capabilities, ..ClientFacts::default() }, ..Caller::default() }
}

/// Every way to reach the backend `one`: its name, parameters that reach it, and an item that does not exist
/// for the one that does.
fn ways() -> Vec<(&'static str, Value, &'static str, &'static str)> {
    let prompt =
        json!({"ref": {"type": "ref/prompt", "name": "one_ask"}, "argument": {"name": "a", "value": ""}});
    let template = json!({"ref": {"type": "ref/resource", "uri": "one://{id}"}, "argument": {"name": "id", "value": ""}});
    let note = json!({"uri": "one://note"});
    let task = json!({"taskId": "one-1"});
    let named = json!({"tool_name": "one_work"});
    let of_server = json!({"tool_name": "work", "server_name": "one"});
    vec![
        ("tools/call", json!({"name": "one_work", "arguments": {}}), "one_work", "one_none"),
        ("tools/call", json!({"name": "optim.call_tool", "arguments": named}), "one_work", "one_none"),
        ("tools/call", json!({"name": "call_tool", "arguments": of_server}), "work", "none"),
        ("Tools::call", json!({"name": "one_work"}), "one_work", "one_none"),
        ("prompts/get", json!({"name": "one_ask"}), "one_ask", "one_none"),
        ("resources/read", note.clone(), "one://note", "none://note"),
        ("resources/read", json!({"uri": "one://other"}), "one://other", "none://other"),
        ("completion/complete", prompt, "one_ask", "one_none"),
        ("completion/complete", template, "one://{id}", "none://{id}"),
        ("resources/subscribe", note.clone(), "one://note", "none://note"),
        ("renewed subscription", note, "one://note", "none://note"),
        ("tasks/get", task.clone(), "one-1", "none-1"),
        ("tasks/result", task.clone(), "one-1", "none-1"),
        ("tasks/update", task.clone(), "one-1", "none-1"),
        ("tasks/cancel", task.clone(), "one-1", "none-1"),
        ("subscriptions/listen", task, "one-1", "none-1"),
        ("one/search", json!({}), "one/search", "none/search"),
    ]
}

/// Goes a way as the edge does; the answer as text.
async fn go(engine: &Engine, way: &str, params: &Value) -> String {
    go_as(engine, caller(), way, params).await
}

/// Goes the way as a caller with an identity.
async fn go_as(engine: &Engine, caller: Caller, way: &str, params: &Value) -> String {
    // The futures of all ways together are large.
    Box::pin(answer(engine, caller, way, params)).await
}

async fn answer(engine: &Engine, caller: Caller, way: &str, params: &Value) -> String {
    let snapshot = engine.snapshot();
    // Tasks are named by the backend's own id here, and sealed for the caller.
    let own_id = params["taskId"].as_str().map(str::to_owned);
    let sealed = own_id.as_deref().map(|id| sealed(&snapshot, &caller, id));
    let mut params = params.clone();
    if let Some(sealed) = &sealed {
        params["taskId"] = json!(sealed);
    }
    let named = |text: String| match (&sealed, &own_id) {
        (Some(sealed), Some(id)) => text.replace(sealed.as_str(), id),
        _ => text,
    };
    let params = OwnedParams::from_text(params.to_string()).unwrap();
    let view = snapshot.view(&caller.principal);
    let context = CallContext { engine, snapshot: &snapshot, view: &view, caller: &caller };
    let text = |key: &str| params.get_str(key).unwrap_or_default().into_owned();
    let answer = match way {
        "tools/call" => crate::call_tool(context, &params).await,
        "prompts/get" => crate::get_prompt(context, &params).await,
        "resources/read" => crate::read_resource(context, &params).await,
        "completion/complete" => crate::complete(context, &params).await,
        "tasks/get" => crate::tasks::relay(context, "tasks/get", &params).await,
        "tasks/result" => crate::tasks::relay(context, "tasks/result", &params).await,
        "tasks/update" => crate::tasks::relay(context, "tasks/update", &params).await,
        "tasks/cancel" => crate::tasks::relay(context, "tasks/cancel", &params).await,
        "tasks/list" => crate::tasks::list(context, &params).await,
        "Tools::call" => {
            let arguments = RawValue::from_string("{}".to_owned()).unwrap();
            let result = Tools::new(engine.clone()).call(&caller, &text("name"), &arguments).await;
            return format!("{result:?}");
        }
        "resources/subscribe" => {
            let uri = text("uri");
            return match crate::subscriptions::resource(context, &uri) {
                Some((_, call)) => format!("{:?}", call.subscribe().await),
                None => "unknown".to_owned(),
            };
        }
        "renewed subscription" => {
            let (backend, uri) = (Arc::from("one"), text("uri"));
            return match crate::subscriptions::resource_of(context, &backend, &uri) {
                Some(call) => format!("{:?}", call.subscribe().await),
                None => "unknown".to_owned(),
            };
        }
        "subscriptions/listen" => {
            let task = text("taskId");
            let task = crate::task_names::open(context, &task);
            return match task.as_ref().and_then(|task| crate::subscriptions::task(context, task)) {
                Some(call) => format!("{:?}", call.watch_task().await.is_ok()),
                None => "unknown".to_owned(),
            };
        }
        extension => crate::extensions::relay(context, extension, &params).await,
    };
    match answer.content.settled() {
        Ok(result) => named(format!("result {}", result.get())),
        Err(error) => named(format!("error {}", error.get())),
    }
}

/// Returns the id under which a caller would know a task of the tool `work`.
fn sealed(snapshot: &Snapshot, caller: &Caller, id: &str) -> String {
    let (backend, _) = id.split_once('-').unwrap();
    let task = TaskId { backend: backend.to_owned(), tool: "work".to_owned(), id: id.to_owned() };
    task.seal(&snapshot.ring(), &[7; 24], &caller.principal.binding(), u64::MAX).unwrap()
}

/// Returns the same way to another item.
fn renamed(way: &'static str, params: &Value, from: &str, to: &str) -> (String, Value) {
    let params = params.to_string().replace(&json!(from).to_string(), &json!(to).to_string());
    (way.replace(from, to), serde_json::from_str(&params).unwrap())
}

#[tokio::test]
async fn no_way_leads_around_the_policy() {
    let denied = setup(Options { policy: Some(Arc::new(DenyAll)), ..Options::default() }).await;
    let open = setup(Options::default()).await;
    for (way, params, known, unknown) in ways() {
        let before = open.backends[0].methods().len();
        let allowed = go(&open.engine, way, &params).await;
        let reaches = open.backends[0].methods().len() > before;
        // A watcher of a task, and a second subscriber, are counted here; the backend hears nothing new.
        let counted = ["subscriptions/listen", "renewed subscription"].contains(&way) && allowed != "unknown";
        assert!(reaches || counted, "{way} {params} reaches its backend: {allowed}");

        denied.seen.take();
        let refused = go(&denied.engine, way, &params).await.replace(known, "X");
        let record = denied.seen.take().pop().unwrap_or_else(|| panic!("{way}: no record"));
        assert_eq!((record.outcome, record.requests), (Outcome::Denied, 0), "{way}");
        assert_eq!(record.policy, Some(PolicyId::new("deny-all")), "{way}");
        if way != "renewed subscription" {
            let (way, params) = renamed(way, &params, known, unknown);
            let missing = go(&denied.engine, &way, &params).await.replace(unknown, "X");
            assert_eq!(refused, missing, "{way}: denied and unknown read the same");
        }
    }
    let nothing = go(&denied.engine, "tasks/list", &json!({})).await;
    assert!(nothing.contains("\"tasks\":[]"), "{nothing}");
    assert!(go(&open.engine, "tasks/list", &json!({})).await.contains("working"));
    for backend in &denied.backends {
        assert_eq!(backend.methods(), Vec::<String>::new());
    }
}

fn only(seen: &SeenCalls) -> CallRecord {
    let mut all = seen.take();
    assert_eq!(all.len(), 1, "{all:#?}");
    all.remove(0)
}

#[tokio::test]
async fn a_call_leaves_one_record_however_it_was_made() {
    let Setup { engine, seen, .. } = setup(Options::default()).await;
    call(&engine, "one_work", json!({})).await.unwrap();
    let direct = only(&seen);
    assert_eq!((direct.origin, direct.outcome, direct.requests), (Origin::Client, Outcome::Ok, 1));
    assert_eq!((direct.backend.as_deref(), &*direct.method), (Some("one"), "tools/call"));
    let tool = direct.tool.as_deref().unwrap();
    assert_eq!((tool.name.as_str(), tool.hash.to_string().len()), ("one_work", 64));
    assert_eq!(direct.transmission, Transmission::Sent);
    assert!(direct.bytes_in > 0 && direct.bytes_out > 0 && direct.took >= direct.backend_took);
    assert_eq!(direct.policy, Some(PolicyId::new("allow-all")));

    call(&engine, "optim.call_tool", json!({"tool_name": "one_work"})).await.unwrap();
    let nested = only(&seen);
    assert_eq!((nested.origin, nested.outcome), (Origin::CallTool, Outcome::Ok));
    assert_eq!(nested.tool.unwrap().name, "one_work");
    call(&engine, "optim.call_tool", json!({"tool_name": "nosuch"})).await.unwrap();
    let missed = only(&seen);
    let unknown = Outcome::Failed("unknown");
    assert_eq!((missed.origin, missed.outcome, missed.backend), (Origin::CallTool, unknown, None));
    call(&engine, "optim.find_tool", json!({"tool_description": "work"})).await.unwrap();
    assert_eq!(only(&seen).origin, Origin::FindTool);

    go(&engine, "resources/read", &json!({"uri": "two://note"})).await;
    let read = only(&seen);
    assert_eq!((read.backend.as_deref(), read.subject.as_deref()), (Some("two"), Some("two://note")));
    let metrics = engine.metrics().encode();
    assert!(metrics.contains(r#"vmcp_backend_calls_total{backend="one",outcome="ok"} 2"#), "{metrics}");
    assert!(metrics.contains("vmcp_optimizer_call_tool_requests_total 2"), "{metrics}");
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_a_record_of_its_call() {
    let server = Scripted::start(&[("slow", "Takes its time.", json!({}))]).await;
    let seen = Arc::<SeenCalls>::default();
    let options = Options { observers: vec![Arc::clone(&seen) as _], ..Options::default() };
    let engine = engine_with(&backends(&[("s", &server.url)], KEYWORDS), options).await;
    let trace_id = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736_u128.to_be_bytes();
    let caller = Caller { trace_id: Some(trace_id), ..Caller::default() };
    let slow = call_with(&engine, &caller, json!({"name": "s_slow"}));
    let gone = timeout(Duration::from_millis(300), slow).await;
    assert!(gone.is_err(), "{gone:?}");
    let record = only(&seen);
    assert_eq!((record.outcome, record.transmission), (Outcome::Cancelled, Transmission::Unknown));
    assert!(record.backend_took > Duration::ZERO && record.took >= record.backend_took);
    assert_eq!(record.trace.map(hex::encode).as_deref(), Some("4bf92f3577b34da6a3ce929d0e0e4736"));
}

#[tokio::test]
async fn tools_are_called_without_an_envelope() {
    let server = Scripted::start(&[
        ("greet", "Greets.", json!({"who": {"type": "string"}})),
        ("fail", "Fails.", json!({})),
        ("refuse", "Refuses.", json!({})),
    ])
    .await;
    let engine = engine_with(&backends(&[("s", &server.url)], KEYWORDS), Options::default()).await;
    let tools = Tools::new(engine);
    let call = async |tool: &str, arguments: Value| {
        tools.call(&Caller::default(), tool, &to_raw_value(&arguments).unwrap()).await
    };
    let greeted = call("s_greet", json!({"who": "Ada"})).await;
    let ToolResult::Complete(result) = &greeted else { panic!("{greeted:?}") };
    assert!(result.get().contains("Ada"), "{}", result.get());
    assert_eq!(greeted.transmission(), Transmission::Sent);
    let sent = &server.calls()[0];
    assert_eq!((&sent["name"], &sent["arguments"]), (&json!("greet"), &json!({"who": "Ada"})));

    let wrong = call("s_greet", json!({"who": 5})).await;
    assert!(matches!(&wrong, ToolResult::InvalidArguments(text) if text.contains("/who")), "{wrong:?}");
    assert_eq!(wrong.transmission(), Transmission::NotSent);
    let unknown = call("s_nosuch", json!({})).await;
    assert!(matches!(unknown, ToolResult::Unknown), "{unknown:?}");
    let failed = call("s_fail", json!({})).await;
    assert!(matches!(failed, ToolResult::Failed(_)), "{failed:?}");
    let refused = call("s_refuse", json!({})).await;
    assert!(
        matches!(&refused, ToolResult::RpcError(error) if error.get().contains("not today")),
        "{refused:?}"
    );
    let found = call("optim.find_tool", json!({"tool_description": "greets"})).await;
    assert!(matches!(&found, ToolResult::Complete(tools) if tools.get().contains("s_greet")), "{found:?}");
    assert_eq!(server.calls().len(), 3);
}

#[tokio::test]
async fn a_link_of_one_server_takes_no_resource_that_another_lists() {
    let Setup { engine, backends, .. } = setup(Options::default()).await;
    let two: Arc<str> = "two".into();
    for uri in ["one://note", "one://other", "link://only"] {
        engine.snapshot().links.learn(caller().link_owner(), uri, &two);
    }
    let reads = || {
        let is_read = |method: &String| method == "resources/read";
        backends.each_ref().map(|backend| backend.methods().into_iter().filter(is_read).count())
    };
    go(&engine, "resources/read", &json!({"uri": "one://note"})).await;
    assert_eq!(reads(), [1, 0], "the first server lists it");
    go(&engine, "resources/read", &json!({"uri": "one://other"})).await;
    assert_eq!(reads(), [2, 0], "the first server has a template for it");
    go(&engine, "resources/read", &json!({"uri": "link://only"})).await;
    assert_eq!(reads(), [2, 1], "no server lists it");
}

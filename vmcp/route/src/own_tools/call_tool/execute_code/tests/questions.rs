//! Tools that ask the user in the middle of a script. A composite tool asks as a modern server does.

use std::sync::Arc;

use serde_json::value::to_raw_value;
use vmcp_backend::{ClientFacts, Event, RpcOutcome};

use super::super::asking_call::AskingCall;
use super::*;

const ASKS: &str = r#"
optimizer: { tools: [find_tool, call_tool, execute_code], embeddings: { provider: none } }
aggregation: { confirm: { tools: ['fs_work'] } }
compositeTools:
  - name: ask
    steps:
      - { id: sure, type: elicitation, message: "Sure?", schema: { properties: { ok: { type: boolean } } } }
      - { id: do, tool: fs.do-it, arguments: { structured: { ok: "{{.steps.sure.content.ok}}" } } }
"#;

fn asking(era: Era) -> Caller {
    let capabilities = Some(Arc::from(to_raw_value(&json!({ "elicitation": { "form": {} } })).unwrap()));
    Caller { era, client: ClientFacts { capabilities, ..ClientFacts::default() }, ..Caller::default() }
}

/// Runs a call, or goes on with one, as a script of this caller.
async fn called(
    engine: &Engine,
    caller: &Caller,
    call: Result<HostCall, Box<AskingCall>>,
) -> Called<AskingCall> {
    let snapshot = engine.snapshot();
    let view = snapshot.view(&caller.principal);
    let context = CallContext { engine, snapshot: &snapshot, view: &view, caller };
    let host = Host::new(context, Dialect::Python);
    match call {
        Ok(call) => host.call(call).await,
        Err(asking) => host.go_on(*asking).await,
    }
}

fn asks(called: Called<AskingCall>) -> AskingCall {
    match called {
        Called::Asks(asking) => asking,
        Called::Ended(end) => panic!("{end:?}"),
    }
}

#[tokio::test]
async fn a_call_that_asks_goes_on_with_its_answer_for_clients_of_both_eras() {
    let server = server().await;
    let engine = engine(&backends(&[("fs", &server.url)], ASKS)).await;
    let ask = || Ok(tool(Some("composite"), "ask", &json!({})));
    for era in [Era::Modern, Era::Legacy] {
        let (events, _asked) = vmcp_backend::event_queue(8);
        let caller = Caller { events: Some(events), ..asking(era) };
        let mut call = asks(called(&engine, &caller, ask()).await);
        assert_eq!(call.questions["sure"]["params"]["message"], "Sure?");
        let calls = server.calls().len();
        call.answers.insert("sure".to_owned(), json!({ "action": "accept", "content": { "ok": true } }));
        let ended = called(&engine, &caller, Err(Box::new(call.clone()))).await;
        assert_eq!(ended, Called::Ended(CallEnd::Value(json!({ "ok": true }))));
        assert_eq!(server.calls().len(), calls + 1);

        let changed = AskingCall { definition: "other".to_owned(), ..call.clone() };
        let gone = AskingCall { tool: "composite.gone".to_owned(), ..call };
        for (refused, kind, text) in
            [(changed, Raised::Asks, "has changed since"), (gone, Raised::Unknown, "no tool composite.gone")]
        {
            let Called::Ended(end) = called(&engine, &caller, Err(Box::new(refused))).await else { panic!() };
            let (raised_kind, message) = raised(end);
            assert!(raised_kind == kind && message.contains(text), "{message}");
        }
        assert_eq!(server.calls().len(), calls + 1);
    }
    // A legacy client without a stream cannot be asked while its call is held.
    let Called::Ended(end) = called(&engine, &asking(Era::Legacy), ask()).await else { panic!() };
    assert_eq!(raised(end).0, Raised::Asks);
}

#[tokio::test]
async fn each_call_of_a_script_is_confirmed_by_itself() {
    let server = server().await;
    let engine = engine(&backends(&[("fs", &server.url)], ASKS)).await;
    let (events, mut asked) = vmcp_backend::event_queue(8);
    let caller = Caller { events: Some(events), ..asking(Era::Legacy) };
    let user = tokio::spawn(async move {
        let mut messages = Vec::new();
        while let Some(Event::Question(question)) = asked.recv().await {
            let params: Value = serde_json::from_str(question.params.unwrap().get()).unwrap();
            messages.push(params["message"].as_str().unwrap().to_owned());
            let action = if messages.len() == 1 { "accept" } else { "decline" };
            let answer = to_raw_value(&json!({ "action": action })).unwrap();
            drop(question.answer.send(RpcOutcome::result(&answer)));
        }
        messages
    });
    let snapshot = engine.snapshot();
    let view = snapshot.view(&caller.principal);
    let context = CallContext { engine: &engine, snapshot: &snapshot, view: &view, caller: &caller };
    let host = Host::new(context, Dialect::Python);
    let work = |n: u32| tool(Some("fs"), "work", &json!({ "n": n, "structured": { "n": n } }));
    assert_eq!(host.call(work(1)).await, Called::Ended(CallEnd::Value(json!({ "n": 1 }))));
    let Called::Ended(end) = host.call(work(1_000_000)).await else { panic!() };
    assert_eq!(raised(end).0, Raised::Asks);
    assert_eq!(server.calls().len(), 1, "the second call was declined");
    drop(host);
    drop(caller);
    let messages = user.await.unwrap();
    assert!(messages[0].contains("n: 1") && messages[1].contains("n: 1000000"), "{messages:?}");
}

#[tokio::test]
async fn a_state_of_another_tool_begins_no_script() {
    let engine = engine(&backends(&[], ASKS)).await;
    let caller = Caller { continues: Some("fs".into()), ..asking(Era::Modern) };
    let params = json!({ "name": "optim.execute_code", "arguments": { "code": "1" }, "requestState": "x" });
    let refused = crate::testing::call_with(&engine, &caller, params).await.unwrap();
    assert!(refused.to_string().contains("belongs to another tool"), "{refused}");
}

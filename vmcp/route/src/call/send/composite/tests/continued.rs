//! Runs of legacy clients whose process ends: another process with the same storage continues them.

use std::path::Path;

use tokio::task::JoinHandle;
use vmcp_backend::{EventReceiver, Question};
use vmcp_engine::engine::Storage;
use vmcp_engine::runs::report::{RunReport, RunState};

use super::*;
use crate::testing::{config, eventually};

const TOOLS: &str = r#"
server: { sessionKeys: [a key of enough characters for runs] }
compositeTools:
  - name: approve
    steps:
      - { id: note, tool: fs.note, arguments: { structured: { of: "{{.params.q}}" } } }
      - { id: sure, type: elicitation, message: "Sure?", schema: { properties: { ok: { type: boolean } } }, dependsOn: [note] }
      - { id: do, tool: fs.work, arguments: { structured: { ok: "{{.steps.sure.content.ok}}" } } }
  - name: write
    steps:
      - { id: note, tool: fs.note }
      - { id: hang, tool: fs.slow, dependsOn: [note] }
"#;

/// A process with the storage of others, and a backend of its own connection.
async fn process(dir: &Path, server: &Scripted) -> Engine {
    let yaml = backends(&[("fs", &server.url)], &format!("{KEYWORDS}{TOOLS}"));
    let options = Options { storage: Storage::Dir(dir.to_owned()), ..Options::default() };
    let engine = Engine::start(config(&yaml), options).await.unwrap();
    engine.settled().await;
    engine
}

fn client() -> (Caller, EventReceiver) {
    let (events, asked) = vmcp_backend::event_queue(8);
    (Caller { events: Some(events), session: Some([7; 16]), ..asking(Era::Legacy) }, asked)
}

fn begin(engine: &Engine, caller: Caller, params: Value) -> JoinHandle<Result<Value, Value>> {
    let engine = engine.clone();
    tokio::spawn(async move { call_with(&engine, &caller, params).await })
}

async fn question(asked: &mut EventReceiver) -> Question {
    match asked.recv().await {
        Some(Event::Question(question)) => question,
        other => panic!("no question: {other:?}"),
    }
}

fn names(server: &Scripted) -> Vec<String> {
    server.calls().iter().map(|call| call["name"].as_str().unwrap().to_owned()).collect()
}

fn runs(engine: &Engine) -> Vec<RunReport> {
    engine.runs().book().all()
}

#[tokio::test]
async fn a_run_that_waited_is_asked_again_and_what_was_done_is_not_done_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = server().await;
    let (one, other) = futures::join!(process(folder.path(), &server), process(folder.path(), &server));
    let params = json!({ "name": "composite.approve", "arguments": { "q": "bug" } });
    let (caller, mut asked) = client();
    let first = begin(&one, caller, params.clone());
    let unanswered = question(&mut asked).await;
    let waiting = runs(&one);
    assert_eq!((waiting[0].tool.as_str(), waiting[0].state), ("approve", RunState::Waiting));
    let states: Vec<_> = waiting[0].steps.iter().map(|step| (step.id.as_str(), step.state)).collect();
    assert_eq!(states, [("note", RunState::Done), ("sure", RunState::Waiting)]);
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    drop(unanswered);
    assert_eq!(runs(&one)[0].state, RunState::Unknown, "it was cut off here");

    // Other arguments are another run.
    let (caller, mut asked) = client();
    let another = begin(&other, caller, json!({ "name": "composite.approve", "arguments": { "q": "it" } }));
    drop(question(&mut asked).await);
    assert!(another.await.unwrap().is_err(), "its user gave no answer");
    assert_eq!(names(&server), ["note", "note"]);

    let (caller, mut asked) = client();
    let second = begin(&other, caller, params.clone());
    let again = question(&mut asked).await;
    let answer = raw(&json!({ "action": "accept", "content": { "ok": true } }));
    again.answer.send(RpcOutcome::result(&answer)).unwrap();
    let result = second.await.unwrap().unwrap();
    assert_eq!(result["structuredContent"], json!({ "ok": true }), "{result}");
    assert_eq!(names(&server), ["note", "note", "work"], "the step before the question ran once");
    let continued = runs(&other).into_iter().find(|run| run.id == waiting[0].id).unwrap();
    assert_eq!((continued.state, continued.begun), (RunState::Done, waiting[0].begun.clone()));

    // The run has ended: the next call is a new one.
    let (caller, mut asked) = client();
    let third = begin(&other, caller, params);
    drop(question(&mut asked).await);
    assert!(third.await.unwrap().is_err());
    assert_eq!(names(&server), ["note", "note", "work", "note"]);
}

#[tokio::test]
async fn a_step_that_was_under_way_is_unknown_and_not_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let tools = ["note", "slow"].map(|name| (name, "Does it.", json!({})));
    let server = Scripted::start(&tools).await;
    let (one, other) = futures::join!(process(folder.path(), &server), process(folder.path(), &server));
    let params = json!({ "name": "composite.write", "arguments": {} });
    let first = begin(&one, client().0, params.clone());
    eventually("the second step", || names(&server) == ["note", "slow"]).await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());

    let cut_off = call_with(&other, &client().0, params.clone()).await.unwrap();
    let text = cut_off["content"][0]["text"].as_str().unwrap();
    assert!(cut_off["isError"] == true && text.contains("the end of step `hang` is unknown"), "{text}");
    assert_eq!(names(&server), ["note", "slow"], "nothing is done twice");
    assert_eq!(runs(&other)[0].state, RunState::Unknown);

    // The client was told: its next call is a new run.
    let third = begin(&other, client().0, params);
    eventually("a new run", || names(&server) == ["note", "slow", "note", "slow"]).await;
    third.abort();
}

#[tokio::test]
async fn a_run_is_continued_by_its_id_and_by_its_principal_only() {
    let folder = tempfile::tempdir().unwrap();
    let server = server().await;
    let (one, other) = futures::join!(process(folder.path(), &server), process(folder.path(), &server));
    let params = json!({ "name": "composite.approve", "arguments": { "q": "bug" } });
    let (caller, mut asked) = client();
    let first = begin(&one, caller, params.clone());
    drop(question(&mut asked).await);
    // Without an answer the call fails, and the run is left to the next call.
    assert!(first.await.unwrap().is_err());
    let id = runs(&one)[0].id.clone();
    let mut named = params;
    named["_meta"] = json!({ "vmcp/run": id });

    let (caller, _asked) = client();
    let stranger = Caller { principal: vmcp_engine::access::identity::Principal::at("10.0.0.9"), ..caller };
    let refused = call_with(&other, &stranger, named.clone()).await.unwrap();
    assert!(refused.to_string().contains("waits to be continued"), "{refused}");

    let (caller, mut asked) = client();
    let second = begin(&other, Caller { session: Some([9; 16]), ..caller }, named);
    let again = question(&mut asked).await;
    let answer = raw(&json!({ "action": "accept", "content": { "ok": false } }));
    again.answer.send(RpcOutcome::result(&answer)).unwrap();
    let result = second.await.unwrap().unwrap();
    assert_eq!(result["structuredContent"], json!({ "ok": false }), "{result}");
    assert_eq!(names(&server), ["note", "work"]);
}

#[tokio::test]
async fn a_run_goes_on_without_a_store_unless_the_client_names_one() {
    let server = server().await;
    let away = "sessionStorage: { provider: redis, address: \"127.0.0.1:1\" }\n";
    let yaml = backends(&[("fs", &server.url)], &format!("{KEYWORDS}{TOOLS}{away}"));
    let engine = engine(&yaml).await;
    let params = json!({ "name": "composite.approve", "arguments": { "q": "bug" } });
    let (caller, mut asked) = client();
    let run = begin(&engine, caller, params.clone());
    let question = question(&mut asked).await;
    let answer = raw(&json!({ "action": "accept", "content": { "ok": true } }));
    question.answer.send(RpcOutcome::result(&answer)).unwrap();
    let result = run.await.unwrap().unwrap();
    assert_eq!(result["structuredContent"], json!({ "ok": true }), "{result}");

    let mut named = params;
    named["_meta"] = json!({ "vmcp/run": "r1" });
    let refused = call_with(&engine, &client().0, named).await.unwrap();
    let text = refused.to_string();
    assert!(text.contains("unavailable") && text.contains("the store of runs does not answer"), "{text}");
    assert_eq!(names(&server), ["note", "work"]);
}

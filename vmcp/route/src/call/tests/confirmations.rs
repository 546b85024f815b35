//! The user's yes is for one call, with the arguments that the user has read.

use serde_json::json;
use vmcp_backend::{Event, RpcOutcome};

use super::*;
use crate::Consent;

const CONFIRM: &str = "aggregation: { confirm: { tools: ['*_work'] } }\n";

/// Calls a tool for a client whose user says yes to every question; returns the answer and the questions.
async fn confirmed(engine: &Engine, consent: &Consent, params: &str) -> (String, Vec<String>) {
    let (events, mut asked) = vmcp_backend::event_queue(8);
    let capabilities = Some(Arc::from(to_raw_value(&json!({"elicitation": {}})).unwrap()));
    let client = ClientFacts { capabilities, ..ClientFacts::default() };
    let caller = Caller { client, events: Some(events), consent: consent.clone(), ..Caller::default() };
    let user = tokio::spawn(async move {
        let mut questions = Vec::new();
        while let Some(Event::Question(question)) = asked.recv().await {
            questions.push(question.params.unwrap().get().to_owned());
            let yes = RawValue::from_string(r#"{"action":"accept"}"#.to_owned()).unwrap();
            drop(question.answer.send(RpcOutcome::result(&yes)));
        }
        questions
    });
    let snapshot = engine.snapshot();
    let params = OwnedParams::from_text(params.to_owned()).unwrap();
    let view = snapshot.view(&caller.principal);
    let context = CallContext { engine, snapshot: &snapshot, view: &view, caller: &caller };
    let answer = crate::call_tool(context, &params).await;
    drop(caller);
    let (Ok(text) | Err(text)) = answer.content.settled();
    (text.get().to_owned(), user.await.unwrap())
}

#[tokio::test]
async fn the_question_shows_every_argument_or_the_call_is_refused() {
    let Setup { engine, backends, .. } =
        setup_with(Options::default(), &format!("{KEYWORDS}{CONFIRM}")).await;
    let pad = "x".repeat(1000);
    let call =
        format!(r#"{{"name":"one_work","arguments":{{"pad":"{pad}","to":"MALLORY","amount":1000000}}}}"#);
    let (answer, asked) = confirmed(&engine, &Consent::default(), &call).await;
    assert_eq!(asked.len(), 1, "{answer}");
    for shown in ["one_work (server one)", "MALLORY", "amount: 1000000", "1002 characters in all"] {
        assert!(asked[0].contains(shown), "{shown}: {}", asked[0]);
    }
    assert_eq!(backends[0].calls().len(), 1);
    let many: Vec<_> = (0..100).map(|n| format!("\"k{n}\":1")).collect();
    let call = format!(r#"{{"name":"one_work","arguments":{{{}}}}}"#, many.join(","));
    let (answer, asked) = confirmed(&engine, &Consent::default(), &call).await;
    assert!(asked.is_empty() && answer.contains("cannot be shown"), "{answer}");
    assert_eq!(backends[0].calls().len(), 1, "and is not made");
}

#[tokio::test]
async fn a_yes_covers_the_tool_that_it_was_given_to() {
    let Setup { engine, .. } = setup_with(Options::default(), &format!("{KEYWORDS}{CONFIRM}")).await;
    let consent = Consent::default();
    let call = |tool: &str| format!(r#"{{"name":"{tool}","arguments":{{}}}}"#);
    assert_eq!(confirmed(&engine, &consent, &call("one_work")).await.1.len(), 1);
    assert_eq!(confirmed(&engine, &consent, &call("one_work")).await.1.len(), 0, "the next round");
    assert_eq!(confirmed(&engine, &consent, &call("two_work")).await.1.len(), 1, "another tool");
    assert_eq!(
        confirmed(&engine, &Consent::default(), &call("one_work")).await.1.len(),
        1,
        "another request"
    );
}

#[tokio::test]
async fn arguments_that_name_a_key_twice_reach_no_backend() {
    let Setup { engine, backends, .. } = setup(Options::default()).await;
    for arguments in [r#"{"to":"MALLORY","to":"alice"}"#, r#"{"a":[{"\u0074o":1,"to":2}]}"#] {
        let direct = format!(r#"{{"name":"one_work","arguments":{arguments}}}"#);
        let nested = format!(
            r#"{{"name":"optim.call_tool","arguments":{{"tool_name":"one_work","parameters":{arguments}}}}}"#
        );
        for call in [direct, nested] {
            let (answer, _) = confirmed(&engine, &Consent::default(), &call).await;
            assert!(answer.contains("twice") || answer.contains("duplicate"), "{call}: {answer}");
        }
    }
    assert_eq!(backends[0].calls().len(), 0);
}

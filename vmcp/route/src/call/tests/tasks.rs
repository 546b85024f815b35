//! Tasks belong to the identity that began them.

use serde_json::json;

use super::*;
use vmcp_engine::access::identity::{Identity, Principal};
use vmcp_engine::engine::TaskOwner;
use vmcp_wire::lists::tasks::TaskCursor;

fn of(name: &str) -> Caller {
    let identity = Identity::known("https://idp", name, serde_json::Map::new(), None);
    Caller { principal: Principal::from(identity), ..caller() }
}

async fn answer(engine: &Engine, caller: &Caller, method: &'static str, params: Value) -> String {
    let snapshot = engine.snapshot();
    let params = OwnedParams::from_text(params.to_string()).unwrap();
    let view = snapshot.view(&caller.principal);
    let context = CallContext { engine, snapshot: &snapshot, view: &view, caller };
    let answer = match method {
        "tools/call" => crate::call_tool(context, &params).await,
        "tasks/list" => crate::tasks::list(context, &params).await,
        method => crate::tasks::relay(context, method, &params).await,
    };
    let (Ok(text) | Err(text)) = answer.content.settled();
    text.get().to_owned()
}

async fn begin(engine: &Engine, caller: &Caller, tool: &str) -> String {
    let call = json!({"name": tool, "arguments": {}, "task": {}});
    let created = answer(engine, caller, "tools/call", call).await;
    let created: Value = serde_json::from_str(&created).unwrap();
    created["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned()
}

const METHODS: [&str; 4] = ["tasks/get", "tasks/result", "tasks/cancel", "tasks/update"];

#[tokio::test]
async fn a_task_of_one_identity_is_unknown_to_every_other() {
    let Setup { engine, backends, seen } = setup(Options::default()).await;
    let (alice, bob) = (of("alice"), of("bob"));
    let task = begin(&engine, &alice, "one_work").await;
    assert!(!task.contains("one-1"), "{task}");
    let under_profile = Principal { profile: Some("work".into()), ..alice.principal.clone() };
    let strangers = [bob.clone(), caller(), Caller { principal: under_profile, ..caller() }];
    let reached = backends[0].methods();
    for stranger in &strangers {
        for method in METHODS {
            seen.take();
            let refused = answer(&engine, stranger, method, json!({"taskId": task})).await;
            let cut: String = task.chars().take(200).chain(['…']).collect();
            let shown = if task.len() > 200 { &cut } else { &task };
            let unknown = answer(&engine, stranger, method, json!({"taskId": "nobodys"})).await;
            assert_eq!(refused.replace(shown.as_str(), "X"), unknown.replace("nobodys", "X"), "{method}");
            let own = answer(&engine, stranger, method, json!({"taskId": "one-1"})).await;
            assert_eq!(own.replace("one-1", "X"), unknown.replace("nobodys", "X"), "the backend's own id");
        }
        let listed = answer(&engine, stranger, "tasks/list", json!({})).await;
        assert_eq!(listed, r#"{"tasks":[]}"#);
    }
    assert_eq!(backends[0].methods(), reached, "the backend hears nothing");

    for method in METHODS {
        let own = answer(&engine, &alice, method, json!({"taskId": task})).await;
        assert!(own.contains("working") && own.contains(&task) && !own.contains("one-1"), "{method} {own}");
    }
    let listed = answer(&engine, &alice, "tasks/list", json!({})).await;
    assert!(listed.contains(&task) && listed.contains("working") && !listed.contains("one-1"), "{listed}");
}

#[tokio::test]
async fn a_task_is_known_in_every_process_with_the_same_keys() {
    let keys = format!("{KEYWORDS}server: {{ sessionKeys: [a key of enough characters] }}\n");
    let (one, other) =
        (setup_with(Options::default(), &keys).await, setup_with(Options::default(), &keys).await);
    let task = begin(&one.engine, &of("alice"), "one_work").await;
    let params = json!({"taskId": task});
    assert_eq!(answer(&other.engine, &of("alice"), "tasks/list", json!({})).await, r#"{"tasks":[]}"#);
    let state = answer(&other.engine, &of("alice"), "tasks/get", params.clone()).await;
    assert!(state.contains("working") && state.contains(&task), "{state}");
    let refused = answer(&other.engine, &of("bob"), "tasks/get", params.clone()).await;
    assert!(refused.contains("Task not found"), "{refused}");
    let listed = answer(&other.engine, &of("alice"), "tasks/list", json!({})).await;
    assert!(listed.contains(&task), "listed once it was asked for: {listed}");

    let unkeyed = setup(Options::default()).await;
    let refused = answer(&unkeyed.engine, &of("alice"), "tasks/get", params).await;
    assert!(refused.contains("Task not found"), "{refused}");
}

#[tokio::test]
async fn the_policy_of_the_tool_is_asked_again_about_its_task() {
    let policies = |may: &str| {
        format!(
            "{KEYWORDS}incomingAuth: {{ authz: {{ policies: ['permit(principal, action, resource == Tool::\"{may}\");'] }} }}\nserver: {{ sessionKeys: [a key of enough characters] }}\n"
        )
    };
    let allowed = setup_with(Options::default(), &policies("one_work")).await;
    let task = begin(&allowed.engine, &of("alice"), "one_work").await;
    let state = answer(&allowed.engine, &of("alice"), "tasks/get", json!({"taskId": task})).await;
    assert!(state.contains("working"), "{state}");
    let withdrawn = setup_with(Options::default(), &policies("two_work")).await;
    for method in METHODS {
        withdrawn.seen.take();
        let refused = answer(&withdrawn.engine, &of("alice"), method, json!({"taskId": task})).await;
        let unknown = answer(&withdrawn.engine, &of("alice"), method, json!({"taskId": "nobodys"})).await;
        let shown: String = task.chars().take(200).collect();
        let of_task = refused.replace('…', "").replace(&shown, "X");
        assert_eq!(of_task, unknown.replace("nobodys", "X"), "{method}");
        let record = withdrawn.seen.take().into_iter().find(|record| record.outcome == Outcome::Denied);
        assert_eq!(record.unwrap().requests, 0, "{method}");
    }
    assert_eq!(withdrawn.backends[0].methods(), Vec::<String>::new());
}

#[tokio::test]
async fn clients_without_an_identity_list_the_tasks_of_their_own_session() {
    let Setup { engine, .. } = setup(Options::default()).await;
    let [one, other] = [1, 2].map(|id| Caller { session: Some([id; 16]), ..caller() });
    let task = begin(&engine, &one, "one_work").await;
    assert!(answer(&engine, &one, "tasks/list", json!({})).await.contains(&task));
    assert_eq!(answer(&engine, &other, "tasks/list", json!({})).await, r#"{"tasks":[]}"#);
}

#[tokio::test]
async fn a_list_of_tasks_goes_on_after_its_cursor_and_reveals_no_count_of_others() {
    let Setup { engine, .. } = setup(Options::default()).await;
    let (alice, bob) = (of("alice"), of("bob"));
    for _ in 0..3 {
        begin(&engine, &bob, "two_work").await;
    }
    let task = begin(&engine, &alice, "one_work").await;
    let listed = answer(&engine, &alice, "tasks/list", json!({})).await;
    assert!(listed.contains(&task) && !listed.contains("nextCursor"), "{listed}");
    let own = TaskOwner::new(&alice.principal, alice.session);
    for number in 0..60 {
        let id = format!("made-up-{number}");
        let shown = || Ok::<_, std::convert::Infallible>(id.clone());
        engine.snapshot().tasks.issue(own, &"one".into(), "work", &id, shown).unwrap();
    }
    let page: Value = serde_json::from_str(&answer(&engine, &alice, "tasks/list", json!({})).await).unwrap();
    let cursor = page["nextCursor"].as_str().unwrap_or_else(|| panic!("{page}"));
    assert_eq!(TaskCursor::decode(cursor), None, "the number of all tasks is sealed");
    let next = answer(&engine, &alice, "tasks/list", json!({"cursor": cursor})).await;
    assert!(next.starts_with(r#"{"tasks":["#) && !next.contains("nextCursor"), "{next}");
    let stolen = answer(&engine, &bob, "tasks/list", json!({"cursor": cursor})).await;
    assert!(stolen.contains("-32602"), "{stolen}");
    let forged = [0, 7, u64::MAX].map(|after| TaskCursor { after }.encode());
    for bad in forged.iter().map(String::as_str).chain(["at:1", ""]) {
        let refused = answer(&engine, &alice, "tasks/list", json!({"cursor": bad})).await;
        assert!(refused.contains("-32602"), "{bad}: {refused}");
    }
}

#[tokio::test]
async fn no_method_of_an_extension_reaches_a_task_by_the_backends_own_id() {
    let Setup { engine, backends, .. } = setup(Options::default()).await;
    let snapshot = engine.snapshot();
    let extensions = json!({"extensions": {"example.com/tasks": {}, "example.com/one": {}}});
    let capabilities = Some(Arc::from(to_raw_value(&extensions).unwrap()));
    let bob = Caller { client: ClientFacts { capabilities, ..ClientFacts::default() }, ..of("bob") };
    let view = snapshot.view(&bob.principal);
    let context = CallContext { engine: &engine, snapshot: &snapshot, view: &view, caller: &bob };
    let params = OwnedParams::from_text(r#"{"taskId":"one-1"}"#.to_owned()).unwrap();
    let answer = crate::extensions::relay(context, "tasks/delete", &params).await;
    assert!(answer.content.settled().unwrap_err().get().contains("-32601"));
    assert_eq!(backends[0].methods(), Vec::<String>::new());
}

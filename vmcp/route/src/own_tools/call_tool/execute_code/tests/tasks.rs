//! Tasks in words, from which a language model writes a script. Its scripts run in the scenarios with the
//! built binary; here are the prompts, the answers and the settings.

use vmcp_script::protocol::Failure;

use super::super::author::Author;
use super::*;
use crate::testing::fake_model::FakeModel;
use vmcp_engine::optim::definitions::definitions;
use vmcp_engine::optim::names::NameStyle;

/// The settings with this model, and more of `code`.
fn with(model: Option<&FakeModel>, code: &str) -> String {
    with_turns(model, code, ", maxTurns: 2")
}

/// As [`with`], with more of `optimizer.llm`.
fn with_turns(model: Option<&FakeModel>, code: &str, turns: &str) -> String {
    let llm = model.map(|model| format!("llm: {{ endpoint: '{}', model: small{turns} }}, ", model.url));
    format!(
        "optimizer: {{ tools: [find_tool, call_tool, execute_code], {}embeddings: {{ provider: none }} }}\n\
         code: {{ {code} }}\n",
        llm.unwrap_or_default()
    )
}

async fn setup(model: Option<&FakeModel>, code: &str) -> (Engine, Scripted) {
    let server = server().await;
    let engine = engine(&backends(&[("fs", &server.url)], &with(model, code))).await;
    (engine, server)
}

fn arguments(engine: &Engine, arguments: &Value) -> CodeArguments {
    let raw = to_raw_value(arguments).unwrap();
    CodeArguments::parse(&raw, &engine.snapshot().config.code).unwrap_or_else(|refused| panic!("{refused}"))
}

async fn text(engine: &Engine, arguments: Value) -> String {
    let result = call(engine, "optim.execute_code", arguments).await.unwrap();
    assert_eq!(result["isError"], true, "{result}");
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

fn counter(engine: &Engine, name: &str) -> String {
    let (text, prefix) = (engine.render_metrics(), format!("vmcp_script_model_{name}_total "));
    text.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap().to_owned()
}

#[tokio::test]
async fn the_model_sees_signatures_and_shapes_but_no_value_and_the_error_of_its_script() {
    let model = FakeModel::start_with(&["```python\nfs.work(n=1)\n```", "fs.work(n=2)"]).await;
    let (engine, _server) = setup(Some(&model), "").await;
    let (snapshot, caller) = (engine.snapshot(), Caller::default());
    let view = snapshot.view(&caller.principal);
    let context = CallContext { engine: &engine, snapshot: &snapshot, view: &view, caller: &caller };
    let rows = json!([{"name": "a secret", "n": 1}, {"name": "another secret", "n": 2}]);
    let given = arguments(&engine, &json!({ "task": "work hard\non all rows", "context": rows }));
    let mut author = Author::new(context, given.task.as_deref().unwrap(), &given).await.unwrap();
    assert_eq!(author.write().await.as_deref(), Ok("fs.work(n=1)"));
    let failure = Failure { line: Some(1), ..Failure::new("ValueError", "n must be 2") };
    assert_eq!(author.repair("fs.work(n=1)", &failure, false).await.as_deref(), Some("fs.work(n=2)"));
    assert_eq!(author.repair("fs.work(n=2)", &failure, false).await, None, "asked twice at most");
    let prompts = model.prompts();
    assert_eq!(prompts.len(), 2);
    assert!(prompts[0].starts_with("Task: work hard on all rows\nCONTEXT: {"), "{}", prompts[0]);
    assert!(prompts[0].contains("name: string") && prompts[0].contains("def fs.work(*,"), "{}", prompts[0]);
    assert!(!prompts.concat().contains("secret"), "{prompts:?}");
    assert!(prompts[1].contains("It failed: ValueError in line 1: n must be 2"), "{}", prompts[1]);
    assert_eq!((counter(&engine, "asks"), counter(&engine, "failures")), ("2".to_owned(), "1".to_owned()));
}

#[tokio::test]
async fn failures_that_no_other_script_would_change_are_not_repaired() {
    let model = FakeModel::start(Some("1 + 1")).await;
    let (engine, _server) = setup(Some(&model), "").await;
    let (snapshot, caller) = (engine.snapshot(), Caller::default());
    let view = snapshot.view(&caller.principal);
    let context = CallContext { engine: &engine, snapshot: &snapshot, view: &view, caller: &caller };
    let given = arguments(&engine, &json!({ "task": "add" }));
    let mut author = Author::new(context, "add", &given).await.unwrap();
    for kind in ["TimeoutError", "BusyError", "WorkerError", "StartError", "SuspendLimitError"] {
        assert_eq!(author.repair("1", &Failure::new(kind, "over"), false).await, None, "{kind}");
    }
    let failure = Failure::new("NameError", "over");
    assert_eq!(author.repair("1", &failure, true).await, None, "it may have changed something");
    assert!(model.prompts().is_empty());
}

#[tokio::test]
async fn only_calls_that_were_sent_and_may_change_something_forbid_a_second_script() {
    let (engine, server) = setup(None, "").await;
    let (snapshot, caller) = (engine.snapshot(), Caller::default());
    let view = snapshot.view(&caller.principal);
    let context = CallContext { engine: &engine, snapshot: &snapshot, view: &view, caller: &caller };
    let host = Host::new(context, Dialect::Python);
    for harmless in [
        tool(Some("fs"), "gone", &json!({})),
        tool(Some("fs"), "work", &json!({ "n": "many" })),
        HostCall::Search { query: "work".to_owned(), limit: None },
        HostCall::Describe { name: "fs.work".to_owned() },
    ] {
        host.call(harmless.clone()).await;
        assert!(!host.may_have_changed(), "{harmless:?}");
    }
    assert!(server.calls().is_empty());
    host.call(tool(Some("fs"), "fail", &json!({}))).await;
    assert!(host.may_have_changed(), "a tool that fails may have changed something before");
}

#[tokio::test]
async fn a_missing_model_names_the_setting_and_another_way() {
    let model = FakeModel::start(None).await;
    for (model, code, expected) in [
        (
            None,
            "",
            "`optimizer.llm` names none, and only `code.llm: any` asks the client's own; send a script as `code`",
        ),
        (
            None,
            "llm: any",
            "optimizer.llm names none, and the client offers no sampling; send a script as `code`",
        ),
        (Some(&model), "llm: 'off'", "`code.llm` of this server is `off`; send a script as `code`"),
        (Some(&model), "", "the language model did not answer ("),
    ] {
        let (engine, _server) = setup(model, code).await;
        let refused = text(&engine, json!({ "task": "add" })).await;
        assert!(refused.starts_with("task: ") && refused.contains(expected), "{code}: {refused}");
    }
    assert_eq!(model.prompts().len(), 1, "a model that is away is asked once");
    let (engine, _server) = setup(None, "").await;
    for (wrong, expected) in [
        (json!({ "task": "add", "code": "1" }), "task must be absent if there is `code`"),
        (json!({ "task": "x".repeat(4_001) }), "task is too long: 4001"),
        (json!({ "task": " " }), "code is required"),
    ] {
        let refused = text(&engine, wrong).await;
        assert!(refused.contains(expected), "{refused}");
    }
}

#[tokio::test]
async fn answers_without_a_script_are_refused_after_two() {
    let model = FakeModel::start(Some("```python\n```")).await;
    let (engine, _server) = setup(Some(&model), "").await;
    let refused = text(&engine, json!({ "task": "add" })).await;
    assert!(refused.contains("wrote no script (the answer has no script)"), "{refused}");
    assert_eq!(model.prompts().len(), 2);
    let server = server().await;
    let five = with_turns(Some(&model), "", "");
    let by_default = crate::testing::engine(&backends(&[("fs", &server.url)], &five)).await;
    text(&by_default, json!({ "task": "add" })).await;
    assert_eq!(model.prompts().len(), 2 + 5, "five turns by default");
}

#[test]
fn a_written_script_is_in_the_answer_also_of_a_timeout() {
    for end in [Ok(json!(1)), Err(Failure::new("TimeoutError", "over")), Err(Failure::new("KeyError", "a"))] {
        let arguments = CodeArguments {
            code: "1".to_owned(),
            task: Some("one".to_owned()),
            context: None,
            context_with_values: None,
            data: Map::new(),
            timeout: Duration::from_secs(1),
            dialect: Dialect::Python,
            is_over_rows: false,
            start_failure: None,
        };
        let finished = Finished { end, output: String::new(), pictures: Vec::new() };
        let result = report::result(Ran { finished, calls: 0, took: Duration::ZERO }, &arguments);
        let result: Value = serde_json::from_str(result.get()).unwrap();
        let answer = &result["structuredContent"];
        assert_eq!((&answer["engine"], &answer["code"]), (&json!("llm"), &json!("1")), "{answer}");
    }
}

#[tokio::test]
async fn a_task_is_on_offer_where_a_model_is() {
    let model = FakeModel::start(None).await;
    for (model, code, offered) in [
        (None, "", false),
        (None, "llm: any", true),
        (Some(&model), "", true),
        (Some(&model), "llm: 'off'", false),
    ] {
        let (engine, _server) = setup(model, code).await;
        let snapshot = engine.snapshot();
        let all = definitions(NameStyle::Dotted, &snapshot.config, true);
        let found = all.iter().find(|definition| definition.name == "optim.execute_code").unwrap();
        let listed: Value = serde_json::from_str(found.raw.get()).unwrap();
        let schema = &listed["inputSchema"];
        assert_eq!(schema["properties"].get("task").is_some(), offered, "{code}: {listed}");
        assert_eq!(schema.get("required").is_none(), offered, "{code}: {listed}");
    }
}

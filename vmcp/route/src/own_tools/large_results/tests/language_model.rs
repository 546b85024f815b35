//! Queries that a language model writes for process_large_dataset.

use serde_json::{Value, json};

use super::{alice, own, rows, server};
use crate::testing::fake_model::FakeModel;
use crate::testing::{Scripted, backends, engine};
use vmcp_engine::engine::Engine;

const QUERY: &str = "SELECT team, count(*) AS n FROM data GROUP BY team ORDER BY team LIMIT 2";

async fn setup(model: Option<&FakeModel>, more: &str) -> (Engine, Scripted) {
    with_turns(model, more, ", maxTurns: 2").await
}

async fn with_turns(model: Option<&FakeModel>, more: &str, turns: &str) -> (Engine, Scripted) {
    let server = server().await;
    let llm = model.map(|model| format!("llm: {{ endpoint: '{}', model: small{turns} }}, ", model.url));
    let settings = format!(
        "optimizer: {{ embeddings: {{ provider: none }}, {}largeResults: {{ enabled: true{more} }} }}\n",
        llm.unwrap_or_default()
    );
    (engine(&backends(&[("one", &server.url)], &settings)).await, server)
}

async fn process(engine: &Engine, operation: &str, engine_name: Option<&str>) -> Value {
    let reference = rows(engine, 10_000).await;
    let arguments = json!({
        "data": reference, "operation": operation, "parameters": {"most": 2}, "engine": engine_name, "timeout": 30,
    });
    own(engine, &alice(), "optim.process_large_dataset", arguments).await["structuredContent"].clone()
}

fn counter(engine: &Engine, name: &str) -> u64 {
    let text = engine.render_metrics();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("vmcp_dataset_model_{name}_total ")));
    line.unwrap().parse().unwrap()
}

#[tokio::test]
async fn words_that_are_not_understood_become_a_query_over_all_rows() {
    let model = FakeModel::start_with(&["Sure: SELECT", "SELECT absent FROM data", QUERY]).await;
    let (engine, _server) = setup(Some(&model), ", llm: auto").await;
    let failed = process(&engine, "make it nicer", None).await;
    let error = failed["error"].as_str().unwrap();
    assert!(error.starts_with("operation not understood") && error.contains("Fields: "), "{failed}");
    assert!(
        error.contains("no such column: absent") && error.contains("SELECT absent FROM data"),
        "{failed}"
    );
    let prompts = model.prompts();
    assert_eq!(prompts.len(), 2, "asked twice at most");
    assert!(
        prompts[0].contains("Task: make it nicer") && prompts[0].contains("10000 rows"),
        "{}",
        prompts[0]
    );
    assert!(prompts[0].contains("- \"team\": string\n") && prompts[0].contains(":most"), "{}", prompts[0]);
    assert!(
        !prompts.concat().contains("team 1") && !prompts.concat().contains("a row"),
        "values: {prompts:?}"
    );
    assert!(prompts[1].contains("Sure: SELECT") && prompts[1].contains("It failed: "), "{}", prompts[1]);

    let done = process(&engine, "make it nicer", None).await;
    assert_eq!((&done["engine"], &done["query"]), (&json!("llm"), &json!(QUERY)), "{done}");
    assert_eq!((&done["original_size"], &done["processed_size"]), (&json!(10_000), &json!(2)));
    assert_eq!(done["operation"], "make it nicer");
    assert_eq!((counter(&engine, "asks"), counter(&engine, "failures")), (3, 1));

    let words = process(&engine, "count", None).await;
    assert_eq!((&words["result"], words.get("engine")), (&json!(10_000), None), "the grammar goes first");
    let refused = process(&engine, "make it nicer", Some("words")).await;
    assert!(refused["error"].as_str().unwrap().contains("operation not understood"), "{refused}");
    assert_eq!(model.prompts().len(), 3, "the model was not asked");
    let asked = process(&engine, "count", Some("llm")).await;
    assert_eq!(asked["engine"], "llm", "{asked}");
}

#[tokio::test]
async fn a_model_has_five_turns_by_default_and_each_gets_the_error_before() {
    let answers = ["Sure:", "SELECT a FROM data", "SELECT b FROM data", "SELECT c FROM data", QUERY];
    let model = FakeModel::start_with(&answers).await;
    let (engine, _server) = with_turns(Some(&model), ", previewRows: 3", "").await;
    let reference = rows(&engine, 10_000).await;
    let arguments =
        json!({ "data": reference, "operation": "make it nicer", "engine": "llm", "timeout": 30 });
    let answer = own(&engine, &alice(), "optim.process_large_dataset", arguments).await;
    let done = &answer["structuredContent"];
    assert_eq!((&done["query"], &done["processed_size"]), (&json!(QUERY), &json!(2)), "{answer}");
    assert_eq!(done["original_size"], 10_000, "over all rows: {answer}");
    assert_eq!(answer["_meta"]["vmcp/code"], format!("sql: {QUERY}"), "{answer}");
    let prompts = model.prompts();
    assert_eq!(prompts.len(), 5, "{prompts:?}");
    assert!(prompts[0].contains("team 2") && !prompts[0].contains("team 3"), "{}", prompts[0]);
    for (prompt, absent) in prompts[2..].iter().zip(["a", "b", "c"]) {
        assert!(prompt.contains(&format!("no such column: {absent}")), "{prompt}");
    }

    let model = FakeModel::start(Some("SELECT absent FROM data")).await;
    let (engine, _server) = with_turns(Some(&model), "", "").await;
    let failed = process(&engine, "make it nicer", Some("llm")).await;
    assert!(failed["error"].as_str().unwrap().contains("SELECT absent FROM data"), "{failed}");
    assert_eq!(model.prompts().len(), 5, "no sixth turn");
    let words = json!({ "data": [1, 2], "operation": "count" });
    let by_words = own(&engine, &alice(), "optim.process_large_dataset", words).await;
    assert!(by_words["_meta"].get("vmcp/code").is_none(), "no query was written: {by_words}");
}

#[tokio::test]
async fn answers_beyond_the_sandbox_are_refused_after_two() {
    let long = format!("SELECT '{}'", "x".repeat(1 << 20));
    for (answer, reason) in [
        ("I am sorry, I cannot.", "no SELECT"),
        ("DROP TABLE data", "no SELECT"),
        ("SELECT 1; SELECT 2", "Multiple statements"),
        ("WITH a AS (SELECT 1) DELETE FROM data", "may only SELECT"),
        ("SELECT * FROM sqlite_master", "may only SELECT"),
        ("SELECT load_extension('x')", "load_extension"),
        (long.as_str(), "longer than 64 KiB"),
    ] {
        let model = FakeModel::start(Some(answer)).await;
        let (engine, _server) = setup(Some(&model), "").await;
        let refused = process(&engine, "make it nicer", Some("llm")).await;
        let error = refused["error"].as_str().unwrap();
        assert!(error.contains(reason) && error.len() < 9_000, "{answer:.40}: {refused:.300}");
        assert_eq!(model.prompts().len(), 2, "{answer:.40}");
        assert!(model.prompts()[1].len() < 4_000, "{answer:.40}");
    }
}

#[tokio::test]
async fn values_reach_the_model_only_where_the_configuration_says_so() {
    let model = FakeModel::start(Some("SELECT json_extract(team, team) FROM data")).await;
    let (engine, _server) = setup(Some(&model), "").await;
    process(&engine, "make it nicer", Some("llm")).await;
    let prompts = model.prompts();
    assert!(prompts[1].contains("error on a row"), "{}", prompts[1]);
    assert!(!prompts.concat().contains("team 0"), "{prompts:?}");
    let model = FakeModel::start(Some(QUERY)).await;
    let (engine, _server) = setup(Some(&model), ", previewRows: 2").await;
    process(&engine, "make it nicer", Some("llm")).await;
    let prompt = &model.prompts()[0];
    assert!(prompt.contains("team 0") && prompt.contains("team 1") && !prompt.contains("team 2"), "{prompt}");
}

#[tokio::test]
async fn the_configuration_says_when_a_model_is_asked() {
    let model = FakeModel::start(Some(QUERY)).await;
    for (more, asked) in
        [("", "llm"), (", llm: asked", "llm"), (", llm: 'off'", "optimizer.largeResults.llm")]
    {
        let (engine, _server) = setup(Some(&model), more).await;
        let before = model.prompts().len();
        let refused = process(&engine, "make it nicer", None).await;
        let error = refused["error"].as_str().unwrap();
        assert!(error.starts_with("operation not understood"), "{more}: {refused}");
        assert_eq!(model.prompts().len(), before, "{more}: not asked");
        let done = process(&engine, "make it nicer", Some("llm")).await;
        let answer = done["engine"].as_str().or(done["error"].as_str()).unwrap();
        assert!(answer.contains(asked), "{more}: {done}");
        assert_eq!(model.prompts().len() > before, asked == "llm", "{more}");
    }
}

#[tokio::test]
async fn without_a_model_or_its_answer_the_failure_says_so() {
    let (engine, _server) = setup(None, "").await;
    let refused = process(&engine, "make it nicer", Some("llm")).await;
    assert!(
        refused["error"].as_str().unwrap().starts_with("engine: there is no language model"),
        "{refused}"
    );
    let refused = process(&engine, "make it nicer", None).await;
    assert!(refused["error"].as_str().unwrap().contains("operation not understood"), "{refused}");
    let model = FakeModel::start(None).await;
    let (engine, _server) = setup(Some(&model), ", llm: auto").await;
    let failed = process(&engine, "make it nicer", Some("llm")).await;
    assert!(failed["error"].as_str().unwrap().contains("did not answer"), "{failed}");
    assert_eq!(failed["error_type"], "BackendError");
    assert_eq!(model.prompts().len(), 1, "a model that is away is asked once");
    let failed = process(&engine, "make it nicer", None).await;
    let error = failed["error"].as_str().unwrap();
    assert!(error.starts_with("operation not understood") && error.contains("did not answer"), "{failed}");
    assert_eq!(failed["error_type"], "InvalidInput");
    let code = process(&engine, "sql: SELECT 1 AS one", Some("llm")).await;
    assert_eq!(code["result"], json!([{"one": 1}]), "code needs no model: {code}");
}

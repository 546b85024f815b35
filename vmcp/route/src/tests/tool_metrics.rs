//! Calls of every kind, as they are counted.

use serde_json::json;

use crate::Caller;
use crate::testing::{self, KEYWORDS, Scripted, backends, call, call_with, engine};
use vmcp_engine::access::identity::Principal;
use vmcp_engine::engine::{Engine, Options, Storage};
use vmcp_engine::telemetry::tool_metrics::Filter;
use vmcp_engine::telemetry::tool_metrics::report::{MetricsQuery, MetricsReport, report};

async fn figures(engine: &Engine) -> MetricsReport {
    engine.tool_metrics().flush().await;
    let snapshot = engine.snapshot();
    report(&engine.tool_metrics().book(), Some(snapshot.unfiltered()), &MetricsQuery::default(), |_| true)
}

fn tools() -> [(&'static str, &'static str, serde_json::Value); 3] {
    [
        ("add", "Adds.", json!({"a": {"type": "number"}})),
        ("fail", "Fails.", json!({})),
        ("refuse", "Refuses.", json!({})),
    ]
}

#[tokio::test]
async fn each_way_of_a_call_is_counted_once_and_refused_arguments_are_not() {
    let server = Scripted::start(&tools()).await;
    let engine = engine(&backends(&[("one", &server.url)], KEYWORDS)).await;
    call(&engine, "one_add", json!({"a": 1})).await.unwrap();
    let through = json!({"tool_name": "one_add", "parameters": {"a": 1}});
    call(&engine, "optim.call_tool", through).await.unwrap();
    let mistaken = json!({"tool_name": "one_add", "parameters": {"b": 1}});
    assert_eq!(call(&engine, "optim.call_tool", mistaken).await.unwrap()["isError"], true);
    call(&engine, "one_fail", json!({})).await.unwrap();
    call(&engine, "one_refuse", json!({})).await.unwrap_err();
    let counts: Vec<_> = figures(&engine)
        .await
        .tools
        .into_iter()
        .map(|tool| (tool.tool, tool.call_count, tool.failure_count, tool.last_error))
        .collect();
    let expected = [
        ("add".to_owned(), 2, 0, None),
        ("fail".to_owned(), 1, 1, Some("it is broken".to_owned())),
        ("refuse".to_owned(), 1, 1, Some("not today".to_owned())),
    ];
    assert_eq!(counts, expected);
    assert_eq!(
        engine.tool_metrics().reset(Filter { tool: Some("fail".into()), ..Filter::default() }).await,
        1
    );
    assert_eq!(figures(&engine).await.tools.len(), 2);
}

#[tokio::test]
async fn a_call_without_an_answer_is_a_failure_with_its_reason() {
    let server = Scripted::start(&[("slow", "Takes its time.", json!({}))]).await;
    let engine = engine(&backends(&[("one", &server.url)], KEYWORDS)).await;
    let late = json!({"tool_name": "one_slow", "timeout": 0.1, "parameters": {}});
    call(&engine, "optim.call_tool", late).await.unwrap();
    let tool = figures(&engine).await.tools.remove(0);
    assert_eq!((tool.call_count, tool.failure_count), (1, 1));
    assert!(tool.last_error.is_some_and(|error| !error.is_empty()), "the reason");
    assert!(tool.avg_latency_ms >= 100.0, "{}", tool.avg_latency_ms);
}

#[tokio::test]
async fn calls_from_several_projects_are_counted_in_one_row() {
    let server = Scripted::start(&tools()).await;
    let profiles =
        format!("profiles: {{ blue: {{ servers: [one] }}, red: {{ servers: [one] }} }}\n{KEYWORDS}");
    let engine = engine(&backends(&[("one", &server.url)], &profiles)).await;
    for profile in [None, Some("blue"), Some("red")] {
        let principal = Principal { profile: profile.map(Into::into), ..Principal::default() };
        let caller = Caller { principal, ..Caller::default() };
        call_with(&engine, &caller, json!({"name": "one_add", "arguments": {"a": 1}})).await.unwrap();
    }
    let tools = figures(&engine).await.tools;
    assert_eq!((tools.len(), tools[0].call_count), (1, 3));
}

#[tokio::test]
async fn figures_survive_a_restart_and_the_removal_of_their_tool() {
    let dir = tempfile::tempdir().unwrap();
    let server = Scripted::start(&tools()).await;
    let yaml = backends(&[("one", &server.url)], KEYWORDS);
    let start = async || {
        let options = Options { storage: Storage::Dir(dir.path().to_owned()), ..Options::default() };
        let engine = Engine::start(testing::config(&yaml), options).await.unwrap();
        engine.settled().await;
        engine
    };
    let first = start().await;
    call(&first, "one_add", json!({"a": 1})).await.unwrap();
    call(&first, "one_fail", json!({})).await.unwrap();
    first.shutdown(std::time::Duration::ZERO).await;
    server.remove("fail");
    let second = start().await;
    second.refresh(None);
    testing::eventually("the tool is gone", || second.snapshot().unfiltered().tool("one_fail").is_none())
        .await;
    call(&second, "one_add", json!({"a": 1})).await.unwrap();
    let counts: Vec<_> = figures(&second)
        .await
        .tools
        .into_iter()
        .map(|tool| (tool.tool, tool.call_count, tool.removed))
        .collect();
    assert_eq!(counts, [("add".to_owned(), 2, false), ("fail".to_owned(), 1, true)]);
}

#[tokio::test]
async fn a_call_is_written_to_the_database_unasked() {
    let dir = tempfile::tempdir().unwrap();
    let server = Scripted::start(&tools()).await;
    let options = Options { storage: Storage::Dir(dir.path().to_owned()), ..Options::default() };
    let yaml = backends(&[("one", &server.url)], KEYWORDS);
    let engine = Engine::start(testing::config(&yaml), options).await.unwrap();
    engine.settled().await;
    call(&engine, "one_add", json!({"a": 1})).await.unwrap();
    // Nothing asks for the figures: the writer commits by itself.
    let store = vmcp_store::StateStore::open(dir.path()).unwrap();
    testing::eventually("the call is written", || store.tool_metrics("one", "add").unwrap().is_some()).await;
}

#[tokio::test]
async fn of_two_equal_tools_the_one_that_works_is_found_first() {
    let broken = Scripted::start(&[("fail", "Reads the weather forecast of a city.", json!({}))]).await;
    let works = Scripted::start(&[("fail_never", "Reads the weather forecast of a city.", json!({}))]).await;
    let engine = engine(&backends(&[("a", &broken.url), ("b", &works.url)], KEYWORDS)).await;
    let search = async || {
        let query = json!({"tool_description": "weather forecast of a city", "explain": true});
        let found = call(&engine, "optim.find_tool", query).await.unwrap()["structuredContent"].clone();
        let names = found["tools"].as_array().unwrap().iter();
        (names.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>(), found)
    };
    assert_eq!(search().await.0, ["a_fail", "b_fail_never"]);
    for _ in 0..6 {
        call(&engine, "a_fail", json!({})).await.unwrap();
    }
    engine.tool_metrics().flush().await;
    let (names, found) = search().await;
    assert_eq!(names, ["b_fail_never", "a_fail"]);
    let explained = &found["tools"][1]["explanation"];
    assert_eq!(explained["reliability"]["calls"], 6);
    assert!(explained["reliability_penalty"].as_f64().unwrap() > 0.0);
}

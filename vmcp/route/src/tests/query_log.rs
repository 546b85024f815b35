//! Searches and the calls that follow them, as they are counted, logged and learned.

use serde_json::{Value, json};
use vmcp_search::measures::search_log::LoggedSearch;

use crate::Caller;
use crate::caller::ContextKey;
use crate::testing::{KEYWORDS, Scripted, backends, call, call_with, config, engine};
use vmcp_engine::access::identity::{Identity, Principal};
use vmcp_engine::engine::Engine;
use vmcp_engine::telemetry::query_log::reading::LogReading;
use vmcp_engine::telemetry::tool_metrics::history::HistoryQuery;
use vmcp_engine::telemetry::tool_metrics::usage::UsageDay;

const LOGGED: &str = "optimizer: { embeddings: { provider: none }, queryLog: { enabled: true } }\n";
const RECOMMENDING: &str =
    "optimizer: { embeddings: { provider: none }, tools: [recommend_tools, call_tool] }\n";

async fn server() -> Scripted {
    let tools =
        [("add", "Adds numbers.", json!({})), ("fail", "Fails.", json!({})), ("other", "Else.", json!({}))];
    Scripted::start(&tools).await
}

/// A client with a context of its own.
fn client(number: u64) -> Caller {
    Caller { context: Some(ContextKey::Handle(number)), ..Caller::default() }
}

async fn find(engine: &Engine, caller: &Caller, description: &str, keywords: &str) {
    let arguments = json!({"tool_description": description, "tool_keywords": keywords});
    let found = call_with(engine, caller, json!({"name": "optim.find_tool", "arguments": arguments})).await;
    assert_ne!(found.unwrap()["isError"], true);
}

async fn use_tool(engine: &Engine, caller: &Caller, name: &str) {
    let arguments = json!({"tool_name": name, "parameters": {}});
    call_with(engine, caller, json!({"name": "optim.call_tool", "arguments": arguments})).await.unwrap();
}

async fn logged(engine: &Engine) -> LogReading {
    engine.query_log().read(0, 100).await
}

fn calls(search: &LoggedSearch) -> Vec<(String, Option<usize>)> {
    search.calls.iter().map(|call| (call.tool.to_string(), call.rank)).collect()
}

#[tokio::test]
async fn searches_are_summed_by_day_with_the_tokens_that_they_save_though_none_is_logged() {
    // An answer costs more than a catalog of a few words.
    let long = "Else. ".repeat(1000);
    let tools =
        [("add", "Adds numbers.", json!({})), ("fail", "Fails.", json!({})), ("other", &*long, json!({}))];
    let server = Scripted::start(&tools).await;
    let engine = engine(&backends(&[("s", &server.url)], KEYWORDS)).await;
    let mut saved = 0;
    for words in ["add numbers", "zebra"] {
        let arguments = json!({"tool_description": words, "detail": "names"});
        let found = call(&engine, "find_tool", arguments).await.unwrap();
        saved += found["structuredContent"]["token_metrics"]["tokens_saved"].as_u64().expect("some");
    }
    use_tool(&engine, &Caller::default(), "s_fail").await;
    let usage = engine.tool_metrics().usage(HistoryQuery::default()).await.expect("the database");
    // The day may end while the test runs.
    let sum = |of: fn(&UsageDay) -> u64| usage.days.iter().map(of).sum::<u64>();
    assert_eq!(usage.days.len(), 30);
    assert_eq!((sum(|day| day.searches), sum(|day| day.without_result)), (2, 1));
    assert_eq!((sum(|day| day.calls), sum(|day| day.failures)), (1, 1));
    assert_eq!(sum(|day| day.tokens_saved), saved);
    assert_eq!((&*usage.tools[0].tool, usage.tools[0].failures), ("fail", 1));
}

#[tokio::test]
async fn a_search_is_logged_with_what_it_found_and_what_was_called_after_it() {
    let server = server().await;
    let engine = engine(&backends(&[("s", &server.url)], LOGGED)).await;
    find(&engine, &client(1), "add numbers", "sum").await;
    use_tool(&engine, &client(1), "s_add").await;
    use_tool(&engine, &client(1), "s_fail").await;
    use_tool(&engine, &client(2), "s_add").await;
    find(&engine, &client(3), "zebra", "").await;
    use_tool(&engine, &client(3), "s_fail").await;
    let LogReading { mut searches, unsearched } = logged(&engine).await;
    searches.sort_by(|one, other| one.query.cmp(&other.query));
    let [added, zebra] = &searches[..] else { panic!("{searches:?}") };
    assert_eq!((added.query.as_str(), added.keywords.as_str(), &added.client), ("add numbers", "sum", &None));
    assert_eq!(added.found.first().map(ToString::to_string).as_deref(), Some("s/add"));
    assert_eq!(calls(added), [("s/add".to_owned(), Some(1))], "it has its call");
    assert_eq!(calls(zebra), [("s/fail".to_owned(), None)], "a failed call is a call");
    let unsearched: Vec<_> = unsearched.into_iter().map(|(tool, calls)| (tool.to_string(), calls)).collect();
    assert_eq!(unsearched, [("s/add".to_owned(), 1), ("s/fail".to_owned(), 1)]);
    let metrics = engine.metrics();
    assert_eq!((metrics.searches.get(), metrics.searches_without_result.get()), (2, 1));
}

#[tokio::test]
async fn a_run_of_a_composite_tool_is_a_call_after_a_search() {
    let server = server().await;
    let composites = "compositeTools:
  - { name: sums, description: Adds numbers twice., steps: [{ id: a, tool: s.add }] }
  - { name: broken, description: Breaks., steps: [{ id: a, tool: s.fail }] }\n";
    let engine = engine(&backends(&[("s", &server.url)], &format!("{LOGGED}{composites}"))).await;
    find(&engine, &client(1), "adds numbers twice", "").await;
    use_tool(&engine, &client(1), "composite.sums").await;
    use_tool(&engine, &client(2), "composite.broken").await;
    let LogReading { searches, unsearched } = logged(&engine).await;
    let [(called, rank)] = &calls(&searches[0])[..] else { panic!("{searches:?}") };
    assert!(called.contains("sums") && rank.is_some(), "{called} {rank:?}");
    let unsearched: Vec<_> = unsearched.into_keys().map(|tool| tool.to_string()).collect();
    assert!(unsearched.len() == 1 && unsearched[0].contains("broken"), "{unsearched:?}");
}

#[tokio::test]
async fn searches_are_counted_and_not_logged_unless_that_is_configured() {
    let server = server().await;
    let engine = engine(&backends(&[("s", &server.url)], KEYWORDS)).await;
    find(&engine, &client(1), "a secret of a user", "").await;
    use_tool(&engine, &client(1), "s_add").await;
    let log = logged(&engine).await;
    assert!(log.searches.is_empty() && log.unsearched.is_empty(), "{log:?}");
    assert_eq!(engine.metrics().searches.get(), 1);
    engine.apply(config(&backends(&[("s", &server.url)], LOGGED))).await;
    let many_words = "numbers ".repeat(200);
    find(&engine, &client(1), &many_words, "").await;
    let searches = logged(&engine).await.searches;
    assert_eq!(searches.len(), 1);
    assert!(searches[0].query.len() <= 1000 && many_words.starts_with(&searches[0].query));
}

#[tokio::test]
async fn a_client_with_an_identity_is_logged_by_its_digest() {
    let server = server().await;
    let engine = engine(&backends(&[("s", &server.url)], LOGGED)).await;
    let identity = Identity::known("https://idp", "alice", serde_json::Map::new(), None);
    let alice = Caller { principal: Principal::from(identity), ..Caller::default() };
    find(&engine, &alice, "add numbers", "").await;
    use_tool(&engine, &Caller::default(), "s_add").await;
    let searches = logged(&engine).await.searches;
    let digest = alice.principal.key().owner();
    assert_eq!(searches[0].client.as_deref(), digest.as_deref());
    assert!(digest.is_some_and(|digest| digest.len() == 64 && !digest.contains("alice")));
    assert!(searches[0].calls.is_empty(), "the call was another client's");
}

/// Names of the tools that recommend_tools says to often follow `s_add`.
async fn following(engine: &Engine) -> Value {
    let arguments = json!({"task_description": "add numbers"});
    let answer = call(engine, "optim.recommend_tools", arguments).await.unwrap();
    let tools = answer["structuredContent"]["tools"].as_array().unwrap().clone();
    let added = tools.iter().find(|tool| tool["tool"] == "s_add").unwrap().clone();
    added["often_followed_by"].clone()
}

#[tokio::test]
async fn a_tool_that_followed_in_five_sessions_is_named_with_the_recommended_one() {
    let server = server().await;
    let settings = backends(&[("s", &server.url)], RECOMMENDING);
    let engine = engine(&settings).await;
    for number in 1..=5 {
        use_tool(&engine, &client(number), "s_add").await;
        use_tool(&engine, &client(number), "s_fail").await;
        engine.query_log().flush().await;
        assert_eq!(following(&engine).await, Value::Null, "a failed call follows nothing");
    }
    for number in 11..=15 {
        assert_eq!(following(&engine).await, Value::Null, "session {number}");
        use_tool(&engine, &client(number), "s_add").await;
        use_tool(&engine, &client(number), "s_other").await;
        engine.query_log().flush().await;
    }
    assert_eq!(following(&engine).await, json!(["s_other"]));
    let hides = "aggregation: { tools: [{ workload: s, exclude: [other] }] }\n";
    engine.apply(config(&format!("{settings}{hides}"))).await;
    assert_eq!(following(&engine).await, Value::Null, "a hidden tool is not named");
}

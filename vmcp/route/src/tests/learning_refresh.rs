//! Tests of refreshes and regenerations, with real connections and a service that counts what it embeds.

use serde_json::{Value, json};
use vmcp_embed::testing::FakeService;

use crate::testing::{KEYWORDS, Scripted, backends, call, config, engine, eventually};
use vmcp_engine::engine::Engine;

/// Ten tools, `t0` to `t9`.
async fn ten_tools() -> Scripted {
    let server = Scripted::start(&[]).await;
    for number in 0..10 {
        server.set(&format!("t{number}"), &format!("Does thing number {number}."), &json!({}));
    }
    server
}

/// Changes one tool, adds two, and removes three.
fn change_some(server: &Scripted) {
    server.set("t0", "Does another thing.", &json!({}));
    server.set("new_one", "New.", &json!({}));
    server.set("new_two", "New, too.", &json!({}));
    for tool in ["t1", "t2", "t3"] {
        server.remove(tool);
    }
}

fn yaml(servers: &[(&str, &str)], service: &FakeService) -> String {
    let optimizer = format!(
        "optimizer:\n  tools: [find_tool, call_tool, list_tools, list_mcp_servers, get_tool_metrics, refresh_tools, \
         regenerate_embeddings]\n  embeddings: {{ provider: tei, tei: {{ endpoint: '{}' }} }}\n",
        service.url()
    );
    backends(servers, &optimizer)
}

/// Waits until as many tools are recorded and have their vectors.
async fn ready(engine: &Engine, tools: usize) {
    let recorded = || -> usize {
        let names = engine.snapshot().backends.keys().cloned().collect::<Vec<_>>();
        names.iter().map(|name| engine.store().schema_hashes(name).unwrap().len()).sum()
    };
    eventually("all tools are recorded and embedded", || {
        engine.embedding_status().embedded == tools && recorded() == tools
    })
    .await;
}

async fn structured(engine: &Engine, tool: &str, arguments: Value) -> Value {
    call(engine, tool, arguments).await.unwrap()["structuredContent"].clone()
}

fn counts(answer: &Value) -> [u64; 4] {
    let server = &answer["servers"][0];
    ["added", "updated", "removed", "unchanged"].map(|count| server[count].as_u64().expect(count))
}

#[tokio::test]
async fn a_refresh_counts_what_changed_and_embeds_that_alone() {
    let (server, service) = (ten_tools().await, FakeService::start().await.unwrap());
    let engine = engine(&yaml(&[("s", &server.url)], &service)).await;
    ready(&engine, 10).await;
    call(&engine, "s_t1", json!({})).await.unwrap();
    let embedded = service.inputs().len();
    change_some(&server);

    let answer = structured(&engine, "optim_refresh_tools", json!({})).await;
    assert_eq!((&answer["success"], counts(&answer)), (&json!(true), [2, 1, 3, 6]), "{answer}");
    ready(&engine, 9).await;
    assert_eq!(service.inputs().len(), embedded + 3, "{:?}", service.inputs());
    let again = structured(&engine, "optim_refresh_tools", json!({"server": "s"})).await;
    assert_eq!(counts(&again), [0, 0, 0, 9]);
    assert_eq!(service.inputs().len(), embedded + 3);

    let servers = structured(&engine, "optim_list_mcp_servers", json!({})).await;
    let changes = &servers["servers"][0]["changes"];
    assert_eq!([&changes["added"], &changes["updated"], &changes["removed"]], [2, 1, 3], "{changes}");
    let listed = structured(&engine, "optim_list_tools", json!({"server": "s"})).await;
    let tools = listed["tools"].as_array().unwrap().iter();
    let with_time: Vec<_> = tools.filter(|tool| tool["last_schema_change"].is_string()).collect();
    assert_eq!((with_time.len(), &with_time[0]["name"]), (1, &json!("s_t0")), "{listed}");
}

#[tokio::test]
async fn a_removed_tool_is_found_no_more_and_its_metrics_stay() {
    let (server, service) = (ten_tools().await, FakeService::start().await.unwrap());
    let engine = engine(&yaml(&[("s", &server.url)], &service)).await;
    ready(&engine, 10).await;
    call(&engine, "s_t1", json!({})).await.unwrap();
    let names = async || {
        let query = json!({"tool_description": "Does thing number 1", "limit": 50});
        let found = structured(&engine, "optim_find_tool", query).await;
        let tools = found["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(names().await.contains(&"s_t1".to_owned()));
    change_some(&server);
    structured(&engine, "optim_refresh_tools", json!({})).await;
    assert!(!names().await.contains(&"s_t1".to_owned()));
    assert!(engine.store().schema_hash("s", "t1").unwrap().is_none());
    let metrics = structured(&engine, "optim_get_tool_metrics", json!({})).await;
    let tool = &metrics["servers"][0]["tools"][0];
    assert_eq!((&tool["tool"], &tool["removed"]), (&json!("t1"), &json!(true)), "{metrics}");
}

#[tokio::test]
async fn a_forced_refresh_and_a_regeneration_embed_what_is_cached() {
    let (one, two) = (ten_tools().await, ten_tools().await);
    let service = FakeService::start().await.unwrap();
    let engine = engine(&yaml(&[("one", &one.url), ("two", &two.url)], &service)).await;
    ready(&engine, 20).await;
    let embedded = service.inputs().len();
    let new_inputs = || service.inputs().into_iter().skip(embedded).collect::<Vec<_>>();

    let forced = structured(&engine, "optim_refresh_tools", json!({"server": "one", "force_refresh": true}));
    assert_eq!(counts(&forced.await), [0, 10, 0, 0]);
    assert_eq!(new_inputs().len(), 10);
    assert!(new_inputs().iter().all(|text| text.starts_with("one ")), "{:?}", new_inputs());

    let all = structured(&engine, "optim_regenerate_embeddings", json!({})).await;
    assert_eq!((&all["regenerated"], &all["failed"]), (&json!(20), &json!(0)), "{all}");
    assert!(all["duration_ms"].is_u64());
    assert_eq!(new_inputs().len(), 30);
    let one = structured(&engine, "optim_regenerate_embeddings", json!({"server": "two"})).await;
    assert_eq!(one["regenerated"], 10);
    assert!(new_inputs().iter().skip(30).all(|text| text.starts_with("two ")));

    service.set(|behavior| behavior.lose_a_vector = true);
    let failed = structured(&engine, "optim_regenerate_embeddings", json!({"server": "two"})).await;
    assert_eq!([&failed["regenerated"], &failed["failed"]], [0, 10], "{failed}");
    assert_eq!(engine.embedding_status().embedded, 20, "the vectors of before stay");
}

#[tokio::test]
async fn a_backend_that_is_enabled_again_is_unchanged() {
    let (server, service) = (ten_tools().await, FakeService::start().await.unwrap());
    let yaml = yaml(&[("s", &server.url)], &service);
    let engine = engine(&yaml).await;
    ready(&engine, 10).await;
    let embedded = service.inputs().len();
    engine.apply(config(&yaml.replace(" }]", ", enabled: false }]"))).await;
    assert!(engine.snapshot().unfiltered().tools.is_empty());
    engine.apply(config(&yaml)).await;
    let answer = structured(&engine, "optim_refresh_tools", json!({"server": "s"})).await;
    assert_eq!(counts(&answer), [0, 0, 0, 10]);
    ready(&engine, 10).await;
    assert_eq!(service.inputs().len(), embedded);
}

#[tokio::test]
async fn a_backend_that_does_not_answer_is_named_with_its_reason() {
    let server = ten_tools().await;
    let urls = [("dead", "http://127.0.0.1:9/mcp"), ("s", server.url.as_str())];
    let engine = engine(&backends(&urls, KEYWORDS)).await;
    let names: Vec<_> = engine.snapshot().backends.keys().cloned().collect();
    let refreshed = engine.refresh_and_wait(&names, true).await;
    let answer = serde_json::to_value(&refreshed).unwrap();
    assert!(answer[0]["error"].as_str().is_some_and(|error| !error.is_empty()), "{answer}");
    assert_eq!(answer[1]["unchanged"], 10, "{answer}");
}

#[tokio::test]
async fn changes_of_hidden_tools_are_not_counted() {
    let (server, service) = (ten_tools().await, FakeService::start().await.unwrap());
    let permitted = ["s_t0", "optim.refresh_tools", "optim.list_mcp_servers"]
        .map(|tool| format!("  - 'permit(principal, action, resource == Tool::\"{tool}\");'\n"));
    let policies =
        format!("incomingAuth:\n  authz:\n    policies:\n{}", permitted.concat().replace("  - ", "    - "));
    let engine = engine(&format!("{}{policies}", yaml(&[("s", &server.url)], &service))).await;
    ready(&engine, 10).await;
    change_some(&server);
    let answer = structured(&engine, "optim_refresh_tools", json!({})).await;
    assert_eq!(counts(&answer), [0, 1, 0, 0], "{answer}");
    let again = structured(&engine, "optim_refresh_tools", json!({"force_refresh": true})).await;
    assert_eq!(counts(&again), [0, 1, 0, 0], "forced: {again}");
    let servers = structured(&engine, "optim_list_mcp_servers", json!({})).await;
    let server = &servers["servers"][0];
    assert_eq!((&server["tool_count"], server.get("changes")), (&json!(1), None), "{servers}");
}

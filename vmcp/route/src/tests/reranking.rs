//! Tests of find_tool with a reranker.

use serde_json::{Value, json};
use vmcp_embed::testing::FakeService;

use crate::testing::{Scripted, backends, call, engine};

#[tokio::test]
async fn the_service_orders_the_first_thirty_and_without_it_the_order_stays() {
    let service = FakeService::start().await.unwrap();
    let names: Vec<String> = (0..40).map(|number| format!("page{number}")).collect();
    let mut tools: Vec<_> = names.iter().map(|name| (name.as_str(), "Reads a page.", json!({}))).collect();
    tools.push(("zebra", "Zebra.", json!({})));
    tools.push(("orders", "Reads a page of the shop.", json!({})));
    let server = Scripted::start(&tools).await;
    let find = async |rerank: &str| {
        let more =
            format!("optimizer: {{ embeddings: {{ provider: none, onUnavailable: fail }}{rerank} }}\n");
        let engine = engine(&backends(&[("s", &server.url)], &more)).await;
        let query = json!({"tool_description": "the zebra page of the shop", "explain": true});
        call(&engine, "optim.find_tool", query).await.unwrap()["structuredContent"].clone()
    };
    let names = |found: &Value| -> Vec<String> {
        let tools = found["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let alone = find("").await;
    assert_eq!(names(&alone)[0], "s_zebra", "a rare word decides: {alone}");
    let rerank = format!(", rerank: {{ endpoint: '{}', timeout: 30s }}", service.url());
    let found = find(&rerank).await;
    assert_eq!((names(&found)[0].as_str(), names(&found).len()), ("s_orders", 8), "{found}");
    assert_eq!(found["tools"][0]["score"], 0.8, "four of five words");
    assert!(found["tools"][0]["explanation"]["rerank_score"].is_number(), "{found}");
    assert_eq!(found.get("degraded"), None);
    assert_eq!(service.reranked().iter().map(Vec::len).collect::<Vec<_>>(), [30]);

    service.set(|behavior| behavior.failures.push_back(503));
    let degraded = find(&rerank).await;
    assert_eq!(names(&degraded), names(&alone), "although onUnavailable is fail: nothing is missing");
    assert_eq!(degraded["degraded_reason"], "the first hits were not re-ranked (overloaded)");
}

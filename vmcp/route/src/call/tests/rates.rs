//! Calls beyond a configured rate.

use std::sync::Arc;

use serde_json::json;

use super::go;
use crate::testing::{KEYWORDS, Scripted, SeenCalls, backends, engine_with};
use vmcp_engine::engine::Options;

#[tokio::test]
async fn calls_beyond_the_rate_are_told_when_to_try_again() {
    let one = Scripted::everything("one").await;
    let seen = Arc::<SeenCalls>::default();
    let options = Options { observers: vec![Arc::clone(&seen) as _], ..Options::default() };
    let limits = "rateLimiting: { tools: [{ name: one_work, perUser: { maxTokens: 2, refillPeriod: 1h } }] }";
    let yaml = backends(&[("one", &one.url)], &format!("{KEYWORDS}{limits}"));
    let engine = engine_with(&yaml, options).await;
    let named = json!({"tool_name": "one_work"});
    let ways = [
        ("tools/call", json!({"name": "one_work", "arguments": {}})),
        ("tools/call", json!({"name": "optim.call_tool", "arguments": named})),
        ("Tools::call", json!({"name": "one_work"})),
    ];
    for (way, params) in &ways[..2] {
        let answer = go(&engine, way, params).await;
        assert!(!answer.contains("rate limit"), "{answer}");
    }
    seen.take();
    for (way, params) in &ways {
        let answer = go(&engine, way, params).await;
        assert!(answer.contains("your calls of this tool"), "{way}: {answer}");
        let record = seen.take().pop().unwrap();
        assert_eq!((record.outcome.label(), record.requests), ("rate_limited", 0), "{way}");
    }
    let answer = go(&engine, ways[0].0, &ways[0].1).await;
    assert!(answer.contains("retry_after_seconds") && answer.contains("rate limit"), "{answer}");
    let read = go(&engine, "resources/read", &json!({"uri": "one://note"})).await;
    assert!(!read.contains("rate limit"), "only calls of tools are counted: {read}");
}

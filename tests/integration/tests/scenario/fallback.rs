//! Failed calls: the answer names the tool that may take its place, and where that is safe and wanted, has
//! its result. Tools without a search: list, schema, call.

use serde_json::{Value, json};
use vmcp_embed::testing::local_model;
use vmcp_integration::{Client, Fixture, Vmcp, eventually};

/// Two servers with the same tools, of which `docs` is going to fail.
async fn docs_and_mirror(optimizer: Value, aggregation: Value) -> (Fixture, Fixture, Vmcp, Client) {
    let docs = Fixture::http("docs", "ctx7").start().await;
    let mirror = Fixture::http("mirror", "ctx7").start().await;
    let settings =
        json!({"optimizer": optimizer, "aggregation": aggregation, "proxy": {"toolTimeout": "1s"}});
    let vmcp = Vmcp::new().backend(&docs).backend(&mirror).config(settings).start().await;
    vmcp.with_tool("mirror_get-library-docs").await;
    let client = vmcp.with_tool("docs_get-library-docs").await;
    (docs, mirror, vmcp, client)
}

/// Says of get-library-docs of each server that it only reads.
fn read_only() -> Value {
    let hints = json!({"get-library-docs": {"annotations": {"readOnlyHint": true}}});
    json!({"tools": [{"workload": "docs", "overrides": hints}, {"workload": "mirror", "overrides": hints}]})
}

fn react() -> Value {
    json!({"libraryId": "/facebook/react"})
}

#[tokio::test]
async fn a_tool_that_fails_names_the_one_that_works() {
    let (docs, mirror, vmcp, client) = docs_and_mirror(json!({}), json!({})).await;
    docs.control(json!({"do": "hang", "method": "tools/call"})).await;
    let failed = client.call_found("docs_get-library-docs", react()).await;
    assert!(failed.is_tool_error(), "{}", failed.text);
    let suggestions = &failed.structured()["fallback_suggestions"];
    let first = &suggestions[0];
    assert_eq!((&first["server"], &first["tool"]), (&json!("mirror"), &json!("mirror_get-library-docs")));
    assert!(first["similarity"].as_f64().is_some_and(|similarity| similarity > 0.5), "{suggestions}");
    assert!(first["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{suggestions}");
    // A model reads text.
    assert!(failed.content_text().contains("mirror_get-library-docs"), "{}", failed.text);
    assert_eq!(mirror.received("tools/call").await, 0, "it is only named");
    let works = client.call_found("mirror_get-library-docs", react()).await;
    assert!(works.text.contains("useState") && !works.text.contains("fallback"), "{}", works.text);

    let direct = client.call_tool("docs_get-library-docs", react()).await;
    assert!(direct.text.contains("mirror_get-library-docs"), "{}", direct.text);
    let unwanted = json!({"tool_name": "docs_get-library-docs", "parameters": react(),
        "include_fallbacks": false});
    let unwanted = client.call_tool("optim.call_tool", unwanted).await;
    assert!(!unwanted.text.contains("mirror"), "{}", unwanted.text);
    assert!(vmcp.metric("vmcp_fallback_suggestions_total").await > 0);
}

/// By meaning: the words of the two tools have little in common.
#[tokio::test]
async fn a_tool_that_times_out_names_its_sibling_on_the_same_server() {
    let model = local_model().await.expect("the model");
    let context7 = Fixture::http("context7", "ctx7").start().await;
    let embeddings = json!({"provider": "local", "local": {"modelDir": model}});
    let settings = json!({"proxy": {"toolTimeout": "1s"}, "optimizer": {"embeddings": embeddings}});
    let vmcp = Vmcp::new().backend(&context7).config(settings).start().await;
    let client = vmcp.with_tool("context7_get-library-docs").await;
    eventually("every tool to be embedded", async || {
        (vmcp.status().await["embeddings"]["embedded"] == 3).then_some(())
    })
    .await;
    context7.control(json!({"do": "hang", "method": "tools/call"})).await;
    let failed = client.call_found("context7_get-library-docs", react()).await;
    assert!(failed.is_tool_error(), "{}", failed.text);
    let content = failed.result()["content"].as_array().expect("content");
    let last = content.last().and_then(|block| block["text"].as_str()).expect("a text");
    let told: Value = serde_json::from_str(last).expect("JSON");
    assert!(told["error"].as_str().is_some_and(|error| error.contains("timed out")), "{told}");
    let suggestions = told["fallback_suggestions"].as_array().unwrap_or_else(|| panic!("{told}"));
    let sibling = suggestions.iter().find(|one| one["tool"] == "context7_search-libraries");
    let sibling = sibling.unwrap_or_else(|| panic!("{told}"));
    assert_eq!(sibling["server"], "context7", "{told}");
    assert!(sibling["similarity"].as_f64().is_some_and(|is| is > 0.0 && is <= 1.0), "{told}");
    assert!(sibling["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{told}");
    assert!(suggestions.iter().all(|one| one["tool"] != "context7_get-library-docs"), "{told}");
}

#[tokio::test]
async fn with_safe_only_the_result_of_the_one_that_works_arrives() {
    let optimizer = json!({"autoRetryFallback": "SafeOnly"});
    let (mut docs, mirror, vmcp, client) = docs_and_mirror(optimizer, read_only()).await;
    docs.kill().await;
    let answer = client.call_found("docs_get-library-docs", react()).await;
    assert!(!answer.is_tool_error(), "{}", answer.text);
    assert!(answer.text.contains("useState"), "{}", answer.text);
    assert!(
        answer.content_text().contains("This is the result of mirror_get-library-docs"),
        "{}",
        answer.text
    );
    let announced = &answer.result()["_meta"]["vmcp/fallback"];
    assert_eq!(announced["fallback"]["server"], "mirror", "{}", answer.text);
    assert!(announced["original_error"].is_string(), "{}", answer.text);
    assert_eq!(mirror.calls("get-library-docs").await, 1, "once");

    // The call of the alternative is counted as any other.
    let counted = eventually("the call to be counted", async || {
        let metrics = vmcp.cli(&["metrics", "--output", "json"]).await;
        let metrics: Value = serde_json::from_str(&metrics.stdout).ok()?;
        metrics["tools"].as_array()?.iter().find(|tool| tool["server"] == "mirror").cloned()
    })
    .await;
    assert_eq!(counted["call_count"], 1, "{counted}");

    // So is its day, and the call itself is in the log.
    let shown = async |arguments: &[&str]| {
        let shown = vmcp.cli(arguments).await;
        assert!(shown.success, "{shown:?}");
        serde_json::from_str::<Value>(&shown.stdout).expect("JSON")
    };
    let days = shown(&["metrics", "--days", "--backend", "mirror", "-o", "json"]).await;
    let day = &days["days"][0];
    assert_eq!((&day["call_count"], &day["failure_count"]), (&json!(1), &json!(0)), "{days}");
    assert_eq!(day["tool"], "get-library-docs", "{days}");
    let calls = shown(&["metrics", "--calls", "-o", "json"]).await;
    let logged = calls["calls"].as_array().expect("calls").iter().find(|call| call["server"] == "mirror");
    assert!(logged.is_some_and(|call| call["outcome"] == "ok"), "{calls}");
    let wrong = vmcp.cli(&["metrics", "--calls", "--limit", "0"]).await;
    assert!(!wrong.success && wrong.stderr.contains("limit: write a number from 1"), "{wrong:?}");
}

#[tokio::test]
async fn a_tool_that_may_change_something_is_only_named() {
    let optimizer = json!({"autoRetryFallback": "SafeOnly"});
    let (docs, mirror, _vmcp, client) = docs_and_mirror(optimizer, json!({})).await;
    docs.control(json!({"do": "error", "method": "tools/call", "code": -32603, "message": "quota"})).await;
    let failed = client.call_found("docs_get-library-docs", react()).await;
    assert!(failed.is_tool_error(), "{}", failed.text);
    assert_eq!(failed.structured()["fallback_suggestions"][0]["server"], "mirror", "{}", failed.text);
    assert_eq!(mirror.received("tools/call").await, 0);
}

#[tokio::test]
async fn a_call_succeeds_with_list_schema_and_call_alone() {
    let optimizer = json!({"exposure": "MetaOnly", "tools": ["list_tools", "get_tool_schema", "call_tool"]});
    let (_docs, mut mirror, _vmcp, client) = docs_and_mirror(optimizer, json!({})).await;
    let listed = client.tools().await;
    let names: Vec<_> = listed.keys().map(String::as_str).collect();
    assert_eq!(names, ["optim_call_tool", "optim_get_tool_schema", "optim_list_tools"]);

    let tools = client.call_tool("optim_list_tools", json!({"server": "mirror"})).await;
    let tools = &tools.structured()["tools"];
    let wanted =
        tools.as_array().into_iter().flatten().find(|tool| tool["name"] == "mirror_search-libraries");
    let wanted = wanted.unwrap_or_else(|| panic!("{tools}"));
    let brief = wanted["brief"].as_str().unwrap_or_default();
    assert!(brief.ends_with("by what they are for."), "{brief}");
    let schema = client.call_tool("optim.get_tool_schema", json!({"tool_name": wanted["name"]})).await;
    let schema = &schema.structured()["tool"]["inputSchema"];
    assert_eq!(schema["required"], json!(["query"]), "{schema}");
    let found = client.call_found("mirror_search-libraries", json!({"query": "views"})).await;
    assert!(found.text.contains("/vuejs/core"), "{}", found.text);
    assert_eq!(mirror.calls("search-libraries").await, 1);
    let search = client.call_tool("optim_find_tool", json!({"tool_description": "libraries"})).await;
    assert!(search.is_failure(), "a tool that is not chosen is not there: {}", search.text);

    // A server that is gone leaves its last definitions, which say that they are old.
    mirror.kill().await;
    eventually("the schema to be stale", async || {
        client.call_found("mirror_search-libraries", json!({"query": "views"})).await;
        let asked = json!({"tool_name": wanted["name"]});
        let answer = client.call_tool("optim.get_tool_schema", asked).await;
        let answer = answer.structured();
        assert_eq!(answer["tool"]["inputSchema"]["required"], json!(["query"]), "{answer}");
        (answer["stale"] == true).then_some(())
    })
    .await;
}

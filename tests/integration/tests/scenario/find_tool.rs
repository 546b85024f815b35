//! `optim.find_tool` with keywords alone: its arguments, its answer, its token metrics.

use serde_json::{Value, json};
use vmcp_integration::{Client, Fixture, Vmcp};

async fn jira() -> (Fixture, Vmcp, Client) {
    let jira = Fixture::http("jira", "jira").start().await;
    let vmcp = Vmcp::new().backend(&jira).start().await;
    let client = vmcp.with_tool("jira_get_jira_issue").await;
    (jira, vmcp, client)
}

fn names(found: &Value) -> Vec<&str> {
    found["tools"].as_array().expect("tools").iter().filter_map(|tool| tool["name"].as_str()).collect()
}

#[tokio::test]
async fn finds_the_watchers_of_a_ticket() {
    let (_jira, _vmcp, client) = jira().await;
    let found = client
        .find_tool(json!({"tool_description": "see who is following a ticket", "tool_keywords": "watchers"}));
    let found = found.await;
    assert_eq!(names(found.structured())[0], "jira_get_jira_issue_watchers", "{}", found.text);
    assert_eq!(found.structured()["search_mode"], "keyword");
    // The text block carries the same JSON, for clients that do not read structuredContent.
    let text: Value = serde_json::from_str(&found.content_text()).expect("JSON");
    assert_eq!(&text, found.structured());
}

#[tokio::test]
async fn answers_with_real_names_full_schemas_and_falling_scores() {
    let (_jira, vmcp, client) = jira().await;
    let found = client.find_tool(json!({"tool_description": "read the comments on an issue"})).await;
    let tools = found.structured()["tools"].as_array().expect("tools").clone();
    let listed = client.tools().await;
    assert!((1..=8).contains(&tools.len()), "{}", found.text);
    for tool in &tools {
        let name = tool["name"].as_str().expect("a name");
        assert_eq!(tool["parameters"], listed[name]["inputSchema"]);
        assert_eq!(tool["parameters"]["type"], "object");
        assert_eq!(tool["backend_id"], "jira");
    }
    let scores: Vec<f64> = tools.iter().filter_map(|tool| tool["score"].as_f64()).collect();
    assert_eq!(scores.len(), tools.len());
    assert!(
        scores.iter().all(|score| (0.0..=1.0).contains(score)) && scores.is_sorted_by(|a, b| a >= b),
        "{scores:?}"
    );
    assert!(names(found.structured()).iter().all(|name| !name.starts_with("optim")), "{}", found.text);
    drop(vmcp);
}

#[tokio::test]
async fn keywords_are_a_string_or_an_array_and_never_a_query_language() {
    let (_jira, _vmcp, client) = jira().await;
    let ask = async |keywords: Value| {
        let found =
            client.find_tool(json!({"tool_description": "planning", "tool_keywords": keywords})).await;
        names(found.structured()).into_iter().map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(ask(json!(["sprint", "agile"])).await, ask(json!("sprint agile")).await);
    assert_eq!(ask(json!("sprint agile")).await[0], "jira_get_jira_issue_sprints");
    ask(json!("foo\" OR NEAR( * ); DROP TABLE tool_embeddings; --")).await;
}

#[tokio::test]
async fn token_metrics_add_up() {
    let (_jira, _vmcp, client) = jira().await;
    let found = client.find_tool(json!({"tool_description": "sprints of an issue", "limit": 1})).await;
    assert_eq!(names(found.structured()).len(), 1);
    let listed = client.tools().await;
    // Tokens are a quarter of the characters of name, description and schema, rounded up once over all tools.
    let size = |tool: &Value| {
        let text = |key: &str| tool[key].as_str().map_or(0, |text| text.chars().count());
        text("name") + text("description") + tool["inputSchema"].to_string().chars().count()
    };
    let tokens = |quarters: usize| quarters.div_ceil(4) as f64;
    let all = tokens(
        listed.iter().filter(|(name, _)| !name.starts_with("optim")).map(|(_, tool)| size(tool)).sum(),
    );
    let metrics = &found.structured()["token_metrics"];
    assert_eq!(metrics["baseline_tokens"].as_f64(), Some(all), "{metrics}");
    let returned = metrics["returned_tokens"].as_f64().expect("a number");
    let sent = found.content_text().chars().count() as f64 / 4.0;
    assert!((returned - sent).abs() <= sent * 0.05, "{metrics}, sent {sent}");
    let percent = metrics["savings_percent"].as_f64().expect("a number");
    assert!((percent - (all - returned) / all * 100.0).abs() < 0.01, "{metrics}");
}

#[tokio::test]
async fn nothing_to_search_is_an_empty_answer() {
    let vmcp = Vmcp::new().start().await;
    let found = vmcp.modern().find_tool(json!({"tool_description": "anything"})).await;
    assert_eq!(found.structured()["tools"], json!([]));
    let metrics = &found.structured()["token_metrics"];
    for key in ["baseline_tokens", "savings_percent"] {
        assert_eq!(metrics[key].as_f64(), Some(0.0), "{metrics}");
    }
}

#[tokio::test]
async fn names_and_exposure_follow_the_client_and_the_configuration() {
    let jira = Fixture::http("jira", "jira").start().await;
    let vmcp =
        Vmcp::new().backend(&jira).config(json!({"optimizer": {"exposure": "MetaOnly"}})).start().await;
    let listed = |client: Client| async move { client.tools().await.keys().cloned().collect::<Vec<_>>() };
    // `mcp` is the default name of the Python SDK, under which openai-agents, pydantic-ai and langchain list
    // tools; they pass the names unchanged to model APIs that take no dots.
    for name in ["mcp", "claude-ai", "raw"] {
        assert_eq!(listed(vmcp.modern().named(name)).await, ["optim_call_tool", "optim_find_tool"], "{name}");
    }
    let inspector = vmcp.modern().named("mcp-inspector");
    assert_eq!(listed(inspector).await, ["optim.call_tool", "optim.find_tool"]);
    for name in ["optim.find_tool", "optim_find_tool", "find_tool"] {
        let found = vmcp.modern().call_tool(name, json!({"tool_description": "sprints"})).await;
        assert!(!found.is_tool_error(), "{name}: {}", found.text);
    }
}

#[tokio::test]
async fn the_style_of_own_names_can_be_set_for_every_client() {
    let jira = Fixture::http("jira", "jira").start().await;
    for (style, own) in [("underscore", "optim_find_tool"), ("dotted", "optim.find_tool")] {
        let settings = json!({"optimizer": {"exposure": "All", "toolNameStyle": style}});
        let vmcp = Vmcp::new().backend(&jira).config(settings).start().await;
        vmcp.with_tool("jira_create_note").await;
        for name in ["claude-ai", "mcp-inspector"] {
            let client = vmcp.modern().named(name);
            let listed = client.tools().await;
            assert!(
                listed.contains_key(own) && listed.contains_key("jira_create_note"),
                "{name}: {listed:?}"
            );
            let is_plain = |tool: &String| {
                tool.len() <= 64 && tool.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
            };
            assert_eq!(listed.keys().all(is_plain), style == "underscore", "{name}: {listed:?}");
            let found = client.call_tool(own, json!({"tool_description": "sprints of an issue"})).await;
            assert!(!found.is_tool_error(), "{name}: {}", found.text);
        }
    }
}

#[tokio::test]
async fn a_backends_own_find_tool_never_shadows_ours() {
    let nasty = Fixture::http("nasty", "nasty").start().await;
    let vmcp = Vmcp::new()
        .backend(&nasty)
        .config(json!({"aggregation": {"conflictResolution": "passthrough"}}))
        .start()
        .await;
    let client = vmcp.with_tool("healthy").await;
    let found = client.find_tool(json!({"tool_description": "the good tool"})).await;
    assert!(found.structured()["tools"].is_array(), "{}", found.text);
    assert_eq!(nasty.calls("optim.find_tool").await, 0);
}

#[tokio::test]
async fn counts_what_it_did() {
    let (_jira, vmcp, client) = jira().await;
    client.find_tool(json!({"tool_description": "sprints"})).await;
    client.find_tool(json!({"tool_description": "watchers"})).await;
    client.find_tool(json!({"tool_description": ""})).await;
    assert_eq!(vmcp.metric("vmcp_optimizer_find_tool_requests_total").await, 3);
    assert_eq!(vmcp.metric("vmcp_optimizer_find_tool_errors_total").await, 1);
    assert_eq!(vmcp.metric("vmcp_optimizer_find_tool_duration_seconds_count").await, 3);
}

//! `GET /tools`, asked without a port.

use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::*;
use vmcp_engine::testing::fake_model::FakeModel;
use vmcp_engine::testing::{Scripted, backends, engine};

async fn get(engine: &Engine, path: &str) -> Value {
    get_as(engine, &Principal::default(), path).await
}

async fn get_as(engine: &Engine, principal: &Principal, path: &str) -> Value {
    let (head, ()) = http::Request::get(path).body(()).unwrap().into_parts();
    let api = ToolsApi::new(engine.clone());
    let answer = api.answer(&head, &Bytes::new(), principal, &engine.snapshot()).await;
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap()
}

#[tokio::test]
async fn where_a_message_means_no_context_a_language_model_may_choose() {
    let tools = [("read", "Reads a page.", json!({})), ("view", "Shows a picture.", json!({}))];
    let server = Scripted::start(&tools).await;
    for (answer, tools, reason) in [
        (r#"[{"tool": "s_view"}, {"tool": "made_up"}]"#, json!(["s_view"]), "contextual_llm_selection"),
        ("[]", json!([]), "contextual_llm_none_suggested"),
    ] {
        let model = FakeModel::start(Some(answer)).await;
        let settings = |llm_fallback: bool| {
            format!(
                "optimizer: {{ embeddings: {{ provider: none }}, llm: {{ endpoint: '{}', model: small }}, \
                 discovery: {{ enabled: true, llmFallback: {llm_fallback} }} }}\n",
                model.url
            )
        };
        let engine = engine(&backends(&[("s", &server.url)], &settings(true))).await;
        let chosen = get(&engine, "/tools?message=look+at+this").await;
        let names: Vec<_> = chosen["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
        assert_eq!((json!(names), &chosen["metadata"]["reason"]), (tools, &json!(reason)), "{chosen}");
        engine.apply(vmcp_engine::testing::config(&backends(&[("s", &server.url)], &settings(false)))).await;
        let none = get(&engine, "/tools?message=look+at+this").await;
        assert_eq!(none["metadata"]["reason"], "no_context_detected", "{none}");
        assert_eq!(model.prompts().len(), 1);
    }
}

#[tokio::test]
async fn an_untagged_tool_is_tagged_by_its_words_and_no_backend_is_asked() {
    let tools = [
        ("create_invoice", "Does what it says.", json!({})),
        ("list_tickets", "Does what it says in Jira.", json!({})),
        ("work", "Does what it says.", json!({})),
    ];
    let server = Scripted::start(&tools).await;
    let discovery = "optimizer: { embeddings: { provider: none }, discovery: { enabled: true, \
                     contexts: { billing: { keywords: [invoice] } } } }\n";
    let engine = engine(&backends(&[("erp", &server.url)], discovery)).await;
    let (tickets, billing) =
        (get(&engine, "/tools?context=jira").await, get(&engine, "/tools?context=billing").await);
    assert_eq!(billing["tools"][0]["name"], "erp_create_invoice");
    assert_eq!(billing["tools"][0]["contexts"], json!(["billing"]));
    assert_eq!(billing["tools"][0]["categories"], json!(["creation", "erp"]));
    assert_eq!(tickets["tools"][0]["categories"], json!(["retrieval", "erp"]));
    assert!(server.methods().is_empty(), "{:?}", server.methods());
}

#[tokio::test]
async fn contexts_are_those_of_the_servers_that_are_there() {
    let tools = [("create_issue", "Creates an issue.", json!({})), ("merge", "Merges a branch.", json!({}))];
    let server = Scripted::start(&tools).await;
    let discovery = "optimizer: { embeddings: { provider: none }, discovery: { enabled: true } }\n";
    let engine = engine(&backends(&[("git-hub", &server.url)], discovery)).await;
    for query in ["context=git-hub", "message=what+is+new+on+Git+Hub"] {
        let answer = get(&engine, &format!("/tools?{query}")).await;
        assert_eq!(answer["metadata"]["returnedCount"], 2, "{query}: {answer}");
    }
    let jira = get(&engine, "/tools?context=jira").await;
    assert_eq!(jira["metadata"]["reason"], "no_matching_tools", "an issue is no ticket of Jira: {jira}");
    let detected = get(&engine, "/tools/contexts?message=git+hub").await;
    assert_eq!(detected["contexts"], json!(["git-hub"]));
}

#[tokio::test]
async fn a_server_that_the_caller_may_not_see_is_no_context() {
    let tools = [("ledger", "Keeps accounts.", json!({}))];
    let (shown, hidden) = (Scripted::start(&tools).await, Scripted::start(&tools).await);
    let settings = "optimizer: { embeddings: { provider: none }, discovery: { enabled: true } }\n\
                    profiles: { work: { servers: [bank] } }\n";
    let engine = engine(&backends(&[("bank", &shown.url), ("payroll", &hidden.url)], settings)).await;
    let work = Principal { profile: Some("work".into()), ..Principal::default() };
    let message = "/tools/contexts?message=bank+and+payroll";
    assert_eq!(get(&engine, message).await["contexts"], json!(["bank", "payroll"]));
    assert_eq!(get_as(&engine, &work, message).await["contexts"], json!(["bank"]));
    let listed = get_as(&engine, &work, "/tools?context=payroll").await;
    assert_eq!(listed["metadata"]["reason"], "no_matching_tools", "{listed}");
}

//! The requests that the client makes, and the requests that its cache spares.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::sync::Arc;

use axum::Json;
use axum::http::{StatusCode, Uri};
use axum::routing::{get, post};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use vmcp_tools_client::{ClientError, DynamicToolClient, ToolOptions};

/// The queries that a server got.
type Seen = Arc<Mutex<Vec<String>>>;

async fn server() -> (DynamicToolClient, Seen) {
    let seen = Seen::default();
    let tools = {
        let seen = Arc::clone(&seen);
        async move |uri: Uri| {
            let query = uri.query().unwrap_or_default().to_owned();
            let status = if query.contains("userId") { StatusCode::FORBIDDEN } else { StatusCode::OK };
            seen.lock().push(query);
            let tool = json!({"name": "t", "inputSchema": {"type": "object"}});
            (status, Json(json!({"tools": [tool], "message": "no profile of yours"})))
        }
    };
    let figures =
        json!({"requests": 1, "totalTokens": 5, "avgTokensPerRequest": 5, "since": "2026-01-01T00:00:00Z"});
    let metrics = json!({"baseline": figures, "filtered": figures, "reduction": "0%"});
    let reset = json!({"message": "Metrics reset successfully"});
    let router = axum::Router::new()
        .route("/tools", get(tools))
        .route("/tools/metrics", get(async move || Json(metrics)))
        .route("/tools/metrics/reset", post(async move || Json(reset)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = DynamicToolClient::new(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    (client, seen)
}

fn about(context: &str) -> ToolOptions {
    ToolOptions { contexts: vec![context.to_owned()], ..ToolOptions::default() }
}

#[tokio::test]
async fn an_answer_is_fetched_once_until_twenty_others_or_a_reset() {
    let (client, seen) = server().await;
    for _ in 0..2 {
        assert_eq!(client.get_tools(&about("jira")).await.unwrap().tools[0].name, "t");
    }
    assert_eq!(*seen.lock(), ["context=jira"]);
    for number in 0..20 {
        client.get_tools(&about(&number.to_string())).await.unwrap();
    }
    client.get_tools(&about("jira")).await.unwrap();
    assert_eq!(seen.lock().len(), 22, "it had made room for the others");
    assert_eq!(client.get_metrics().await.unwrap().reduction, "0%");
    client.reset_metrics().await.unwrap();
    client.get_tools(&about("jira")).await.unwrap();
    assert_eq!(seen.lock().len(), 23);
}

#[tokio::test]
async fn a_message_without_a_context_asks_nobody() {
    let (client, seen) = server().await;
    let found = client.get_tools_from_message("hello there", &ToolOptions::default()).await.unwrap();
    assert_eq!((found.tools.len(), found.reason()), (0, Some("no_context_detected")));
    assert_eq!(found.metadata.get("filtered"), Some(&Value::Bool(false)));
    assert!(seen.lock().is_empty());
    let limited = ToolOptions { limit: Some(3), category: Some("a b".to_owned()), ..ToolOptions::default() };
    client.get_tools_from_message("see ABC-12", &limited).await.unwrap();
    assert_eq!(*seen.lock(), ["context=jira&category=a+b&limit=3"]);
}

#[tokio::test]
async fn a_refusal_has_the_words_of_the_server() {
    let (client, _) = server().await;
    let other = ToolOptions { user_id: Some("somebody".to_owned()), ..about("jira") };
    let error = client.get_tools(&other).await.unwrap_err();
    assert!(
        matches!(&error, ClientError::Refused { status: 403, message } if message.contains("profile")),
        "{error}"
    );
    assert!(matches!(DynamicToolClient::new("nowhere"), Err(ClientError::Address(_))));
}

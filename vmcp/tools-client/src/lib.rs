//! [`DynamicToolClient`]: gets the tools of a vmcp server by topic, from `GET /tools`, and calls them over
//! MCP. The server needs `optimizer: { discovery: { enabled: true } }`.
//!
//! ```
//! use vmcp_tools_client::{DynamicToolClient, ToolOptions, extract_context_from_message};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = axum::Router::new().route("/tools", axum::routing::get(async |uri: axum::http::Uri| {
//! #     let tools = if uri.query().unwrap_or_default().starts_with("context=jira") { 2 } else { 0 };
//! #     let tool = serde_json::json!({"name": "jira_get_issue", "description": "Gets an issue."});
//! #     axum::Json(serde_json::json!({"tools": vec![tool; tools], "metadata": {"filtered": true}}))
//! # }));
//! # let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! # let server_url = format!("http://{}", listener.local_addr()?);
//! # tokio::spawn(async move { axum::serve(listener, server).await });
//! let client = DynamicToolClient::new(&server_url)?;
//!
//! let contexts = extract_context_from_message("I need to check PROJ-123 ticket comments");
//! assert_eq!(contexts, ["jira", "communication"]);
//!
//! // Tools for the message; without a context in it, none.
//! let found = client
//!     .get_tools_from_message("I need to check PROJ-123 ticket comments", &ToolOptions::default())
//!     .await?;
//! assert!(!found.tools.is_empty());
//!
//! // Or with an explicit context.
//! let jira = ToolOptions { contexts: vec!["jira".to_owned()], ..ToolOptions::default() };
//! assert_eq!(client.get_tools(&jira).await?.tools.len(), 2);
//! client.close().await;
//! # Ok(())
//! # }
//! ```

mod answers;
mod cache;
mod calls;
mod client;
mod contexts;
mod error;

pub use answers::{FoundTool, FoundTools, ToolUsage, UsageFigures};
pub use client::{DynamicToolClient, ToolOptions};
pub use contexts::extract_context_from_message;
pub use error::ClientError;

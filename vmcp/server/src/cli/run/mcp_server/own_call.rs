//! Calls of the own tools.

use std::sync::Arc;

use serde_json::{Value, json};
use vmcp_json::json_rope::JsonRope;
use vmcp_wire::owned::OwnedRequest;
use vmcp_wire::rpc;

use super::shared_server::SharedServer;
use super::{own_tools, project};

/// Calls an own tool; returns the id of the request and its answer.
pub(super) async fn run(
    server: Arc<SharedServer>,
    name: &'static str,
    request: OwnedRequest,
    is_modern: bool,
) -> (Box<str>, Vec<u8>) {
    let report = if name == "init_project" {
        let arguments = request.params().get("arguments").and_then(|text| serde_json::from_str(text).ok());
        init_project(arguments.unwrap_or(Value::Null)).await
    } else {
        server.run_command(name).await
    };
    let result = JsonRope::from(own_tools::result(&report, is_modern));
    (request.id().get().into(), rpc::response(request.id(), result))
}

/// Makes the working folder a project. It reads and writes files and runs git, so it has a thread.
async fn init_project(arguments: Value) -> Value {
    let made = tokio::task::spawn_blocking(move || match std::env::current_dir() {
        Ok(folder) => project::init(&folder, &arguments),
        Err(error) => json!({ "success": false, "error": format!("the working folder: {error}") }),
    });
    made.await.unwrap_or_else(|_| json!({ "success": false, "error": "the call was cancelled" }))
}

//! Scripts of small servers of either era: they answer the handshake and lists; calls are up to the test.

use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;

use super::server::{Reply, SeenRequest};

const TOOLS: &str = r#"{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}"#;

/// A modern server.
pub(crate) fn modern(
    call: impl Fn(&SeenRequest) -> Reply + Send + Sync + 'static,
) -> impl Fn(&SeenRequest) -> Reply + Send + Sync {
    move |seen| match seen.method() {
        "server/discover" => Reply::Json(seen.answer(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "modern", "version": "1"}},
            "ttlMs": 0, "cacheScope": "public",
        }))),
        "tools/list" => Reply::Json(seen.answer(TOOLS)),
        _ => call(seen),
    }
}

/// A legacy server with the session `s1` and no GET stream.
pub(crate) fn legacy(
    call: impl Fn(&SeenRequest) -> Reply + Send + Sync + 'static,
) -> impl Fn(&SeenRequest) -> Reply + Send + Sync {
    move |seen| match seen.method() {
        "server/discover" => Reply::Status(400, "no session".to_owned()),
        "initialize" => Reply::With(&[("mcp-session-id", "s1")], seen.answer(initialized())),
        "notifications/initialized" | "notifications/cancelled" => Reply::Status(202, String::new()),
        "tools/list" => Reply::Json(seen.answer(TOOLS)),
        _ if seen.http != "POST" => Reply::Status(405, String::new()),
        // An answer of ours to a request of the server's.
        "" => Reply::Status(202, String::new()),
        _ => call(seen),
    }
}

/// A legacy server that opens a session `s1`, `s2`, … at each `initialize`; GET streams are up to `rest` too.
pub(crate) fn stateful(
    rest: impl Fn(&SeenRequest) -> Reply + Send + Sync + 'static,
) -> impl Fn(&SeenRequest) -> Reply + Send + Sync {
    let sessions = AtomicU32::new(0);
    move |seen| match (seen.http.as_str(), seen.method()) {
        ("GET", _) => rest(seen),
        (_, "initialize") => {
            let id = format!("s{}", sessions.fetch_add(1, Ordering::SeqCst) + 1);
            let result = json!({
                "protocolVersion": "2025-11-25", "serverInfo": {"name": "stateful", "version": "1"},
                "capabilities": {"tools": {}, "logging": {}, "resources": {"subscribe": true}},
            });
            Reply::Session(id, seen.answer(result))
        }
        (_, "server/discover") => Reply::Status(400, "no session".to_owned()),
        (_, "tools/list") => Reply::Json(seen.answer(TOOLS)),
        (_, "resources/list") => Reply::Json(seen.answer(r#"{"resources":[]}"#)),
        (_, "resources/templates/list") => Reply::Json(seen.answer(r#"{"resourceTemplates":[]}"#)),
        (_, "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe") => {
            Reply::Json(seen.answer("{}"))
        }
        (_, "" | "notifications/initialized" | "notifications/cancelled") => {
            Reply::Status(202, String::new())
        }
        _ => rest(seen),
    }
}

/// The result of `initialize`.
pub(crate) fn initialized() -> serde_json::Value {
    json!({
        "protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}},
        "serverInfo": {"name": "legacy", "version": "1"},
    })
}

/// Answers a call with its own arguments.
pub(crate) fn echo(seen: &SeenRequest) -> Reply {
    Reply::Json(seen.answer(r#"{"content":[]}"#))
}

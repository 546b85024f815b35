//! The OpenAPI document of the API, made from the table of its routes.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// A route of the API.
#[derive(Debug)]
pub(super) struct RestRoute {
    /// `get` or `post`.
    pub(super) method: &'static str,
    /// Path, with its parameters in braces.
    pub(super) path: &'static str,
    summary: &'static str,
    /// Content of an answer with status 200.
    answer: &'static str,
}

/// The routes.
pub(super) const ROUTES: [RestRoute; 5] = [
    RestRoute {
        method: "get",
        path: "/api/v1/openapi.json",
        summary: "This document",
        answer: "An OpenAPI document",
    },
    RestRoute {
        method: "get",
        path: "/api/v1/servers",
        summary: "The servers that the caller sees",
        answer: "`servers`: name, state, transport and number of tools of each",
    },
    RestRoute {
        method: "get",
        path: "/api/v1/servers/{server}/tools",
        summary: "The tools of a server",
        answer: "`tools`: listed name, the server's own name, definition",
    },
    RestRoute {
        method: "get",
        path: "/api/v1/servers/{server}/tools/{tool}",
        summary: "A tool, by its server's name for it",
        answer: "Listed name, the server's own name, definition",
    },
    RestRoute {
        method: "post",
        path: "/api/v1/servers/{server}/tools/{tool}",
        summary: "Call a tool",
        answer: "The `CallToolResult` of optim.call_tool; `isError` is true if the call failed, also for an unknown tool",
    },
];

/// Returns the document, OpenAPI 3.1.
pub(super) fn document() -> Value {
    let mut paths: BTreeMap<&str, BTreeMap<&str, Value>> = BTreeMap::new();
    for route in &ROUTES {
        paths.entry(route.path).or_default().insert(route.method, operation(route));
    }
    json!({
        "openapi": "3.1.0",
        "info": {"title": "vmcp", "version": env!("CARGO_PKG_VERSION")},
        "paths": paths,
        "components": {"securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"bearer": []}],
    })
}

fn operation(route: &RestRoute) -> Value {
    let names = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let parameters: Vec<_> = names
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    let content = json!({"application/json": {"schema": {"type": "object"}}});
    let with_content = |description: &str| json!({"description": description, "content": content});
    let mut responses = BTreeMap::from([
        ("200", with_content(route.answer)),
        ("401", json!({"description": "The token is missing or not accepted"})),
    ]);
    // A call of an unknown or hidden tool answers 200 with `isError`, as `optim.call_tool` does. The document
    // is the only read that no policy denies.
    if route.method == "get" && route.path != "/api/v1/openapi.json" {
        let hidden = "The server or tool is unknown, or the caller may not see it";
        responses.insert("404", with_content(hidden));
    }
    let mut operation = Map::from_iter([
        ("summary".to_owned(), route.summary.into()),
        ("parameters".to_owned(), parameters.into()),
    ]);
    if route.method == "post" {
        responses.insert("400", with_content("The body is no JSON object, or a JSON-RPC error follows"));
        operation.insert("requestBody".to_owned(), with_content("The tool's arguments"));
    }
    operation.insert("responses".to_owned(), json!(responses));
    operation.into()
}

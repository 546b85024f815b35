//! `GET /admin/support`: the texts of this process for `vmcp support-bundle`, without the secrets that the
//! configuration knows.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{Json, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use vmcp_config::KnownSecrets;
use vmcp_model::catalog::CatalogTool;

use super::config_dump::ConfigDump;
use crate::port::admin::{Admin, status};
use crate::port::off_thread;
use vmcp_engine::telemetry::logs::levels;
use vmcp_engine::telemetry::recent;

/// Texts for support, by file name.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct SupportFiles {
    /// Text of each file.
    pub files: BTreeMap<String, String>,
}

/// Answers `GET /admin/support`.
pub(in crate::port::admin) async fn show(State(admin): State<Admin>) -> Response {
    // Thousands of tools, and a search for every secret, take a while.
    off_thread(move || Json(files(&admin))).await
}

/// Returns the texts of this process.
fn files(admin: &Admin) -> SupportFiles {
    let engine = &admin.0.engine;
    let snapshot = engine.snapshot();
    let secrets = snapshot.config.known_secrets();
    let tool = |tool: &Arc<CatalogTool>| {
        json!({
            "name": tool.name, "backend": tool.backend, "original": tool.definition.name,
            "hash": tool.hash.to_string(), "listed": tool.listed, "inLists": tool.in_lists, "tokens": tool.tokens,
        })
    };
    let tools: Vec<Value> = snapshot.unfiltered().tools.iter().map(tool).collect();
    let documents = [
        ("status.json", json!(status::report(admin))),
        ("config.json", json!(ConfigDump::new(&snapshot.config))),
        ("tools.json", json!({ "tools": tools })),
        ("calls.json", json!(admin.0.calls.since(0, None))),
        ("log.json", json!(recent::lines().since(0, |_| true))),
        ("log-level.json", json!(levels::report())),
    ];
    let mut files = BTreeMap::new();
    for (name, mut document) in documents {
        mask(&mut document, secrets);
        // Values of JSON always serialize.
        files.insert(name.to_owned(), serde_json::to_string_pretty(&document).unwrap_or_default());
    }
    files.insert("metrics.txt".to_owned(), secrets.mask(&engine.render_metrics()).into_owned());
    SupportFiles { files }
}

/// Masks secrets in the texts of a document, before they are escaped.
fn mask(value: &mut Value, secrets: &KnownSecrets) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(masked) = secrets.mask(text) {
                *text = masked;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| mask(item, secrets)),
        Value::Object(entries) => entries.values_mut().for_each(|entry| mask(entry, secrets)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

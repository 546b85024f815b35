//! The data of the page about the list of one client: each entry as it is sent.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Query, State};
use axum::response::{Html, IntoResponse, Response};
use serde::Deserialize;
use serde_json::Value;
use vmcp_console::pages::catalog::PAGE_SIZE;
use vmcp_console::pages::clients::question::MAX_CHARS;
use vmcp_console::pages::clients::sent::{Sent, SentTool, sent as sent_page};
use vmcp_engine::access::identity::Principal;
use vmcp_engine::engine::Snapshot;
use vmcp_model::tokens;
use vmcp_wire::era::Era;
use vmcp_wire::lists::pages::List;

use super::client_query::{ClientQuery, WANTS_SUBJECT};
use crate::port::admin::diagnosis::explain_tool::principal;
use crate::port::console::access::{ConsoleDoor, Visitor};
use crate::port::console::answer::parsed;
use crate::port::off_thread;
use crate::session::peer::style_for;

/// The query `?client=NAME&era=WORD`, beside that of [`ClientQuery`].
#[derive(Deserialize)]
pub(in crate::port::console) struct SentQuery {
    #[serde(default)]
    client: String,
    #[serde(default)]
    era: String,
}

/// Answers `GET /console/sent`.
pub(in crate::port::console) async fn show(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
    Query(query): Query<ClientQuery>,
    Query(SentQuery { client, era }): Query<SentQuery>,
) -> Response {
    let snapshot = door.engine().snapshot();
    let frame = door.frame(&visitor);
    let asked = match client.chars().count() {
        count if count > MAX_CHARS => Err(format!("client: longer than {MAX_CHARS} characters")),
        _ if query.is_anonymous() && !snapshot.authentication.is_anonymous() => Err(WANTS_SUBJECT.to_owned()),
        _ => query.request(&snapshot.config, "").and_then(|request| principal(&request, &snapshot.config)),
    };
    let principal = match asked {
        Ok(principal) => principal,
        Err(mistake) => {
            let question = query.question(&snapshot.config, Some(mistake));
            return Html(sent_page(&frame, &Sent { question, client, era, ..Sent::default() }))
                .into_response();
        }
    };
    door.engine().prepare(&snapshot, &principal).await;
    // Thousands of definitions take a while.
    off_thread(move || {
        let question = query.question(&snapshot.config, None);
        let data = Sent { question, ..list(&snapshot, &principal, client, era) };
        Html(sent_page(&frame, &data))
    })
    .await
}

/// Returns the list of a client, without the question.
fn list(snapshot: &Arc<Snapshot>, principal: &Principal, client: String, era: String) -> Sent {
    let view = snapshot.view(principal);
    let name = Some(client.as_str()).filter(|name| !name.is_empty());
    let style = style_for(snapshot.config.optimizer.tool_name_style, name);
    let of_era = if era == "legacy" { Era::Legacy } else { Era::Modern };
    let entries = view.list(List::Tools, style).entries();
    let (mut tools, mut bytes, mut sizes) = (Vec::new(), 0, Vec::with_capacity(entries.len()));
    for entry in entries {
        let text = entry.text(of_era);
        let tool = view.tool(&entry.key);
        // The catalog has the sizes of servers' tools; those of vmcp's own tools are measured here.
        let size = tool.map_or_else(|| size(text), |tool| tool.size);
        bytes += text.len() as u64;
        sizes.push(size);
        if tools.len() < PAGE_SIZE {
            tools.push(SentTool {
                name: entry.key.clone(),
                of_server: tool.map(|tool| (tool.backend.to_string(), tool.definition.name.clone())),
                bytes: text.len(),
                tokens: tokens::estimate([size]),
            });
        }
    }
    Sent {
        who: principal.identity.subject().to_owned(),
        exposure: format!("{:?}", view.exposure()),
        tools,
        total: entries.len(),
        bytes,
        tokens: tokens::estimate(sizes),
        visible: view.visible_tools,
        baseline_tokens: view.baseline_tokens,
        client,
        era,
        ..Sent::default()
    }
}

/// Returns the characters that an entry adds to a list; see [`tokens::size`].
fn size(entry: &str) -> u32 {
    let Some(definition) = parsed(entry) else { return 0 };
    let text = |name: &str| definition.get(name).and_then(Value::as_str).unwrap_or_default();
    let schema = definition.get("inputSchema").map(Value::to_string).unwrap_or_default();
    let schema = u32::try_from(schema.chars().count()).unwrap_or(u32::MAX);
    tokens::size(text("name"), text("description"), schema)
}

#[cfg(test)]
mod tests {
    use vmcp_engine::optim::names::NameStyle;
    use vmcp_engine::testing::{KEYWORDS, engine};

    use super::*;

    #[tokio::test]
    async fn the_list_has_the_bytes_and_tokens_of_each_entry() {
        let engine = engine(KEYWORDS).await;
        let snapshot = engine.snapshot();
        let principal = Principal::default();
        let shown = list(&snapshot, &principal, "mcp-inspector".to_owned(), String::new());
        let entries = snapshot.view(&principal);
        let entries = entries.list(List::Tools, NameStyle::Dotted).entries();
        assert_eq!(shown.total, entries.len());
        assert!(shown.total > 0 && shown.tools.iter().all(|tool| tool.name.starts_with("optim.")));
        let sum: usize = entries.iter().map(|entry| entry.raw.get().len()).sum();
        assert_eq!((shown.bytes, shown.tokens), (sum as u64, snapshot.whole_view().optimizer_tokens));
        let plain = list(&snapshot, &principal, String::new(), "legacy".to_owned());
        assert_eq!(plain.total, shown.total, "the same tools under other names");
        assert!(plain.tools.iter().all(|tool| tool.name.starts_with("optim_")), "{:?}", plain.tools);
    }
}

//! Requests of a fresh start: lists, searches and calls wait for the backends that they concern, and are
//! answered by the snapshot that shows them.

use std::sync::Arc;

use serde_json::value::RawValue;
use vmcp_json::object::Object;
use vmcp_wire::lists::pages::List;
use vmcp_wire::methods;
use vmcp_wire::owned::{OwnedParams, OwnedRequest};

use super::edge::Edge;
use crate::session::peer::Peer;
use vmcp_engine::engine::{Snapshot, View};
use vmcp_engine::optim::names::{OptimTool, OwnName, own_name};

/// Definitions that a request needs.
#[derive(Debug, PartialEq, Eq)]
enum Needed {
    Nothing,
    /// Definitions of all backends.
    All,
    /// The tool, prompt or resource of this name, at the named server if there is one.
    Item {
        name: String,
        server: Option<String>,
    },
}

/// Waits for the definitions that the request needs while backends are starting. Returns the snapshot that
/// may show them; `None` if the request did not wait.
pub(super) async fn newer_snapshot(
    edge: &Edge,
    peer: &Peer,
    request: &OwnedRequest,
) -> Option<Arc<Snapshot>> {
    let engine = &edge.engine;
    if engine.has_started() {
        return None;
    }
    // Boxed: rare, and its state is not that of a call.
    Box::pin(async {
        let waited = match needed(request.method(), request.params()) {
            Needed::Nothing => false,
            Needed::All => engine.wait_for_first_listings().await,
            Needed::Item { name, server } => {
                let snapshot = engine.snapshot();
                engine.prepare(&snapshot, &peer.principal).await;
                let is_known =
                    knows(&snapshot.view(&peer.principal), request.method(), &name, server.as_deref());
                !is_known && engine.wait_for_backend_of(server.as_deref().unwrap_or(&name)).await
            }
        };
        if !waited {
            return None;
        }
        let fresh = engine.for_session(engine.snapshot(), peer.session).await;
        engine.prepare(&fresh, &peer.principal).await;
        Some(fresh)
    })
    .await
}

fn needed(method: &str, params: &OwnedParams) -> Needed {
    if List::of_method(method).is_some() {
        return Needed::All;
    }
    let item = |key: &str| match params.get_str(key) {
        Some(name) => Needed::Item { name: name.into_owned(), server: None },
        None => Needed::Nothing,
    };
    match method {
        methods::TOOLS_CALL => match params.get_str("name").as_deref().and_then(own_name) {
            Some(OwnName::Reserved(own) | OwnName::Bare(own)) => {
                needed_by_own_tool(own, params.get("arguments"))
            }
            Some(OwnName::Unknown) => Needed::Nothing,
            None => item("name"),
        },
        methods::PROMPTS_GET => item("name"),
        methods::RESOURCES_READ | methods::SUBSCRIBE => item("uri"),
        _ => Needed::Nothing,
    }
}

fn needed_by_own_tool(own: OptimTool, arguments: Option<&str>) -> Needed {
    if own != OptimTool::CallTool {
        return Needed::All;
    }
    let arguments: Option<&RawValue> = arguments.and_then(|arguments| serde_json::from_str(arguments).ok());
    let arguments = arguments.and_then(|arguments| Object::parse(arguments).ok()).unwrap_or_default();
    let text = |key: &str| arguments.get_str(key).map(std::borrow::Cow::into_owned);
    match text("tool_name") {
        Some(name) => Needed::Item { name, server: text("server_name") },
        None => Needed::Nothing,
    }
}

/// True if the client sees the item already.
fn knows(view: &View, method: &str, name: &str, server: Option<&str>) -> bool {
    match (method, server) {
        (methods::TOOLS_CALL, Some(server)) => !view.tools_of(server, name).is_empty(),
        (methods::TOOLS_CALL, None) => !view.tools_like(name).is_empty(),
        (methods::PROMPTS_GET, _) => view.prompt(name).is_some(),
        _ => view.resource(name).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: &str, params: &str) -> Needed {
        needed(method, &OwnedParams::from_text(params).unwrap())
    }

    fn item(name: &str, server: Option<&str>) -> Needed {
        Needed::Item { name: name.to_owned(), server: server.map(ToOwned::to_owned) }
    }

    #[test]
    fn a_request_waits_for_the_definitions_that_it_names() {
        assert_eq!(of("tools/list", "{}"), Needed::All);
        assert_eq!(of("tools/call", r#"{"name":"s_alpha"}"#), item("s_alpha", None));
        assert_eq!(of("prompts/get", r#"{"name":"p"}"#), item("p", None));
        assert_eq!(of("resources/read", r#"{"uri":"a://b"}"#), item("a://b", None));
        assert_eq!(of("ping", "{}"), Needed::Nothing);
    }

    #[test]
    fn own_tools_wait_for_all_backends_and_call_tool_for_one() {
        assert_eq!(of("tools/call", r#"{"name":"optim_find_tool","arguments":{}}"#), Needed::All);
        let call = r#"{"name":"optim.call_tool","arguments":{"tool_name":"alpha","server_name":"s"}}"#;
        assert_eq!(of("tools/call", call), item("alpha", Some("s")));
        assert_eq!(
            of("tools/call", r#"{"name":"call_tool","arguments":{"tool_name":"x"}}"#),
            item("x", None)
        );
        assert_eq!(of("tools/call", r#"{"name":"optim.call_tool","arguments":7}"#), Needed::Nothing);
    }
}

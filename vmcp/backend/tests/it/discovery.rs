//! Listing everything: pages, kinds, and entries that are no good.

use serde_json::json;
use vmcp_backend::Backend;

use crate::support::server::{Reply, Seen, Server};
use crate::support::{eventually, settings, spec, wait_for_definitions};

fn discover(seen: &Seen, capabilities: &str) -> Reply {
    let result = format!(
        r#"{{"supportedVersions":["2026-07-28"],"capabilities":{capabilities},"instructions":"be kind"}}"#
    );
    Reply::Json(seen.answer(result))
}

#[tokio::test]
async fn all_pages_of_the_declared_kinds_are_listed() {
    let server =
        Server::start(|seen| match (seen.method(), seen.body["params"]["cursor"].as_str()) {
            ("server/discover", _) => discover(seen, r#"{"tools":{},"resources":{}}"#),
            ("tools/list", None) => Reply::Json(seen.answer(
                r#"{"tools":[{"name":"a","inputSchema":{},"execution":{"x":1e400}}],"nextCursor":""}"#,
            )),
            // An empty cursor is one.
            ("tools/list", Some("")) => Reply::Json(seen.answer(
                r#"{"tools":[{"name":"b","inputSchema":{}},{"inputSchema":{}},7],"nextCursor":"c\"2"}"#,
            )),
            ("tools/list", Some("c\"2")) => {
                Reply::Json(seen.answer(r#"{"tools":[{"name":"c","inputSchema":{}}]}"#))
            }
            ("resources/list", _) => {
                Reply::Json(seen.answer(r#"{"resources":[{"uri":"x://1","name":"one"}]}"#))
            }
            // Many servers declare resources and know no templates.
            ("resources/templates/list", _) => Reply::Json(seen.error(-32601)),
            (method, cursor) => panic!("unexpected {method} {cursor:?}"),
        })
        .await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    let found = wait_for_definitions(&backend, |_| true).await;
    let names: Vec<&str> = found.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert!(found.tools[0].raw.get().contains(r#""execution":{"x":1e400}"#), "kept as it was sent");
    assert_eq!((found.resources.len(), found.templates.len(), found.rejected.len()), (1, 0, 2));
    assert_eq!(found.instructions.as_deref(), Some("be kind"));
    let status =
        eventually("the listing's end", || Some(backend.status()).filter(|s| s.last_refresh.is_some())).await;
    assert_eq!((status.tools, status.resources, status.rejected), (Some(3), 1, 2));
    assert!(server.asked("prompts/list").is_empty(), "not declared");
    let shown = serde_json::to_value(&status).unwrap();
    assert_eq!((&shown["state"], &shown["breaker"]), (&json!("connected"), &json!("closed")));
    assert!(shown["connectedAt"].as_str().unwrap().ends_with('Z'), "RFC 3339");
    backend.stop().await;
}

#[tokio::test]
async fn a_cursor_that_comes_back_ends_the_list() {
    let server = Server::start(|seen| match seen.method() {
        "server/discover" => discover(seen, r#"{"tools":{}}"#),
        _ => Reply::Json(seen.answer(r#"{"tools":[{"name":"a","inputSchema":{}}],"nextCursor":"again"}"#)),
    })
    .await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    wait_for_definitions(&backend, |_| true).await;
    assert_eq!(server.asked("tools/list").len(), 2);
    backend.stop().await;
}

#[tokio::test]
async fn a_definition_that_nests_without_measure_costs_only_itself() {
    let deep = format!("{}{{}}{}", r#"{"items":"#.repeat(5000), "}".repeat(5000));
    let tools =
        format!(r#"{{"tools":[{{"name":"deep","inputSchema":{deep}}},{{"name":"a","inputSchema":{{}}}}]}}"#);
    let server = Server::start(move |seen| match seen.method() {
        "server/discover" => discover(seen, r#"{"tools":{}}"#),
        _ => Reply::Json(seen.answer(&tools)),
    })
    .await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    let found = wait_for_definitions(&backend, |_| true).await;
    assert_eq!((found.tools.len(), found.rejected.len()), (1, 1));
    backend.stop().await;
}

//! Listing everything: pages, kinds, and malformed entries.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use serde_json::json;
use vmcp_backend::{Backend, BackendSettings};
use vmcp_model::definition::DefinitionKind;
use vmcp_model::discovered::list_fault::ListExtent;

use crate::support::server::{Reply, SeenRequest, Server};
use crate::support::{eventually, settings, spec, wait_for_definitions};

fn discover(seen: &SeenRequest, capabilities: &str) -> Reply {
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

const EVERYTHING: &str = r#"{"tools":{},"prompts":{},"resources":{}}"#;

/// A modern server of one tool, one prompt, one resource and no template, but for the list of `method`.
fn faulty(
    method: &'static str,
    fault: fn(&SeenRequest) -> Reply,
) -> impl Fn(&SeenRequest) -> Reply + Send + Sync {
    move |seen| match seen.method() {
        "server/discover" => discover(seen, EVERYTHING),
        asked if asked == method => fault(seen),
        "tools/list" => Reply::Json(seen.answer(r#"{"tools":[{"name":"a","inputSchema":{}}]}"#)),
        "prompts/list" => Reply::Json(seen.answer(r#"{"prompts":[{"name":"p"}]}"#)),
        "resources/list" => Reply::Json(seen.answer(r#"{"resources":[{"uri":"x://1","name":"r"}]}"#)),
        "resources/templates/list" => Reply::Json(seen.answer(r#"{"resourceTemplates":[]}"#)),
        _ => Reply::Status(404, String::new()),
    }
}

#[tokio::test]
async fn a_fault_in_one_list_costs_that_list() {
    type Fault = fn(&SeenRequest) -> Reply;
    let faults: [(&str, Fault); 8] = [
        ("HTTP status 404", |_| Reply::Status(404, String::new())),
        ("HTTP status 405", |_| Reply::Status(405, "nope".to_owned())),
        ("HTTP status 500", |_| Reply::Status(500, "nope".to_owned())),
        ("HTTP status 501", |_| Reply::Status(501, String::new())),
        ("HTTP status 400", |_| Reply::Status(400, "nope".to_owned())),
        ("-32603", |seen| Reply::Json(seen.error(-32603))),
        ("must be an array", |seen| Reply::Json(seen.answer(r#"{"resources":"none","prompts":"none"}"#))),
        ("no answer within", |_| Reply::Hang),
    ];
    for method in ["resources/list", "prompts/list", "resources/templates/list"] {
        for (reason, fault) in faults {
            if reason == "must be an array" && method == "resources/templates/list" {
                continue;
            }
            let server = Server::start(faulty(method, fault)).await;
            let settings = BackendSettings { list_timeout: Duration::from_millis(300), ..settings() };
            let backend = Backend::start(spec("b", server.transport()), settings, None);
            let what = format!("{method}: {reason}");
            let found = wait_for_definitions(&backend, |found| {
                found.faults.iter().any(|fault| fault.reason.contains(reason))
            })
            .await;
            assert_eq!(found.tools.len(), 1, "{what}");
            assert_eq!(
                found.prompts.len() + found.resources.len(),
                if method.contains("templ") { 2 } else { 1 }
            );
            let [named] = &*found.faults else { panic!("{what}: {:?}", found.faults) };
            assert_eq!((named.method(), named.extent), (method, ListExtent::Missing), "{what}");
            let error = eventually("the error", || backend.status().last_error).await;
            assert!(error.contains(method), "{what}: {error}");
            assert_eq!(backend.status().tools, Some(1));
            backend.stop().await;
        }
    }
}

#[tokio::test]
async fn absent_lists_are_no_faults() {
    type Absent = fn(&SeenRequest) -> Reply;
    let absents: [Absent; 6] = [
        |seen| Reply::Json(seen.answer("null")),
        |seen| Reply::Json(seen.answer("[]")),
        |seen| Reply::Json(seen.answer("{}")),
        |seen| Reply::Json(seen.answer(r#"{"resources":null}"#)),
        |seen| Reply::Json(seen.answer(r#"{"resources":{}}"#)),
        |seen| Reply::Json(seen.error(-32601)),
    ];
    for absent in absents {
        let server = Server::start(faulty("resources/list", absent)).await;
        let backend = Backend::start(spec("b", server.transport()), settings(), None);
        let found = wait_for_definitions(&backend, |found| found.prompts.len() == 1).await;
        assert_eq!((found.tools.len(), found.resources.len()), (1, 0));
        assert!(found.faults.is_empty(), "{:?}", found.faults);
        assert_eq!(backend.status().last_error, None);
        backend.stop().await;
    }
}

#[tokio::test]
async fn tools_that_cannot_be_listed_cost_no_prompts() {
    let server = Server::start(faulty("tools/list", |_| Reply::Status(500, String::new()))).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    let found = wait_for_definitions(&backend, |found| found.prompts.len() == 1).await;
    assert!(!found.knows_tools() && found.fault(DefinitionKind::Tool).is_some());
    assert_eq!(backend.status().tools, None, "unknown is not none");
    backend.stop().await;
}

#[tokio::test]
async fn tools_wait_for_no_list_that_hangs() {
    let server = Server::start(faulty("resources/list", |_| Reply::Hang)).await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    let found = tokio::time::timeout(Duration::from_secs(10), wait_for_definitions(&backend, |_| true)).await;
    let found = found.expect("long before the time limit of the list");
    assert_eq!((found.tools.len(), found.prompts.len()), (1, 1));
    assert_eq!(found.fault(DefinitionKind::Resource).unwrap().reason, "no answer yet");
    assert_eq!(backend.relist().await, Ok(()));
    backend.stop().await;
}

/// The names of the tools of a server whose pages are these.
async fn names_of_pages(
    page: fn(&SeenRequest, Option<u64>) -> Reply,
) -> (Vec<String>, Option<String>, usize) {
    let server = Server::start(move |seen| match seen.method() {
        "server/discover" => discover(seen, r#"{"tools":{}}"#),
        "tools/list" => {
            let cursor = &seen.body["params"]["cursor"];
            page(seen, cursor.as_u64().or_else(|| cursor.as_str()?.parse().ok()))
        }
        _ => Reply::Status(404, String::new()),
    })
    .await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    let found = wait_for_definitions(&backend, |_| true).await;
    let names = found.tools.iter().map(|tool| tool.name.clone()).collect();
    let fault = found.fault(DefinitionKind::Tool).map(|fault| {
        assert_eq!(fault.extent, ListExtent::Pages);
        fault.reason.clone()
    });
    backend.stop().await;
    (names, fault, server.asked("tools/list").len())
}

fn tools(names: &[u64], next: &str) -> String {
    let tools: Vec<_> =
        names.iter().map(|name| json!({"name": format!("t{name}"), "inputSchema": {}})).collect();
    format!(r#"{{"tools":{},"nextCursor":{next}}}"#, json!(tools))
}

#[tokio::test]
async fn a_bad_page_keeps_the_pages_before_it() {
    type Page = fn(&SeenRequest, Option<u64>) -> Reply;
    let pages: [(&str, Page); 4] = [
        ("-32602", |seen, cursor| match cursor {
            None => Reply::Json(seen.answer(tools(&[1, 2], r#""2""#))),
            Some(_) => Reply::Json(seen.error(-32602)),
        }),
        ("HTTP status 500", |seen, cursor| match cursor {
            None => Reply::Json(seen.answer(tools(&[1, 2], r#""2""#))),
            Some(_) => Reply::Status(500, String::new()),
        }),
        ("", |seen, cursor| match cursor {
            None => Reply::Json(seen.answer(tools(&[1, 2], r#""2""#))),
            Some(_) => Reply::Json(r#"{"jsonrpc":"2.0","id":1,"resu"#.to_owned()),
        }),
        ("nextCursor", |seen, _| Reply::Json(seen.answer(tools(&[1, 2], "{}")))),
    ];
    for (reason, page) in pages {
        let (names, fault, _) = names_of_pages(page).await;
        assert_eq!(names, ["t1", "t2"], "{reason}");
        assert!(fault.is_some_and(|fault| fault.contains(reason)), "{reason}");
    }
}

#[tokio::test]
async fn a_number_is_a_cursor() {
    let (names, fault, _) = names_of_pages(|seen, cursor| {
        let page = cursor.map_or_else(
            || tools(&[1], "2"),
            |_| {
                assert!(seen.body["params"]["cursor"].is_u64(), "as it was sent");
                tools(&[2], "null")
            },
        );
        Reply::Json(seen.answer(page))
    })
    .await;
    assert_eq!((names, fault), (vec!["t1".to_owned(), "t2".to_owned()], None));
}

#[tokio::test]
async fn a_list_without_an_end_serves_what_came() {
    let (names, fault, asked) = names_of_pages(|seen, cursor| {
        let next = cursor.unwrap_or_default() + 1;
        Reply::Json(seen.answer(tools(&[1, 2], &format!("\"{next}\""))))
    })
    .await;
    assert_eq!(names, ["t1", "t2"]);
    assert!(fault.is_some_and(|fault| fault.contains("no end")));
    assert!(asked < 100, "{asked} pages of nothing new");
    let (names, fault, asked) = names_of_pages(|seen, cursor| {
        let next = cursor.unwrap_or_default() + 1;
        Reply::Json(seen.answer(tools(&[next], &format!("\"{next}\""))))
    })
    .await;
    assert!(fault.is_some_and(|fault| fault.contains("no end")));
    assert_eq!(names.len(), asked);
    assert!((100..1000).contains(&asked), "{asked} pages");
}

#[tokio::test]
async fn a_page_that_fails_once_keeps_the_list_of_before() {
    let (fails, lists) = (std::sync::Arc::new(AtomicBool::new(false)), AtomicU32::new(0));
    let flag = std::sync::Arc::clone(&fails);
    let server = Server::start(move |seen| match (seen.method(), seen.body["params"]["cursor"].as_str()) {
        ("server/discover", _) => discover(seen, r#"{"tools":{}}"#),
        ("tools/list", None) => Reply::Json(seen.answer(tools(&[1], r#""2""#))),
        ("tools/list", _) if flag.load(Ordering::SeqCst) => Reply::Status(503, String::new()),
        ("tools/list", _) => {
            lists.fetch_add(1, Ordering::SeqCst);
            Reply::Json(seen.answer(tools(&[2], "null")))
        }
        _ => Reply::Status(404, String::new()),
    })
    .await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    wait_for_definitions(&backend, |found| found.tools.len() == 2).await;
    fails.store(true, Ordering::SeqCst);
    let failed = backend.relist().await.unwrap_err();
    assert!(failed.contains("503"), "{failed}");
    let found = wait_for_definitions(&backend, |found| !found.faults.is_empty()).await;
    assert_eq!((found.tools.len(), found.faults[0].extent), (2, ListExtent::Earlier));
    fails.store(false, Ordering::SeqCst);
    let found = wait_for_definitions(&backend, |found| found.faults.is_empty()).await;
    assert_eq!(found.tools.len(), 2);
    backend.stop().await;
}

#[tokio::test]
async fn keys_in_another_order_are_no_change() {
    let lists = AtomicU32::new(0);
    let server = Server::start(move |seen| match seen.method() {
        "server/discover" => discover(seen, r#"{"tools":{}}"#),
        "tools/list" if lists.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) => {
            Reply::Json(seen.answer(r#"{"tools":[{"name":"a","inputSchema":{"type":"object","x":1}}]}"#))
        }
        "tools/list" => {
            Reply::Json(seen.answer(r#"{"tools":[{"inputSchema":{"x":1,"type":"object"},"name":"a"}]}"#))
        }
        _ => Reply::Status(404, String::new()),
    })
    .await;
    let backend = Backend::start(spec("b", server.transport()), settings(), None);
    let mut discovered = backend.discovered();
    wait_for_definitions(&backend, |found| found.tools.len() == 1).await;
    discovered.mark_unchanged();
    for _ in 0..3 {
        assert_eq!(backend.relist().await, Ok(()));
    }
    assert!(!discovered.has_changed().unwrap());
    backend.stop().await;
}

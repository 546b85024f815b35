//! Tests of the routes for diagnosis.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, header};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::explain_tool::{ExplainRequest, ToolExplanation, explain};
use crate::port::admin::Admin;
use crate::port::admin::routes::{report_routes, router};
use vmcp_engine::engine::Engine;
use vmcp_engine::testing::{KEYWORDS, Scripted, backends, engine};

async fn two_tools() -> Scripted {
    Scripted::start(&[
        ("add_issue", "Adds an issue to a project.", json!({})),
        ("drop_table", "Drops a table.", json!({})),
    ])
    .await
}

/// Asks for the explanation of a tool, for a client with these claims.
async fn explained(engine: &Engine, tool: &str, claims: Option<Value>) -> ToolExplanation {
    let claims = claims.map(|claims| claims.as_object().unwrap().clone());
    let request = ExplainRequest { tool: tool.to_owned(), claims, ..ExplainRequest::default() };
    explain(engine, &request).await.unwrap()
}

/// Returns the reason of one step.
fn why<'a>(explanation: &'a ToolExplanation, subject: &str) -> (bool, &'a str) {
    let step = explanation.steps.iter().find(|step| step.subject == subject);
    let step = step.unwrap_or_else(|| panic!("no step {subject}: {explanation:?}"));
    (step.passes, &step.why)
}

async fn ask(router: &Router, method: &str, path: &str, body: &str) -> (u16, Value) {
    let request = Request::builder().method(method).uri(path).header(header::HOST, "localhost:9090");
    let request = request.body(Body::from(body.to_owned())).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), 4 << 20).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

#[tokio::test]
async fn a_tool_that_is_there_is_explained_step_by_step() {
    let server = two_tools().await;
    let engine = engine(&backends(&[("s", &server.url)], KEYWORDS)).await;
    let answer = explained(&engine, "s_add_issue", None).await;
    assert!(answer.is_known && answer.is_allowed && answer.is_listed && answer.is_found, "{answer:?}");
    assert_eq!(why(&answer, "known"), (true, "backend s has it as `add_issue`"));
    assert_eq!(why(&answer, "backend"), (true, "s is connected"));
    assert!(why(&answer, "name").1.contains("the strategy `prefix`"), "{answer:?}");
    assert_eq!(why(&answer, "policy"), (true, "allowed by `allow-all`"));
    assert!(why(&answer, "list").1.contains("within optimizer.autoTokenBudget"), "{answer:?}");
    // The backend's own name is enough while it is the only one.
    assert_eq!(explained(&engine, "drop_table", None).await.tool, "s_drop_table");
    let unknown = explained(&engine, "s_add_isue", None).await;
    assert!(!unknown.is_known && !unknown.is_allowed, "{unknown:?}");
    assert_eq!(unknown.nearest, ["s_add_issue"]);
    let own = explained(&engine, "optim.find_tool", None).await;
    assert!(own.is_known && own.is_allowed && own.is_listed, "{own:?}");
    let own = explained(&engine, "optim.list_tools", None).await;
    assert!(own.is_known && !own.is_allowed && !own.is_listed, "{own:?}");
    assert_eq!(why(&own, "list"), (false, "optimizer.tools lacks it"));
}

#[tokio::test]
async fn names_mean_what_calls_take_them_for() {
    let server = two_tools().await;
    let settings = "aggregation: { aliases: { drop: s_drop_table } }\n\
                    optimizer: { legacyAliases: false, embeddings: { provider: none } }";
    let engine = engine(&backends(&[("s", &server.url)], settings)).await;
    let alias = explained(&engine, "drop", None).await;
    assert!(alias.is_allowed && alias.tool == "s_drop_table", "{alias:?}");
    assert!(!explained(&engine, "find_tool", None).await.is_known);
    assert!(explained(&engine, "optim_find_tool", None).await.is_allowed);
}

#[tokio::test]
async fn a_policy_about_the_script_tool_is_asked_by_its_name_in_policies() {
    let policies = r#"
incomingAuth:
  authz:
    policies:
    - 'permit(principal, action, resource);'
    - '@id("no-scripts") forbid(principal, action, resource == Tool::"optim.execute_tool_script");'
optimizer: { tools: [execute_tool_script], embeddings: { provider: none } }
"#;
    let engine = engine(policies).await;
    let own = explained(&engine, "execute_tool_script", None).await;
    assert_eq!(why(&own, "policy"), (false, "denied by `no-scripts`"));
    assert!(!own.is_allowed && !own.is_listed, "{own:?}");
}

#[tokio::test]
async fn each_rule_that_hides_a_tool_is_named() {
    let server = two_tools().await;
    for (rules, reason) in [
        ("aggregation: { excludeAllTools: true }", "aggregation.excludeAllTools hides every tool"),
        ("aggregation: { defaultToolVisibility: deny }", "aggregation.defaultToolVisibility is `deny`"),
        ("aggregation: { tools: [{ workload: s, excludeAll: true }] }", "excludeAll hides all its tools"),
        ("aggregation: { tools: [{ workload: s, exclude: ['drop_*'] }] }", "exclude has `drop_*`"),
        (
            "aggregation: { tools: [{ workload: s, exclude: ['drop_*'] }] }\n\
             compositeTools: [{ name: drop_table, steps: [{ id: a, tool: s.add_issue, arguments: {} }] }]",
            "exclude has `drop_*`",
        ),
        (
            "aggregation: { tools: [{ workload: s, filter: [add_issue] }] }",
            "filter has no pattern for `drop_table`",
        ),
    ] {
        let engine = engine(&backends(&[("s", &server.url)], &format!("{rules}\n{KEYWORDS}"))).await;
        let answer = explained(&engine, "s_drop_table", None).await;
        let (passes, why) = why(&answer, "filter");
        assert!(!passes && why.contains(reason), "{rules}: {why}");
        assert!(!answer.is_allowed && !answer.is_listed && !answer.is_found, "{answer:?}");
    }
    let only_meta = "optimizer: { exposure: MetaOnly, embeddings: { provider: none } }";
    let engine = engine(&backends(&[("s", &server.url)], only_meta)).await;
    let answer = explained(&engine, "s_drop_table", None).await;
    assert!(answer.is_allowed && answer.is_found && !answer.is_listed, "{answer:?}");
    assert!(why(&answer, "list").1.starts_with("optimizer.exposure is `MetaOnly`"), "{answer:?}");
}

#[tokio::test]
async fn the_policy_that_denies_a_client_is_named_and_another_client_passes() {
    const POLICIES: &str = r#"
incomingAuth:
  authz:
    policies:
    - 'permit(principal, action, resource);'
    - '@id("no-tables") forbid(principal == Client::"bob", action, resource == Tool::"s_drop_table");'
"#;
    let server = two_tools().await;
    let engine = engine(&backends(&[("s", &server.url)], &format!("{POLICIES}{KEYWORDS}"))).await;
    let of = async |who: &str| explained(&engine, "s_drop_table", Some(json!({"sub": who}))).await;
    let alice = of("alice").await;
    assert!(alice.is_allowed && alice.is_found && alice.is_listed && alice.who == "alice", "{alice:?}");
    let bob = of("bob").await;
    assert!(!bob.is_allowed && !bob.is_listed && !bob.is_found, "{bob:?}");
    assert_eq!(why(&bob, "policy"), (false, "denied by `no-tables`"));
}

#[tokio::test]
async fn a_query_places_the_tool_among_the_hits_of_the_client() {
    let server = two_tools().await;
    let engine = engine(&backends(&[("s", &server.url)], KEYWORDS)).await;
    let ask = async |query: &str| {
        let request = ExplainRequest {
            tool: "s_add_issue".to_owned(),
            query: Some(query.to_owned()),
            ..ExplainRequest::default()
        };
        explain(&engine, &request).await
    };
    let rank = ask("add an issue to a project").await.unwrap().rank.unwrap();
    assert_eq!((rank.rank, rank.searched, &*rank.first[0]), (Some(1), 2, "s_add_issue"));
    assert!(ask("  ").await.unwrap_err().starts_with("query: "));
    assert!(ask(&"x".repeat(5000)).await.unwrap_err().starts_with("query: "));
}

#[tokio::test]
async fn requests_of_wrong_form_are_refused_with_the_field() {
    let router = router(Admin::new(engine(KEYWORDS).await, None), ([127, 0, 0, 1], 0).into());
    for (method, path, body, begin) in [
        ("POST", "/admin/explain-tool", "{}", "tool: "),
        ("POST", "/admin/explain-tool", "[", "body: "),
        ("POST", "/admin/explain-tool", r#"{"tool":"x","claims":{"iss":"y"}}"#, "claims: "),
        ("POST", "/admin/explain-tool", r#"{"tool":"x","profile":"none"}"#, "profile: "),
        ("GET", "/admin/calls/trace?id=twelve", "", "id: "),
        ("PUT", "/admin/log-level?level=loud", "", "level: `loud` is no level"),
        ("PUT", "/admin/log-level?level=info&module=a%20b", "", "module: "),
        ("PUT", "/admin/log-level?level=info&for=soon", "", "for: "),
        ("PUT", "/admin/log-level?level=info&for=1000days", "", "for: "),
        ("PUT", "/admin/log-level?level=info&reset=true", "", "reset: "),
        ("PUT", "/admin/log-level?level=info&modul=vmcp_backend", "", "query: "),
        ("PUT", "/admin/log-level?level=info&module=vmcp_backed", "", "module: vmcp has no module"),
        ("PUT", "/admin/log-level?reset=yes", "", "query: "),
        ("PUT", "/admin/log-level?reset=true&for=10m", "", "for: "),
        ("PUT", "/admin/log-level?reset=true&module=vmcp_wire", "", "module: `vmcp_wire` has no level"),
        ("PUT", "/admin/log-level", "", "level: "),
    ] {
        let (status, answer) = ask(&router, method, path, body).await;
        let error = answer["error"].as_str().unwrap_or_default();
        assert!(status == 400 && error.starts_with(begin), "{path} {body}: {status} {error}");
    }
    assert_eq!(ask(&router, "GET", "/admin/calls/trace?id=12", "").await.0, 404);
}

#[tokio::test]
async fn the_configuration_in_force_says_where_each_value_is_from_and_no_secret() {
    let text =
        "server: { adminTokens: ['a token of 0123456789 characters'] }\noperational: { logLevel: debug }\n";
    let loaded = vmcp_config::load(&format!("{text}{KEYWORDS}"), "vmcp.yaml", &|_| None).unwrap();
    let engine = Engine::start(loaded.config, vmcp_engine::engine::Options::default()).await.unwrap();
    let local = report_routes(Admin::new(engine, None));
    let (status, dump) = ask(&local, "GET", "/admin/config_dump", "").await;
    assert_eq!(status, 200);
    let of = |path: &str| {
        let settings = dump["settings"].as_array().unwrap();
        settings.iter().find(|setting| setting["path"] == path).unwrap_or_else(|| panic!("{path} in {dump}"))
    };
    assert_eq!(
        (&of("operational.logLevel")["value"], &of("operational.logLevel")["source"]),
        (&json!("debug"), &json!("file"))
    );
    assert_eq!(of("server.listen")["source"], "default");
    assert_eq!(of("server.adminTokens[0]")["value"], "***");
    assert!(!dump.to_string().contains("0123456789"));
    let (status, support) = ask(&local, "GET", "/admin/support", "").await;
    assert_eq!(status, 200);
    for name in ["status.json", "config.json", "calls.json", "log.json", "tools.json", "metrics.txt"] {
        assert!(support["files"][name].is_string(), "{name}");
    }
    assert!(!support.to_string().contains("0123456789"));
}

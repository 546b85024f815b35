//! The API, asked without a port.

use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use vmcp_engine::testing::{Scripted, backends, config, engine};

use super::openapi::ROUTES;
use super::*;

const ON: &str = "optimizer: { embeddings: { provider: none }, discovery: { restApi: true } }\n";

async fn ask(engine: &Engine, method: &str, path: &str, body: &str) -> (u16, Value) {
    let (head, ()) = http::Request::builder().method(method).uri(path).body(()).unwrap().into_parts();
    let (api, body) = (RestApi::new(engine.clone()), Bytes::from(body.to_owned()));
    let answer = api.answer(&head, &body, &Principal::default(), &engine.snapshot()).await;
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn a_call_answers_as_call_tool_does() {
    let server = Scripted::start(&[("now", "Tells the time.", json!({"zone": {"type": "string"}}))]).await;
    let engine = engine(&backends(&[("clock", &server.url)], ON)).await;
    let (_, servers) = ask(&engine, "GET", "/api/v1/servers", "").await;
    assert_eq!(servers["servers"][0]["name"], "clock", "{servers}");
    let (_, tools) = ask(&engine, "GET", "/api/v1/servers/clock/tools", "").await;
    assert_eq!(tools["tools"][0]["name"], "clock_now", "{tools}");
    let (_, tool) = ask(&engine, "GET", "/api/v1/servers/clock/tools/now", "").await;
    assert_eq!((&tool["original"], &tool["definition"]["name"]), (&json!("now"), &json!("clock_now")));
    let (status, result) =
        ask(&engine, "POST", "/api/v1/servers/clock/tools/now", r#"{"zone": "UTC"}"#).await;
    assert_eq!((status, result["isError"].as_bool().unwrap_or_default()), (200, false), "{result}");
    assert_eq!(server.calls().last().unwrap()["arguments"], json!({"zone": "UTC"}));
    let (status, result) = ask(&engine, "POST", "/api/v1/servers/clock/tools/now", "").await;
    assert_eq!((status, &result["isError"], server.calls().len()), (200, &json!(true), 1));
    assert!(result.to_string().contains("/zone: is required"), "{result}");
}

#[tokio::test]
async fn mistakes_are_named_and_change_nothing() {
    let server = Scripted::start(&[("now", "Tells the time.", json!({}))]).await;
    let engine = engine(&backends(&[("clock", &server.url)], ON)).await;
    let tool = "/api/v1/servers/clock/tools/now";
    for (method, path, body, status, words) in [
        ("GET", "/api/v1/servers/none/tools", "", 404, "no such server"),
        ("GET", "/api/v1/servers/clock/tools/none", "", 404, "no such tool"),
        ("POST", tool, "[1]", 400, "must be a JSON object"),
        ("POST", tool, "{", 400, "must be a JSON object"),
        ("POST", "/api/v1/servers", "{}", 405, "use GET"),
        ("DELETE", tool, "", 405, "use GET, POST"),
    ] {
        let (answered, answer) = ask(&engine, method, path, body).await;
        assert_eq!(answered, status, "{path}: {answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(words), "{path}: {answer}");
    }
    let deep = format!("{}1{}", r#"{"a":"#.repeat(100_000), "}".repeat(100_000));
    let (status, answer) = ask(&engine, "POST", tool, &deep).await;
    assert_eq!((status, &answer["error"]["message"]), (400, &json!("the body cannot be read")), "{answer}");
    let (status, answer) = ask(&engine, "POST", "/api/v1/servers/clock/tools/none", "{}").await;
    assert_eq!((status, &answer["isError"]), (200, &json!(true)), "{answer}");
    assert!(server.calls().is_empty());
}

#[tokio::test]
async fn a_policy_that_denies_the_own_tool_denies_the_path_that_shows_the_same() {
    let server = Scripted::start(&[("now", "Tells the time.", json!({}))]).await;
    for (tool, path) in [
        ("list_mcp_servers", "/api/v1/servers"),
        ("list_tools", "/api/v1/servers/clock/tools"),
        ("get_tool_schema", "/api/v1/servers/clock/tools/now"),
    ] {
        let policies = format!(
            "incomingAuth: {{ type: apiKeys, apiKeys: [{{ subject: a, key: 0123456789abcdef0123456789abcdef }}], \
             authz: {{ type: cedar, policies: ['permit(principal, action, resource);', \
             'forbid(principal, action, resource == Tool::\"optim.{tool}\");'] }} }}\n"
        );
        let engine = engine(&backends(&[("clock", &server.url)], &format!("{ON}{policies}"))).await;
        for read in ["/api/v1/servers", "/api/v1/servers/clock/tools", "/api/v1/servers/clock/tools/now"] {
            let (status, answer) = ask(&engine, "GET", read, "").await;
            assert_eq!(status, if read == path { 404 } else { 200 }, "{tool} {read}: {answer}");
        }
        let (status, result) = ask(&engine, "POST", "/api/v1/servers/clock/tools/now", "{}").await;
        assert_eq!((status, result["isError"].as_bool().unwrap_or_default()), (200, false), "{result}");
        assert_eq!(ask(&engine, "GET", "/api/v1/openapi.json", "").await.0, 200);
    }
}

#[tokio::test]
async fn the_document_has_every_path() {
    let engine = engine(ON).await;
    let (_, document) = ask(&engine, "GET", "/api/v1/openapi.json", "").await;
    let on = config(ON);
    for route in ROUTES {
        let operation = &document["paths"][route.path][route.method];
        assert!(operation["summary"].is_string(), "{}", route.path);
        let can_miss = route.method == "get" && route.path != "/api/v1/openapi.json";
        assert_eq!(operation["responses"]["404"].is_object(), can_miss, "{} {}", route.method, route.path);
        let path = route.path.replace("{server}", "clock").replace("{tool}", "now");
        assert!(RestApi::serves(&on, &path) && !RestApi::serves(&config(""), &path), "{path}");
    }
    for path in
        ["/api/v1/", "/api/v1/servers/", "/api/v1/servers/a", "/api/v1/servers//tools", "/api/v2/servers"]
    {
        assert!(!RestApi::serves(&on, path), "{path}");
    }
}

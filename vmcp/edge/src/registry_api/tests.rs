//! The registry API, asked without a port.

use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use vmcp_engine::testing::{KEYWORDS, engine};
use vmcp_registry::page::Page;

use super::*;

async fn get(yaml: &str, path: &str) -> (StatusCode, Value) {
    let engine = engine(&format!("{KEYWORDS}{yaml}")).await;
    let request = http::Request::get(path).header("host", "mcp.example.com");
    let (head, ()) = request.body(()).unwrap().into_parts();
    let api = RegistryApi::new(engine.clone());
    let answer = api.answer(&head, &Bytes::new(), &Principal::default(), &engine.snapshot()).await;
    let status = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

fn urls(page: &Value) -> Vec<(String, String)> {
    let page = Page::parse(&page.to_string()).unwrap();
    let entries = page.entries.into_iter();
    entries.map(|entry| (entry.name, entry.remotes[0].url.value.clone().unwrap_or_default())).collect()
}

#[tokio::test]
async fn each_profile_is_a_server_at_the_url_that_its_clients_use() {
    let profiles = "profiles: { dev: {}, ops: { readOnly: true } }\n";
    let (_, page) =
        get(&format!("{profiles}server: {{ registry: {{ enabled: true }} }}\n"), "/v0.1/servers").await;
    let url = |profile: &str| {
        (format!("com.example.mcp/{profile}"), format!("http://mcp.example.com/mcp/{profile}"))
    };
    assert_eq!(urls(&page), [url("dev"), url("ops")]);
    let set =
        "server: { registry: { enabled: true, namespace: com.acme, url: 'https://acme.example/tools/' } }\n";
    let (_, page) = get(&format!("{profiles}{set}"), "/v0.1/servers?limit=1&search=OPS").await;
    assert_eq!(urls(&page), [("com.acme/ops".to_owned(), "https://acme.example/tools/mcp/ops".to_owned())]);
    let (_, page) = get(set, "/v0.1/servers/com.acme%2Fvmcp/versions").await;
    assert_eq!(urls(&page), [("com.acme/vmcp".to_owned(), "https://acme.example/tools/mcp".to_owned())]);
}

#[tokio::test]
async fn what_is_not_there_or_not_meant_is_told() {
    let yaml = "profiles: { dev: {} }\nserver: { registry: { enabled: true } }\n";
    for (path, status, error) in [
        ("/v0.1/servers/com.example.mcp%2Fother/versions/latest", StatusCode::NOT_FOUND, "Server not found"),
        ("/v0.1/servers/com.example.mcp%2Fdev/versions/9", StatusCode::NOT_FOUND, "Server not found"),
        ("/v0.1/servers?limit=1000", StatusCode::BAD_REQUEST, "limit is no whole number from 1 to 100"),
        (
            "/v0.1/servers?updated_since=x",
            StatusCode::BAD_REQUEST,
            "updated_since is no time such as 2026-01-31T08:00:00Z",
        ),
    ] {
        let (found, body) = get(yaml, path).await;
        assert_eq!((found, &body), (status, &json!({ "error": error })), "{path}");
    }
    let soon = SystemTime::now() + Duration::from_mins(1);
    for time in ["2020-01-01T00:00:00%2B00:00", &humantime::format_rfc3339_seconds(soon).to_string()] {
        let (_, page) = get(yaml, &format!("/v0.1/servers?updated_since={time}")).await;
        assert_eq!(page["metadata"]["count"], 1, "entries have no date: the whole list: {page}");
    }
    let (status, body) = get(yaml, "/v0.1/servers?updated_since=2999-01-01T00:00:00%2B00:00").await;
    let error = body["error"].as_str().unwrap_or_default();
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(error.starts_with("updated_since is in the future: it is 2"), "{error}");
    let (status, latest) = get(yaml, "/v0.1/servers/com.example.mcp%2Fdev/versions/latest").await;
    assert_eq!((status, &latest["server"]["name"]), (StatusCode::OK, &json!("com.example.mcp/dev")));
}

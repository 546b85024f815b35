//! Catalogs of servers: `vmcp registry` over a local registry, and vmcp as the registry of IDEs.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use vmcp_integration::{Vmcp, free_port, http_client};

use super::laptop::Laptop;

/// A registry of two pages; ended when dropped.
struct LocalRegistry {
    url: String,
    requests: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl LocalRegistry {
    async fn start() -> LocalRegistry {
        let requests = Arc::new(AtomicUsize::new(0));
        // No other test takes it while this registry is away.
        let address = format!("127.0.0.1:{}", free_port());
        let listener = TcpListener::bind(&address).await.expect("a free port");
        let url = format!("http://{address}");
        let endless = r#"{"servers": [], "metadata": {"nextCursor": "x"}}"#;
        let moved = || async { axum::response::Redirect::temporary("/v0.1/servers") };
        let router = Router::new()
            .route("/v0.1/servers", get(page))
            .route("/tagged/v0.1/servers", get(tagged_page))
            .route("/endless/v0.1/servers", get(move || async move { endless }))
            .route("/moved/v0.1/servers", get(moved))
            .with_state(Arc::clone(&requests));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.expect("serving") });
        LocalRegistry { url, requests, serving }
    }

    fn stop(&self) {
        self.serving.abort();
    }
}

impl Drop for LocalRegistry {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Answers a page: the weather on the first, an attack and a fault on the second.
async fn page(
    State(requests): State<Arc<AtomicUsize>>,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    requests.fetch_add(1, Ordering::SeqCst);
    if headers.get("authorization").is_none_or(|token| token != "Bearer t0ken") {
        return (StatusCode::UNAUTHORIZED, "").into_response();
    }
    let body = match query.get("cursor").map(String::as_str) {
        None => json!({ "servers": [{
            "server": {
                "name": "com.example/weather", "description": "Forecasts for a city", "version": "1.2.0",
                "packages": [{
                    "registryType": "npm", "identifier": "@example/weather", "version": "1.2.0",
                    "transport": { "type": "stdio" },
                    "environmentVariables": [
                        { "name": "API_KEY", "isRequired": true, "isSecret": true, "description": "Your key" },
                    ],
                }],
            },
            "_meta": { "io.modelcontextprotocol.registry/official": { "status": "active", "isLatest": true } },
        }], "metadata": { "count": 1, "nextCursor": "two" } }),
        Some(_) => json!({ "servers": [
            { "server": {
                "name": "com.evil/forecast", "description": "Forecasts for a city, better", "version": "1.0.0",
                "packages": [{ "registryType": "npm", "identifier": "--registry=http://evil.example",
                    "version": "1.0.0", "transport": { "type": "stdio" } }],
            } },
            { "server": { "name": "no slash" } },
        ], "metadata": { "count": 2 } }),
    };
    axum::Json(body).into_response()
}

/// Answers one page with an entity tag, and 304 to a client that has it.
async fn tagged_page(headers: HeaderMap) -> Response {
    if headers.get("if-none-match").is_some_and(|tag| tag == "\"v1\"") {
        return StatusCode::NOT_MODIFIED.into_response();
    }
    let body = json!({ "servers": [{ "name": "com.example/clock", "version": "1", "description": "Time" }] });
    ([("etag", "\"v1\"")], axum::Json(body)).into_response()
}

#[tokio::test]
async fn an_unchanged_registry_is_asked_by_its_tag_and_a_faulty_one_is_told() {
    let registry = LocalRegistry::start().await;
    let laptop = Laptop::new(&json!({}));
    let search = async |path: &str| {
        let source = format!("{}{path}", registry.url);
        laptop.run(&["registry", "search", "--refresh", "--from", &source]).await
    };
    for _ in 0..2 {
        let found = search("/tagged/").await;
        assert!(found.code == Some(0) && found.stdout.contains("com.example/clock"), "{}", found.stderr);
    }
    for (path, reason) in [
        ("/endless", "it names one cursor twice"),
        ("/moved", "it answers HTTP 307"),
        ("/none", "it answers HTTP 404"),
        ("", "it wants a token: set VMCP_REGISTRY_TOKEN"),
    ] {
        let failed = search(path).await;
        assert_eq!(failed.code, Some(4), "{}", failed.stderr);
        assert!(failed.stderr.contains(reason), "{path}: {}", failed.stderr);
        assert!(failed.stderr.contains("there is no mirror of it yet"), "{}", failed.stderr);
    }
    laptop.write("servers.json", r#"[{"name": "com.example/notes", "version": "1.0.0"}]"#);
    let own = laptop.run(&["registry", "search", "notes", "--from", "servers.json"]).await;
    assert!(own.code == Some(0) && own.stdout.contains("com.example/notes"), "{}", own.stderr);
}

#[tokio::test]
async fn a_registry_whose_copy_cannot_be_written_is_used_all_the_same() {
    let registry = LocalRegistry::start().await;
    let laptop = Laptop::new(&json!({}));
    // No folder: as under the read-only root of a pod, no copy can be written.
    laptop.write("cache", "");
    let mut command = laptop.command(&["registry", "search", "forecast", "--from", &registry.url]);
    command.env("XDG_CACHE_HOME", laptop.path("cache")).env("VMCP_REGISTRY_TOKEN", "t0ken");
    let output = command.stdin(std::process::Stdio::null()).output().await.expect("vmcp");
    let (found, notes) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && found.contains("com.example/weather"), "{notes}");
    assert!(notes.contains("the registry is fetched again next time"), "{notes}");
}

#[tokio::test]
async fn a_server_is_found_shown_and_added_and_the_mirror_serves_while_the_registry_is_away() {
    let registry = LocalRegistry::start().await;
    let laptop = Laptop::new(&json!({}));
    laptop.write("vmcp.yaml", "# mine\noptimizer: { embeddings: { provider: none } }\n");
    let run = async |args: &[&str]| {
        let mut words = vec!["registry"];
        words.extend(args);
        let mut command = laptop.command(&words);
        command.env("VMCP_REGISTRY", &registry.url).env("VMCP_REGISTRY_TOKEN", "t0ken");
        let output = command.stdin(std::process::Stdio::null()).output().await.expect("vmcp");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, found, notes) = run(&["search", "city forecast"]).await;
    assert_eq!(code, Some(0), "{notes}");
    assert!(found.contains("com.example/weather") && found.contains("com.evil/forecast"), "{found}");
    assert!(notes.contains("1 faulty document left out, such as servers[2].name"), "{notes}");
    let (_, shown, _) = run(&["show", "weather"]).await;
    assert!(shown.contains("npm: npx -y @example/weather@1.2.0"), "{shown}");
    assert!(shown.contains("API_KEY") && shown.contains("required, secret"), "{shown}");
    assert_eq!(registry.requests.load(Ordering::SeqCst), 2, "two pages, once");

    let (code, _, error) = run(&["add", "weather"]).await;
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("--set API_KEY=…"), "{error}");
    let (_, refused, _) = run(&["add", "weather", "-o", "json"]).await;
    assert!(refused.contains("\"exitCode\": 2"), "{refused}");
    let (code, unknown, _) = run(&["add", "absent", "-o", "json"]).await;
    let unknown: Value = serde_json::from_str(&unknown).expect("a failure as JSON");
    assert_eq!((code, &unknown["exitCode"]), (Some(3), &json!(3)), "{unknown}");
    let (_, planned, _) = run(&["add", "weather", "--dry-run", "-o", "json"]).await;
    let planned: Value = serde_json::from_str(&planned).expect("an entry within JSON");
    assert_eq!(planned["missing"], json!(["API_KEY"]), "{planned}");
    assert!(planned["yaml"].as_str().is_some_and(|yaml| yaml.contains("name: weather")), "{planned}");
    let (code, _, error) = run(&["add", "com.evil/forecast"]).await;
    assert_eq!(code, Some(1), "{error}");
    assert!(
        error.contains("packages[0].identifier") && error.contains("is not the name of a package"),
        "{error}"
    );
    laptop.write(".env", "WEATHER_API_KEY=of-another\n");
    let (code, added, notes) = run(&["add", "weather", "--set", "API_KEY=hunter2", "-o", "json"]).await;
    assert_eq!(code, Some(0), "{notes}");
    assert!(added.contains("\"WEATHER_API_KEY_2\"") && !added.contains("hunter2"), "{added}");
    let read = |name: &str| std::fs::read_to_string(laptop.path(name)).expect("the file");
    let yaml = read("vmcp.yaml");
    assert!(yaml.starts_with("# mine\n") && yaml.contains("# com.example/weather 1.2.0 by npm"), "{yaml}");
    assert!(yaml.contains(r#"command: [npx, -y, "@example/weather@1.2.0"]"#), "{yaml}");
    assert!(yaml.contains("API_KEY: ${WEATHER_API_KEY_2}") && !yaml.contains("hunter2"), "{yaml}");
    assert_eq!(read(".env"), "WEATHER_API_KEY=of-another\nWEATHER_API_KEY_2=hunter2\n");
    assert_eq!(laptop.run(&["validate"]).await.code, Some(0));

    registry.stop();
    assert_eq!(run(&["show", "weather"]).await.0, Some(0), "a young mirror needs no registry");
    let (code, _, error) = run(&["search", "--refresh", "weather"]).await;
    assert_eq!(code, Some(4), "{error}");
    assert!(error.contains("cannot be reached") && error.contains("its mirror is"), "{error}");
}

async fn servers(vmcp: &Vmcp, origin: Option<&str>, key: Option<&str>) -> (u16, HeaderMap, Value) {
    let mut request = http_client().get(vmcp.url.replace("/mcp", "/v0.1/servers"));
    for (name, value) in [("origin", origin), ("x-api-key", key)] {
        if let Some(value) = value {
            request = request.header(name, value);
        }
    }
    let answer = request.send().await.expect("an answer");
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    (status, headers, answer.json().await.unwrap_or_default())
}

fn names(page: &Value) -> Vec<&str> {
    let entries = page["servers"].as_array().expect("servers").iter();
    entries.map(|entry| entry["server"]["name"].as_str().expect("a name")).collect()
}

#[tokio::test]
async fn ides_read_the_profiles_that_their_person_may_use() {
    const KEYS: [(&str, &str); 2] = [("alice", "alice-0123456789abcdef"), ("bob", "bob-0123456789abcdef-x")];
    let mut vmcp = Vmcp::new()
        .backend_entry(json!({ "name": "wiki", "command": ["false"] }))
        .backend_entry(json!({ "name": "pay", "command": ["false"] }))
        .config(json!({
            "profiles": { "docs": { "servers": ["wiki"] }, "money": { "servers": ["pay"] } },
            "server": { "registry": { "enabled": true, "namespace": "com.acme" } },
            "incomingAuth": {
                "type": "apiKeys",
                "apiKeys": KEYS.map(|(subject, key)| json!({ "subject": subject, "key": key })),
                "authz": { "policies": [
                    "permit(principal == Client::\"alice\", action, resource);",
                    "permit(principal == Client::\"bob\", action, resource in Backend::\"wiki\");",
                ] },
            },
        }))
        .start()
        .await;
    let (status, headers, page) = servers(&vmcp, Some("vscode-file://vscode-app"), Some(KEYS[0].1)).await;
    assert_eq!((status, names(&page)), (200, vec!["com.acme/docs", "com.acme/money"]), "{page}");
    for (name, value) in [
        ("access-control-allow-origin", "*"),
        ("access-control-allow-methods", "GET, OPTIONS"),
        ("access-control-allow-headers", "Authorization, Content-Type, X-API-Key, If-None-Match"),
    ] {
        assert_eq!(headers[name], value);
    }
    let docs = &page["servers"][0]["server"];
    assert_eq!(docs["remotes"][0]["url"], format!("{}/docs", vmcp.url));
    assert_eq!(docs["remotes"][0]["headers"][0]["name"], "X-API-Key");
    let (_, _, page) = servers(&vmcp, None, Some(KEYS[1].1)).await;
    assert_eq!(names(&page), ["com.acme/docs"], "{page}");
    assert_eq!(servers(&vmcp, None, None).await.0, 401);
    assert_eq!(servers(&vmcp, Some("https://evil.example"), Some(KEYS[0].1)).await.0, 403);
    let preflight = http_client().request(Method::OPTIONS, vmcp.url.replace("/mcp", "/v0.1/servers"));
    let preflight = preflight.header("origin", "vscode-file://vscode-app").send().await.expect("an answer");
    assert_eq!(preflight.status().as_u16(), 204);

    vmcp.reconfigure(json!({ "server": { "registry": { "public": true } } }));
    vmcp_integration::eventually("a public registry", async || {
        let (status, _, page) = servers(&vmcp, None, None).await;
        (status == 200 && names(&page) == ["com.acme/docs", "com.acme/money"]).then_some(())
    })
    .await;
    let mcp = http_client().get(&vmcp.url).send().await.expect("an answer");
    assert_eq!(mcp.status().as_u16(), 401, "the rest is not public");
    let laptop = Laptop::new(&json!({}));
    let registry = vmcp.url.replace("/mcp", "");
    let found = laptop.run(&["registry", "search", "docs", "--from", &registry, "-o", "json"]).await;
    assert!(found.code == Some(0) && found.stdout.contains("com.acme/docs"), "{}", found.stderr);

    vmcp.reconfigure(json!({ "server": { "registry": { "enabled": false } } }));
    vmcp_integration::eventually("no registry", async || {
        (servers(&vmcp, None, None).await.0 == 404).then_some(())
    })
    .await;
}

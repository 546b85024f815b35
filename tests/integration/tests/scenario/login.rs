//! `vmcp login`: a person signs in to a remote server that wants OAuth, as the specification of MCP has it.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Form, Query, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{any, get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use vmcp_integration::{
    Fixture, IdentityProvider, Vmcp, browse, eventually, forward, http_client, vmcp_command,
};

type Parameters = HashMap<String, String>;

/// A remote server in front of a fixture, with its authorization server.
struct Remote {
    origin: String,
    fixture: String,
    /// The token that the server accepts; others are expired.
    valid: Mutex<String>,
    /// Requests of the authorization, of the token endpoint.
    authorized: Mutex<Parameters>,
    asked: Mutex<Vec<Parameters>>,
}

type Shared = State<Arc<Remote>>;

impl Remote {
    async fn start(fixture: &Fixture) -> Arc<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let remote = Arc::new(Self {
            origin: format!("http://{}", listener.local_addr().expect("an address")),
            fixture: fixture.url().to_owned(),
            valid: Mutex::new("token-1".to_owned()),
            authorized: Mutex::default(),
            asked: Mutex::default(),
        });
        let app = Router::new()
            .route("/mcp", any(mcp))
            .route("/.well-known/oauth-protected-resource/mcp", get(resource))
            .route("/.well-known/oauth-authorization-server", get(metadata))
            .route(
                "/register",
                post(|| async {
                    (StatusCode::CREATED, Json(json!({"client_id": "registered", "redirect_uris": []})))
                }),
            )
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .with_state(Arc::clone(&remote));
        tokio::spawn(async move { axum::serve(listener, app).await });
        remote
    }
}

/// Passes requests with the valid token on to the fixture.
async fn mcp(State(remote): Shared, method: Method, headers: HeaderMap, body: Bytes) -> Response {
    let wanted = format!("Bearer {}", remote.valid.lock());
    if headers.get(header::AUTHORIZATION).is_none_or(|found| found.as_bytes() != wanted.as_bytes()) {
        let origin = &remote.origin;
        let challenge =
            format!("Bearer resource_metadata=\"{origin}/.well-known/oauth-protected-resource/mcp\"");
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response();
    }
    forward(&remote.fixture, method, &headers, body).await
}

async fn resource(State(remote): Shared) -> Json<Value> {
    let origin = &remote.origin;
    Json(json!({
        "resource": format!("{origin}/mcp"), "authorization_servers": [origin], "scopes_supported": ["notes"],
    }))
}

async fn metadata(State(remote): Shared) -> Json<Value> {
    let origin = &remote.origin;
    Json(json!({
        "issuer": origin, "authorization_endpoint": format!("{origin}/authorize"),
        "token_endpoint": format!("{origin}/token"), "registration_endpoint": format!("{origin}/register"),
        "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
    }))
}

/// The person agrees at once.
async fn authorize(State(remote): Shared, Query(parameters): Query<Parameters>) -> Redirect {
    let target = format!("{}?code=the-code&state={}", parameters["redirect_uri"], parameters["state"]);
    *remote.authorized.lock() = parameters;
    Redirect::to(&target)
}

async fn token(State(remote): Shared, Form(parameters): Form<Parameters>) -> Json<Value> {
    let mut asked = remote.asked.lock();
    asked.push(parameters);
    Json(json!({
        "access_token": format!("token-{}", asked.len()), "token_type": "Bearer", "expires_in": 3600,
        "refresh_token": format!("refresh-{}", asked.len()),
    }))
}

/// Signs in by `vmcp login`, with a code that the person enters in a browser elsewhere.
async fn sign_in_by_device(vmcp: &Vmcp, backend: &str, folder: &str, provider: &IdentityProvider) {
    let mut login = vmcp_command();
    // Without a display, device codes are the way where the server offers them.
    login.args(["login", backend, "--scope", "tools:write", "--config"]).arg(vmcp.config_file());
    login.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
    login.env("XDG_CONFIG_HOME", folder).stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut login = login.spawn().expect("vmcp login");
    let mut lines = BufReader::new(login.stderr.take().expect("a pipe")).lines();
    let mut said = String::new();
    let code = loop {
        let line = lines.next_line().await.expect("a line").unwrap_or_else(|| panic!("no code: {said}"));
        if let Some((_, code)) = line.split_once("enter the code ") {
            break code.to_owned();
        }
        said.push_str(&line);
    };
    assert!(said.contains(&format!("{}/device", provider.issuer)), "{said}");
    assert_eq!(provider.accept_device(&code).await, "accepted");
    while let Some(line) = lines.next_line().await.expect("a line") {
        said.push_str(&line);
    }
    assert!(login.wait().await.expect("an exit").success(), "{said}");
}

/// Signs in by `vmcp login`, with a browser of its own.
async fn sign_in(vmcp: &Vmcp, backend: &str, folder: &str) {
    let mut login = vmcp_command();
    login.args(["login", backend, "--no-browser", "--config"]).arg(vmcp.config_file());
    login.env("XDG_CONFIG_HOME", folder).stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut login = login.spawn().expect("vmcp login");
    let mut lines = BufReader::new(login.stderr.take().expect("a pipe")).lines();
    let mut said = String::new();
    let address = loop {
        let line = lines.next_line().await.expect("a line").unwrap_or_else(|| panic!("no address: {said}"));
        if line.trim().starts_with("http") {
            break line.trim().to_owned();
        }
        said.push_str(&line);
    };
    let page = browse(&address).await;
    assert!(page.contains("Signed in"), "{page}");
    assert!(login.wait().await.expect("an exit").success());
}

/// Gives an order of the console with the form token of a page, and returns the page that follows.
async fn console_order(vmcp: &Vmcp, order: &str) -> String {
    let open = http_client().get(format!("{}/console/server?server=notes", vmcp.admin)).send().await;
    let page = open.expect("an answer").text().await.expect("a page");
    let (_, rest) = page.split_once("name=\"form_token\" value=\"").expect("a form");
    let token = rest.split('"').next().expect("a token");
    let request = http_client().post(format!("{}/console/{order}", vmcp.admin));
    let request = request.header("content-type", "application/x-www-form-urlencoded");
    let answer = request.body(format!("form_token={token}")).send().await.expect("an answer");
    answer.text().await.expect("a page")
}

#[tokio::test]
async fn a_person_signs_in_and_the_running_server_uses_and_renews_the_token() {
    let notes = Fixture::http("notes", "echo").start().await;
    let remote = Remote::start(&notes).await;
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().to_str().expect("a plain path").to_owned();
    let entry = json!({"name": "notes", "url": format!("{}/mcp", remote.origin)});
    let vmcp = Vmcp::new().backend_entry(entry).env("XDG_CONFIG_HOME", &folder).start().await;
    eventually("the refusal", async || {
        let status = vmcp.status().await;
        let error = status["backends"][0]["lastError"].as_str()?;
        (error.contains("HTTP 401") && error.contains("a person to sign in")).then_some(())
    })
    .await;
    let doctor = vmcp.cli(&["doctor"]).await;
    assert!(doctor.stdout.contains("`vmcp login notes`"), "{doctor:?}");

    let mut login = vmcp_command();
    login.args(["login", "notes", "--no-browser", "--config"]).arg(vmcp.config_file());
    login.env("XDG_CONFIG_HOME", &folder).stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut login = login.spawn().expect("vmcp login");
    let mut lines = BufReader::new(login.stderr.take().expect("a pipe")).lines();
    let address = loop {
        let line = lines.next_line().await.expect("a line").expect("the address");
        if let Some(address) = line.trim().strip_prefix(&remote.origin) {
            break format!("{}{address}", remote.origin);
        }
    };
    let page =
        http_client().get(&address).send().await.expect("the browser's way").text().await.expect("a page");
    assert!(page.contains("Signed in"), "{page}");
    assert!(login.wait().await.expect("an exit").success());
    let authorized = remote.authorized.lock().clone();
    assert_eq!((&*authorized["client_id"], &*authorized["scope"]), ("registered", "notes"));
    assert_eq!(authorized["resource"], format!("{}/mcp", remote.origin));
    assert_eq!(authorized["code_challenge_method"], "S256");

    let client = vmcp.with_tool("notes_echo").await;
    assert_eq!(client.call_tool("notes_echo", json!({"message": "hi"})).await.content_text(), "hi");
    let status = vmcp.status().await;
    assert_eq!(status["backends"][0]["credentials"], "oauth", "{status}");
    assert!(vmcp.cli(&["backends"]).await.stdout.contains("SIGNED IN"));

    // The token expires early: it is renewed, and the call goes on.
    "token-2".clone_into(&mut remote.valid.lock());
    assert_eq!(client.call_tool("notes_echo", json!({"message": "again"})).await.content_text(), "again");
    let asked = remote.asked.lock().clone();
    assert_eq!(asked[0]["grant_type"], "authorization_code");
    assert!(asked[0].contains_key("code_verifier"));
    assert_eq!((&*asked[1]["grant_type"], &*asked[1]["refresh_token"]), ("refresh_token", "refresh-1"));
    let log = vmcp.process.output();
    assert!(!log.contains("token-1") && !log.contains("refresh-"), "a token in the log");

    // On the console, the login is renewed by the same way, and forgotten.
    let page = console_order(&vmcp, "logins/sign-in?server=notes").await;
    let (_, rest) = page.split_once(&format!("href=\"{}/authorize?", remote.origin)).expect("the address");
    let query = rest.split('"').next().expect("a query").replace("&amp;", "&");
    "token-3".clone_into(&mut remote.valid.lock());
    let page = browse(&format!("{}/authorize?{query}", remote.origin)).await;
    assert!(page.contains("Signed in"), "{page}");
    eventually("the tokens of the second login", async || {
        let tokens = std::fs::read_to_string(home.path().join("vmcp/logins/notes.json")).ok()?;
        tokens.contains("token-3").then_some(())
    })
    .await;
    let client = vmcp.with_tool("notes_echo").await;
    eventually("calls with the new token", async || {
        let called = client.call_tool("notes_echo", json!({"message": "new"})).await;
        (!called.is_failure()).then_some(())
    })
    .await;
    let page = console_order(&vmcp, "logins/sign-out?server=notes").await;
    assert!(page.contains("The login is deleted here"), "{page}");
    eventually("the end of the login", async || {
        vmcp.status().await["backends"][0]["credentials"].is_null().then_some(())
    })
    .await;
    assert!(!home.path().join("vmcp/logins/notes.json").exists());
    let page = console_order(&vmcp, "logins/sign-out?server=notes").await;
    assert!(page.contains("server with a login"), "nothing is left to forget: {page}");
    "token-4".clone_into(&mut remote.valid.lock());
    sign_in(&vmcp, "notes", &folder).await;

    let logout = vmcp_command().args(["logout", "notes"]).env("XDG_CONFIG_HOME", &folder).status().await;
    assert!(logout.expect("an exit").success());
    eventually("the end of the login", async || {
        vmcp.status().await["backends"][0]["credentials"].is_null().then_some(())
    })
    .await;
    assert!(!home.path().join("vmcp/logins/notes.json").exists());
}

#[tokio::test]
async fn a_person_signs_in_to_the_vmcp_of_a_team_at_its_identity_provider() {
    let provider = IdentityProvider::start().await;
    let echo = Fixture::http("echo", "echo").start().await;
    let mut team = Vmcp::new().backend(&echo).start().await;
    // The resource of tokens is the URL that people use.
    team.reconfigure(provider.config(&json!({"resource": team.url, "scopes": ["tools:read"]})));
    eventually("the team's server to ask who calls", async || {
        (team.modern().request("ping", json!({})).await.status == 401).then_some(())
    })
    .await;
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().to_str().expect("a plain path").to_owned();
    let entry = json!({"name": "team", "url": team.url});
    let laptop = Vmcp::new().backend_entry(entry).env("XDG_CONFIG_HOME", &folder).start().await;
    eventually("the refusal, with its remedy", async || {
        let status = laptop.status().await;
        status["backends"][0]["lastError"].as_str()?.contains("HTTP 401").then_some(())
    })
    .await;
    let doctor = laptop.cli(&["doctor"]).await.stdout;
    assert!(doctor.contains("vmcp login team"), "{doctor}");

    sign_in(&laptop, "team", &folder).await;
    let client = laptop.with_tool("team_echo_echo").await;
    let answer = client.call_tool("team_echo_echo", json!({"message": "as carol"})).await;
    assert_eq!(answer.content_text(), "as carol", "{}", answer.text);
    let stored = || {
        let stored = std::fs::read_to_string(home.path().join("vmcp/logins/team.json")).expect("the login");
        serde_json::from_str::<Value>(&stored).expect("JSON")
    };
    let first = stored();
    assert!(first["refreshToken"].is_string(), "{first}");
    let token = first["accessToken"].as_str().expect("a token");
    assert!(!laptop.process.output().contains(token) && !team.process.output().contains(token));

    // Again, for one more scope, on a machine without a browser.
    sign_in_by_device(&laptop, "team", &folder, &provider).await;
    let second = stored();
    assert_ne!(first["accessToken"], second["accessToken"]);
    assert_eq!(claims(&first)["scope"], "tools:read");
    assert_eq!(claims(&second)["scope"], "tools:read tools:write");
    eventually("the token of the second login to be used", async || {
        let client = laptop.modern();
        let answer = client.call_tool("team_echo_echo", json!({"message": "again"})).await;
        (answer.content_text() == "again").then_some(())
    })
    .await;
}

/// Returns the claims of the access token of a stored login.
fn claims(login: &Value) -> Value {
    let token = login["accessToken"].as_str().expect("a token");
    let payload = token.split('.').nth(1).expect("a JWT");
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).expect("base64")).expect("JSON")
}

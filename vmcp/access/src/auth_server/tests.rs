//! The authorization server with a provider that counts requests, and with attackers.

mod attacks;
mod mix_up;
mod openid_provider;
mod tokens;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::{Form as FormBody, State as Shared};
use axum::http::StatusCode as Status;
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::{COOKIE, LOCATION, SET_COOKIE};
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use serde_json::json;
use url::Url;

use super::*;
use crate::auth_server::client::authorization_request::challenge_of;
use crate::authentication::Authentication;
use crate::clock::now;

const VERIFIER: &str = "a-verifier-of-the-client-that-nobody-else-knows";
const REDIRECT: &str = "http://127.0.0.1:9999/callback";
const ISSUER: &str = "http://localhost:4483";

/// Two OAuth 2.0 providers in one: gives `token-N`, knows the person of each token.
struct Upstream {
    origin: String,
    shared: Arc<UpstreamState>,
}

#[derive(Default)]
struct UpstreamState {
    given: AtomicU64,
    /// Seconds for which tokens are good.
    life: AtomicU64,
    /// Refuses refresh tokens.
    refuses: Mutex<bool>,
    forms: Mutex<Vec<HashMap<String, String>>>,
}

async fn token(
    Shared(state): Shared<Arc<UpstreamState>>,
    FormBody(form): FormBody<HashMap<String, String>>,
) -> (Status, Json<Value>) {
    let is_refresh = form["grant_type"] == "refresh_token";
    state.forms.lock().push(form);
    if is_refresh && *state.refuses.lock() {
        return (Status::BAD_REQUEST, Json(json!({"error": "invalid_grant"})));
    }
    let number = state.given.fetch_add(1, Ordering::SeqCst) + 1;
    let life = state.life.load(Ordering::SeqCst);
    let answer = json!({
        "access_token": format!("upstream-token-{number}"), "token_type": "bearer", "expires_in": life,
        "refresh_token": format!("upstream-refresh-{number}"),
    });
    (Status::OK, Json(answer))
}

impl Upstream {
    async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(UpstreamState { life: AtomicU64::new(7200), ..UpstreamState::default() });
        let person = json!({"id": 4711, "login": "alice", "mail": "alice@example.com"});
        let app = Router::new()
            .route("/token", post(token))
            .route("/user", get(move || async move { Json(person) }))
            .with_state(Arc::clone(&shared));
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { origin, shared }
    }

    fn provider(&self, name: &str) -> Value {
        json!({"name": name, "type": "oauth2", "oauth2Config": {
            "authorizationEndpoint": format!("{}/authorize?kind=x", self.origin),
            "tokenEndpoint": format!("{}/token", self.origin), "clientId": "vmcp", "clientSecret": "s3cret",
            "scopes": ["repo"], "insecureAllowHttp": true, "allowPrivateIPs": true,
            "userInfo": {"endpointUrl": format!("{}/user", self.origin), "fieldMapping": {
                "subjectFields": ["id"], "nameFields": ["login"], "emailFields": ["mail"],
            }},
        }})
    }

    /// A server with `providers`, whose backend gets the token of the last one.
    fn config(&self, providers: &[&str]) -> vmcp_config::Config {
        self.config_with(providers, &json!({}))
    }

    fn config_with(&self, providers: &[&str], more: &Value) -> vmcp_config::Config {
        let providers: Vec<_> = providers.iter().map(|name| self.provider(name)).collect();
        configuration(&providers, more)
    }
}

/// A server with `providers`, whose backend gets the token of the last one, and `more` settings.
fn configuration(providers: &[Value], more: &Value) -> vmcp_config::Config {
    let last = &providers.last().unwrap()["name"];
    let mut server = json!({
        "issuer": ISSUER, "hmacSecrets": ["a secret of thirty-two characters"],
        "upstreamProviders": providers,
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        server[key] = value.clone();
    }
    let text = json!({
        "authServer": server,
        "backends": [{"name": "forge", "url": "https://forge.example/mcp"}],
        "outgoingAuth": {"backends": {"forge": {
            "type": "upstreamInject", "upstreamInject": {"providerName": last},
        }}},
    });
    vmcp_config::load(&text.to_string(), "test", &|_| None).unwrap().config
}

/// A server, as a client and a browser meet it.
struct Meeting {
    authentication: Authentication,
    cookies: Mutex<HeaderMap>,
}

impl Meeting {
    async fn new(providers: &[&str]) -> (Upstream, Self) {
        let upstream = Upstream::start().await;
        let meeting = Self::configured(&upstream.config(providers), &Authentication::default());
        (upstream, meeting)
    }

    fn configured(config: &vmcp_config::Config, before: &Authentication) -> Self {
        let authentication = Authentication::start(&config.incoming_auth, before);
        Self { authentication, cookies: Mutex::default() }
    }

    fn server(&self) -> &AuthServer {
        self.authentication.auth_server().unwrap()
    }

    async fn ask(&self, method: Method, address: &str, body: &str) -> http::Response<String> {
        let url = Url::parse(ISSUER).unwrap().join(address).unwrap();
        let headers = self.cookies.lock().clone();
        let request = EndpointRequest {
            method: &method,
            path: url.path(),
            query: url.query(),
            headers: &headers,
            body: body.as_bytes(),
            home: "",
        };
        let answer = self.server().answer(&request).await;
        if let Some(cookie) = answer.headers().get(SET_COOKIE) {
            let pair = cookie.to_str().unwrap().split(';').next().unwrap();
            self.cookies.lock().insert(COOKIE, HeaderValue::try_from(pair).unwrap());
        }
        answer
    }

    async fn register(&self, redirect: &str) -> String {
        let body = json!({"redirect_uris": [redirect], "client_name": "<b>Chat</b>"}).to_string();
        let answer = self.ask(Method::POST, "/oauth/register", &body).await;
        assert_eq!(answer.status(), StatusCode::CREATED, "{}", answer.body());
        let registered: Value = serde_json::from_str(answer.body()).unwrap();
        registered["client_id"].as_str().unwrap().to_owned()
    }

    async fn consent_page(&self, client: &str) -> String {
        let page = self.ask(Method::GET, &request_for_code(client, &[]), "").await;
        assert_eq!(page.status(), StatusCode::OK, "{}", page.body());
        page.into_body()
    }

    /// Agrees on the consent page; returns the address at the first provider.
    async fn consent(&self, client: &str) -> Url {
        let page = self.consent_page(client).await;
        self.decide(&page, "allow").await
    }

    async fn decide(&self, page: &str, decision: &str) -> Url {
        let body = form(&[("request", sealed_request(page)), ("decision", decision)]);
        location(&self.ask(Method::POST, "/oauth/authorize", &body).await)
    }

    /// Comes back from a provider; returns where the browser is sent on.
    async fn callback(&self, at_provider: &Url, more: &[(&str, &str)]) -> Url {
        let query = form(&[&[("state", parameter(at_provider, "state").as_str())], more].concat());
        location(&self.ask(Method::GET, &format!("/oauth/callback?{query}"), "").await)
    }

    /// Signs in at all providers; returns the code.
    async fn code(&self, client: &str) -> String {
        let mut at = self.consent(client).await;
        while at.host_str() != Some("127.0.0.1") || at.port() != Some(9999) {
            at = self.callback(&at, &[("code", "upstream-code")]).await;
        }
        parameter(&at, "code")
    }

    async fn token(&self, parameters: &[(&str, &str)]) -> (StatusCode, Value) {
        let answer = self.ask(Method::POST, "/oauth/token", &form(parameters)).await;
        (answer.status(), serde_json::from_str(answer.body()).unwrap())
    }

    async fn redeem(&self, client: &str, code: &str, verifier: &str, redirect: &str) -> (StatusCode, Value) {
        self.token(&[
            ("grant_type", "authorization_code"),
            ("client_id", client),
            ("code", code),
            ("code_verifier", verifier),
            ("redirect_uri", redirect),
        ])
        .await
    }

    async fn refresh(&self, client: &str, token: &str) -> (StatusCode, Value) {
        self.token(&[("grant_type", "refresh_token"), ("client_id", client), ("refresh_token", token)]).await
    }

    /// Registers, signs in, and returns the client and its tokens.
    async fn tokens(&self) -> (String, Value) {
        let client = self.register(REDIRECT).await;
        let code = self.code(&client).await;
        let (status, tokens) = self.redeem(&client, &code, VERIFIER, REDIRECT).await;
        assert_eq!(status, StatusCode::OK, "{tokens}");
        (client, tokens)
    }
}

fn request_for_code(client: &str, more: &[(&str, &str)]) -> String {
    let challenge = challenge_of(VERIFIER);
    let mut parameters = vec![
        ("response_type", "code"),
        ("client_id", client),
        ("redirect_uri", REDIRECT),
        ("state", "the client's state"),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
        ("resource", "http://localhost:4483/mcp"),
    ];
    for (name, value) in more {
        parameters.retain(|(known, _)| known != name);
        parameters.push((name, value));
    }
    format!("/oauth/authorize?{}", form(&parameters))
}

fn form(parameters: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish()
}

fn location(answer: &http::Response<String>) -> Url {
    let to = answer.headers().get(LOCATION).unwrap_or_else(|| panic!("{answer:?}"));
    Url::parse(to.to_str().unwrap()).unwrap()
}

fn parameter(url: &Url, name: &str) -> String {
    let found = url.query_pairs().find(|(known, _)| known == name);
    found.unwrap_or_else(|| panic!("no {name} in {url}")).1.into_owned()
}

fn sealed_request(page: &str) -> &str {
    let (_, rest) = page.split_once("name=\"request\" value=\"").unwrap();
    rest.split_once('"').unwrap().0
}

/// Returns a P-256 key in PKCS #8.
fn generated() -> Vec<u8> {
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
    let random = ring::rand::SystemRandom::new();
    EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap().as_ref().to_vec()
}

fn pem(der: &[u8]) -> String {
    let encoded = BASE64_STANDARD.encode(der);
    let lines: Vec<_> =
        encoded.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"))
}

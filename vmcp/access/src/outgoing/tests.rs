//! Tokens against a token endpoint that counts.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Form, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use vmcp_config::{ClientCredentials, OAuthClient, TokenEndpoint, TokenExchange, Xaa};

use super::logins::{Login, Logins};
use super::*;

type SentForms = Arc<Mutex<Vec<(Map<String, Value>, HeaderMap)>>>;

/// Answers `token-1`, `token-2`, …, each valid for the seconds that the parameter `audience` names.
struct Idp {
    url: url::Url,
    asked: SentForms,
}

async fn token(
    State(asked): State<SentForms>,
    headers: HeaderMap,
    Form(form): Form<Map<String, Value>>,
) -> (StatusCode, Json<Value>) {
    // Long enough that callers side by side wait for the same request.
    tokio::time::sleep(Duration::from_millis(30)).await;
    let number = {
        let mut asked = asked.lock();
        asked.push((form.clone(), headers));
        asked.len()
    };
    match form.get("subject_token").and_then(Value::as_str) {
        Some("stale") => (
            StatusCode::BAD_REQUEST,
            Json(json!({"error": "invalid_grant", "error_description": "the token\nhas expired"})),
        ),
        _ => (
            StatusCode::OK,
            Json(json!({
                "access_token": format!("token-{number}"), "token_type": "Bearer",
                "expires_in": form.get("audience").and_then(Value::as_str).unwrap_or("3600"),
                "refresh_token": format!("refresh-{number}"),
            })),
        ),
    }
}

impl Idp {
    async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/token", listener.local_addr().unwrap()).parse().unwrap();
        let asked = SentForms::default();
        let app = Router::new().route("/token", post(token)).with_state(Arc::clone(&asked));
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, asked }
    }

    fn endpoint(&self) -> TokenEndpoint {
        TokenEndpoint {
            url: self.url.clone(),
            client_id: Some("vm cp".to_owned()),
            client_secret: Some("s3cr:et".into()),
        }
    }

    fn exchange(&self, life: &str) -> BackendTokens {
        tokens(&Credentials::TokenExchange(TokenExchange {
            subject_provider: None,
            endpoint: self.endpoint(),
            audience: Some(life.to_owned()),
            resource: None,
            scopes: vec!["read".to_owned(), "write".to_owned()],
            subject_token_type: "urn:ietf:params:oauth:token-type:access_token".to_owned(),
        }))
    }

    fn count(&self) -> usize {
        self.asked.lock().len()
    }

    fn field(&self, index: usize, name: &str) -> String {
        self.asked.lock()[index].0.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    }
}

fn tokens(credentials: &Credentials) -> BackendTokens {
    BackendTokens::new("b", credentials, HttpClient::default(), None).unwrap()
}

fn client(subject: &str, token: &str) -> Identity {
    Identity::known("https://idp", subject, Map::new(), Some(token.into()))
}

async fn token_of(tokens: &BackendTokens, identity: &Identity) -> String {
    let token = tokens.token(Subject::Client(identity), None).await.unwrap().unwrap();
    token.expose().to_owned()
}

#[tokio::test]
async fn each_client_has_a_token_of_its_own_fetched_once() {
    let idp = Idp::start().await;
    let tokens = Arc::new(idp.exchange("3600"));
    let (alice, bob) = (client("alice", "a"), client("bob", "b"));
    let calls = (0..20).map(|_| token_of(&tokens, &alice));
    let all = futures::future::join_all(calls).await;
    assert!(all.iter().all(|token| token == "token-1"), "{all:?}");
    assert_eq!(idp.count(), 1, "single flight");
    assert_eq!(token_of(&tokens, &bob).await, "token-2");
    assert_eq!(token_of(&tokens, &alice).await, "token-1");
    // A renewed token of the same client may have other rights.
    assert_eq!(token_of(&tokens, &client("alice", "a2")).await, "token-3");
    assert_eq!(idp.field(1, "subject_token"), "b");
    let lives = |identity: &Identity| tokens.lives_of(&identity.digest());
    assert_eq!((lives(&alice).len(), lives(&bob).len(), lives(&client("eve", "a")).len()), (2, 1, 0));
    assert!(lives(&bob)[0] > Duration::from_secs(3500) && lives(&bob)[0] <= Duration::from_hours(1));
    assert!(tokens.forget(&alice.digest()) && !tokens.forget(&alice.digest()));
    assert_eq!((lives(&alice).len(), lives(&bob).len()), (0, 1), "hers alone are forgotten");
    assert_eq!(token_of(&tokens, &bob).await, "token-2");
    assert_eq!(token_of(&tokens, &alice).await, "token-4", "and fetched again");
    assert_eq!(idp.field(1, "grant_type"), "urn:ietf:params:oauth:grant-type:token-exchange");
    assert_eq!(idp.field(1, "scope"), "read write");
    // RFC 6749, 2.3.1: encoded before they are joined.
    let basic = idp.asked.lock()[0].1["authorization"].to_str().unwrap().to_owned();
    assert_eq!(basic, "Basic dm0rY3A6czNjciUzQWV0");
    let shown = format!("{tokens:?}");
    assert!(!shown.contains("s3cr") && !shown.contains("token-1"), "{shown}");
}

#[tokio::test]
async fn a_token_is_renewed_ahead_of_its_expiry() {
    let idp = Idp::start().await;
    let tokens = idp.exchange("2");
    let alice = client("alice", "a");
    assert_eq!(token_of(&tokens, &alice).await, "token-1");
    // A fifth of its life before the end.
    tokio::time::sleep(Duration::from_millis(1700)).await;
    assert_eq!(token_of(&tokens, &alice).await, "token-2");
}

#[tokio::test]
async fn a_refused_token_is_renewed_once_for_all_who_had_it() {
    let idp = Idp::start().await;
    let tokens = idp.exchange("3600");
    let alice = client("alice", "a");
    assert_eq!(token_of(&tokens, &alice).await, "token-1");
    let renewals = (0..5).map(|_| tokens.token(Subject::Client(&alice), Some("token-1")));
    for token in futures::future::join_all(renewals).await {
        assert_eq!(token.unwrap().unwrap().expose(), "token-2");
    }
    // A backend that refuses everything does not make vmcp flood the provider.
    let again = tokens.token(Subject::Client(&alice), Some("token-2")).await.unwrap().unwrap();
    assert_eq!((again.expose(), idp.count()), ("token-2", 2));
}

#[tokio::test]
async fn vmcp_itself_has_a_token_by_client_credentials_and_an_anonymous_client_none() {
    let idp = Idp::start().await;
    let tokens = idp.exchange("3600");
    assert!(tokens.token(Subject::Vmcp, None).await.unwrap().is_some());
    assert_eq!(idp.field(0, "grant_type"), "client_credentials");
    let error = tokens.token(Subject::Client(&Identity::Anonymous), None).await.unwrap_err();
    assert!(error.reason.contains("sign in"), "{error:?}");
    assert_eq!(idp.count(), 1);
}

#[tokio::test]
async fn a_refusal_names_the_provider_to_the_operator_and_shows_no_token() {
    let idp = Idp::start().await;
    let tokens = idp.exchange("3600");
    let stale = client("alice", "stale");
    let error = tokens.token(Subject::Client(&stale), None).await.unwrap_err();
    assert!(error.reason.contains("invalid_grant; sign in again"), "{error:?}");
    assert!(error.detail.contains("127.0.0.1: the tokenhas expired"), "{error:?}");
    assert!(!format!("{error:?}").contains("stale"), "{error:?}");
    // Callers that wait for one request get one answer.
    tokens.token(Subject::Client(&stale), None).await.unwrap_err();
    assert_eq!(idp.count(), 1);
}

#[tokio::test]
async fn client_credentials_are_the_same_for_all_and_a_dead_provider_is_said_to_be_dead() {
    let idp = Idp::start().await;
    let credentials = |endpoint| {
        let (audience, resource, scopes) = (None, Some("https://b.example/mcp".to_owned()), Vec::new());
        Credentials::ClientCredentials(ClientCredentials { endpoint, audience, resource, scopes })
    };
    let tokens = tokens(&credentials(idp.endpoint()));
    assert_eq!(token_of(&tokens, &client("alice", "a")).await, "token-1");
    assert_eq!(token_of(&tokens, &Identity::Anonymous).await, "token-1");
    assert!(idp.field(0, "subject_token").is_empty(), "the client's token stays here");
    assert_eq!(idp.field(0, "resource"), "https://b.example/mcp");
    let endpoint = TokenEndpoint { url: "http://127.0.0.1:1/token".parse().unwrap(), ..idp.endpoint() };
    let dead = BackendTokens::new("b", &credentials(endpoint), HttpClient::default(), None).unwrap();
    let error = dead.token(Subject::Vmcp, None).await.unwrap_err();
    assert!(error.reason.contains("cannot be reached") && error.detail.contains("127.0.0.1"), "{error:?}");
}

#[tokio::test]
async fn cross_application_access_asks_both_providers() {
    let (idp, target) = (Idp::start().await, Idp::start().await);
    let tokens = tokens(&Credentials::Xaa(Xaa {
        subject_provider: None,
        idp: idp.endpoint(),
        target: target.endpoint(),
        audience: "https://as.example".to_owned(),
        resource: None,
        scopes: vec!["read".to_owned()],
        subject_token_type: "urn:ietf:params:oauth:token-type:id_token".to_owned(),
    }));
    assert_eq!(tokens.token(Subject::Vmcp, None).await.unwrap(), None);
    assert_eq!(token_of(&tokens, &client("alice", "a")).await, "token-1");
    assert_eq!(idp.field(0, "requested_token_type"), "urn:ietf:params:oauth:token-type:id-jag");
    assert_eq!(idp.field(0, "audience"), "https://as.example");
    assert_eq!(target.field(0, "assertion"), "token-1");
    assert_eq!(target.field(0, "grant_type"), "urn:ietf:params:oauth:grant-type:jwt-bearer");
}

#[tokio::test]
async fn a_login_is_renewed_by_its_refresh_token_and_stored() {
    let idp = Idp::start().await;
    let folder = tempfile::tempdir().unwrap();
    let logins = Logins::in_folder(folder.path().to_owned());
    let tokens = || {
        let credentials = Credentials::OAuth(OAuthClient::default());
        BackendTokens::new("b", &credentials, HttpClient::default(), Some(folder.path().to_owned())).unwrap()
    };
    let error = tokens().token(Subject::Vmcp, None).await.unwrap_err();
    assert!(error.reason.contains("`vmcp login b`"), "{error:?}");
    let login = Login {
        token_url: idp.url.clone(),
        client_id: "public".to_owned(),
        client_secret: None,
        resource: "https://b.example/mcp".to_owned(),
        access_token: "first".to_owned(),
        refresh_token: Some("refresh-0".to_owned()),
        expires_at: None,
        addresses: vmcp_config::addresses::ReachableAddresses::Any,
    };
    logins.store("b", &"https://b.example/mcp".parse().unwrap(), &login).unwrap();
    let signed_in = tokens();
    assert_eq!(token_of(&signed_in, &Identity::Anonymous).await, "first");
    let renewed = signed_in.token(Subject::Vmcp, Some("first")).await.unwrap().unwrap();
    assert_eq!(renewed.expose(), "token-1");
    assert_eq!(
        (idp.field(0, "refresh_token"), idp.field(0, "client_id")),
        ("refresh-0".into(), "public".into())
    );
    let stored = logins.read("b").unwrap();
    assert_eq!(stored.access_token, "token-1");
    assert_eq!(stored.refresh_token.as_deref(), Some("refresh-1"), "the provider rotates it");
    // Another process finds it.
    assert_eq!(token_of(&tokens(), &Identity::Anonymous).await, "token-1");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(folder.path().join("logins/b.json")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    assert!(logins.remove("b").unwrap() && logins.index().is_empty() && logins.read("b").is_err());
}

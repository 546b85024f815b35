//! Credentials that expire: each request carries those of its client, refused ones are renewed once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::future::BoxFuture;
use http::HeaderMap;
use vmcp_backend::{
    Backend, BackendSettings, BackendState, CredentialError, CredentialSource, Principal, Request,
    SharedCredentials, UnprovedRequest,
};
use vmcp_config::{Credentials, Isolation, TokenEndpoint, TokenExchange, Transport};

use crate::support::scripts::{echo, modern, stateful};
use crate::support::server::{Reply, Server};
use crate::support::{
    PATIENCE, client, eventually, json, params_of, result, settings, spec, wait_for_definitions,
    wait_for_state,
};

/// Gives `name-1`; after a refusal `name-2`, and so on.
#[derive(Debug)]
struct Tokens {
    name: &'static str,
    made: AtomicU32,
}

impl CredentialSource for Tokens {
    fn headers<'a>(
        &'a self,
        _: UnprovedRequest<'a>,
        refused: Option<&'a HeaderMap>,
    ) -> BoxFuture<'a, Result<HeaderMap, CredentialError>> {
        let number = self.made.fetch_add(u32::from(refused.is_some()), Ordering::SeqCst) + 1;
        let number = number + u32::from(refused.is_some());
        let token = format!("Bearer {}-{number}", self.name).parse().unwrap();
        Box::pin(async move { Ok(HeaderMap::from_iter([(http::header::AUTHORIZATION, token)])) })
    }
}

/// A provider that is down.
#[derive(Debug)]
struct Down;

impl CredentialSource for Down {
    fn headers<'a>(
        &'a self,
        _: UnprovedRequest<'a>,
        _: Option<&'a HeaderMap>,
    ) -> BoxFuture<'a, Result<HeaderMap, CredentialError>> {
        let error = CredentialError { reason: "the provider is down".into(), detail: "idp.example".into() };
        Box::pin(async move { Err(error) })
    }
}

pub(crate) fn tokens(name: &'static str) -> SharedCredentials {
    Arc::new(Tokens { name, made: AtomicU32::new(0) })
}

/// A backend whose clients have credentials of their own.
fn per_client(transport: Transport) -> vmcp_config::Backend {
    let url = "https://idp.example/token".parse().unwrap();
    let exchange = TokenExchange {
        endpoint: TokenEndpoint { url, client_id: None, client_secret: None },
        audience: None,
        resource: None,
        scopes: Vec::new(),
        subject_token_type: String::new(),
        subject_provider: None,
    };
    vmcp_config::Backend { credentials: Credentials::TokenExchange(exchange), ..spec("b", transport) }
}

fn own(credentials: SharedCredentials) -> BackendSettings {
    BackendSettings { credentials: Some(credentials), ..settings() }
}

async fn call(backend: &Backend, credentials: &SharedCredentials, digest: u8) -> Result<String, String> {
    let params = params_of(r#"{"name":"echo","arguments":{}}"#);
    let request = Request {
        credentials: Some(Arc::clone(credentials)),
        principal: Principal::Identity([digest; 32]),
        client: client("{}"),
        ..Request::new("tools/call", &params)
    };
    let answer = backend.request(request).await.map_err(|error| error.to_string())?;
    Ok(result(&answer).to_owned())
}

fn authorization(server: &Server, method: &str) -> Vec<String> {
    let header =
        |seen: &crate::support::server::SeenRequest| seen.header("authorization").unwrap().to_owned();
    server.asked(method).iter().map(header).collect()
}

#[tokio::test]
async fn each_request_carries_the_credentials_of_its_client_and_listings_those_of_vmcp() {
    let server = Server::start(modern(echo)).await;
    let backend = Backend::start(per_client(server.transport()), own(tokens("own")), None);
    wait_for_definitions(&backend, |found| !found.tools.is_empty()).await;
    let (alice, bob) = (tokens("alice"), tokens("bob"));
    for (who, digest) in [(&alice, 1), (&bob, 2), (&alice, 1)] {
        call(&backend, who, digest).await.unwrap();
    }
    assert_eq!(authorization(&server, "tools/call"), ["Bearer alice-1", "Bearer bob-1", "Bearer alice-1"]);
    assert_eq!(authorization(&server, "tools/list"), ["Bearer own-1"]);
    assert!(server.seen().iter().all(|seen| seen.header("x-configured") == Some("yes")));
    // A client that brings none does not get vmcp's.
    let error = crate::support::call(&backend, "echo").await.unwrap_err();
    assert_eq!(error.category(), "unavailable", "{error}");
    assert_eq!(server.asked("tools/call").len(), 3);
}

#[tokio::test]
async fn refused_credentials_are_renewed_once_and_the_request_is_sent_again() {
    let script = modern(echo);
    let server = Server::start(move |seen| match seen.header("authorization") {
        Some("Bearer a-1" | "Bearer b-1" | "Bearer b-2") => Reply::Status(401, String::new()),
        _ => script(seen),
    })
    .await;
    let backend = Backend::start(spec("b", server.transport()), own(tokens("own")), None);
    wait_for_state(&backend, BackendState::Connected).await;
    call(&backend, &tokens("a"), 1).await.unwrap();
    assert_eq!(authorization(&server, "tools/call"), ["Bearer a-1", "Bearer a-2"]);
    let error = call(&backend, &tokens("b"), 1).await.unwrap_err();
    assert!(error.contains("credentials were refused (HTTP 401)"), "{error}");
    assert_eq!(authorization(&server, "tools/call").len(), 4);
}

#[tokio::test]
async fn a_dead_provider_fails_calls_with_its_reason_and_opens_no_circuit() {
    let server = Server::start(modern(echo)).await;
    let backend = Backend::start(spec("b", server.transport()), own(tokens("own")), None);
    wait_for_state(&backend, BackendState::Connected).await;
    let down: SharedCredentials = Arc::new(Down);
    for _ in 0..10 {
        let error = call(&backend, &down, 1).await.unwrap_err();
        assert!(error.contains("the provider is down") && !error.contains("idp.example"), "{error}");
    }
    assert!(backend.status().last_error.unwrap().contains("idp.example"), "the operator is told");
    call(&backend, &tokens("a"), 1).await.unwrap();
}

#[tokio::test]
async fn a_backend_is_connected_once_its_provider_is_back() {
    /// Down the first time.
    #[derive(Debug)]
    struct Back(AtomicU32);
    impl CredentialSource for Back {
        fn headers<'a>(
            &'a self,
            request: UnprovedRequest<'a>,
            refused: Option<&'a HeaderMap>,
        ) -> BoxFuture<'a, Result<HeaderMap, CredentialError>> {
            if self.0.fetch_add(1, Ordering::SeqCst) == 0 {
                Down.headers(request, refused)
            } else {
                Box::pin(async { Ok(HeaderMap::new()) })
            }
        }
    }
    let server = Server::start(modern(echo)).await;
    let backend = Backend::start(spec("b", server.transport()), own(Arc::new(Back(AtomicU32::new(0)))), None);
    wait_for_state(&backend, BackendState::Connected).await;
}

#[tokio::test]
async fn two_identities_never_share_a_stateful_session_even_where_clients_are_to_share() {
    let server = Server::start(stateful(|seen| match seen.http.as_str() {
        "POST" => Reply::Json(seen.answer(format!(
            r#"{{"content":[],"session":"{}"}}"#,
            seen.header("mcp-session-id").unwrap_or_default()
        ))),
        _ => Reply::Status(405, String::new()),
    }))
    .await;
    let spec = vmcp_config::Backend { isolation: Some(Isolation::Shared), ..per_client(server.transport()) };
    let backend = Backend::start(spec, own(tokens("own")), None);
    wait_for_state(&backend, BackendState::Connected).await;
    let (alice, bob) = (tokens("alice"), tokens("bob"));
    let mut sessions = Vec::new();
    for (who, digest) in [(&alice, 1), (&bob, 2), (&alice, 1)] {
        let result = json(&call(&backend, who, digest).await.unwrap());
        sessions.push(result["session"].as_str().unwrap().to_owned());
    }
    assert!(sessions[0] != sessions[1] && sessions[0] == sessions[2] && sessions[0] != "s1", "{sessions:?}");
    // Each session was opened, and its stream asked for, by its own client.
    let introduced = authorization(&server, "initialize");
    assert_eq!(introduced, ["Bearer own-1", "Bearer alice-1", "Bearer bob-1"]);
    for seen in server.seen() {
        let who = seen.header("authorization").unwrap();
        let session = seen.header("mcp-session-id");
        assert_eq!(session == Some(&sessions[1]), who == "Bearer bob-1" && seen.method() != "initialize");
    }
}

#[tokio::test]
async fn the_end_of_a_session_is_told_with_the_credentials_of_its_client() {
    let server = Server::start(stateful(|seen| match seen.http.as_str() {
        "POST" => echo(seen),
        _ => Reply::Status(405, String::new()),
    }))
    .await;
    let backend = Backend::start(per_client(server.transport()), own(tokens("own")), None);
    wait_for_state(&backend, BackendState::Connected).await;
    call(&backend, &tokens("alice"), 1).await.unwrap();
    tokio::time::timeout(PATIENCE, backend.stop()).await.unwrap();
    let ends = || server.seen().into_iter().filter(|seen| seen.http == "DELETE").collect::<Vec<_>>();
    let ends = eventually("two ends", || Some(ends()).filter(|ends| ends.len() == 2)).await;
    let mut who: Vec<_> = ends.iter().map(|seen| seen.header("authorization").unwrap()).collect();
    who.sort_unstable();
    assert_eq!(who, ["Bearer alice-1", "Bearer own-1"]);
}

//! Bound and opaque tokens over HTTP: the layers from the path to the identity, on a connection.

use axum::Router;
use axum::extract::{Form, State};
use axum::response::{IntoResponse as _, Response as Answer};
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use vmcp_access::oidc::rejection::TokenError;
use vmcp_engine::engine::Engine;
use vmcp_engine::testing::{KEYWORDS, config, engine};

use super::super::Authenticate;
use super::*;
use crate::port::connection::ConnectionServer;
use crate::port::layers::endpoint::Endpoint;
use crate::transport::http::exchange::{Authenticated, Service};
use crate::transport::http::respond;

const URL: &str = "https://tools.example.com/mcp";

/// Answers with the subject.
struct WhoAmI;

impl Service<Authenticated> for WhoAmI {
    async fn call(&self, request: Authenticated) -> Response {
        respond::json_text(http::StatusCode::OK, json!(request.principal.identity.subject()).to_string())
    }
}

/// A client with a key.
struct Holder {
    pair: EcdsaKeyPair,
    jwk: Value,
}

impl Holder {
    fn new() -> Self {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_ref(), &random).unwrap();
        let point = pair.public_key().as_ref();
        let [x, y] = [&point[1..33], &point[33..]].map(|half| URL_SAFE_NO_PAD.encode(half));
        // In the order of a thumbprint (RFC 7638).
        let jwk = json!({"crv": "P-256", "kty": "EC", "x": x, "y": y});
        Self { pair, jwk }
    }

    fn thumbprint(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(self.jwk.to_string()))
    }

    fn proof(&self, id: &str, url: &str, token: &str) -> String {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let ath = URL_SAFE_NO_PAD.encode(Sha256::digest(token));
        let header = json!({"typ": "dpop+jwt", "alg": "ES256", "jwk": self.jwk});
        let claims = json!({"jti": id, "htm": "GET", "htu": url, "iat": now, "ath": ath});
        let signed = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }
}

/// Answers about tokens by their names.
type Tokens = Arc<parking_lot::Mutex<std::collections::HashMap<String, Value>>>;

async fn introspect(
    State(tokens): State<Tokens>,
    Form(form): Form<std::collections::HashMap<String, String>>,
) -> Answer {
    match tokens.lock().get(&form["token"]) {
        Some(answer) => axum::Json(answer.clone()).into_response(),
        None => http::StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// An issuer with an introspection endpoint; returns its origin.
async fn issuer(tokens: Tokens) -> String {
    // The HTTP client wants one; another test of this process may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let app = Router::new().route("/introspect", post(introspect)).with_state(tokens);
    tokio::spawn(async move { axum::serve(listener, app).await });
    origin
}

fn settings(issuer: &str, more: &str) -> String {
    format!(
        "incomingAuth:\n  type: oidc\n  oidc:\n    issuer: {issuer}\n    resource: {URL}\n    \
         insecureAllowHttp: true\n    jwksAllowPrivateIp: true\n    introspectionUrl: {issuer}/introspect\n    \
         introspect: all\n    clientId: vmcp\n    clientSecret: s3cret\n    {more}\n{KEYWORDS}"
    )
}

/// Sends a request on a connection of its own; returns the answer as text.
async fn get(engine: &Engine, path: &str, headers: &[(&str, &str)]) -> String {
    let configured = ConfiguredAuthenticator::new(Arc::clone(engine.metrics()));
    let stack = Arc::new(Endpoint::new(Authenticate::new(configured, WhoAmI)));
    let settings = engine.snapshot().config.server.clone();
    let server = ConnectionServer::new(stack, engine.clone(), &settings);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        server.serve(stream, CancellationToken::new()).await;
    });
    let mut client = TcpStream::connect(address).await.unwrap();
    let headers: Vec<_> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let headers = headers.concat();
    let head = format!("GET {path} HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n{headers}\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn over_http_a_bound_token_needs_a_proof_for_this_url_and_is_told_how() {
    let holder = Holder::new();
    let tokens = Tokens::default();
    let issuer = issuer(Arc::clone(&tokens)).await;
    let good = json!({"active": true, "aud": URL, "sub": "alice"});
    let mut bound = good.clone();
    bound["cnf"] = json!({"jkt": holder.thumbprint()});
    tokens.lock().extend([("bound".to_owned(), bound), ("plain".to_owned(), good)]);
    let engine = engine(&settings(&issuer, "")).await;
    let send = async |authorization: &str, proof: &str| {
        get(&engine, "/mcp", &[("authorization", authorization), ("dpop", proof)]).await
    };

    let answer = get(&engine, "/mcp", &[("authorization", "Bearer plain")]).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(r#""alice""#), "{answer}");
    let proof = holder.proof("1", URL, "bound");
    let answer = send("DPoP bound", &proof).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(r#""alice""#), "{answer}");
    let at_another = holder.proof("2", "http://evil.example/mcp", "bound");
    let of_plain = holder.proof("3", URL, "plain");
    let by_another = Holder::new().proof("4", URL, "bound");
    for (authorization, proof, error) in [
        ("Bearer bound", "", "invalid_token"),
        ("DPoP bound", "", "invalid_dpop_proof"),
        ("DPoP bound", proof.as_str(), "invalid_dpop_proof"),
        ("DPoP bound", &at_another, "invalid_dpop_proof"),
        ("DPoP bound", &of_plain, "invalid_dpop_proof"),
        ("DPoP bound", &by_another, "invalid_dpop_proof"),
        ("DPoP plain", &of_plain, "invalid_token"),
    ] {
        let answer = send(authorization, proof).await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{authorization}: {answer}");
        let challenge = answer.lines().find(|line| line.starts_with("www-authenticate: DPoP")).unwrap();
        assert!(challenge.contains(r#"algs="RS256 "#) && challenge.contains("ES256"), "{challenge}");
        assert!(challenge.contains(&format!(r#"error="{error}""#)), "{authorization}: {challenge}");
    }
    let two_proofs = [holder.proof("5", URL, "bound"), holder.proof("6", URL, "bound")];
    let headers =
        [("authorization", "DPoP bound"), ("dpop", two_proofs[0].as_str()), ("dpop", two_proofs[1].as_str())];
    assert!(get(&engine, "/mcp", &headers).await.contains("invalid_dpop_proof"));

    let missing = get(&engine, "/mcp", &[]).await;
    let challenges: Vec<_> = missing.lines().filter(|line| line.starts_with("www-authenticate")).collect();
    assert_eq!(challenges.len(), 2, "{missing}");
    assert!(challenges[0].starts_with("www-authenticate: Bearer resource_metadata="), "{missing}");
    assert!(challenges[1].starts_with("www-authenticate: DPoP algs="), "{missing}");
    let outage = get(&engine, "/mcp", &[("authorization", "Bearer unknown")]).await;
    assert!(outage.starts_with("HTTP/1.1 503") && outage.contains("retry-after"), "{outage}");
    assert!(!outage.contains("www-authenticate"), "a client keeps its token: {outage}");

    let metadata = get(&engine, "/.well-known/oauth-protected-resource", &[]).await;
    assert!(metadata.contains(r#""dpop_signing_alg_values_supported":["RS256","#), "{metadata}");
    assert!(!metadata.contains("dpop_bound_access_tokens_required"), "{metadata}");
    engine.apply(config(&settings(&issuer, "requiredBinding: dpop"))).await;
    let missing = get(&engine, "/mcp", &[]).await;
    let challenges: Vec<_> = missing.lines().filter(|line| line.starts_with("www-authenticate")).collect();
    assert!(challenges.len() == 1 && challenges[0].contains("resource_metadata="), "{missing}");
    assert!(challenges[0].starts_with("www-authenticate: DPoP algs="), "{missing}");
    let answer = get(&engine, "/mcp", &[("authorization", "Bearer plain")]).await;
    assert!(answer.starts_with("HTTP/1.1 401") && answer.contains("invalid_token"), "{answer}");
    let metadata = get(&engine, "/.well-known/oauth-protected-resource", &[]).await;
    assert!(metadata.contains(r#""dpop_bound_access_tokens_required":true"#), "{metadata}");
}

#[tokio::test]
async fn an_open_stream_keeps_its_proof_and_ends_with_a_token_that_its_issuer_withdraws() {
    let holder = Holder::new();
    let tokens = Tokens::default();
    let issuer = issuer(Arc::clone(&tokens)).await;
    let bound = json!({"active": true, "aud": URL, "sub": "alice", "cnf": {"jkt": holder.thumbprint()}});
    tokens.lock().insert("bound".to_owned(), bound);
    let engine = engine(&settings(&issuer, "introspectionCacheTtl: 1s")).await;
    let mut headers = http::HeaderMap::new();
    headers.insert(http::header::AUTHORIZATION, http::HeaderValue::from_static("DPoP bound"));
    let again = async || proof::identify_again(&headers, None, &engine.snapshot().authentication).await;
    assert_eq!(again().await.unwrap().subject(), "alice");
    tokens.lock().insert("bound".to_owned(), json!({"active": false}));
    let withdrawn = async {
        loop {
            if let Err(refused) = again().await {
                return refused;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    let refused = tokio::time::timeout(std::time::Duration::from_secs(20), withdrawn).await.unwrap();
    assert_eq!(refused, TokenError::Inactive.into());
}

//! Tokens that their issuer is asked about, and answers that a provider should not give.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::{Form, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use parking_lot::Mutex;
use serde_json::Value;

use super::*;
use crate::identity::credential::{Credential, Scheme};

/// An issuer with an introspection endpoint.
struct Endpoint {
    origin: String,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    answer: Mutex<Answer>,
    /// Each request: the header `Authorization`, and the token.
    asked: Mutex<Vec<(String, String)>>,
    /// Requests that are open, and most of them at once.
    open: AtomicUsize,
    peak: AtomicUsize,
}

#[derive(Clone, Default)]
enum Answer {
    Say(Value),
    Text(String),
    Status(StatusCode),
    Redirect(String),
    Slow(Duration, Value),
    #[default]
    Never,
}

impl Endpoint {
    async fn start() -> Endpoint {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared::default());
        let app = Router::new().route("/introspect", post(answer)).with_state(Arc::clone(&shared));
        tokio::spawn(async move { axum::serve(listener, app).await });
        Endpoint { origin, shared }
    }

    fn config(&self, more: &str) -> IncomingAuth {
        let text = format!(
            "incomingAuth:\n  type: oidc\n  oidc:\n    issuer: {0}\n    audience: vmcp\n    \
             insecureAllowHttp: true\n    jwksAllowPrivateIp: true\n    introspectionUrl: {0}/introspect\n    \
             clientId: v mcp\n    clientSecret: 's:cret'\n    {more}\n",
            self.origin
        );
        vmcp_config::load(&text, "test", &|_| None).unwrap().config.incoming_auth
    }

    fn authentication(&self, more: &str) -> Authentication {
        let timing = Timing { patience: Duration::from_secs(2), ..EAGER };
        Authentication::with_timing(&self.config(more), &Authentication::default(), timing)
    }

    fn set(&self, answer: Answer) {
        *self.shared.answer.lock() = answer;
    }

    /// The answer about a good token.
    fn good(&self) -> Value {
        json!({
            "active": true, "iss": self.origin, "aud": ["vmcp"], "sub": "alice", "exp": now() + 600,
            "scope": "read write", "client_id": "agent", "username": "alice@example.com", "token_type": "Bearer",
        })
    }

    fn asked(&self) -> usize {
        self.shared.asked.lock().len()
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Form(form): Form<std::collections::HashMap<String, String>>,
) -> Response {
    let authorization = headers[header::AUTHORIZATION].to_str().unwrap().to_owned();
    shared.asked.lock().push((authorization, form["token"].clone()));
    let open = shared.open.fetch_add(1, Ordering::SeqCst) + 1;
    shared.peak.fetch_max(open, Ordering::SeqCst);
    let answer = shared.answer.lock().clone();
    let response = match answer {
        Answer::Say(value) => axum::Json(value).into_response(),
        Answer::Text(text) => Body::from(text).into_response(),
        Answer::Status(status) => status.into_response(),
        Answer::Redirect(to) => (StatusCode::FOUND, [(header::LOCATION, to)]).into_response(),
        Answer::Slow(delay, value) => {
            tokio::time::sleep(delay).await;
            axum::Json(value).into_response()
        }
        Answer::Never => std::future::pending().await,
    };
    shared.open.fetch_sub(1, Ordering::SeqCst);
    response
}

#[tokio::test]
async fn an_opaque_token_is_whose_its_issuer_says() {
    let endpoint = Endpoint::start().await;
    let authentication = endpoint.authentication("requiredScopes: [read]");
    endpoint.set(Answer::Say(endpoint.good()));
    for _ in 0..3 {
        let identity = authentication.identify_bearer(Some("opaque+/~.-_=")).await.unwrap();
        let known = identity.as_known().unwrap();
        assert_eq!((known.issuer(), known.subject()), (endpoint.origin.as_str(), "alice"));
        assert_eq!((&known.claims()["client_id"], known.claims().get("active")), (&json!("agent"), None));
        assert!(known.expires().is_some());
    }
    // The credentials of the client are form-encoded (RFC 6749, 2.3.1): `v+mcp:s%3Acret`.
    let expected = ("Basic dittY3A6cyUzQWNyZXQ=".to_owned(), "opaque+/~.-_=".to_owned());
    assert_eq!(*endpoint.shared.asked.lock(), [expected], "asked once");
}

#[tokio::test]
async fn each_answer_about_a_token_that_is_not_for_this_server_refuses_it() {
    let endpoint = Endpoint::start().await;
    let authentication = endpoint.authentication("clockSkew: 0s");
    for (position, (member, value, refused)) in [
        ("active", json!(false), TokenError::Inactive),
        ("aud", json!("other"), TokenError::Audience),
        ("aud", json!(["other"]), TokenError::Audience),
        ("aud", json!(null), TokenError::Audience),
        ("iss", json!("https://evil.example"), TokenError::Issuer),
        ("iss", json!(7), TokenError::Issuer),
        ("exp", json!(now() - 1), TokenError::Expired),
        ("nbf", json!(now() + 60), TokenError::NotYet),
        ("iat", json!(now() + 24 * 60 * 60), TokenError::NotYet),
        ("iat", json!("now"), TokenError::Malformed),
        ("sub", json!(null), TokenError::NoSubject),
        ("sub", json!(""), TokenError::NoSubject),
        ("cnf", json!({"kid": "1"}), TokenError::Bound),
        ("cnf", json!({"jkt": URL_SAFE_NO_PAD.encode([1; 32])}), TokenError::NoProof),
        ("token_type", json!("refresh_token"), TokenError::Type),
        ("token_use", json!("refresh_token"), TokenError::Type),
        ("typ", json!("Refresh"), TokenError::Type),
    ]
    .into_iter()
    .enumerate()
    {
        let mut said = endpoint.good();
        said[member] = value.clone();
        endpoint.set(Answer::Say(said));
        let refused_with = refusal(&authentication, &format!("token-{position}")).await;
        assert_eq!(refused_with, Rejection::Token(refused), "{member}: {value}");
    }
    // Refusals are remembered for a short time.
    let asked = endpoint.asked();
    assert_eq!(refusal(&authentication, "token-0").await, TokenError::Inactive.into());
    assert_eq!(endpoint.asked(), asked);
}

#[tokio::test]
async fn without_a_usable_answer_a_token_is_refused_as_an_outage_that_operators_see() {
    let endpoint = Endpoint::start().await;
    let authentication = endpoint.authentication("introspect: all");
    let good = endpoint.good();
    let mut odd = good.clone();
    odd["active"] = json!("true");
    let mut late = good.clone();
    late["exp"] = json!("tomorrow");
    // Without the time that cannot be read, the token would have no end.
    let many_digits = format!("\"exp\":{}.{}", now() + 600, "1234567890".repeat(4));
    let precise = good.to_string().replacen(&format!("\"exp\":{}", good["exp"]), &many_digits, 1);
    assert_ne!(precise, good.to_string());
    let repeated = good.to_string().replacen('{', r#"{"active":false,"#, 1);
    let padded = format!("{}{good}", " ".repeat(40 << 10));
    for (answer, reason) in [
        (Answer::Text("x".repeat(10 << 20)), "more than 1 MiB"),
        (Answer::Text(padded), "more than 32 KiB"),
        (Answer::Text("<html>welcome</html>".to_owned()), "no JSON object"),
        (Answer::Text(repeated), "names a member twice"),
        (Answer::Text("[]".to_owned()), "no JSON object"),
        (Answer::Say(json!({})), "`active` is not true or false"),
        (Answer::Say(odd), "`active` is not true or false"),
        (Answer::Say(late), "`exp` is no number"),
        (Answer::Text(precise), "`exp` is no number"),
        (Answer::Redirect(format!("{}/introspect?again", endpoint.origin)), "HTTP 302"),
        (Answer::Status(StatusCode::UNAUTHORIZED), "HTTP 401"),
        (Answer::Status(StatusCode::INTERNAL_SERVER_ERROR), "HTTP 500"),
        (Answer::Never, "no answer within"),
    ] {
        let asked = endpoint.asked();
        endpoint.set(answer);
        assert_eq!(refusal(&authentication, "s3cret-token").await, Rejection::Unavailable, "{reason}");
        assert_eq!(endpoint.asked(), asked + 1, "no redirect is followed, no request repeated: {reason}");
        let (failure, _) = authentication.status().remove(0).failure.unwrap();
        assert!(failure.contains(reason), "{failure}");
        assert!(!failure.contains("s3cret-token") && !failure.contains("s:cret"), "{failure}");
    }
    endpoint.set(Answer::Say(good));
    assert!(authentication.identify_bearer(Some("s3cret-token")).await.is_ok());
    assert_eq!(authentication.status()[0].failure, None);
    // The guard of addresses holds here too.
    let mut config = endpoint.config("");
    Arc::make_mut(&mut config.issuers[0]).allow_private_addresses = false;
    let (guarded, asked) = (start(&config), endpoint.asked());
    assert_eq!(refusal(&guarded, "s3cret-token").await, Rejection::Unavailable);
    assert_eq!(endpoint.asked(), asked);
}

#[tokio::test]
async fn one_token_is_one_request_and_requests_at_once_are_bounded() {
    let endpoint = Endpoint::start().await;
    let authentication = endpoint.authentication("");
    endpoint.set(Answer::Slow(Duration::from_millis(50), endpoint.good()));
    let same = (0..30).map(|_| authentication.identify_bearer(Some("same")));
    let outcomes = futures::future::join_all(same).await;
    assert!(outcomes.iter().all(Result::is_ok) && endpoint.asked() == 1, "{} asked", endpoint.asked());
    let tokens: Vec<String> = (0..40).map(|number| format!("token-{number}")).collect();
    let different = tokens.iter().map(|token| authentication.identify_bearer(Some(token)));
    let outcomes = futures::future::join_all(different).await;
    assert!(outcomes.iter().all(Result::is_ok) && endpoint.asked() == 41, "{} asked", endpoint.asked());
    let peak = endpoint.shared.peak.load(Ordering::SeqCst);
    assert!(peak <= 16, "{peak} at once");
}

#[tokio::test]
async fn a_flood_of_made_up_tokens_does_not_hold_up_known_clients() {
    let endpoint = Endpoint::start().await;
    let authentication = Arc::new(endpoint.authentication("introspectionCacheTtl: 0s"));
    endpoint.set(Answer::Say(endpoint.good()));
    assert!(authentication.identify_bearer(Some("known")).await.is_ok());
    // Strangers keep their places until the time for an answer ends, after two seconds.
    endpoint.set(Answer::Never);
    let stranger = |number: usize| {
        let authentication = Arc::clone(&authentication);
        tokio::spawn(async move { authentication.identify_bearer(Some(&format!("made-up-{number}"))).await })
    };
    let strangers: Vec<_> = (0..100).map(stranger).collect();
    while endpoint.shared.open.load(Ordering::SeqCst) < 12 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    endpoint.set(Answer::Say(endpoint.good()));
    let begun = std::time::Instant::now();
    assert!(authentication.identify_bearer(Some("known")).await.is_ok());
    assert!(begun.elapsed() < Duration::from_millis(1500), "{:?}", begun.elapsed());
    strangers.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn a_client_that_goes_does_not_end_the_request_for_others() {
    let endpoint = Endpoint::start().await;
    let authentication = endpoint.authentication("");
    endpoint.set(Answer::Never);
    let gone = tokio::time::timeout(Duration::from_millis(200), authentication.identify_bearer(Some("one")));
    endpoint.set(Answer::Slow(Duration::from_millis(500), endpoint.good()));
    let (gone, stays) = tokio::join!(gone, authentication.identify_bearer(Some("one")));
    assert!(gone.is_err() && stays.is_ok(), "{gone:?} {stays:?}");
}

#[tokio::test]
async fn a_withdrawn_token_ends_with_the_life_of_the_answer() {
    let endpoint = Endpoint::start().await;
    let authentication = endpoint.authentication("introspectionCacheTtl: 1s");
    endpoint.set(Answer::Say(endpoint.good()));
    assert!(authentication.identify_bearer(Some("token")).await.is_ok());
    endpoint.set(Answer::Say(json!({"active": false})));
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    let refused = loop {
        match authentication.identify_bearer(Some("token")).await {
            Ok(_) => assert!(std::time::Instant::now() < deadline, "the answer counts for longer than 1 s"),
            Err(refused) => break refused,
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(refused, TokenError::Inactive.into());
    let uncached = endpoint.authentication("introspectionCacheTtl: 0s");
    endpoint.set(Answer::Say(endpoint.good()));
    let asked = endpoint.asked();
    for _ in 0..2 {
        assert!(uncached.identify_bearer(Some("token")).await.is_ok());
    }
    assert_eq!(endpoint.asked(), asked + 2, "0s: asked with each request");
}

#[tokio::test]
async fn only_tokens_of_the_issuer_are_shown_to_it() {
    let endpoint = Endpoint::start().await;
    let provider = Provider::start().await;
    let mut config = endpoint.config("");
    config.issuers.extend(provider.config("").issuers);
    endpoint.set(Answer::Say(endpoint.good()));
    let authentication = start(&config);
    // JWTs of the other issuer, of none, and forged ones of this issuer.
    let others = provider.token(&provider.claims());
    assert!(authentication.identify_bearer(Some(&others)).await.is_ok());
    let (mut strange, mut forged) = (provider.claims(), provider.claims());
    (strange["iss"], forged["iss"]) = (json!("https://evil.example"), json!(endpoint.origin));
    assert_eq!(refusal(&authentication, &provider.token(&strange)).await, TokenError::Issuer.into());
    assert_eq!(refusal(&authentication, &provider.token(&forged)).await, Rejection::Unavailable, "no keys");
    // A mistyped key.
    let key =
        Credential { scheme: Scheme::ApiKey, token: "0123456789abcdef", certificate: None, request: None };
    assert!(authentication.identify(Some(&key)).await.is_err());
    assert_eq!(endpoint.asked(), 0);
    // `all`: the issuer is asked about its JWTs, and about no others.
    let mut config = endpoint.config("introspect: all");
    config.issuers.extend(provider.config("").issuers);
    let authentication = start(&config);
    let identity = authentication.identify_bearer(Some(&provider.token(&forged))).await.unwrap();
    assert_eq!((identity.subject(), endpoint.asked()), ("alice", 1));
    assert!(authentication.identify_bearer(Some(&others)).await.is_ok());
    assert_eq!(endpoint.asked(), 1);
}

#[tokio::test]
async fn a_key_that_is_sent_with_the_scheme_of_proofs_is_refused_and_shown_to_no_issuer() {
    let endpoint = Endpoint::start().await;
    endpoint.set(Answer::Say(endpoint.good()));
    let mut config = endpoint.config("");
    let key = "0123456789abcdef";
    config.api_keys = vec![vmcp_config::ApiKey {
        subject: "ci".to_owned(),
        key: key.into(),
        claims: serde_json::Map::new(),
    }];
    let authentication = Authentication::with_timing(&config, &Authentication::default(), EAGER);
    let credential = Credential { scheme: Scheme::Dpop, token: key, certificate: None, request: None };
    let refused = authentication.identify(Some(&credential)).await;
    assert_eq!(refused.unwrap_err(), Rejection::Unknown);
    assert_eq!(endpoint.asked(), 0);
    assert_eq!(authentication.identify_bearer(Some(key)).await.unwrap().subject(), "ci");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn requests_that_end_together_leave_nothing_behind() {
    let endpoint = Endpoint::start().await;
    let authentication = Arc::new(endpoint.authentication("introspectionCacheTtl: 0s"));
    endpoint.set(Answer::Slow(Duration::from_millis(5), endpoint.good()));
    for round in 0..100 {
        let asked = endpoint.asked();
        let ask = || {
            let authentication = Arc::clone(&authentication);
            tokio::spawn(async move { authentication.identify_bearer(Some("same")).await.is_ok() })
        };
        for accepted in futures::future::join_all((0..8).map(|_| ask())).await {
            assert!(accepted.unwrap());
        }
        assert!(endpoint.asked() > asked, "round {round} got the answer of an earlier one");
    }
}

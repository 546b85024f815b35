//! Signatures against vectors that AWS has published, and keys against an STS that counts.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use axum::Router;
use axum::extract::{Form, State};
use axum::http::StatusCode;
use axum::routing::post;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use vmcp_config::Credentials;

use super::super::BackendTokens;
use super::*;
use crate::identity::Identity;

/// 2015-08-30T12:36:00Z, the time of the vectors.
const VECTOR_TIME: u64 = 1_440_938_160;
const ADMIN: &str = "arn:aws:iam::123456789012:role/admin";
const READER: &str = "arn:aws:iam::123456789012:role/reader";

fn constant(session_token: Option<&str>) -> AwsSts {
    AwsSts {
        region: "us-east-1".to_owned(),
        service: "service".to_owned(),
        keys: AwsKeys::Constant {
            access_key_id: "AKIDEXAMPLE".into(),
            secret_access_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into(),
            session_token: session_token.map(Secret::from),
        },
    }
}

async fn signature(
    session_token: Option<&str>,
    method: &str,
    url: &str,
    kind: &str,
    body: &[u8],
) -> HeaderMap {
    let signer = AwsSigner::new(constant(session_token), HttpClient::default());
    let keys = signer.fetch(KeysFor::Vmcp).await.unwrap().token;
    let mut headers = HeaderMap::from_iter([(
        HeaderName::from_static("mcp-session-id"),
        HeaderValue::from_static("changes on the way, so it is not signed"),
    )]);
    if !kind.is_empty() {
        headers.insert(CONTENT_TYPE, kind.parse().unwrap());
    }
    let request = OutgoingRequest { method, url: &url.parse().unwrap(), headers: &headers, body };
    signer.sign(&keys, &request, UNIX_EPOCH + Duration::from_secs(VECTOR_TIME)).unwrap()
}

#[tokio::test]
async fn signatures_are_those_of_the_published_vectors() {
    let form = ("application/x-www-form-urlencoded", b"Param1=value1".as_slice());
    let none = ("", b"".as_slice());
    let token = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267";
    for (name, session, method, target, (kind, body), signed, expected) in [
        (
            "get-vanilla",
            None,
            "GET",
            "/",
            none,
            "host;x-amz-date",
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
        ),
        (
            "post-vanilla",
            None,
            "POST",
            "/",
            none,
            "host;x-amz-date",
            "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
        ),
        (
            "get-vanilla-query-order-key-case",
            None,
            "GET",
            "/?Param2=value2&Param1=value1",
            none,
            "host;x-amz-date",
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
        (
            "post-x-www-form-urlencoded",
            None,
            "POST",
            "/",
            form,
            "content-type;host;x-amz-date",
            "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
        ),
        (
            "get-vanilla-with-session-token",
            Some(token),
            "GET",
            "/",
            none,
            "host;x-amz-date;x-amz-security-token",
            "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8",
        ),
    ] {
        let url = format!("https://example.amazonaws.com{target}");
        let headers = signature(session, method, &url, kind, body).await;
        let expected = format!(
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders={signed}, Signature={expected}"
        );
        assert_eq!(headers["authorization"].to_str().unwrap(), expected, "{name}");
        assert_eq!(headers["x-amz-date"], "20150830T123600Z");
        assert_eq!(
            headers.get("x-amz-security-token").map(|value| value.to_str().unwrap()),
            session,
            "{name}"
        );
        assert!(headers["authorization"].is_sensitive());
    }
    let first = signature(None, "POST", "https://a.example/mcp", "application/json", b"{\"id\":1}").await;
    let other = signature(None, "POST", "https://a.example/mcp", "application/json", b"{\"id\":2}").await;
    assert_ne!(first["authorization"], other["authorization"], "the body is signed too");
}

type SentForms = Arc<Mutex<Vec<Map<String, Value>>>>;

/// An STS that gives numbered keys, and refuses the token `stale`.
async fn sts(State(asked): State<SentForms>, Form(form): Form<Map<String, Value>>) -> (StatusCode, String) {
    // Long enough that callers side by side wait for the same request.
    tokio::time::sleep(Duration::from_millis(30)).await;
    let number = {
        let mut asked = asked.lock();
        asked.push(form.clone());
        asked.len()
    };
    if form["WebIdentityToken"] == "stale" {
        let error = "<ErrorResponse><Error><Type>Sender</Type><Code>ExpiredTokenException</Code>\
                     <Message>Token expired\n</Message></Error></ErrorResponse>";
        return (StatusCode::BAD_REQUEST, error.to_owned());
    }
    let answer = format!(
        "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>\n\
         <AccessKeyId>AKID{number}</AccessKeyId><SecretAccessKey>key/{number}+=</SecretAccessKey>\
         <SessionToken>session{number}==</SessionToken><Expiration>2026-11-23T18:00:00Z</Expiration>\
         </Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
    );
    (StatusCode::OK, answer)
}

struct Sts {
    endpoint: Url,
    asked: SentForms,
}

impl Sts {
    async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let asked = SentForms::default();
        let app = Router::new().route("/", post(sts)).with_state(Arc::clone(&asked));
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { endpoint, asked }
    }

    /// All clients act as one role, by the token of a file.
    fn shared(&self, token_file: &std::path::Path, seconds: u64) -> BackendTokens {
        self.made(Vec::new(), Some(READER), Some(token_file), seconds)
    }

    /// Clients act by their claims.
    fn tokens(&self, fallback: Option<&str>, token_file: Option<&std::path::Path>) -> BackendTokens {
        self.made(vec![("admins".to_owned(), ADMIN.to_owned())], fallback, token_file, 900)
    }

    fn made(
        &self,
        mappings: Vec<(String, String)>,
        fallback: Option<&str>,
        token_file: Option<&std::path::Path>,
        seconds: u64,
    ) -> BackendTokens {
        let roles = AwsRoles {
            subject_provider: None,
            endpoint: self.endpoint.clone(),
            token_file: token_file.map(Into::into),
            role_claim: "groups".to_owned(),
            mappings,
            fallback: fallback.map(str::to_owned),
            session_name_claim: "email".to_owned(),
            session_duration: Duration::from_secs(seconds),
        };
        let settings = AwsSts { keys: AwsKeys::Role(Box::new(roles)), ..constant(None) };
        BackendTokens::new("b", &Credentials::AwsSts(settings), HttpClient::default(), None).unwrap()
    }
}

fn client(subject: &str, claims: Value, token: &str) -> Identity {
    let Value::Object(claims) = claims else { unreachable!() };
    Identity::known("https://idp", subject, claims, Some(token.into()))
}

async fn signed(tokens: &BackendTokens, subject: Subject<'_>) -> Result<Option<HeaderMap>, OutgoingError> {
    let url = "https://aws.example/mcp".parse().unwrap();
    let request = OutgoingRequest { method: "POST", url: &url, headers: &HeaderMap::new(), body: b"{}" };
    tokens.signature(subject, &request).await
}

/// The key that signed.
fn key(headers: &HeaderMap) -> &str {
    let authorization = headers["authorization"].to_str().unwrap();
    authorization.split(['=', '/']).nth(1).unwrap()
}

#[tokio::test]
async fn each_client_gets_the_keys_of_its_role_once() {
    let sts = Sts::start().await;
    let tokens = sts.tokens(Some(READER), None);
    let alice = client("alice", json!({"groups": ["staff", "admins"], "email": "alice b@example.com"}), "a");
    let bob = client("bob", json!({"groups": "staff"}), "b");
    let calls = (0..20).map(|_| signed(&tokens, Subject::Client(&alice)));
    for headers in futures::future::join_all(calls).await {
        let headers = headers.unwrap().unwrap();
        assert_eq!(
            (key(&headers), headers["x-amz-security-token"].to_str().unwrap()),
            ("AKID1", "session1==")
        );
    }
    let headers = signed(&tokens, Subject::Client(&bob)).await.unwrap().unwrap();
    assert_eq!(key(&headers), "AKID2");
    // Listings have no client whose role they could have.
    assert_eq!(signed(&tokens, Subject::Vmcp).await.unwrap(), None);
    let asked = sts.asked.lock().clone();
    assert_eq!(asked.len(), 2);
    let expected = json!({
        "Action": "AssumeRoleWithWebIdentity", "Version": "2011-06-15", "RoleArn": ADMIN,
        "RoleSessionName": "alice-b@example.com", "WebIdentityToken": "a", "DurationSeconds": "900",
    });
    assert_eq!(Value::from(asked[0].clone()), expected);
    assert_eq!((&asked[1]["RoleArn"], &asked[1]["RoleSessionName"]), (&json!(READER), &json!("bob")));
}

#[tokio::test]
async fn a_client_without_a_role_or_with_a_stale_token_is_told_so() {
    let sts = Sts::start().await;
    let tokens = sts.tokens(None, None);
    let nobody = client("eve", json!({"groups": ["guests"]}), "e");
    let error = signed(&tokens, Subject::Client(&nobody)).await.unwrap_err();
    assert_eq!(error.reason, "no role of AWS is for this client");
    assert!(signed(&tokens, Subject::Client(&Identity::Anonymous)).await.is_err());
    assert_eq!(sts.asked.lock().len(), 0, "STS was not asked");
    let stale = client("alice", json!({"groups": ["admins"]}), "stale");
    let error = signed(&tokens, Subject::Client(&stale)).await.unwrap_err();
    assert_eq!(error.reason, "AWS gives no keys: STS refused with ExpiredTokenException");
    assert_eq!(error.detail, "STS at 127.0.0.1: Token expired");
}

#[tokio::test]
async fn with_one_role_for_all_keys_are_fetched_once() {
    let sts = Sts::start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "first\n").unwrap();
    let tokens = sts.shared(&file, 3600);
    let alice = client("alice", json!({}), "a");
    for subject in [Subject::Vmcp, Subject::Client(&alice), Subject::Client(&Identity::Anonymous)] {
        assert_eq!(key(&signed(&tokens, subject).await.unwrap().unwrap()), "AKID1");
    }
    assert_eq!(sts.asked.lock()[0]["WebIdentityToken"], "first");
}

#[tokio::test]
async fn keys_are_renewed_with_the_token_that_the_file_has_then() {
    let sts = Sts::start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "first").unwrap();
    let tokens = sts.shared(&file, 1);
    signed(&tokens, Subject::Vmcp).await.unwrap().unwrap();
    std::fs::write(&file, "second").unwrap();
    let renewed = async {
        while sts.asked.lock().last().unwrap()["WebIdentityToken"] != "second" {
            tokio::time::sleep(Duration::from_millis(50)).await;
            signed(&tokens, Subject::Vmcp).await.unwrap().unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(30), renewed).await.unwrap();
}

#[tokio::test]
async fn with_a_token_of_its_own_vmcp_lists_as_one_role_and_clients_act_as_theirs() {
    let sts = Sts::start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "vmcp's").unwrap();
    let tokens = sts.tokens(Some(READER), Some(&file));
    let alice = client("alice", json!({"groups": "admins"}), "a");
    signed(&tokens, Subject::Vmcp).await.unwrap().unwrap();
    signed(&tokens, Subject::Client(&alice)).await.unwrap().unwrap();
    let asked = sts.asked.lock().clone();
    let shown = |index: usize| [&asked[index]["WebIdentityToken"], &asked[index]["RoleArn"]];
    assert_eq!((shown(0), shown(1)), ([&json!("vmcp's"), &json!(READER)], [&json!("a"), &json!(ADMIN)]));
}

#[test]
fn names_of_sessions_are_those_that_aws_takes() {
    assert_eq!(session_name("auth0|6f1c"), "auth0-6f1c");
    assert_eq!(session_name("ü"), "--");
    assert_eq!(session_name(&"x".repeat(100)).len(), 64);
}

//! Requests signed for AWS: the signature of each is checked as AWS does, over the request that arrived.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, post};
use parking_lot::Mutex;
use serde_json::json;
use vmcp_integration::{Fixture, Vmcp, forward};

const ROLE: &str = "arn:aws:iam::123456789012:role/reader";

/// A server behind AWS's IAM, with an STS beside it.
struct Aws {
    origin: String,
    fixture: String,
    /// Requests for keys.
    asked: Mutex<Vec<String>>,
    /// Reasons of refusals.
    refused: Mutex<Vec<String>>,
}

impl Aws {
    async fn start(fixture: &Fixture) -> Arc<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let aws = Arc::new(Self {
            origin: format!("http://{}", listener.local_addr().expect("an address")),
            fixture: fixture.url().to_owned(),
            asked: Mutex::default(),
            refused: Mutex::default(),
        });
        let app = Router::new().route("/mcp", any(mcp)).route("/sts", post(sts)).with_state(Arc::clone(&aws));
        tokio::spawn(async move { axum::serve(listener, app).await });
        aws
    }
}

/// Gives keys for the token of the file.
async fn sts(State(aws): State<Arc<Aws>>, body: String) -> Response {
    aws.asked.lock().push(body);
    "<R><Credentials><AccessKeyId>AKID</AccessKeyId><SecretAccessKey>secret-key</SecretAccessKey>\
     <SessionToken>session-token</SessionToken></Credentials></R>"
        .into_response()
}

/// Passes requests with a good signature on to the fixture.
async fn mcp(
    State(aws): State<Arc<Aws>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let authority = aws.origin.trim_start_matches("http://");
    if let Err(reason) = verify(&method, &format!("http://{authority}{uri}"), &headers, &body) {
        aws.refused.lock().push(reason.clone());
        return (StatusCode::FORBIDDEN, reason).into_response();
    }
    forward(&aws.fixture, method, &headers, body).await
}

/// Signs the request that arrived again, at the time that it names, and compares.
fn verify(method: &Method, url: &str, headers: &HeaderMap, body: &[u8]) -> Result<(), String> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (sent, date) = (text("authorization"), text("x-amz-date"));
    let time = (0..300)
        .map(|seconds| SystemTime::now() - Duration::from_secs(seconds))
        .find(|time| signature(method, url, headers, body, *time).1 == date)
        .ok_or_else(|| format!("no time of late: `{date}`, signature `{sent}`"))?;
    let (expected, _) = signature(method, url, headers, body, time);
    if sent == expected { Ok(()) } else { Err(format!("{sent} is not {expected}")) }
}

/// Returns the values of `Authorization` and `X-Amz-Date`.
fn signature(
    method: &Method,
    url: &str,
    headers: &HeaderMap,
    body: &[u8],
    time: SystemTime,
) -> (String, String) {
    let keys = Credentials::new("AKID", "secret-key", Some("session-token".into()), None, "test").into();
    let params = v4::SigningParams::builder()
        .identity(&keys)
        .region("eu-west-1")
        .name("aws-mcp")
        .time(time)
        .settings(SigningSettings::default())
        .build()
        .expect("parameters")
        .into();
    let signed = ["host", "content-type"];
    let signed = signed.iter().filter_map(|name| Some((*name, headers.get(*name)?.to_str().ok()?)));
    let request = SignableRequest::new(method.as_str(), url, signed, SignableBody::Bytes(body));
    let (instructions, _) = sign(request.expect("a request"), &params).expect("a signature").into_parts();
    let value = |wanted: &str| {
        let found = instructions.headers().find(|(name, _)| *name == wanted);
        found.map(|(_, value)| value.to_owned()).unwrap_or_default()
    };
    (value("authorization"), value("x-amz-date"))
}

#[tokio::test]
async fn each_request_is_signed_with_keys_of_the_role_that_are_fetched_once() {
    let echo = Fixture::http("echo", "echo").start().await;
    let aws = Aws::start(&echo).await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    std::fs::write(&file, "web-identity").expect("a file");
    let auth = json!({
        "region": "eu-west-1", "fallbackRoleArn": ROLE, "webIdentityTokenFile": file,
        "stsEndpoint": format!("{}/sts", aws.origin),
    });
    let vmcp = Vmcp::new()
        .backend_entry(json!({"name": "echo", "url": format!("{}/mcp", aws.origin)}))
        .config(json!({"outgoingAuth": {"backends": {"echo": {"type": "aws_sts", "awsSts": auth}}}}))
        .start()
        .await;
    let client = vmcp.with_tool("echo_echo").await;
    for text in ["one", "two & three", "vier: ä"] {
        let answer = client.call_tool("echo_echo", json!({"message": text})).await;
        assert_eq!(answer.content_text(), text, "{}", answer.text);
        assert_eq!(client.call_found("echo_echo", json!({"message": text})).await.content_text(), text);
    }
    assert_eq!(*aws.refused.lock(), Vec::<String>::new());
    let asked = aws.asked.lock().clone();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].contains("WebIdentityToken=web-identity") && asked[0].contains("role%2Freader"));
    let log = vmcp.process.output();
    assert!(!log.contains("secret-key") && !log.contains("session-token") && !log.contains("web-identity"));
    assert_eq!(vmcp.status().await["backends"][0]["credentials"], "awsSts");
}

//! Tests of a decision point that answers, lies, hangs and floods.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;
use vmcp_config::load;

use super::*;
use crate::identity::Identity;
use crate::policy::Kind;

/// A service on loopback that gives each question the same bytes; no bytes: it never answers.
pub(super) struct Service {
    pub(super) url: String,
    pub(super) asked: Arc<Mutex<Vec<String>>>,
    open: Arc<AtomicUsize>,
    most_open: Arc<AtomicUsize>,
    _server: AbortOnDropHandle<()>,
}

impl Service {
    pub(super) async fn answering(answer: Vec<u8>) -> Service {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/decide", listener.local_addr().unwrap());
        let (asked, open, most_open) = (Arc::default(), Arc::default(), Arc::default());
        let shared: (Arc<Mutex<Vec<String>>>, Arc<AtomicUsize>, Arc<AtomicUsize>) =
            (Arc::clone(&asked), Arc::clone(&open), Arc::clone(&most_open));
        let server = tokio::spawn(async move {
            loop {
                let Ok((mut socket, _)) = listener.accept().await else { continue };
                let (asked, open, most_open) = shared.clone();
                let answer = answer.clone();
                tokio::spawn(async move {
                    let text = request(&mut socket).await;
                    asked.lock().push(text);
                    most_open.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    if answer.is_empty() {
                        std::future::pending::<()>().await;
                    }
                    for _ in 0..20 {
                        tokio::task::yield_now().await;
                    }
                    open.fetch_sub(1, Ordering::SeqCst);
                    let _ = socket.write_all(&answer).await;
                });
            }
        });
        Service { url, asked, open, most_open, _server: AbortOnDropHandle::new(server) }
    }

    pub(super) async fn saying(body: &str) -> Service {
        Service::answering(ok(body)).await
    }

    fn point(&self, settings: &str) -> DecisionPoint {
        point(&format!("url: '{}', insecureAllowHttp: true, allowPrivateIp: true, {settings}", self.url))
    }

    pub(super) fn count(&self) -> usize {
        self.asked.lock().len()
    }

    /// Returns the body of a question.
    pub(super) fn body(&self, number: usize) -> Value {
        let asked = self.asked.lock();
        serde_json::from_str(asked[number].split_once("\r\n\r\n").unwrap().1).unwrap()
    }
}

/// Reads one request whole.
async fn request(socket: &mut tokio::net::TcpStream) -> String {
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let read = socket.read(&mut piece).await.unwrap_or_default();
        text.extend_from_slice(&piece[..read]);
        let whole = String::from_utf8_lossy(&text).into_owned();
        let Some((head, body)) = whole.split_once("\r\n\r\n") else {
            if read == 0 {
                return whole;
            }
            continue;
        };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if read == 0 || body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
            return whole;
        }
    }
}

pub(super) fn ok(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .into_bytes()
}

fn point(settings: &str) -> DecisionPoint {
    // `main` installs the provider. Another test may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let text = format!("incomingAuth: {{ decisionPoint: {{ {settings} }} }}");
    let config = load(&text, "vmcp.yaml", &|_| None).unwrap().config;
    DecisionPoint::new(config.decision_point.unwrap())
}

pub(super) fn client(claims: Value) -> Identity {
    let Value::Object(claims) = claims else { unreachable!() };
    Identity::known("https://idp", "alice", claims, Some("token-of-alice".into()))
}

fn about<'a>(identity: &'a Identity, name: &'a str, arguments: Option<&'a str>) -> PointQuestion<'a> {
    let item = AskedItem { kind: Kind::Tool, name, backend: "bank", original_name: Some("pay") };
    PointQuestion { identity, profile: None, method: "tools/call", item, arguments }
}

async fn ask(point: &DecisionPoint) -> Result<PointDecision, PointFailure> {
    let alice = client(json!({}));
    point.ask(&about(&alice, "bank_pay", None)).await
}

#[tokio::test]
async fn a_question_says_who_wants_what_and_no_more_than_is_configured() {
    let service = Service::saying(r#"{"allow":true}"#).await;
    let alice = client(json!({"groups": ["dev", "ops"], "dept": "x", "mail": "a@b", "deep": {"er": 1}}));
    let asked = about(&alice, "bank_pay", Some(r#"{"to": "bob", "amount": 1e3}"#));
    assert!(service.point("").ask(&asked).await.unwrap().allowed);
    let expected = json!({
        "version": 1,
        "principal": {"subject": "alice", "issuer": "https://idp", "groups": ["dev", "ops"], "claims": {}},
        "action": "call_tool", "method": "tools/call",
        "resource": {"type": "tool", "name": "bank_pay", "backend": "bank", "originalName": "pay"},
    });
    assert_eq!(service.body(0), expected);
    let more = service.point("claims: [dept, deep.er, absent], includeArguments: true");
    assert!(more.ask(&PointQuestion { profile: Some("p"), ..asked }).await.unwrap().allowed);
    let body = service.body(1);
    assert_eq!(body["principal"]["claims"], json!({"dept": "x", "deep.er": 1}));
    assert_eq!((&body["principal"]["profile"], &body["arguments"]["to"]), (&json!("p"), &json!("bob")));
    assert!(service.asked.lock()[1].contains(r#""amount": 1e3"#), "as the backend gets it");
    assert!(!service.asked.lock().concat().contains("token-of-alice"));
    let nobody = Identity::Anonymous;
    let anonymous = about(&nobody, "bank_pay", None);
    assert!(service.point("").ask(&anonymous).await.unwrap().allowed);
    assert_eq!(service.body(2)["principal"]["issuer"], Value::Null);
}

#[tokio::test]
async fn a_signed_question_proves_its_sender() {
    let service = Service::saying(r#"{"allow":true}"#).await;
    let secret = "0123456789abcdefghij";
    let point = service.point(&format!("hmacSecret: {secret}, bearerToken: bearer-of-vmcp"));
    assert!(ask(&point).await.unwrap().allowed);
    let text = service.asked.lock()[0].clone();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
    assert_eq!(header("authorization: "), "Bearer bearer-of-vmcp");
    let timestamp: u64 = header("vmcp-timestamp: ").parse().unwrap();
    assert_eq!(header("vmcp-signature: "), signature::signature(secret, timestamp, body.as_bytes()));
    // Of `openssl dgst -sha256 -hmac key` about `1.The quick brown fox`.
    let expected = "sha256=1ef269d2a2a1f8d397e0e25c3e3013fb5687509234565e6e49ea45a138768457";
    assert_eq!(signature::signature("key", 1, b"The quick brown fox"), expected);
}

#[tokio::test]
async fn only_a_true_that_is_one_allows() {
    for (body, expected) in [
        (r#"{"allow":true,"reason":"fine","more":[1]}"#, Some(true)),
        (r#"{"allow":false,"reason":"too much"}"#, Some(false)),
        (r#"{"allow":"true"}"#, None),
        (r#"{"allow":1}"#, None),
        (r#"{"allow":null}"#, None),
        (r#"{"allow":[true]}"#, None),
        (r#"{"Allow":true}"#, None),
        (r#"{"allowed":true}"#, None),
        (r#"{"allow":true,"allow":false}"#, None),
        (r#"{"allow":true,"reason":7}"#, None),
        (r#"{"allow":true} {"allow":true}"#, None),
        (r#"[{"allow":true}]"#, None),
        ("[true]", None),
        (r#" [true,"reason"]"#, None),
        ("true", None),
        ("", None),
        ("<html>", None),
    ] {
        let service = Service::saying(body).await;
        let answer = ask(&service.point("")).await;
        match expected {
            Some(allowed) => assert_eq!(answer.unwrap().allowed, allowed, "{body}"),
            None => assert_eq!(answer.unwrap_err().word(), "no_decision", "{body}"),
        }
    }
    let odd = format!(r#"{{"allow":false,"reason":"a\u202eb\u001b[2J{}"}}"#, "x".repeat(1000));
    let reason = ask(&Service::saying(&odd).await.point("")).await.unwrap().reason.unwrap();
    assert!(reason.chars().count() == 300 && !reason.contains(['\u{202e}', '\u{1b}']), "{reason:?}");
}

#[tokio::test]
async fn statuses_redirects_and_endless_answers_are_no_decision() {
    let allows = r#"{"allow":true}"#;
    let other = Service::saying(allows).await;
    let status = |line: &str| {
        format!("HTTP/1.1 {line}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{allows}", allows.len())
    };
    let redirect = format!("302 Found\r\nlocation: {}", other.url);
    for (answer, failure) in [
        (status("500 Internal Server Error"), "status"),
        (status("201 Created"), "status"),
        (status("403 Forbidden"), "status"),
        (status(&redirect), "status"),
        (format!("HTTP/1.1 200 OK\r\n\r\n{allows}{}", " ".repeat(10 << 20)), "no_decision"),
        (format!("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{allows}"), "unreachable"),
        ("nonsense\r\n\r\n".to_owned(), "unreachable"),
    ] {
        let service = Service::answering(answer.clone().into_bytes()).await;
        let failed = ask(&service.point("")).await.unwrap_err();
        assert_eq!(failed.word(), failure, "{failed}: {}", &answer[..answer.len().min(200)]);
    }
    assert_eq!(other.count(), 0, "no redirect is followed");
}

#[tokio::test]
async fn a_service_that_hangs_costs_its_time_and_gives_the_places_back() {
    let service = Service::answering(Vec::new()).await;
    let point = Arc::new(service.point("timeout: 300ms, maxConcurrent: 3"));
    let alice = client(json!({}));
    let names: Vec<_> = (0..40).map(|number| format!("tool{number}")).collect();
    let questions: Vec<_> = names.iter().map(|name| about(&alice, name, None)).collect();
    let answers = futures::future::join_all(questions.iter().map(|question| point.ask(question))).await;
    assert!(answers.iter().all(|answer| answer == &Err(PointFailure::Timeout(Duration::from_millis(300)))));
    assert_eq!(point.service.free_places(), 3);
}

#[tokio::test]
async fn a_flood_is_asked_a_few_questions_at_a_time() {
    let service = Service::saying(r#"{"allow":true}"#).await;
    let point = service.point("timeout: 30s, maxConcurrent: 2");
    let alice = client(json!({}));
    let names: Vec<_> = (0..50).map(|number| format!("tool{number}")).collect();
    let questions: Vec<_> = names.iter().map(|name| about(&alice, name, None)).collect();
    let answers = futures::future::join_all(questions.iter().map(|question| point.ask(question))).await;
    assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|decision| decision.allowed)));
    assert!(service.most_open.load(Ordering::SeqCst) <= 2);
    assert_eq!((service.count(), service.open.load(Ordering::SeqCst)), (50, 0));
}

#[tokio::test]
async fn an_answer_counts_for_the_same_question_and_for_its_time() {
    let service = Service::saying(r#"{"allow":false,"reason":"no"}"#).await;
    let point = service.point("includeArguments: true, cacheFor: 10s");
    let (alice, boss) = (client(json!({})), client(json!({"groups": ["boss"]})));
    for (number, (who, name, arguments)) in [
        (&alice, "bank_pay", None),
        (&alice, "bank_see", None),
        (&boss, "bank_pay", None),
        (&alice, "bank_pay", Some(r#"{"amount":1}"#)),
        (&alice, "bank_pay", Some(r#"{"amount":2}"#)),
    ]
    .into_iter()
    .enumerate()
    {
        let question = about(who, name, arguments);
        let first = point.ask(&question).await.unwrap();
        let second = point.ask(&question).await.unwrap();
        assert!(!first.cached && second.cached && !second.allowed && second.reason == first.reason);
        assert_eq!(service.count(), number + 1);
    }
    let key = [7; 32];
    let (decision, now) = (PointDecision { allowed: true, reason: None, cached: false }, Instant::now());
    point.keep(key, &decision, now);
    assert!(point.known(&key, now + Duration::from_millis(9_999)).is_some());
    assert!(point.known(&key, now + Duration::from_secs(10)).is_none());
    let uncached = service.point("cacheFor: 0");
    ask(&uncached).await.unwrap();
    ask(&uncached).await.unwrap();
    assert_eq!(service.count(), 7);
    assert_eq!(point.decisions.lock().cap(), MAX_CACHED);
}

#[tokio::test]
async fn what_cannot_be_shown_is_not_asked() {
    let service = Service::saying(r#"{"allow":true}"#).await;
    let point = service.point("includeArguments: true, onFailure: allow");
    let odd = client(json!({"groups": 7.5}));
    let left_out = client(json!({"_claim_names": {"groups": "src1"}}));
    let alice = client(json!({}));
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_QUESTION_BYTES));
    for question in [
        about(&odd, "bank_pay", None),
        about(&left_out, "bank_pay", None),
        about(&alice, "bank_pay", Some("{")),
        about(&alice, "bank_pay", Some(&long)),
    ] {
        assert_eq!(point.ask(&question).await.unwrap_err().word(), "unaskable");
    }
    assert_eq!(service.count(), 0);
}

#[tokio::test]
async fn a_service_at_a_forbidden_address_is_not_reached() {
    let service = Service::saying(r#"{"allow":true}"#).await;
    for settings in [
        format!("url: '{}', insecureAllowHttp: true", service.url),
        format!("url: '{}', insecureAllowHttp: true", service.url.replace("127.0.0.1", "localhost")),
        "url: 'https://169.254.169.254/', allowPrivateIp: true".to_owned(),
        "url: 'https://p.example/', caBundlePath: /nowhere/ca.pem".to_owned(),
    ] {
        assert_eq!(ask(&point(&settings)).await.unwrap_err().word(), "unreachable", "{settings}");
    }
    assert_eq!(service.count(), 0);
}

#[tokio::test]
async fn the_remedy_for_a_private_address_is_the_setting_of_the_decision_point() {
    let service = Service::saying(r#"{"allow":true}"#).await;
    for host in ["127.0.0.1", "localhost"] {
        let settings = format!("url: '{}', insecureAllowHttp: true", service.url.replace("127.0.0.1", host));
        let refused = ask(&point(&settings)).await.unwrap_err().to_string();
        assert!(refused.contains("set allowPrivateIp if"), "{refused}");
    }
}

#[tokio::test]
async fn a_file_of_certificates_that_is_mounted_late_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    let service = Service::saying(r#"{"allow":true}"#).await;
    let settings = format!(
        "url: '{}', insecureAllowHttp: true, allowPrivateIp: true, caBundlePath: '{}'",
        service.url,
        file.display()
    );
    let point = point(&settings);
    assert_eq!(ask(&point).await.unwrap_err().word(), "unreachable");
    let authority = rcgen::generate_simple_self_signed(vec!["ca.example".to_owned()]).unwrap();
    std::fs::write(&file, authority.cert.pem()).unwrap();
    assert!(ask(&point).await.unwrap().allowed);
}

#[tokio::test]
async fn a_uri_is_asked_about_in_its_normal_form() {
    let service = Service::saying(r#"{"allow":true}"#).await;
    let point = service.point("cacheFor: '0s'");
    let identity = client(json!({}));
    let ask = async |uri: &str| {
        let item = AskedItem { kind: Kind::Resource, name: uri, backend: "fs", original_name: None };
        let (method, profile, arguments) = ("resources/read", None, None);
        point.ask(&PointQuestion { identity: &identity, profile, method, item, arguments }).await
    };
    ask("file:///pub/../priv/x").await.unwrap();
    let asked = service.body(0);
    assert_eq!(asked["resource"]["name"], "file:///priv/x");
    assert_eq!(asked["resource"]["spellings"], json!(["file:///pub/../priv/x"]));
    ask("file:///priv%61te/x").await.unwrap();
    assert_eq!(service.body(1)["resource"]["spellings"], json!(["file:///private/x"]));
    ask("file:///pub/x").await.unwrap();
    assert_eq!(service.body(2)["resource"].get("spellings"), None);
    for ambiguous in ["file:///pub/..%2fpriv/x", "file:///../x", "file:///pub/a%00"] {
        let refused = ask(ambiguous).await;
        assert!(matches!(refused, Err(PointFailure::Unaskable(_))), "{ambiguous}: {refused:?}");
    }
    assert_eq!(service.count(), 3);
}

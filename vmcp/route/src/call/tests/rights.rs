//! Scopes, the decision point and questions of backends at the seam, by every way to a backend.

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use vmcp_access::authentication::revocations::RevokedCredentials;
use vmcp_backend::{CallError, Denier};

use super::*;
use crate::{Answer, Content};
use vmcp_engine::access::identity::{Identity, Principal};

const OIDC: &str = "  type: oidc\n  oidc: { issuer: https://idp.example, audience: a }\n";

fn of(claims: Value) -> Caller {
    let Value::Object(claims) = claims else { unreachable!() };
    let identity = Identity::known("https://idp.example", "alice", claims, None);
    Caller { principal: Principal::from(identity), ..caller() }
}

async fn with_scopes(rules: &str) -> Setup {
    let settings = format!("{KEYWORDS}incomingAuth:\n{OIDC}  toolScopes: {rules}\n");
    setup_with(Options::default(), &settings).await
}

/// Returns the answer to `tools/call` as the edge gets it.
async fn answer(engine: &Engine, caller: &Caller, params: Value) -> Answer {
    let snapshot = engine.snapshot();
    let params = OwnedParams::from_text(params.to_string()).unwrap();
    let view = snapshot.view(&caller.principal);
    let context = CallContext { engine, snapshot: &snapshot, view: &view, caller };
    crate::call_tool(context, &params).await
}

/// The calls of the tool `one_work` that a client can make.
fn calls() -> [Value; 4] {
    [
        json!({"name": "one_work", "arguments": {}}),
        json!({"name": "optim.call_tool", "arguments": {"tool_name": "one_work"}}),
        json!({"name": "optim.call_tool",
            "arguments": {"tool_name": "work", "server_name": "one", "response_format": "envelope"}}),
        json!({"name": "one_work", "arguments": {}, "task": {}}),
    ]
}

#[tokio::test]
async fn a_call_without_its_scopes_is_challenged_and_reaches_no_backend() {
    let rules = "[{ tools: ['one_*'], scopes: [work] }, { backends: [one], tools: [work], scopes: [one] }]";
    let Setup { engine, backends, seen } = with_scopes(rules).await;
    for (claims, ask_for) in [
        (json!({"scope": "openid work"}), "openid work one"),
        (json!({"scp": ["one"]}), "one work"),
        (json!({"scope": "works ones"}), "works ones work one"),
        (json!({"scope": {"work": true}}), "work one"),
        (json!({}), "work one"),
    ] {
        for params in calls() {
            seen.take();
            let answer = answer(&engine, &of(claims.clone()), params.clone()).await;
            let Content::StepUp(step_up) = answer.content else { panic!("{params}: {answer:?}") };
            assert_eq!(step_up.challenge.scopes, ask_for, "{params}");
            let error: Value = serde_json::from_str(&step_up.error.to_json()).unwrap();
            assert_eq!(error["data"]["scopes"], json!(ask_for.split(' ').collect::<Vec<_>>()), "{error}");
            assert!(error["message"].as_str().unwrap().contains(ask_for), "{error}");
            let record = only(&seen);
            let outcome = Outcome::Failed("insufficient_scope");
            assert_eq!((record.outcome, record.requests), (outcome, 0), "{params}");
        }
    }
    assert_eq!(backends[0].methods(), Vec::<String>::new());
    for claims in [json!({"scope": "one work more"}), json!({"scp": ["work"], "scope": "one"})] {
        for params in calls() {
            let answer = answer(&engine, &of(claims.clone()), params.clone()).await;
            assert!(matches!(answer.content, Content::Result(_) | Content::Arriving(_)), "{answer:?}");
        }
    }
    let other = json!({"name": "two_work", "arguments": {}});
    let other = answer(&engine, &of(json!({})), other).await;
    assert!(matches!(other.content, Content::Result(_) | Content::Arriving(_)), "{other:?}");
}

#[tokio::test]
async fn a_tool_that_needs_scopes_stays_listed_and_its_task_needs_them_too() {
    let Setup { engine, backends, .. } = with_scopes("[{ backends: [one], scopes: [work] }]").await;
    let (without, with) = (of(json!({})), of(json!({"scope": "work"})));
    let view = engine.snapshot().view(&without.principal);
    assert!(view.tool("one_work").is_some());
    let find = json!({"name": "optim.find_tool", "arguments": {"tool_description": "work"}});
    let found = call_with(&engine, &without, find).await.unwrap().to_string();
    assert!(found.contains("one_work"), "{found}");
    let task = json!({"taskId": "one-1"});
    for way in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let refused = go_as(&engine, without.clone(), way, &task).await;
        assert!(refused.contains("insufficient_scope"), "{way}: {refused}");
        let allowed = go_as(&engine, with.clone(), way, &task).await;
        assert!(allowed.starts_with("result"), "{way}: {allowed}");
    }
    assert_eq!(backends[0].methods().len(), 3);
}

#[tokio::test]
async fn a_run_of_a_withdrawn_identity_makes_no_further_calls() {
    let settings = format!("{KEYWORDS}incomingAuth:\n{OIDC}");
    let Setup { engine, backends, seen } = setup_with(Options::default(), &settings).await;
    let (alice, arguments) = (of(json!({"iat": 1})), to_raw_value(&json!({})).unwrap());
    let tools = Tools::new(engine.clone());
    let before = tools.call(&alice, "one_work", &arguments).await;
    assert!(matches!(before, ToolResult::Complete(_)), "{before:?}");
    let withdrawn = RevokedCredentials { subject: Some("alice".into()), ..RevokedCredentials::default() };
    engine.revoke(withdrawn, Duration::from_mins(1), false).unwrap();
    let calls = backends[0].methods().len();
    seen.take();
    let after = tools.call(&alice, "one_work", &arguments).await;
    assert!(matches!(after, ToolResult::Unknown), "{after:?}");
    let record = only(&seen);
    assert_eq!((record.outcome, record.policy), (Outcome::Denied, Some(PolicyId::new("withdrawn"))));
    assert_eq!(backends[0].methods().len(), calls);
}

#[tokio::test]
async fn a_run_makes_no_further_calls_with_the_claims_that_its_key_had_before() {
    let with_groups = |groups: &str| {
        let key = format!("{{ subject: ci, key: 0123456789abcdef0123456789abcdef, groups: [{groups}] }}");
        format!("{KEYWORDS}incomingAuth: {{ type: apiKeys, apiKeys: [{key}] }}\n")
    };
    let Setup { engine, backends, .. } = setup_with(Options::default(), &with_groups("admins")).await;
    let claims = json!({"sub": "ci", "groups": ["admins"]});
    let identity = Identity::known("apiKeys", "ci", claims.as_object().unwrap().clone(), None);
    let ci = Caller { principal: Principal::from(identity), ..caller() };
    let arguments = to_raw_value(&json!({})).unwrap();
    let tools = Tools::new(engine.clone());
    let before = tools.call(&ci, "one_work", &arguments).await;
    assert!(matches!(before, ToolResult::Complete(_)), "{before:?}");
    let mut reloaded = vmcp_config::Config::clone(&engine.snapshot().config);
    reloaded.incoming_auth = vmcp_engine::testing::config(&with_groups("staff")).incoming_auth;
    engine.apply(reloaded).await;
    let calls = backends[0].methods().len();
    let after = tools.call(&ci, "one_work", &arguments).await;
    assert!(matches!(after, ToolResult::Unknown), "{after:?}");
    assert_eq!(backends[0].methods().len(), calls);
    // An operator lends himself the claims that he chooses.
    let mut by_operator = ci;
    by_operator.principal.operator = Some("ann".into());
    let called = tools.call(&by_operator, "one_work", &arguments).await;
    assert!(matches!(called, ToolResult::Complete(_)), "{called:?}");
}

/// A decision point that gives each question the same answer.
struct Point {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Point {
    async fn answering(status: &'static str, body: &'static str) -> Point {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&asked);
        tokio::spawn(async move {
            loop {
                let Ok((mut socket, _)) = listener.accept().await else { continue };
                let log = Arc::clone(&log);
                tokio::spawn(async move {
                    let mut text = Vec::new();
                    // A question is one JSON object.
                    while !text.ends_with(b"}") {
                        let mut piece = [0; 4096];
                        let read = socket.read(&mut piece).await.unwrap_or_default();
                        if read == 0 {
                            return;
                        }
                        text.extend_from_slice(&piece[..read]);
                    }
                    log.lock().push(String::from_utf8(text).unwrap());
                    let head = format!(
                        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                        body.len()
                    );
                    let _ = socket.write_all(format!("{head}{body}").as_bytes()).await;
                });
            }
        });
        Point { url, asked }
    }

    fn settings(&self, more: &str) -> String {
        let point = format!("url: '{}', insecureAllowHttp: true, allowPrivateIp: true, {more}", self.url);
        format!("{KEYWORDS}incomingAuth: {{ decisionPoint: {{ {point} }} }}\n")
    }

    /// Returns the questions so far, without their heads.
    fn take(&self) -> Vec<Value> {
        let asked = std::mem::take(&mut *self.asked.lock());
        let body = |text: &String| serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap();
        asked.iter().map(body).collect()
    }
}

#[tokio::test]
async fn no_way_leads_around_the_decision_point() {
    let point = Point::answering("200 OK", r#"{"allow":false,"reason":"of the point"}"#).await;
    let Setup { engine, backends, seen } = setup_with(Options::default(), &point.settings("")).await;
    for (way, params, ..) in ways() {
        seen.take();
        let refused = go(&engine, way, &params).await;
        assert!(!refused.contains("of the point"), "{way}: the reason is for operators: {refused}");
        let record = seen.take().pop().unwrap_or_else(|| panic!("{way}: no record"));
        assert_eq!((record.outcome, record.requests), (Outcome::Denied, 0), "{way}: {refused}");
        assert_eq!(record.policy, Some(PolicyId::new("decision-point: of the point")), "{way}");
    }
    assert_eq!(backends[0].methods(), Vec::<String>::new(), "the backend hears nothing");
    let kinds: Vec<_> = point.take().iter().map(|asked| asked["resource"]["type"].clone()).collect();
    for kind in ["tool", "prompt", "resource", "backend"] {
        assert!(kinds.contains(&json!(kind)), "{kind}: {kinds:?}");
    }
    let metrics = engine.metrics().encode();
    assert!(
        metrics.contains(r#"vmcp_decision_point_questions_total{decision="deny",source="asked"}"#),
        "{metrics}"
    );
    assert!(metrics.contains(r#"source="cached""#), "{metrics}");
}

#[tokio::test]
async fn what_the_point_allows_goes_on_and_it_is_asked_about_what_really_runs() {
    let point = Point::answering("200 OK", r#"{"allow":true}"#).await;
    let settings = point.settings("includeArguments: true, cacheFor: 0, claims: [dept]");
    let Setup { engine, backends, seen } = setup_with(Options::default(), &settings).await;
    for (way, params, ..) in ways() {
        let allowed = go(&engine, way, &params).await;
        assert_ne!(only_outcome(&seen), Some(Outcome::Denied), "{way}: {allowed}");
    }
    assert!(backends[0].methods().len() > 8);
    point.take();
    let arguments = json!({"tool_name": "work", "server_name": "one", "parameters": {"a": [1, "x"]}});
    let nested = json!({"name": "optim.call_tool", "arguments": arguments});
    call_with(&engine, &of(json!({"groups": ["dev"], "dept": "x", "mail": "a@b"})), nested).await.unwrap();
    let asked = point.take();
    assert_eq!(asked.len(), 1, "about the tool, not about call_tool: {asked:?}");
    let expected = json!({
        "version": 1,
        "principal": {"subject": "alice", "issuer": "https://idp.example", "groups": ["dev"], "claims": {"dept": "x"}},
        "action": "call_tool", "method": "tools/call",
        "resource": {"type": "tool", "name": "one_work", "backend": "one", "originalName": "work"},
        "arguments": {"a": [1, "x"]},
    });
    assert_eq!(asked[0], expected);
    // Both values that the client gives for `repo`, as arguments.
    let argument = json!({"name": "repo", "value": "a"});
    for reference in [
        json!({"type": "ref/prompt", "name": "one_ask"}),
        json!({"type": "ref/resource", "uri": "one://{id}"}),
    ] {
        let given = json!({"arguments": {"repo": "b", "id": "c"}});
        let params = json!({"ref": reference, "argument": argument, "context": given});
        go(&engine, "completion/complete", &params).await;
        let shown: Vec<_> = point.take().into_iter().map(|asked| asked["arguments"].clone()).collect();
        assert_eq!(shown, [json!({"id": "c", "repo": "a"}), json!({"id": "c", "repo": "b"})]);
    }
    // Lists and searches ask about nothing.
    call(&engine, "optim.find_tool", json!({"tool_description": "work"})).await.unwrap();
    assert!(point.take().is_empty());
}

fn only_outcome(seen: &SeenCalls) -> Option<Outcome> {
    seen.take().pop().map(|record| record.outcome)
}

#[tokio::test]
async fn a_point_is_not_asked_about_what_a_policy_denies() {
    let point = Point::answering("200 OK", r#"{"allow":true}"#).await;
    let options = Options { policy: Some(Arc::new(DenyAll)), ..Options::default() };
    let Setup { engine, seen, .. } = setup_with(options, &point.settings("")).await;
    for (way, params, ..) in ways() {
        go(&engine, way, &params).await;
        assert_eq!(only_outcome(&seen), Some(Outcome::Denied), "{way}");
    }
    assert!(point.take().is_empty());
}

#[tokio::test]
async fn a_point_is_not_asked_about_calls_beyond_the_rate() {
    let point = Point::answering("200 OK", r#"{"allow":true}"#).await;
    let limits =
        "rateLimiting: { tools: [{ name: one_work, perUser: { maxTokens: 1, refillPeriod: 1h } }] }\n";
    let settings = format!("{}{limits}", point.settings("cacheFor: 0"));
    let Setup { engine, backends, .. } = setup_with(Options::default(), &settings).await;
    for _ in 0..3 {
        call(&engine, "one_work", json!({})).await.unwrap();
    }
    assert_eq!((point.take().len(), backends[0].calls().len()), (1, 1));
}

#[tokio::test]
async fn a_point_without_a_decision_denies_unless_calls_may_go_on() {
    for (status, body) in [
        ("500 Internal Server Error", r#"{"allow":true}"#),
        ("302 Found\r\nlocation: http://127.0.0.1:1/", r#"{"allow":true}"#),
        ("200 OK", r#"{"allow":"true"}"#),
        ("200 OK", "{}"),
    ] {
        let point = Point::answering(status, body).await;
        let Setup { engine, backends, seen } = setup_with(Options::default(), &point.settings("")).await;
        let denied = call(&engine, "one_work", json!({})).await.unwrap();
        assert!(denied.to_string().contains("not permitted by the decision point"), "{denied}");
        assert_eq!(only_outcome(&seen), Some(Outcome::Denied));
        assert!(backends[0].calls().is_empty());
        let open = point.settings("onFailure: allow");
        let Setup { engine, backends, .. } = setup_with(Options::default(), &open).await;
        call(&engine, "one_work", json!({})).await.unwrap();
        assert_eq!(backends[0].calls().len(), 1, "{body}");
        assert!(engine.metrics().encode().contains(r#"decision="allow""#));
        // A question that cannot be shown is denied all the same.
        let unshown =
            call_with(&engine, &of(json!({"groups": 1.5})), json!({"name": "one_work"})).await.unwrap();
        assert!(unshown.to_string().contains("not permitted"), "{unshown}");
        assert_eq!(backends[0].calls().len(), 1);
    }
}

#[tokio::test]
async fn a_client_reads_the_reason_if_it_may() {
    let point = Point::answering("200 OK", r#"{"allow":false,"reason":"only in office hours"}"#).await;
    let settings = point.settings("tellReason: true");
    let Setup { engine, .. } = setup_with(Options::default(), &settings).await;
    for params in &calls()[..3] {
        let denied = call_with(&engine, &Caller::default(), params.clone()).await.unwrap().to_string();
        assert!(denied.contains("decision point of this server: only in office hours"), "{denied}");
        assert!(denied.contains("\"error_type\":\"Denied\"") && !denied.contains("two_work"), "{denied}");
    }
}

#[test]
fn a_denied_or_unscoped_call_was_not_sent() {
    let errors = [
        CallError::Denied { by: Denier::DecisionPoint, reason: None },
        CallError::InsufficientScope { missing: vec!["a".to_owned()], ask_for: vec!["a".to_owned()] },
    ];
    for error in &errors {
        assert_eq!(error.transmission(), Transmission::NotSent);
    }
    assert_eq!(Outcome::from(&errors[0]), Outcome::Denied);
}

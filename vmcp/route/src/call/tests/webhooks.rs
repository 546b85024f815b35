//! Webhooks at the seam: no way around them, changed arguments, replaced results, failures.

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use vmcp_engine::telemetry::calls::WebhookEffect;

use super::*;

/// A webhook that answers by a function of the question.
struct Hook {
    url: String,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Hook {
    async fn answering(answer: fn(&Value) -> (u16, Value)) -> Hook {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
        let log = Arc::clone(&asked);
        tokio::spawn(async move {
            loop {
                let Ok((mut socket, _)) = listener.accept().await else { continue };
                let log = Arc::clone(&log);
                tokio::spawn(async move {
                    let mut text = Vec::new();
                    let question = loop {
                        let mut piece = [0; 4096];
                        let read = socket.read(&mut piece).await.unwrap_or_default();
                        if read == 0 {
                            return;
                        }
                        text.extend_from_slice(&piece[..read]);
                        let body =
                            text.windows(4).position(|four| four == b"\r\n\r\n").map(|at| &text[at + 4..]);
                        if let Some(Ok(question)) = body.map(serde_json::from_slice::<Value>) {
                            break question;
                        }
                    };
                    let (status, body) = answer(&question);
                    log.lock().push(question);
                    let body = body.to_string();
                    let head = format!(
                        "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                        body.len()
                    );
                    let _ = socket.write_all(format!("{head}{body}").as_bytes()).await;
                });
            }
        });
        Hook { url, asked }
    }

    /// Returns the settings of one webhook.
    fn entry(&self, name: &str, more: &str) -> String {
        format!(
            "{{ name: {name}, url: '{}', insecureAllowHttp: true, allowPrivateIp: true, {more} }}",
            self.url
        )
    }

    fn take(&self) -> Vec<Value> {
        std::mem::take(&mut *self.asked.lock())
    }
}

fn settings(kind: &str, entries: &[String]) -> String {
    format!("{KEYWORDS}webhooks: {{ {kind}: [{}] }}\n", entries.join(", "))
}

fn allow(_: &Value) -> (u16, Value) {
    (200, json!({"allowed": true}))
}

fn deny(_: &Value) -> (u16, Value) {
    (200, json!({"allowed": false, "message": "of the hook"}))
}

fn patch(operations: &Value) -> (u16, Value) {
    (200, json!({"allowed": true, "patch_type": "json_patch", "patch": operations}))
}

/// A backend with a tool that greets, and an engine.
async fn greeter(settings: &str, options: Options) -> (Engine, Scripted, Arc<SeenCalls>) {
    let server = Scripted::start(&[("greet", "Greets.", json!({"who": {"type": "string"}}))]).await;
    let seen = Arc::<SeenCalls>::default();
    let options = Options { observers: vec![Arc::clone(&seen) as _], ..options };
    let engine = engine_with(&backends(&[("s", &server.url)], settings), options).await;
    (engine, server, seen)
}

fn effects(record: &CallRecord) -> Vec<(&str, &str)> {
    record.webhooks.iter().map(|WebhookEffect { webhook, effect }| (&**webhook, *effect)).collect()
}

#[tokio::test]
async fn no_call_of_a_tool_leads_around_a_webhook() {
    let composite = "compositeTools: [{ name: twice, description: d, parameters: { type: object }, \
                     steps: [{ id: a, tool: one.work, arguments: {} }] }]\n";
    for kind in ["mutating", "validating"] {
        let hook = Hook::answering(deny).await;
        let guard = hook.entry("guard", "tools: ['*_work']");
        let settings = format!("{}{composite}", settings(kind, &[guard]));
        let Setup { engine, backends, seen } = setup_with(Options::default(), &settings).await;
        let tools = ways().into_iter().filter(|(way, ..)| way.ends_with("call"));
        let composite = ("tools/call", json!({"name": "twice", "arguments": {}}), "", "");
        for (way, params, ..) in tools.chain([composite]) {
            seen.take();
            let refused = go(&engine, way, &params).await;
            assert!(refused.contains("guard"), "{way}: {refused}");
            assert!(!refused.contains("of the hook") && !refused.contains("127.0.0.1"), "{way}: {refused}");
            let records = seen.take();
            let record = records.iter().find(|record| record.outcome == Outcome::Denied);
            let record = record.unwrap_or_else(|| panic!("{way} {params}: {records:?}"));
            assert_eq!(record.requests, 0, "{way}");
            assert_eq!(record.policy, Some(PolicyId::new("webhook guard: of the hook")), "{way}");
            assert_eq!(effects(record), [("guard", "denied")], "{way}");
        }
        assert_eq!(backends[0].methods(), Vec::<String>::new(), "the backend hears nothing");
        assert_eq!(hook.take().len(), 5);
        go(&engine, "resources/read", &json!({"uri": "one://note"})).await;
        assert!(hook.take().is_empty(), "asked about calls of tools only");
        let metrics = engine.metrics().encode();
        let counted =
            format!(r#"vmcp_webhook_questions_total{{webhook="guard",kind="{kind}",outcome="denied"}} 5"#);
        assert!(metrics.contains(&counted), "{metrics}");
    }
}

#[tokio::test]
async fn a_client_reads_the_message_of_a_denial_if_it_may() {
    let hook = Hook::answering(deny).await;
    let entry = hook.entry("guard", "tellReason: true");
    let (engine, ..) = greeter(&settings("validating", &[entry]), Options::default()).await;
    let denied = call(&engine, "s_greet", json!({"who": "Ada"})).await.unwrap().to_string();
    assert!(denied.contains("by the webhook `guard` of this server: of the hook"), "{denied}");
    assert!(denied.contains("\"error_type\":\"Denied\""), "{denied}");
}

#[tokio::test]
async fn the_backend_gets_the_arguments_that_webhooks_leave() {
    let first = Hook::answering(|_| {
        patch(&json!([{"op": "replace", "path": "/mcp_request/params/arguments/who", "value": "Bob"}]))
    })
    .await;
    let second = Hook::answering(|asked| {
        let who = format!("{} II", asked["mcp_request"]["params"]["arguments"]["who"].as_str().unwrap());
        patch(&json!([{"op": "replace", "path": "/mcp_request/params/arguments/who", "value": who}]))
    })
    .await;
    let (last, point) =
        (Hook::answering(allow).await, Hook::answering(|_| (200, json!({"allow": true}))).await);
    let mutating = [first.entry("first", ""), second.entry("second", "")].join(", ");
    let settings = format!(
        "{KEYWORDS}webhooks: {{ mutating: [{mutating}], validating: [{}] }}\nincomingAuth: {{ decisionPoint: \
         {{ url: '{}', insecureAllowHttp: true, allowPrivateIp: true, includeArguments: true }} }}\n",
        last.entry("last", ""),
        point.url
    );
    let (engine, server, seen) = greeter(&settings, Options::default()).await;
    for params in [
        json!({"name": "s_greet", "arguments": {"who": "Ada"}}),
        json!({"name": "optim.call_tool", "arguments": {"tool_name": "s_greet", "parameters": {"who": "Ada"}}}),
    ] {
        let greeted = call_with(&engine, &Caller::default(), params).await.unwrap().to_string();
        assert!(greeted.contains("Bob II") && !greeted.contains("Ada"), "{greeted}");
        let record = only(&seen);
        assert_eq!(effects(&record), [("first", "changed_arguments"), ("second", "changed_arguments")]);
        assert_eq!(record.outcome, Outcome::Ok);
        assert_eq!(server.calls().pop().unwrap()["arguments"], json!({"who": "Bob II"}));
        let told = last.take().remove(0);
        assert_eq!(told["mcp_request"]["params"], json!({"name": "s_greet", "arguments": {"who": "Bob II"}}));
    }
    assert_eq!(
        point.take()[0]["arguments"],
        json!({"who": "Bob II"}),
        "the point decides about what is sent"
    );
}

/// Denies calls whose arguments name the root.
#[derive(Debug)]
struct NotRoot;

impl Policy for NotRoot {
    fn decide(&self, request: &AccessRequest<'_>) -> Decision {
        let policy = PolicyId::new("not-root");
        if request.arguments.is_some_and(|arguments| arguments.contains("root")) {
            return Decision::Deny { policy };
        }
        Decision::Allow { policy }
    }
}

#[tokio::test]
async fn changed_arguments_are_judged_by_schema_and_policy() {
    let root = Hook::answering(|_| {
        patch(&json!([{"op": "replace", "path": "/mcp_request/params/arguments/who", "value": "root"}]))
    })
    .await;
    let number = Hook::answering(|_| {
        patch(&json!([{"op": "replace", "path": "/mcp_request/params/arguments/who", "value": 7}]))
    })
    .await;
    let validating = Hook::answering(allow).await;
    for (hook, outcome, text) in [
        (
            &root,
            Outcome::Denied,
            "not permitted by the policies, about the arguments as the webhook `w` changed",
        ),
        (
            &number,
            Outcome::Denied,
            "not permitted by the input schema, about the arguments as the webhook `w` changed them, of this \
             server: parameters do not fit",
        ),
    ] {
        let settings = format!(
            "{KEYWORDS}webhooks: {{ mutating: [{}], validating: [{}] }}\n",
            hook.entry("w", "failurePolicy: ignore"),
            validating.entry("v", "")
        );
        let options = Options { policy: Some(Arc::new(NotRoot)), ..Options::default() };
        let (engine, server, seen) = greeter(&settings, options).await;
        let refused = call(&engine, "s_greet", json!({"who": "Ada"})).await.unwrap().to_string();
        assert!(refused.contains(text), "{refused}");
        assert_eq!(only(&seen).outcome, outcome);
        assert!(server.calls().is_empty() && validating.take().is_empty());
        hook.take();
        // A webhook cannot make a call permitted; a call that a policy denies reaches no webhook.
        call(&engine, "s_greet", json!({"who": "root"})).await.unwrap_err();
        assert!(hook.take().is_empty() && server.calls().is_empty());
    }
}

#[tokio::test]
async fn a_post_webhook_replaces_or_withholds_the_result() {
    let mask = Hook::answering(|asked| {
        let text =
            asked["mcp_response"]["result"]["content"][0]["text"].as_str().unwrap().replace("Ada", "***");
        patch(&json!([{"op": "replace", "path": "/mcp_response/result",
            "value": {"content": [{"type": "text", "text": text}]}}]))
    })
    .await;
    let (engine, server, seen) =
        greeter(&settings("post", &[mask.entry("mask", "")]), Options::default()).await;
    let direct = json!({"name": "s_greet", "arguments": {"who": "Ada"}});
    let nested = json!({"name": "optim.call_tool", "arguments": {"tool_name": "s_greet", "parameters": {"who": "Ada"}}});
    for takes_arriving in [false, true] {
        for params in [&direct, &nested] {
            let caller = Caller { takes_arriving, ..Caller::default() };
            let masked = call_with(&engine, &caller, params.clone()).await.unwrap().to_string();
            assert!(masked.contains("***") && !masked.contains("Ada"), "{masked}");
            let record = only(&seen);
            assert_eq!((record.outcome, effects(&record)), (Outcome::Ok, vec![("mask", "replaced_result")]));
        }
    }
    let asked = mask.take().remove(0);
    assert_eq!(asked["mcp_request"]["params"]["arguments"], json!({"who": "Ada"}));
    assert_eq!(server.calls().len(), 4);

    let hook = Hook::answering(deny).await;
    let (engine, server, seen) =
        greeter(&settings("post", &[hook.entry("dlp", "")]), Options::default()).await;
    for params in [&direct, &nested] {
        let withheld = call_with(&engine, &Caller::default(), params.clone()).await.unwrap().to_string();
        assert!(
            withheld.contains("called, but the webhook `dlp` of this server withholds the result"),
            "{withheld}"
        );
        assert!(!withheld.contains("Ada"), "{withheld}");
        let record = only(&seen);
        assert_eq!((record.outcome, record.requests), (Outcome::Failed("withheld"), 1));
        assert_eq!(record.transmission, Transmission::Sent);
        assert_eq!(effects(&record), [("dlp", "withheld_result")]);
    }
    assert_eq!(server.calls().len(), 2, "a withheld result leads to no second call");
}

#[tokio::test]
async fn an_answer_of_a_webhook_leads_to_no_similar_tool() {
    let empties = Hook::answering(|_| {
        patch(&json!([{"op": "replace", "path": "/mcp_response/result", "value": {"content": []}}]))
    })
    .await;
    let fails = Hook::answering(|_| {
        patch(&json!([{"op": "add", "path": "/mcp_response/result/isError", "value": true}]))
    })
    .await;
    let misfits = Hook::answering(|_| {
        patch(&json!([{"op": "replace", "path": "/mcp_request/params/arguments/who", "value": 7}]))
    })
    .await;
    for (kind, hook, calls) in [("post", &empties, 1), ("post", &fails, 1), ("mutating", &misfits, 0)] {
        let tool = ("greet", "Greets somebody.", json!({"who": {"type": "string"}}));
        let asked = Scripted::start(std::slice::from_ref(&tool)).await;
        let similar = Scripted::start(&[tool]).await;
        for server in [&asked, &similar] {
            server.annotate("greet", json!({"readOnlyHint": true}));
        }
        let settings = format!(
            "optimizer: {{ embeddings: {{ provider: none }}, autoRetryFallback: SafeOnly }}\nwebhooks: {{ {kind}: \
             [{}] }}\n",
            hook.entry("w", "tools: [a_greet]")
        );
        let yaml = backends(&[("a", &asked.url), ("b", &similar.url)], &settings);
        let engine = engine_with(&yaml, Options::default()).await;
        let arguments = json!({"tool_name": "a_greet", "parameters": {"who": "Ada"}});
        let answer = call(&engine, "optim.call_tool", arguments).await.unwrap().to_string();
        assert!(!answer.contains("b_greet") && !answer.contains("fallback"), "{kind}: {answer}");
        assert_eq!((asked.calls().len(), similar.calls().len()), (calls, 0), "{kind}: {answer}");
    }
}

#[tokio::test]
async fn a_step_whose_result_is_withheld_is_not_repeated() {
    let hook = Hook::answering(deny).await;
    let composite = "compositeTools: [{ name: once, description: d, parameters: { type: object }, \
                     steps: [{ id: a, tool: s.greet, arguments: { who: Ada }, \
                     onError: { action: retry, retryCount: 3, retryDelay: 1ms } }] }]\n";
    let settings = format!("{}{composite}", settings("post", &[hook.entry("dlp", "tools: [s_greet]")]));
    let (engine, server, _) = greeter(&settings, Options::default()).await;
    let params = json!({"name": "once", "arguments": {}});
    let failed = call_with(&engine, &Caller::default(), params).await.unwrap().to_string();
    assert!(failed.contains("withholds the result"), "{failed}");
    assert_eq!(server.calls().len(), 1);
}

#[tokio::test]
async fn a_task_leads_around_no_post_webhook() {
    let hook = Hook::answering(deny).await;
    let Setup { engine, backends, .. } =
        setup_with(Options::default(), &settings("post", &[hook.entry("dlp", "")])).await;
    let as_task = go(&engine, "tools/call", &json!({"name": "one_work", "arguments": {}, "task": {}})).await;
    assert!(as_task.contains("withholds the result"), "{as_task}");
    assert_eq!(backends[0].calls()[0].get("task"), None, "the call asks for no task");
    hook.take();
    let result = go(&engine, "tasks/result", &json!({"taskId": "one-1"})).await;
    assert!(result.contains("withholds the result"), "{result}");
    assert_eq!(hook.take().len(), 1);
}

#[tokio::test]
async fn a_webhook_without_an_answer_denies_unless_calls_may_go_on() {
    let broken = Hook::answering(|_| (503, json!({"allowed": true}))).await;
    let redirects = Hook::answering(|_| (307, json!({"allowed": true}))).await;
    for (hook, text) in [(&broken, "HTTP 503"), (&redirects, "HTTP 307")] {
        for kind in ["mutating", "validating", "post"] {
            let fails = settings(kind, &[hook.entry("w", "")]);
            let (engine, server, seen) = greeter(&fails, Options::default()).await;
            let refused = call(&engine, "s_greet", json!({"who": "Ada"})).await.unwrap().to_string();
            assert!(refused.contains(text) && refused.contains("webhook `w`"), "{kind}: {refused}");
            assert!(!refused.contains(&hook.url), "{kind}: {refused}");
            assert_eq!(only(&seen).policy, Some(PolicyId::new("webhook w: status")));
            assert_eq!(server.calls().len(), usize::from(kind == "post"));

            let ignores = settings(kind, &[hook.entry("w", "failurePolicy: ignore")]);
            let (engine, _server, seen) = greeter(&ignores, Options::default()).await;
            let greeted = call(&engine, "s_greet", json!({"who": "Ada"})).await.unwrap().to_string();
            assert!(greeted.contains("Ada"), "{kind}: {greeted}");
            let record = only(&seen);
            assert_eq!((record.outcome, effects(&record)), (Outcome::Ok, vec![("w", "ignored_failure")]));
        }
    }
    let denies = Hook::answering(|_| (422, json!({"allowed": true}))).await;
    let entry = denies.entry("w", "failurePolicy: ignore");
    let (engine, server, _) = greeter(&settings("mutating", &[entry]), Options::default()).await;
    let refused = call(&engine, "s_greet", json!({"who": "Ada"})).await.unwrap().to_string();
    assert!(refused.contains("not permitted by the webhook `w`"), "{refused}");
    assert!(server.calls().is_empty());
}

#[tokio::test]
async fn a_cancelled_call_waits_for_no_webhook() {
    // Accepts connections, and answers nothing.
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let hook = Hook { url: format!("http://{}/", silent.local_addr().unwrap()), asked: Arc::default() };
    let (engine, server, seen) =
        greeter(&settings("validating", &[hook.entry("w", "timeout: 30s")]), Options::default()).await;
    let caller = Caller::default();
    let params = json!({"name": "s_greet", "arguments": {"who": "Ada"}});
    let cancel = async {
        let _asked = silent.accept().await.unwrap();
        caller.cancel.cancel();
    };
    let (answer, ()) = tokio::join!(call_with(&engine, &caller, params), cancel);
    assert!(answer.unwrap().to_string().contains("cancelled by the caller"));
    assert_eq!(only(&seen).outcome, Outcome::Cancelled);
    assert!(server.calls().is_empty());
}

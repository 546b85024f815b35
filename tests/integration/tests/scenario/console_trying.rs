//! "Try it" of the web console: questions of servers are answered in the page, and an operator calls as a
//! chosen identity.

use reqwest::StatusCode;
use serde_json::{Value, json};
use url::form_urlencoded::Serializer;
use vmcp_integration::{Fixture, Vmcp, VmcpBuilder, eventually, http_client};

use super::audit::events;

const TOKEN: &str = "an admin token of this test";
const OTHER: &str = "another admin token of this test";
const VIEWER: &str = "a viewer token of this test";
const ALICE: &str = "alice-0123456789abcdef";
const BOB: &str = "bob-0123456789abcdef";

/// A person at the console, with a token or without one.
struct Person<'a> {
    vmcp: &'a Vmcp,
    token: Option<&'a str>,
}

impl Person<'_> {
    async fn page(&self, path: &str) -> String {
        let request = self.sign(http_client().get(format!("{}/console/{path}", self.vmcp.admin)));
        request.send().await.expect("an answer").text().await.expect("a page")
    }

    /// Sends a form of a page, with its token, and returns the page that follows.
    async fn send(&self, page: &str, action: &str, fields: &[(&str, &str)]) -> (StatusCode, String) {
        let (_, rest) = page.split_once("name=\"form_token\" value=\"").expect("a form");
        let token = rest.split('"').next().expect("a token");
        let mut body = Serializer::new(String::new());
        let body = body.append_pair("form_token", token).extend_pairs(fields).finish();
        let request = self.sign(http_client().post(format!("{}/console/{action}", self.vmcp.admin)));
        let request = request.header("content-type", "application/x-www-form-urlencoded").body(body);
        let answer = request.send().await.expect("an answer");
        let status = answer.status();
        (status, answer.text().await.expect("a page"))
    }

    /// Calls a tool from its form.
    async fn call(&self, server: &str, tool: &str, fields: &[(&str, &str)]) -> String {
        let path = format!("try?server={server}&tool={tool}");
        let page = self.page(&path).await;
        self.send(&page, &path, fields).await.1
    }

    /// Answers the question of a page.
    async fn answer(&self, page: &str, action: &str, fields: &[(&str, &str)]) -> (StatusCode, String) {
        let (_, rest) = page.split_once("name=\"question\" value=\"").expect("a question");
        let number = rest.split('"').next().expect("a number").to_owned();
        let fields = [&[("question", number.as_str()), ("action", action)][..], fields].concat();
        self.send(page, &answer_path(page), &fields).await
    }

    fn sign(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        match self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }
}

/// Returns the address of the form that answers the question of a page.
fn answer_path(page: &str) -> String {
    let (_, rest) = page.split_once("action=\"/console/try/answer?").expect("a form that answers");
    let query = rest.split('"').next().expect("a query");
    format!("try/answer?{}", query.replace("&amp;", "&"))
}

/// Adds settings, and waits until the console wants a token.
async fn closed(vmcp: &mut Vmcp, settings: Value) {
    vmcp.reconfigure(settings);
    let console = format!("{}/console/", vmcp.admin);
    eventually("the console to want a token", async || {
        let answer = http_client().get(&console).send().await.expect("an answer");
        (answer.status() == StatusCode::UNAUTHORIZED).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_form_of_a_tool_with_alternatives_sends_what_its_schema_names() {
    let echo = Fixture::http("echo", "echo").start().await;
    let shape = |kind: &str, size: &str| {
        json!({"type": "object", "required": ["kind", size], "properties": {
            "kind": {"const": kind}, (size): {"type": "number"},
        }})
    };
    let text = json!({"type": "string"});
    let schema = json!({
        "type": "object", "$defs": {"Circle": shape("circle", "radius"), "Square": shape("square", "side")},
        "oneOf": [{"$ref": "#/$defs/Circle"}, {"$ref": "#/$defs/Square"}],
        "properties": {
            "level": {"enum": [1, 2, 3]}, "note": text, "day": {"type": "string", "format": "date"},
            "at": {"type": "object", "properties": {"__proto__": text, "a.b": text, "c/d": text}},
        },
    });
    let tool = json!({"name": "draw", "description": "Draws a shape", "inputSchema": schema});
    echo.control(json!({"do": "add_tool", "tool": tool})).await;
    let vmcp = Vmcp::new().backend(&echo).start().await;
    vmcp.with_tool("echo_draw").await;
    let ann = Person { vmcp: &vmcp, token: None };
    let page = ann.page("try?server=echo&tool=draw").await;
    for field in ["argument.kind", "argument.radius", "argument.side", "argument.level", "nested./at/c~1d"] {
        assert!(page.contains(&format!("name=\"{field}\"")), "{field}: {page}");
    }
    assert!(page.contains(">square</option>") && page.contains("placeholder=\"2026-01-31\""), "{page}");
    let fields = [
        ("argument.kind", "square"),
        ("argument.side", "2"),
        ("argument.level", "3"),
        // As a browser sends the lines of a field.
        ("argument.note", "two\r\nlines"),
        ("nested./at/__proto__", "x"),
        ("nested./at/a.b", "y"),
        ("nested./at/c~1d", "z"),
    ];
    ann.call("echo", "draw", &fields).await;
    let seen = echo.stats().await["last_call"]["params"]["arguments"].clone();
    let at = json!({"__proto__": "x", "a.b": "y", "c/d": "z"});
    let expected = json!({"kind": "square", "side": 2, "level": 3, "note": "two\nlines", "at": at});
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn questions_of_servers_of_both_eras_are_answered_in_the_page() {
    let servers = [Fixture::rmcp("old", "legacy").await, Fixture::rmcp("new", "modern").await];
    let vmcp = servers.iter().fold(Vmcp::new(), VmcpBuilder::backend).start().await;
    let ann = Person { vmcp: &vmcp, token: None };
    for server in ["old", "new"] {
        vmcp.with_tool(&format!("{server}_test_elicitation")).await;
        let message = [("argument.message", "<b>Who\u{202e} is it?")];
        let asks = ann.call(server, "test_elicitation", &message).await;
        assert!(asks.contains("The server asks") && asks.contains("&lt;b&gt;Who⟨U+202E⟩ is it?"), "{asks}");
        assert!(asks.contains("name=\"argument.username\"") && !asks.contains("Call the tool"), "{asks}");
        let (status, again) = ann.answer(&asks, "accept", &[("argument.username", "Ada")]).await;
        assert_eq!(status, StatusCode::OK, "{again}");
        assert!(again.contains("`email` is required") && again.contains("value=\"Ada\""), "{again}");
        let given = [("argument.username", "Ada"), ("argument.email", "ada@example.com")];
        let (_, end) = ann.answer(&again, "accept", &given).await;
        assert!(end.contains("<h2>Answer</h2>") && end.contains("action=accept"), "{server}: {end}");
        assert!(end.contains("Ada") && end.contains("ada@example.com"), "{server}: {end}");
        // An old page, as the browser's history has it.
        let (status, late) = ann.answer(&again, "accept", &given).await;
        assert_eq!(status, StatusCode::CONFLICT);
        assert!(late.contains("no longer waits for an answer") && late.contains("Call the tool"), "{late}");

        for action in ["decline", "cancel"] {
            let asks = ann.call(server, "test_elicitation", &message).await;
            let (_, end) = ann.answer(&asks, action, &[]).await;
            assert!(end.contains(&format!("action={action}")), "{server}: {end}");
        }
        let first = ann.call(server, "test_input_required_result_multi_round", &[]).await;
        let (_, second) = ann.answer(&first, "accept", &[("argument.name", "Ada")]).await;
        assert!(second.contains("Step 2: "), "{server}: {second}");
        let (_, end) = ann.answer(&second, "accept", &[("argument.color", "green")]).await;
        assert!(end.contains("Ada likes green"), "{server}: {end}");

        let asks = ann.call(server, "test_elicitation_sep1330_enums", &[]).await;
        assert!(asks.contains(">Second</option>") && asks.contains(">Three</option>"), "{asks}");
        let chosen = [
            ("argument.titledSingle", "value2"),
            ("argument.titledMulti", "value1"),
            ("argument.titledMulti", "value3"),
        ];
        let (_, end) = ann.answer(&asks, "accept", &chosen).await;
        assert!(end.contains("value2") && end.contains("value3"), "{server}: {end}");
        let asks = ann.call(server, "test_elicitation_sep1034_defaults", &[]).await;
        assert!(asks.contains("value=\"John Doe\"") && asks.contains("value=\"95.5\""), "{asks}");

        let refused = ann.call(server, "test_sampling", &[("argument.prompt", "Capital?")]).await;
        assert!(!refused.contains("The server asks") && !refused.contains("<h2>Answer</h2>"), "{refused}");
    }
}

#[tokio::test]
async fn a_rule_that_wants_consent_asks_in_the_page() {
    let echo = Fixture::http("echo", "echo").start().await;
    let confirm = json!({"aggregation": {"confirm": {"tools": ["*_echo"]}}});
    let vmcp = Vmcp::new().backend(&echo).config(confirm).start().await;
    vmcp.with_tool("echo_echo").await;
    let ann = Person { vmcp: &vmcp, token: None };
    let message = [("argument.message", "drop it all")];
    let asks = ann.call("echo", "echo", &message).await;
    assert!(asks.contains("Allow the call of echo_echo") && asks.contains("consent alone"), "{asks}");
    assert_eq!(echo.calls("echo").await, 0);
    let (_, end) = ann.answer(&asks, "accept", &[]).await;
    assert!(end.contains("<h2>Answer</h2>"), "{end}");
    let asks = ann.call("echo", "echo", &message).await;
    let (_, end) = ann.answer(&asks, "decline", &[]).await;
    assert!(end.contains("the user declined"), "{end}");
    let consented = [message[0], ("consent", "yes")];
    assert!(ann.call("echo", "echo", &consented).await.contains("<h2>Answer</h2>"));
    assert_eq!(echo.calls("echo").await, 2);
}

#[tokio::test]
async fn only_the_person_who_called_answers() {
    let old = Fixture::rmcp("old", "legacy").await;
    let mut vmcp = Vmcp::new().backend(&old).start().await;
    vmcp.with_tool("old_test_elicitation").await;
    closed(&mut vmcp, json!({"server": {"adminTokens": [TOKEN, OTHER], "viewerTokens": [VIEWER]}})).await;
    let [ann, eve, viewer] = [TOKEN, OTHER, VIEWER].map(|token| Person { vmcp: &vmcp, token: Some(token) });
    let asks = ann.call("old", "test_elicitation", &[("argument.message", "Who?")]).await;
    for (other, expected) in [(&eve, StatusCode::CONFLICT), (&viewer, StatusCode::FORBIDDEN)] {
        let (status, page) = other.answer(&asks, "decline", &[]).await;
        assert_eq!(status, expected, "{page}");
    }
    let (status, end) = ann.answer(&asks, "decline", &[]).await;
    assert_eq!(status, StatusCode::OK, "{end}");
    assert!(end.contains("action=decline"), "{end}");
}

/// Settings: bob may not call `echo_echo`.
fn identities(audit: &std::path::Path) -> Value {
    let entry = |(subject, key): (&str, &str)| json!({"subject": subject, "key": key});
    json!({
        "incomingAuth": {"type": "apiKeys", "apiKeys": [entry(("alice", ALICE)), entry(("bob", BOB))], "authz": {
            "policies": [
                "permit(principal, action, resource);",
                r#"@id("no-echo-by-bob") forbid(principal == Client::"bob", action, resource == Tool::"echo_echo");"#,
            ],
        }},
        "audit": {"enabled": true, "logFile": audit},
    })
}

#[tokio::test]
async fn an_operator_calls_as_a_chosen_identity_and_the_audit_names_both() {
    let echo = Fixture::http("echo", "echo").start().await;
    let own = Fixture::http("own", "echo").start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("audit.jsonl");
    let mut vmcp = Vmcp::new().backend(&echo).backend(&own).start().await;
    vmcp.with_tool("echo_echo").await;
    vmcp.with_tool("own_echo").await;
    let mut settings = identities(&file);
    settings["server"] = json!({"adminTokens": [TOKEN], "viewerTokens": [VIEWER]});
    let headers = json!({"type": "passthrough", "passthrough": {"headers": ["Authorization"]}});
    settings["outgoingAuth"] = json!({"backends": {"own": headers}});
    closed(&mut vmcp, settings).await;
    let ann = Person { vmcp: &vmcp, token: Some(TOKEN) };
    let message = ("argument.message", "from the console");

    let none = ann.call("echo", "echo", &[message]).await;
    assert!(none.contains("clients prove who they are here"), "{none}");
    let no_claims = ann.call("echo", "echo", &[message, ("claims", "{}")]).await;
    assert!(no_claims.contains("clients prove who they are here"), "{no_claims}");
    let wrong = ann.call("echo", "echo", &[message, ("claims", "[1]")]).await;
    assert!(wrong.contains("claims: no JSON object"), "{wrong}");
    let as_alice = ann.call("echo", "echo", &[message, ("who", "alice")]).await;
    assert!(as_alice.contains("<h2>Answer</h2>") && as_alice.contains("Called as"), "{as_alice}");
    let claims = r#"{"sub": "alice", "iss": "apiKeys"}"#;
    let raw = ann.call("echo", "echo", &[message, ("claims", claims)]).await;
    assert!(raw.contains("<h2>Answer</h2>") && raw.contains("<bdi>alice</bdi>"), "{raw}");
    let as_bob = ann.call("echo", "echo", &[message, ("who", "bob")]).await;
    assert!(as_bob.contains("This client may not call the tool"), "{as_bob}");
    assert!(as_bob.contains("The call failed") && as_bob.contains("who=bob"), "{as_bob}");
    assert_eq!(echo.calls("echo").await, 2, "bob's call did not arrive");

    let page = eventually("the settings of the server to be in force", async || {
        let page = ann.page("try?server=own&tool=echo").await;
        page.contains("This server gets credentials of each client").then_some(page)
    })
    .await;
    assert!(page.contains("refused before it is sent"), "{page}");
    eventually("the call to be refused", async || {
        let as_alice = ann.call("own", "echo", &[message, ("who", "alice")]).await;
        as_alice.contains("an operator has none of theirs: the client itself").then_some(())
    })
    .await;
    assert_eq!(own.calls("echo").await, 0, "nothing was sent in her name");

    let text = |event: &Value, path: &str| event.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let seen = eventually("the events", async || {
        let events = events(&file);
        let calls = events.into_iter().filter(|event| event["target"]["name"] == "echo_echo");
        let of = |event: Value| {
            let operator = text(&event, "/subjects/operator").unwrap_or_default();
            assert!(operator.starts_with("admin token ") && !operator.contains(TOKEN), "{event}");
            (text(&event, "/subjects/user"), text(&event, "/metadata/extra/decision"))
        };
        let calls: Vec<_> = calls.map(of).collect();
        (calls.len() == 3).then_some(calls)
    })
    .await;
    let seen: Vec<_> = seen.iter().map(|(user, decision)| (user.as_deref(), decision.as_deref())).collect();
    let allowed = (Some("alice"), Some("allowed"));
    assert_eq!(seen, [allowed, allowed, (Some("bob"), Some("denied"))]);

    let page = ann.page("try?server=echo&tool=echo").await;
    let viewer = Person { vmcp: &vmcp, token: Some(VIEWER) };
    let (status, refused) = viewer.send(&page, "try?server=echo&tool=echo", &[("who", "alice")]).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{refused}");
    let calls = ann.page("calls?tool=echo").await;
    assert!(calls.contains("alice") && calls.contains("bob"), "{calls}");
}

#[tokio::test]
async fn where_the_console_is_open_no_identity_can_be_chosen() {
    let echo = Fixture::http("echo", "echo").start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let mut vmcp = Vmcp::new().backend(&echo).start().await;
    vmcp.with_tool("echo_echo").await;
    let fields = [("argument.message", "x"), ("who", "alice")];
    let anonymous = Person { vmcp: &vmcp, token: None }.call("echo", "echo", &fields).await;
    assert!(anonymous.contains("<h2>Answer</h2>") && !anonymous.contains("Called as"), "{anonymous}");
    assert!(anonymous.contains("the audit event could not say who called"), "{anonymous}");
    vmcp.reconfigure(identities(&folder.path().join("audit.jsonl")));
    let closed = eventually("clients to sign in", async || {
        let page = Person { vmcp: &vmcp, token: None }.page("try?server=echo&tool=echo").await;
        page.contains("prove who they are").then_some(page)
    })
    .await;
    assert!(closed.contains("server.adminTokens") && !closed.contains("Call the tool"), "{closed}");
    assert_eq!(echo.calls("echo").await, 1);
}

#[tokio::test]
async fn an_address_that_a_server_wants_opened_first_is_shown_and_no_link() {
    let echo = Fixture::http("echo", "echo").args(["--era", "legacy"]).start().await;
    let vmcp = Vmcp::new().backend(&echo).start().await;
    vmcp.with_tool("echo_rpc_error").await;
    let ann = Person { vmcp: &vmcp, token: None };
    let demand = json!({"elicitations": [
        {"mode": "url", "url": "https://login.example/authorize?x=<b>", "message": "m", "elicitationId": "1"},
    ]});
    let arguments = json!({"code": -32042, "data": demand}).to_string();
    let page = ann.call("echo", "rpc_error", &[("arguments", &arguments)]).await;
    assert!(page.contains("<strong><bdi>login.example</bdi></strong>"), "{page}");
    assert!(page.contains("Then call the tool again."), "{page}");
    assert!(!page.contains("href=\"https://login.example"), "{page}");
}

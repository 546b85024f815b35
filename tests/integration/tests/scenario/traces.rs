//! Distributed traces: one tree of spans from the client through vmcp to the backend, and one audit line a
//! call.

use serde_json::{Value, json};
use vmcp_embed::testing::FakeService;
use vmcp_integration::{Client, Collector, Fixture, Messages, Span, Vmcp, eventually};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

async fn traced() -> (Collector, Fixture, Vmcp, Client) {
    traced_with(json!({})).await
}

async fn traced_with(settings: Value) -> (Collector, Fixture, Vmcp, Client) {
    let collector = Collector::start().await;
    let echo = Fixture::http("echo", "echo").start().await;
    let telemetry = json!({"telemetry": {"endpoint": collector.endpoint, "samplingRate": "1.0"}});
    let vmcp = Vmcp::new().backend(&echo).config(telemetry).config(settings).start().await;
    let client = vmcp.with_tool("echo_inspect").await;
    (collector, echo, vmcp, client)
}

/// Waits until `name` is among the spans of the trace, and returns them.
async fn trace_with(collector: &Collector, name: &str) -> Vec<Span> {
    eventually(&format!("span {name} among {:?}", collector.spans()), async || {
        let spans: Vec<Span> = collector.spans().into_iter().filter(|span| span.trace == TRACE).collect();
        spans.iter().any(|span| span.name.contains(name)).then_some(spans)
    })
    .await
}

fn find<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    spans.iter().find(|span| span.name.contains(name)).unwrap_or_else(|| panic!("no {name} in {spans:#?}"))
}

/// Returns true if `span` lies below `ancestor`, at any depth.
fn is_below(spans: &[Span], span: &Span, ancestor: &Span) -> bool {
    span.parent == ancestor.id
        || spans.iter().any(|middle| middle.id == span.parent && is_below(spans, middle, ancestor))
}

#[tokio::test]
async fn a_search_is_one_tree_under_the_clients_span() {
    let service = FakeService::start().await.expect("a port");
    let embeddings =
        json!({"optimizer": {"embeddings": {"provider": "tei", "tei": {"endpoint": service.url()}}}});
    let (collector, _echo, _vmcp, client) = traced_with(embeddings).await;
    // Without vectors a search embeds no query and has no semantic arm.
    eventually("a search with vectors", async || {
        let found = client.find_tool(json!({"tool_description": "an earlier search"})).await;
        (found.structured()["search_mode"] == "hybrid").then_some(())
    })
    .await;
    let params =
        client.stamp(json!({"name": "optim.find_tool", "arguments": {"tool_description": "add numbers"}}));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let post =
        client.post("tools/call", &params, &body).header("traceparent", format!("00-{TRACE}-{PARENT}-01"));
    assert_eq!(post.send().await.expect("an answer").status(), 200);
    let spans = trace_with(&collector, "optim.find_tool").await;
    let root = find(&spans, "tools/call optim.find_tool");
    assert_eq!(root.parent, PARENT);
    let search = find(&spans, "optimizer.find_tool");
    assert!(is_below(&spans, search, root), "{spans:#?}");
    for part in ["embedding.query", "search.keyword", "search.semantic"] {
        assert!(is_below(&spans, find(&spans, part), search), "{part}: {spans:#?}");
    }
}

#[tokio::test]
async fn a_call_carries_the_trace_to_the_backend() {
    let (collector, echo, _vmcp, client) = traced().await;
    let meta = json!({"traceparent": format!("00-{TRACE}-{PARENT}-01")});
    let arguments = json!({"tool_name": "echo_inspect", "parameters": {}});
    let call = json!({"name": "optim.call_tool", "arguments": arguments, "_meta": meta});
    client.request("tools/call", call).await.result();
    let spans = trace_with(&collector, "optim.call_tool").await;
    let (root, call) = (find(&spans, "tools/call optim.call_tool"), find(&spans, "backend.call"));
    let exchange = find(&spans, "tools/call inspect");
    assert_eq!((&*root.parent, &exchange.parent), (PARENT, &call.id));
    assert!(is_below(&spans, call, root), "{spans:#?}");
    // Spans arrive in the order in which they end.
    let place = |span: &Span| spans.iter().position(|arrived| arrived.id == span.id);
    assert!(place(exchange) < place(call), "the exchange ends within the call: {spans:#?}");
    let seen = echo.stats().await["last_call"].clone();
    let expected = format!("00-{TRACE}-{}-01", exchange.id);
    assert_eq!(seen["params"]["_meta"]["traceparent"], expected, "{seen}");
    assert_eq!(seen["headers"]["traceparent"], expected, "{seen}");
}

/// Baggage is a standard of its own: it needs no trace, and a list on several lines is one list.
#[tokio::test]
async fn baggage_reaches_the_backend_from_either_carrier_with_and_without_a_trace() {
    let echo = Fixture::http("echo", "echo").start().await;
    let vmcp = Vmcp::new().backend(&echo).start().await;
    let client = vmcp.with_tool("echo_echo").await;
    let traceparent = format!("00-{TRACE}-{PARENT}-01");
    for (meta, headers, expected) in [
        (json!({"traceparent": traceparent, "baggage": "tenant=blue"}), &[][..], "tenant=blue"),
        (json!({"baggage": "tenant=blue"}), &[("baggage", "tenant=red")][..], "tenant=blue"),
        (json!({}), &[("baggage", "tenant=red"), ("baggage", "user=ann")][..], "tenant=red,user=ann"),
        (json!({}), &[("baggage", "tenant=red"), ("traceparent", &*traceparent)][..], "tenant=red"),
    ] {
        let params = json!({"name": "echo_echo", "arguments": {"message": "x"}, "_meta": meta});
        let params = client.stamp(params);
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
        let mut post = client.post("tools/call", &params, &body);
        for (name, value) in headers {
            post = post.header(*name, *value);
        }
        assert_eq!(post.send().await.expect("an answer").status(), 200);
        let seen = echo.stats().await["last_call"].clone();
        assert_eq!(seen["params"]["_meta"]["baggage"], expected, "{seen}");
        assert_eq!(seen["headers"]["baggage"], expected, "{seen}");
    }
}

/// `mcp.md` of OpenTelemetry's semantic conventions: names, kinds, attributes, status, links.
#[tokio::test]
async fn spans_follow_the_conventions_for_mcp() {
    const AMBIENT: &str = "b7ad6b7169203331";
    let (collector, _echo, _vmcp, client) = traced().await;
    let meta = json!({"traceparent": format!("00-{TRACE}-{PARENT}-01")});
    let call = |name: &str, arguments: Value| {
        client.stamp(json!({"name": name, "arguments": arguments, "_meta": meta}))
    };
    let send = async |method: &str, params: Value| {
        let body = json!({"jsonrpc": "2.0", "id": "one", "method": method, "params": params}).to_string();
        let post = client.post(method, &params, &body);
        post.header("traceparent", format!("00-{TRACE}-{AMBIENT}-01")).send().await.expect("an answer");
    };
    send("tools/call", call("echo_echo", json!({"message": "hello"}))).await;
    send("tools/call", call("echo_no_such_tool", json!({}))).await;
    send("tools/call", call("echo_fail", json!({"message": "no"}))).await;
    let read = json!({"uri": "none://such?secret=1", "_meta": meta});
    send("resources/read", client.stamp(read)).await;
    let spans = trace_with(&collector, "resources/read").await;
    let root = find(&spans, "tools/call echo_echo");
    let text = |span: &Span, key: &str| span.attribute(key).unwrap_or_default().to_owned();
    for (key, value) in [
        ("mcp.method.name", "tools/call"),
        ("gen_ai.tool.name", "echo_echo"),
        ("gen_ai.operation.name", "execute_tool"),
        ("jsonrpc.request.id", "one"),
        ("mcp.protocol.version", "2026-07-28"),
        ("network.transport", "tcp"),
        ("network.protocol.name", "http"),
        ("network.protocol.version", "1.1"),
        ("client.address", "127.0.0.1"),
    ] {
        assert_eq!(text(root, key), value, "{key} of {root:#?}");
    }
    assert!(text(root, "client.port").parse::<u16>().is_ok_and(|port| port > 0), "{root:#?}");
    assert_eq!((root.kind, &root.failure, &*root.parent), (2, &None, PARENT));
    assert_eq!(root.links, [AMBIENT], "the span of the HTTP request");
    let exchange = spans.iter().find(|span| span.kind == 3 && span.name.ends_with("echo"));
    let exchange = exchange.unwrap_or_else(|| panic!("no span of kind CLIENT in {spans:#?}"));
    assert_eq!((&*exchange.name, &*text(exchange, "server.address")), ("tools/call echo", "127.0.0.1"));

    assert_eq!(text(exchange, "network.protocol.name"), "http", "{exchange:#?}");
    assert!(
        text(exchange, "jsonrpc.request.id").parse::<u64>().is_ok(),
        "the id at the server: {exchange:#?}"
    );
    for span in spans.iter().filter(|span| matches!(span.kind, 2 | 3)) {
        assert_eq!(
            span.attribute("error.type").is_some(),
            span.failure.is_some(),
            "both or neither: {span:#?}"
        );
    }

    let revision = text(exchange, "mcp.protocol.version");
    assert!(revision.starts_with("20") && revision.len() == "2025-11-25".len(), "{revision}: {exchange:#?}");

    // A result with `isError` is an error of both spans, and no JSON-RPC one.
    for name in ["tools/call echo_fail", "tools/call fail"] {
        let failed = spans.iter().find(|span| span.name == name);
        let failed = failed.unwrap_or_else(|| panic!("no {name} in {spans:#?}"));
        assert_eq!(
            (&*text(failed, "error.type"), failed.failure.is_some()),
            ("tool_error", true),
            "{failed:#?}"
        );
        assert_eq!(failed.attribute("rpc.response.status_code"), None, "{failed:#?}");
    }

    let unknown = spans.iter().find(|span| text(span, "gen_ai.tool.name") == "echo_no_such_tool");
    let unknown = unknown.expect("the call of an unknown tool");
    assert_eq!(unknown.name, "tools/call", "a client's text is in no name");
    assert_eq!(text(unknown, "error.type"), "-32602", "{unknown:#?}");
    assert_eq!(text(unknown, "rpc.response.status_code"), "-32602");
    assert!(
        unknown.failure.as_ref().is_some_and(|words| words.contains("echo_no_such_tool")),
        "{unknown:#?}"
    );

    let read = find(&spans, "resources/read");
    assert_eq!((&*read.name, &*text(read, "mcp.resource.uri")), ("resources/read", "none://such?secret=1"));
}

/// A server sends its questions: for them the roles swap. vmcp gets one as a client, and sends it as a
/// server; the client that answers gets its trace.
#[tokio::test]
async fn a_question_is_a_server_span_below_the_exchange_and_a_client_span() {
    let collector = Collector::start().await;
    let old = Fixture::rmcp("old", "legacy").await;
    let telemetry = json!({"telemetry": {"endpoint": collector.endpoint, "samplingRate": "1.0"}});
    let vmcp = Vmcp::new().backend(&old).config(telemetry).start().await;
    vmcp.with_tool("old_test_elicitation").await;
    let able = json!({"elicitation": {"form": {}}});
    let client = Client::legacy_with(&vmcp.url, "2025-11-25", "raw", able).await;
    let meta = json!({"traceparent": format!("00-{TRACE}-{PARENT}-01")});
    let call = json!({"name": "old_test_elicitation", "arguments": {"message": "?"}, "_meta": meta});
    let mut messages = Messages::of(client.open("tools/call", call).await);
    let question = messages.next().await.expect("a question");
    assert_eq!(question["method"], "elicitation/create", "{question}");
    let replied = client.reply(&question["id"], &json!({"action": "cancel"})).await;
    assert_eq!(replied.status(), 202);
    let answer = messages.next().await.expect("an answer");
    assert!(answer.get("result").is_some(), "{answer}");
    let spans = trace_with(&collector, "tools/call old_test_elicitation").await;
    let of_kind = |kind: i32| {
        let found = spans.iter().find(|span| span.name == "elicitation/create" && span.kind == kind);
        found.unwrap_or_else(|| panic!("no question of kind {kind} in {spans:#?}"))
    };
    let exchange = find(&spans, "tools/call test_elicitation");
    let (received, asked) = (of_kind(2), of_kind(3));
    assert_eq!((&received.parent, &received.failure), (&exchange.id, &None), "{spans:#?}");
    assert_eq!((&asked.parent, &asked.failure), (&received.id, &None), "{spans:#?}");
    for span in [received, asked] {
        assert_eq!(span.attribute("mcp.method.name"), Some("elicitation/create"), "{span:#?}");
        assert_eq!(span.attribute("network.transport"), Some("tcp"), "{span:#?}");
    }
    assert!(received.attribute("jsonrpc.request.id").is_some(), "the backend's id: {received:#?}");
    assert_eq!(asked.attribute("jsonrpc.request.id"), question["id"].as_str(), "{asked:#?}");
    assert_eq!(asked.attribute("mcp.protocol.version"), Some("2025-11-25"), "{asked:#?}");
    let call = find(&spans, "tools/call old_test_elicitation");
    assert_eq!(asked.attribute("mcp.session.id"), call.attribute("mcp.session.id"), "{asked:#?}");
    let expected = format!("00-{TRACE}-{}-01", asked.id);
    assert_eq!(question["params"]["_meta"]["traceparent"], expected, "{question}");
}

/// Messages without a handler: the handshake of a session, its notifications, a stream of changes.
#[tokio::test]
async fn every_message_of_a_client_is_an_operation() {
    let (collector, _echo, vmcp, client) = traced().await;
    let session = vmcp.legacy().await;
    let meta = json!({"traceparent": format!("00-{TRACE}-{PARENT}-01")});
    session.notify("notifications/roots/list_changed", json!({"_meta": meta})).await;
    session.notify("notifications/made/up", json!({"_meta": meta})).await;
    let stream = client.open("subscriptions/listen", json!({"notifications": {}, "_meta": meta})).await;
    assert_eq!(stream.status(), 200);
    let spans = trace_with(&collector, "subscriptions/listen").await;
    let changed = find(&spans, "notifications/roots/list_changed");
    assert_eq!((changed.kind, &*changed.parent, &changed.failure), (2, PARENT, &None), "{changed:#?}");
    assert_eq!(changed.attribute("jsonrpc.request.id"), None, "a notification has no id: {changed:#?}");
    assert_eq!(changed.attribute("mcp.protocol.version"), Some("2025-11-25"), "{changed:#?}");
    let made_up =
        spans.iter().find(|span| span.attribute("mcp.method.name") == Some("notifications/made/up"));
    assert_eq!(made_up.map(|span| &*span.name), Some("_OTHER"), "a client's text is in no name");
    let all = collector.spans();
    let opened = all.iter().find(|span| span.name == "initialize");
    let opened = opened.unwrap_or_else(|| panic!("no initialize in {all:#?}"));
    let opened = (opened.kind, opened.attribute("mcp.session.id"), opened.attribute("jsonrpc.request.id"));
    assert_eq!(opened.0, 2, "{all:#?}");
    assert_eq!(opened.1, changed.attribute("mcp.session.id"), "the session that it opened");
    assert!(opened.2.is_some(), "{all:#?}");
    let text = vmcp.metrics().await;
    for method in ["initialize", "notifications/initialized", "subscriptions/listen", "_OTHER"] {
        let label = format!("mcp_server_operation_duration_seconds_count{{mcp_method_name=\"{method}\"");
        assert!(text.contains(&label), "{label} is missing in {text}");
    }
}

/// Spans have the code that the server wrote, and labels one of a fixed set.
#[tokio::test]
async fn a_code_that_a_server_made_up_is_in_spans_and_in_no_label() {
    let (collector, _echo, vmcp, client) = traced().await;
    let meta = json!({"traceparent": format!("00-{TRACE}-{PARENT}-01")});
    let arguments = json!({"code": -31_999, "message": "no"});
    client
        .request("tools/call", json!({"name": "echo_rpc_error", "arguments": arguments, "_meta": meta}))
        .await;
    let spans = trace_with(&collector, "tools/call echo_rpc_error").await;
    for name in ["tools/call echo_rpc_error", "tools/call rpc_error"] {
        let span = spans.iter().find(|span| span.name == name);
        let span = span.unwrap_or_else(|| panic!("no {name} in {spans:#?}"));
        for key in ["error.type", "rpc.response.status_code"] {
            assert_eq!(span.attribute(key), Some("-31999"), "{key} of {span:#?}");
        }
    }
    let text = vmcp.metrics().await;
    assert!(!text.contains("-31999"), "{text}");
    assert!(text.contains(r#"error_type="_OTHER",rpc_response_status_code="_OTHER""#), "{text}");
}

#[tokio::test]
async fn a_repeated_request_is_one_span_with_one_id() {
    let collector = Collector::start().await;
    let old = Fixture::http("old", "echo").args(["--era", "legacy"]).start().await;
    let telemetry = json!({"telemetry": {"endpoint": collector.endpoint, "samplingRate": "1.0"}});
    let vmcp = Vmcp::new().backend(&old).config(telemetry).start().await;
    let client = vmcp.with_tool("old_echo").await;
    client.call_tool("old_echo", json!({"message": "hi"})).await;
    let sessions = old.received("initialize").await;
    old.control(json!({"do": "drop_sessions"})).await;
    let meta = json!({"traceparent": format!("00-{TRACE}-{PARENT}-01")});
    let call = json!({"name": "old_echo", "arguments": {"message": "hi"}, "_meta": meta});
    client.request("tools/call", call).await.result();
    assert_eq!(old.received("initialize").await, sessions + 1, "the lost session is opened again");
    let spans = trace_with(&collector, "tools/call old_echo").await;
    let exchange = find(&spans, "tools/call echo");
    let ids = exchange.attributes.iter().filter(|pair| pair.starts_with("jsonrpc.request.id=")).count();
    assert_eq!((exchange.kind, ids), (3, 1), "that of the last attempt: {spans:#?}");
}

/// The id that a client sends is a credential: spans have another id of the same session.
#[tokio::test]
async fn spans_of_a_session_have_one_id_which_opens_no_session() {
    let (collector, _echo, vmcp, _) = traced().await;
    let client = vmcp.legacy().await;
    let meta = json!({"traceparent": format!("00-{TRACE}-{PARENT}-01")});
    for message in ["one", "two"] {
        let call = json!({"name": "echo_echo", "arguments": {"message": message}, "_meta": meta});
        client.request("tools/call", call).await.result();
    }
    let ids = eventually("both spans", async || {
        let spans = collector.spans();
        let calls = spans.iter().filter(|span| span.trace == TRACE && span.name == "tools/call echo_echo");
        let ids: Vec<_> =
            calls.filter_map(|span| span.attribute("mcp.session.id")).map(str::to_owned).collect();
        (ids.len() == 2).then_some(ids)
    })
    .await;
    assert!(ids[0] == ids[1] && !ids[0].is_empty(), "{ids:?}");
    let secret = client.session.clone().expect("a session");
    assert!(!secret.contains(&ids[0]) && !ids[0].contains(&secret), "{ids:?}");
}

/// Labels come from the catalog and from fixed words alone.
#[tokio::test]
async fn operations_are_counted_in_the_names_of_the_conventions() {
    let echo = Fixture::http("echo", "echo").start().await;
    let vmcp = Vmcp::new().backend(&echo).start().await;
    let client = vmcp.with_tool("echo_echo").await;
    client.call_tool("echo_echo", json!({"message": "hello"})).await;
    client.call_tool("echo_no_such_tool", json!({})).await;
    let has = |labels: [&str; 4], text: &str| {
        let count = |line: &&str| line.contains("_count{") && labels.iter().all(|label| line.contains(label));
        text.lines().find(count).is_some_and(|line| line.ends_with(" 1"))
    };
    eventually("the operations", async || {
        let text = vmcp.metrics().await;
        let server = "mcp_server_operation_duration_seconds";
        let client = "mcp_client_operation_duration_seconds";
        let method = r#"mcp_method_name="tools/call""#;
        let ends = [
            [server, method, r#"gen_ai_tool_name="echo_echo""#, r#"error_type="""#],
            [client, method, r#"gen_ai_tool_name="echo""#, r#"backend="echo""#],
            [server, method, r#"gen_ai_tool_name="""#, r#"error_type="-32602""#],
        ];
        assert!(!text.contains("no_such_tool"), "a client's text is no label");
        ends.into_iter().all(|labels| has(labels, &text)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn every_optimizer_call_leaves_one_log_line_with_its_trace() {
    let (_collector, _echo, mut vmcp, client) = traced().await;
    let meta = json!({"traceparent": format!("00-{TRACE}-{PARENT}-01")});
    let secret = "do not log my arguments";
    let arguments = json!({"tool_name": "echo_echo", "parameters": {"message": secret}});
    let call = json!({"name": "optim.call_tool", "arguments": arguments, "_meta": meta});
    client.request("tools/call", call).await.result();
    // Counted when the process has ended, so that no further line can come.
    vmcp.terminate().await;
    let output = vmcp.process.output();
    let lines: Vec<&str> = output.lines().filter(|line| line.contains(TRACE)).collect();
    assert_eq!(lines.len(), 1, "{output}");
    assert!(lines[0].contains("optimizer call") && lines[0].contains("echo_echo"), "{lines:?}");
    assert!(!output.contains(secret));
}

#[tokio::test]
async fn without_an_endpoint_nothing_is_sent_and_the_context_still_passes() {
    let echo = Fixture::http("echo", "echo").start().await;
    let vmcp = Vmcp::new().backend(&echo).start().await;
    let client = vmcp.with_tool("echo_inspect").await;
    let meta = json!({"traceparent": format!("00-{TRACE}-{PARENT}-01"), "tracestate": "vendor=1"});
    let call = json!({"name": "echo_inspect", "arguments": {}, "_meta": meta});
    let answer = client.request("tools/call", call).await;
    let seen = &answer.structured()["_meta"];
    assert!(seen["traceparent"].as_str().is_some_and(|value| value.contains(TRACE)), "{}", answer.text);
    assert_eq!(seen["tracestate"], "vendor=1", "{}", answer.text);
}

#[tokio::test]
async fn audit_events_are_log_records_of_the_trace_that_is_exported() {
    let (collector, _echo, mut vmcp, client) =
        traced_with(json!({"audit": {"enabled": true, "otlp": true, "includeRequestData": true}})).await;
    let params = client.stamp(json!({"name": "echo_echo", "arguments": {"message": "audited"}}));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let post =
        client.post("tools/call", &params, &body).header("traceparent", format!("00-{TRACE}-{PARENT}-01"));
    assert_eq!(post.send().await.expect("an answer").status(), 200);
    let record = eventually("the event of the call", async || {
        collector.records().into_iter().find(|record| record.body.contains("audited"))
    })
    .await;
    let event: Value = serde_json::from_str(&record.body).expect("the event");
    assert_eq!((&*record.event, &event["type"]), ("mcp_tool_call", &json!("mcp_tool_call")));
    assert_eq!((&*record.trace, &event["metadata"]["extra"]["traceId"]), (TRACE, &json!(TRACE)));
    assert!(record.resource.contains(&"service.name=vmcp".to_owned()), "{:?}", record.resource);
    // The record is of the very span that was exported.
    let spans = eventually("its span", async || {
        let spans = collector.spans();
        spans.iter().any(|span| span.id == record.span && span.trace == TRACE).then_some(spans)
    })
    .await;
    assert!(!spans.is_empty());

    // Without a client's trace, the event has the id of the trace that begins here.
    let own = client.call_tool("echo_echo", json!({"message": "untraced"})).await;
    assert_eq!(own.content_text(), "untraced");
    let record = eventually("the second event", async || {
        collector.records().into_iter().find(|record| record.body.contains("untraced"))
    })
    .await;
    let event: Value = serde_json::from_str(&record.body).expect("the event");
    assert_eq!(event["metadata"]["extra"]["traceId"], record.trace);
    eventually("the span of the trace", async || {
        collector
            .spans()
            .iter()
            .any(|span| span.id == record.span && span.trace == record.trace)
            .then_some(())
    })
    .await;

    // A collector that goes away stops no call, and what it does not take is counted.
    vmcp.reconfigure(json!({
        "audit": {"enabled": true, "otlp": true}, "telemetry": {"endpoint": "http://127.0.0.1:9"},
    }));
    eventually("lost events to be counted", async || {
        let answer = client.call_tool("echo_echo", json!({"message": "on"})).await;
        assert_eq!(answer.content_text(), "on");
        (vmcp.metric("vmcp_audit_events_dropped_total").await > 0).then_some(())
    })
    .await;
}

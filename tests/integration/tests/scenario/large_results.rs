//! Large results over HTTP: the envelope, every way of reading what is kept, owners, restarts, bounds.

use std::time::Duration;

use axum::Router;
use axum::extract::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use serde_json::{Value, json};
use vmcp_integration::{Client, HttpAnswer, Redis, Vmcp, VmcpBuilder};

const ALICE: &str = "alice-0123456789abcdef";
const BOB: &str = "bob-0123456789abcdef";

/// A backend whose tools answer with as many rows as asked for, or with a text of so many bytes.
async fn start_backend() -> Value {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let router = Router::new().route("/mcp", post(answer));
    tokio::spawn(async move { axum::serve(listener, router).await });
    json!({"name": "data", "transport": "streamable-http", "url": format!("http://{address}/mcp")})
}

async fn answer(Json(message): Json<Value>) -> Response {
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    let count = message["params"]["arguments"]["count"].as_u64().unwrap_or_default();
    let result = match (message["method"].as_str().unwrap_or_default(), &message["params"]["name"]) {
        ("initialize", _) => {
            json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "data", "version": "1"}})
        }
        ("notifications/initialized", _) => return StatusCode::ACCEPTED.into_response(),
        ("tools/list", _) => json!({"tools": [tool("rows"), tool("text")]}),
        ("tools/call", name) => {
            let row = |n| json!({"id": n, "name": format!("row {n}"), "value": n % 1000});
            let text = if name == "rows" {
                Value::from((0..count).map(row).collect::<Vec<_>>()).to_string()
            } else {
                "line of text\n".repeat(usize::try_from(count).expect("a size") / 13)
            };
            json!({"content": [{"type": "text", "text": text}]})
        }
        (method, _) => {
            return Json(json!({"jsonrpc": "2.0", "id": message["id"],
                "error": {"code": -32601, "message": format!("no {method}")}}))
            .into_response();
        }
    };
    Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_response()
}

async fn builder(large_results: Value) -> VmcpBuilder {
    builder_over(start_backend().await, &large_results)
}

/// Settings of a server over one backend, for two people with keys.
fn builder_over(backend: Value, large_results: &Value) -> VmcpBuilder {
    let mut settings = json!({"enabled": true});
    for (key, value) in large_results.as_object().expect("settings") {
        settings[key] = value.clone();
    }
    let entry = |(subject, key): (&str, &str)| json!({"subject": subject, "key": key});
    let keys = [("alice", ALICE), ("bob", BOB)].map(entry);
    Vmcp::new().backend_entry(backend).config(json!({
        "optimizer": {"largeResults": settings},
        "incomingAuth": {"type": "apiKeys", "apiKeys": keys},
    }))
}

/// A client that sees the tools of the backend.
async fn ready(client: Client) -> Client {
    vmcp_integration::eventually("the tools to be listed", async || {
        client.tools().await.contains_key("data_rows").then_some(())
    })
    .await;
    client
}

fn envelope(answer: &HttpAnswer) -> Value {
    let text = answer.result()["content"][0]["text"].as_str().expect("a text");
    serde_json::from_str(text).expect("an envelope")
}

async fn rows(client: &Client, count: usize) -> String {
    let answer = client.call_found("data_rows", json!({ "count": count })).await;
    envelope(&answer)["result_ref"].as_str().expect("a reference").to_owned()
}

#[tokio::test]
async fn fifty_thousand_rows_are_an_envelope_in_both_eras_and_their_owners_alone() {
    let vmcp = builder(json!({})).await.start().await;
    let legacy = Client::legacy_bearing(&vmcp.url, ALICE).await;
    let bob = ready(vmcp.modern().bearing(BOB)).await;
    for client in [ready(vmcp.modern().bearing(ALICE)).await, legacy] {
        let answer = client.call_found("data_rows", json!({"count": 50_000})).await;
        assert!(answer.text.len() < 1_024 + 200, "with its JSON-RPC: {}", answer.text);
        assert!(answer.result()["content"].to_string().len() < 1_024);
        let told = envelope(&answer);
        let reference = told["result_ref"].as_str().expect("a reference");
        assert_eq!(told["rows"], 50_000);
        let operation = "Filter rows where value > 100 and return top 10";
        let arguments = json!({"data": reference, "operation": operation, "timeout": 30});
        let processed = client.call_tool("optim_process_large_dataset", arguments.clone()).await;
        assert_eq!(processed.structured()["processed_size"], 10, "{}", processed.text);
        let link = &answer.result()["content"][1]["uri"];
        let read = client.request("resources/read", json!({ "uri": link })).await;
        let text = read.result()["contents"][0]["text"].as_str().expect("a text");
        assert_eq!(serde_json::from_str::<Vec<Value>>(text).expect("rows").len(), 50_000);
        let refused = bob.call_tool("optim_process_large_dataset", arguments).await;
        assert!(
            refused.is_tool_error() && refused.text.contains("result_ref is unknown"),
            "{}",
            refused.text
        );
        assert!(bob.request("resources/read", json!({ "uri": link })).await.is_failure());
    }
    assert_eq!(vmcp.metric("vmcp_large_results_total").await, 2);
}

#[tokio::test]
async fn results_outlive_a_restart_with_session_keys_and_their_time_passes() {
    let keys = json!({"server": {"sessionKeys": ["a key of this test, long enough"]}});
    let mut vmcp = builder(json!({"ttl": "20s"})).await.config(keys).start().await;
    let client = ready(vmcp.modern().bearing(ALICE)).await;
    let reference = rows(&client, 2_000).await;
    vmcp.restart().await;
    let client = ready(vmcp.modern().bearing(ALICE)).await;
    let arguments = json!({"result_ref": reference, "path": "$[7].id"});
    let read = client.call_tool("optim_read_result", arguments.clone()).await;
    assert_eq!(read.structured()["value"], 7, "{}", read.text);
    vmcp_integration::eventually("the result to expire", async || {
        tokio::time::sleep(Duration::from_millis(500)).await;
        client.call_tool("optim_read_result", arguments.clone()).await.is_tool_error().then_some(())
    })
    .await;
}

#[tokio::test]
async fn fifty_megabytes_are_kept_and_the_cap_holds() {
    let bounds = json!({"maxBytesPerPrincipal": 60_000_000, "maxBytes": 80_000_000});
    let vmcp = builder(bounds).await.start().await;
    let client = ready(vmcp.modern().bearing(ALICE)).await;
    for _ in 0..3 {
        let answer = client.call_found("data_text", json!({"count": 50_000_000})).await;
        assert!(answer.text.len() < 1_300, "{}", answer.text.get(..2_000).unwrap_or(&answer.text));
    }
    assert_eq!(vmcp.metric("vmcp_kept_results").await, 1);
    assert!(vmcp.metric("vmcp_kept_results_bytes").await <= 60_000_000);
    assert_eq!(vmcp.metric("vmcp_kept_results_evicted_total").await, 2);
}

/// Two replicas with one Redis, the same keys and folders of their own.
async fn replicas(redis: &Redis, large_results: Value) -> (Vmcp, Vmcp) {
    let entry = start_backend().await;
    let shared = json!({
        "server": {"sessionKeys": ["a key of both replicas, long enough"]},
        "sessionStorage": {
            "provider": "redis", "address": redis.address, "password": Redis::PASSWORD, "keyPrefix": "kept:",
        },
    });
    let replica = async || builder_over(entry.clone(), &large_results).config(shared.clone()).start().await;
    futures::join!(replica(), replica())
}

#[tokio::test]
async fn a_result_of_one_replica_is_read_at_another_by_its_owner_alone() {
    let redis = Redis::start().await;
    let (first, second) = replicas(&redis, json!({"ttl": "40s"})).await;
    let alice = ready(first.modern().bearing(ALICE)).await;
    let elsewhere = ready(second.modern().bearing(ALICE)).await;
    let bob = ready(second.modern().bearing(BOB)).await;
    // Several chunks of a mebibyte.
    let reference = rows(&alice, 100_000).await;
    let arguments = json!({"result_ref": reference, "path": "$[-1:].id"});
    let read = elsewhere.call_tool("optim_read_result", arguments.clone()).await;
    assert_eq!(read.structured()["value"], json!([99_999]), "{}", read.text);
    let link = json!({"uri": format!("vmcp://results/{reference}")});
    let whole = elsewhere.request("resources/read", link.clone()).await;
    let text = whole.result()["contents"][0]["text"].as_str().expect("a text");
    assert_eq!(serde_json::from_str::<Vec<Value>>(text).expect("rows").len(), 100_000);
    let refused = bob.call_tool("optim_read_result", arguments.clone()).await;
    assert!(refused.is_tool_error() && refused.text.contains("result_ref is unknown"), "{}", refused.text);
    assert!(bob.request("resources/read", link).await.is_failure());
    assert_eq!(first.metric("vmcp_kept_results").await, 0, "the replica keeps nothing itself");
    vmcp_integration::eventually("the result to expire", async || {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let expired = elsewhere.call_tool("optim_read_result", arguments.clone()).await;
        (expired.is_tool_error() && expired.text.contains("result_ref is unknown")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn bounds_hold_over_replicas_and_without_redis_each_replica_keeps_its_own() {
    let mut redis = Redis::start().await;
    // A result of 2,000 rows has about 90 kB: two of one principal, and three of all.
    let bounds = json!({"maxBytesPerPrincipal": 200_000, "maxBytes": 300_000});
    let (first, second) = replicas(&redis, bounds).await;
    let alice = [ready(first.modern().bearing(ALICE)).await, ready(second.modern().bearing(ALICE)).await];
    let bob = ready(second.modern().bearing(BOB)).await;
    let is_kept = async |client: &Client, reference: &str| {
        let arguments = json!({"result_ref": reference, "path": "$[7].id"});
        client.call_tool("optim_read_result", arguments).await.structured()["value"] == 7
    };
    let (one, two) = (rows(&alice[0], 2_000).await, rows(&alice[1], 2_000).await);
    let of_bob = rows(&bob, 2_000).await;
    assert!(is_kept(&alice[1], &one).await, "used last");
    let three = rows(&alice[1], 2_000).await;
    assert!(!is_kept(&alice[0], &two).await, "the least recently used result of the principal goes");
    assert!(
        is_kept(&alice[0], &one).await && is_kept(&alice[0], &three).await && is_kept(&bob, &of_bob).await
    );
    let another = rows(&bob, 2_000).await;
    assert!(!is_kept(&alice[1], &one).await, "the least recently used result of all goes");
    assert!(is_kept(&alice[1], &three).await && is_kept(&bob, &another).await);
    let evicted = async |replica: &Vmcp| replica.metric("vmcp_kept_results_evicted_total").await;
    assert_eq!(evicted(&first).await + evicted(&second).await, 2);

    redis.stop();
    let own = rows(&alice[0], 2_000).await;
    assert!(is_kept(&alice[0], &own).await, "this replica keeps it");
    assert_eq!(first.metric("vmcp_kept_results_unshared_total").await, 1);
    let arguments = json!({"result_ref": three});
    let away = alice[0].call_tool("optim_read_result", arguments).await;
    assert!(away.is_tool_error() && away.text.contains("does not answer"), "{}", away.text);
    redis.restart().await;
    vmcp_integration::eventually("results to be shared again", async || {
        let shared = rows(&alice[0], 2_000).await;
        is_kept(&alice[1], &shared).await.then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_script_gets_the_rows_that_its_context_refers_to() {
    let vmcp = builder(json!({})).await;
    let tools = json!({"optimizer": {"tools": ["find_tool", "call_tool", "execute_code"]}});
    let vmcp = vmcp.config(tools).start().await;
    let alice = ready(vmcp.modern().bearing(ALICE)).await;
    let reference = rows(&alice, 20_000).await;
    let context = json!({"rows": {"$result_ref": reference}, "least": 990});
    let summed = json!({"code": "sum(row['value'] for row in data.rows(count=10000))"});
    let summed = alice.call_tool("optim_execute_code", summed).await;
    assert_eq!(summed.structured()["result"], "4995000", "one number of 10,000 rows: {}", summed.text);
    let code = "sum(1 for row in CONTEXT['rows'] if row['value'] >= CONTEXT['least'])";
    let arguments = json!({"code": code, "context": context});
    let answer = alice.call_tool("optim_execute_code", arguments.clone()).await;
    let ended = answer.structured();
    assert_eq!(ended["result"], "200", "{}", answer.text);
    assert_eq!(ended["context"], context, "the answer repeats the reference, not the rows");
    let refused = ready(vmcp.modern().bearing(BOB)).await.call_tool("optim_execute_code", arguments).await;
    assert!(refused.is_tool_error() && refused.text.contains("unknown"), "{}", refused.text);
    // More than 8.4 MB.
    let reference = rows(&alice, 190_000).await;
    let arguments = json!({"code": "1", "context": {"$result_ref": reference}});
    let large = alice.call_tool("optim_execute_code", arguments).await;
    assert!(large.text.contains("context: too long") && large.text.contains("8388608"), "{}", large.text);
}

#[tokio::test]
async fn a_client_that_samples_has_its_model_write_the_query() {
    let config = json!({"optimizer": {"largeResults": {"enabled": true}}});
    let vmcp = Vmcp::new().backend_entry(start_backend().await).config(config).start().await;
    let sampling = json!({"sampling": {}});
    let query = "SELECT value % 2 AS odd, count(*) AS rows FROM data GROUP BY odd ORDER BY odd";
    let says = |text: String| move |_: &str, _: &Value| json!({"role": "assistant", "model": "own", "content": {"type": "text", "text": text}});
    ready(vmcp.modern()).await;
    for client in [
        vmcp.modern().declaring(sampling.clone()),
        Client::legacy_with(&vmcp.url, "2025-11-25", "raw", sampling.clone()).await,
    ] {
        let reference = rows(&client, 10_000).await;
        let call = |engine: Option<&str>| {
            let operation = "compare even values with odd ones";
            json!({"name": "optim_process_large_dataset", "arguments":
                {"data": reference, "operation": operation, "engine": engine, "timeout": 30}})
        };
        let fenced = says(format!("Here:\n```sql\n{query};\n```"));
        let (answer, asked) = client.converse("tools/call", call(Some("llm")), &fenced).await;
        let processed = answer.structured();
        let groups = json!([{"odd": 0, "rows": 5_000}, {"odd": 1, "rows": 5_000}]);
        assert_eq!(processed["result"], groups, "{}", answer.text);
        assert_eq!((&processed["engine"], &processed["query"]), (&json!("llm"), &json!(query)));
        let [question] = asked.as_slice() else { panic!("{asked:?}") };
        assert_eq!(question[0], "sampling/createMessage");
        let prompt = question[1]["messages"][0]["content"]["text"].as_str().expect("a prompt");
        assert!(prompt.contains("10000 rows") && prompt.contains("\"name\": string"), "{prompt}");
        assert!(!prompt.contains("row 1"), "no values: {prompt}");

        let (answer, asked) =
            client.converse("tools/call", call(Some("llm")), &says("I cannot.".into())).await;
        assert_eq!(asked.len(), 2, "asked twice: {}", answer.text);
        assert!(
            answer.is_tool_error() && answer.text.contains("wrote no query that works"),
            "{}",
            answer.text
        );
        let (answer, asked) = client.converse("tools/call", call(None), &fenced).await;
        assert!(asked.is_empty() && answer.text.contains("operation not understood"), "{}", answer.text);
    }
}

/// A server whose clients run scripts, all but Bob.
async fn scripting() -> Vmcp {
    let config = json!({
        "optimizer": {"tools": ["find_tool", "call_tool", "execute_code"]},
        "incomingAuth": {"authz": {"policies": [
            "permit(principal, action, resource);",
            r#"forbid(principal == Client::"bob", action, resource == Tool::"optim.execute_code");"#,
        ]}},
    });
    builder(json!({})).await.config(config).start().await
}

async fn process(client: &Client, reference: &str, operation: &str, timeout: u64) -> HttpAnswer {
    let parameters = json!({"least": 999});
    let arguments =
        json!({"data": reference, "operation": operation, "parameters": parameters, "timeout": timeout});
    client.call_tool("optim_process_large_dataset", arguments).await
}

#[tokio::test]
async fn an_operation_in_python_runs_over_all_rows() {
    let vmcp = scripting().await;
    let modern = ready(vmcp.modern().bearing(ALICE)).await;
    for client in [Client::legacy_bearing(&vmcp.url, ALICE).await, modern] {
        let reference = rows(&client, 20_000).await;
        for (operation, result) in [
            ("python: sum(row['value'] for row in rows)", json!(9_990_000)),
            ("python: [len(rows), len(data), data[7]['id']]", json!([20_000, 20_000, 7])),
            (
                "python:\n    least = parameters['least']\n    large = 0\n    for row in rows:\n        \
                 if row['value'] >= least:\n            large += 1\n    {'large': large}",
                json!({"large": 20}),
            ),
            ("python: import statistics\nstatistics.median([row['value'] for row in rows])", json!(499.5)),
            ("PYTHON: print('no value')", json!("no value\n")),
        ] {
            let answer = process(&client, &reference, operation, 30).await;
            let done = answer.structured();
            assert_eq!((&done["success"], &done["result"]), (&json!(true), &result), "{}", answer.text);
            assert_eq!((&done["original_size"], &done["operation"]), (&json!(20_000), &json!(operation)));
        }
        let drawn = "python: print('drawn')\nplot('bar', rows[:3], 'name', 'value')\nlen(rows)";
        let drawn = process(&client, &reference, drawn, 30).await;
        let done = drawn.structured();
        assert_eq!((&done["pictures"], &done["output"]), (&json!(1), &json!("drawn\n")), "{}", drawn.text);
        assert_eq!(drawn.result()["content"][1]["mimeType"], "image/png");
        let many =
            process(&client, &reference, "python: [row for row in rows if row['value'] < 100]", 30).await;
        let kept =
            many.structured()["result"]["result_ref"].as_str().unwrap_or_else(|| panic!("{}", many.text));
        let counted = process(&client, kept, "count", 30).await;
        assert_eq!(counted.structured()["result"], 2_000, "a large answer is kept: {}", counted.text);
    }
}

#[tokio::test]
async fn a_limit_of_an_operation_in_python_has_its_own_error_and_its_script_reaches_no_tool() {
    let vmcp = scripting().await;
    let alice = ready(vmcp.modern().bearing(ALICE)).await;
    let reference = rows(&alice, 2_000).await;
    let begun = std::time::Instant::now();
    let hangs = process(&alice, &reference, "python: while True: pass", 1).await;
    let shape = json!({
        "success": false, "error": "Code execution timed out after 1 seconds", "error_type": "TimeoutError", "timeout": 1.0,
    });
    assert_eq!(hangs.structured(), &shape, "{}", hangs.text);
    // Far below the limit of the others, and above what a busy machine adds.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    for (operation, kind, line, limit) in [
        ("python: 'a' * 10**10", "MemoryError", None, None),
        ("python: print('x' * 100000)", "OutputLimitError", None, Some(65_536)),
        ("python: 'x' * 20000000", "ResultLimitError", None, Some(16_777_216)),
        ("python:\n    total = 0\n    total / 0", "ZeroDivisionError", Some(3), None),
        ("python: total = 0\nrows['no']", "TypeError", Some(2), None),
        ("python: call_tool('data', 'rows', {'count': 1})", "PermissionError", Some(1), None),
        ("python: search_tools('rows')", "PermissionError", Some(1), None),
        ("python: open('/etc/passwd')", "PermissionError", None, None),
    ] {
        let refused = process(&alice, &reference, operation, 30).await;
        let failed = refused.structured();
        assert!(refused.is_tool_error() && failed["success"] == false, "{operation}: {}", refused.text);
        assert_eq!(failed["error_type"], kind, "{operation}: {}", refused.text);
        for (key, value) in [("line", line), ("limit", limit)] {
            assert!(value.is_none() || failed[key].as_u64() == value, "{operation}: {key}: {}", refused.text);
        }
    }
    let tool = process(&alice, &reference, "python: call_tool('data_rows', {'count': 1})", 30).await;
    assert!(tool.text.contains("calls no tool"), "{}", tool.text);
    // More than 8.4 MB.
    let large = rows(&alice, 190_000).await;
    let refused = process(&alice, &large, "python: len(rows)", 30).await;
    assert!(
        refused.text.contains("the limit is 8388608") && refused.text.contains("sql:"),
        "{}",
        refused.text
    );
    let part = json!({"data": large, "path": "$[0:100]", "operation": "python: len(rows)"});
    let part = alice.call_tool("optim_process_large_dataset", part).await;
    assert_eq!(part.structured()["result"], 100, "{}", part.text);
}

#[tokio::test]
async fn an_operation_in_python_needs_code_mode_for_its_client() {
    let vmcp = scripting().await;
    let bob = ready(vmcp.modern().bearing(BOB)).await;
    let off = builder(json!({})).await.start().await;
    let elsewhere = ready(off.modern().bearing(ALICE)).await;
    let mut answers = Vec::new();
    for client in [bob, elsewhere] {
        let reference = rows(&client, 2_000).await;
        let refused = process(&client, &reference, "python: len(rows)", 30).await;
        assert!(refused.is_tool_error(), "{}", refused.text);
        let failed = refused.structured().clone();
        let error = failed["error"].as_str().expect("an error");
        assert!(error.contains("needs code mode") && error.contains("`sql: SELECT … FROM data`"), "{failed}");
        answers.push(failed);
        let counted = process(&client, &reference, "sql: SELECT count(*) AS n FROM data", 30).await;
        assert_eq!(counted.structured()["result"], json!([{"n": 2_000}]), "{}", counted.text);
    }
    assert_eq!(answers[0], answers[1], "a denied client reads the same as one of a server without code mode");
}

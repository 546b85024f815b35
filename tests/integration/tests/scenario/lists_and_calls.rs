//! Relayed definitions, results, resources and prompts: what a backend offers reaches the client unchanged
//! but for its name, in every pairing of eras and over every transport; and conflict strategies tell equal
//! names apart.

use serde_json::{Value, json};
use vmcp_integration::{Client, Fixture, MODERN, Vmcp, VmcpBuilder, eventually};

const REVISIONS: [&str; 4] = [MODERN, "2025-11-25", "2025-06-18", "2025-03-26"];

/// Starts one backend of each transport and era, named for both.
async fn one_of_each_kind() -> Vec<Fixture> {
    vec![
        Fixture::http("http-dual", "echo").start().await,
        Fixture::http("http-modern", "echo").args(["--era", "modern"]).start().await,
        Fixture::http("http-legacy", "echo").args(["--era", "legacy"]).start().await,
        Fixture::http("http-stateless", "echo").args(["--era", "legacy", "--stateless"]).start().await,
        Fixture::http("http-streams", "echo").args(["--era", "legacy", "--stream"]).start().await,
        Fixture::http("http-modern-streams", "echo").args(["--era", "modern", "--stream"]).start().await,
        Fixture::http("http-negotiates", "echo")
            .args(["--era", "legacy", "--probe", "negotiate"])
            .start()
            .await,
        Fixture::http("http-errs", "echo").args(["--era", "legacy", "--probe", "server-error"]).start().await,
        Fixture::sse("sse-legacy", "echo").args(["--era", "legacy"]).start().await,
        Fixture::stdio("stdio-dual", "echo").start().await,
        Fixture::stdio("stdio-legacy", "echo").args(["--era", "legacy", "--banner"]).start().await,
        Fixture::stdio("stdio-modern", "echo").args(["--era", "modern"]).start().await,
    ]
}

#[tokio::test]
async fn every_client_calls_every_kind_of_backend() {
    let backends = one_of_each_kind().await;
    let vmcp = backends.iter().fold(Vmcp::new(), VmcpBuilder::backend);
    let vmcp = vmcp.config(json!({"optimizer": {"exposure": "All"}})).start().await;
    for backend in &backends {
        vmcp.with_tool(&format!("{}_echo", backend.name)).await;
    }
    for revision in REVISIONS {
        let client = vmcp.client(revision).await;
        let tools = client.tools().await;
        for backend in &backends {
            let echo = format!("{}_echo", backend.name);
            assert!(tools.contains_key(&echo), "{revision} client, {echo}");
            let answer = client.call_tool(&echo, json!({"message": "hi"})).await;
            assert_eq!(answer.content_text(), "hi", "{revision} client, {echo}: {}", answer.text);
            let found = client.call_found(&echo, json!({"message": "there"})).await;
            assert_eq!(found.content_text(), "there", "{revision} client, optim.call_tool of {echo}");
            let result_type = answer.result().get("resultType").cloned();
            assert_eq!(
                result_type,
                (revision == MODERN).then(|| json!("complete")),
                "{revision} client, {echo}"
            );
        }
    }
}

#[tokio::test]
async fn a_definition_changes_its_name_and_nothing_else() {
    let echo = Fixture::http("echo", "echo").start().await;
    let vmcp = Vmcp::new().backend(&echo).start().await;
    vmcp.with_tool("echo_echo").await;
    let direct = Client::modern(echo.url()).tools().await;
    for revision in REVISIONS {
        let listed = vmcp.client(revision).await.tools().await;
        for (name, definition) in &direct {
            let mut expected = definition.clone();
            let name = format!("echo_{name}");
            expected["name"] = json!(name);
            // Compared as text: the order of keys and the spelling of numbers have to stay, too.
            assert_eq!(listed[&name].to_string(), expected.to_string(), "{revision}");
        }
    }
}

#[tokio::test]
async fn a_result_arrives_byte_for_byte() {
    let modern = Fixture::http("modern", "echo").args(["--era", "modern"]).start().await;
    let legacy = Fixture::http("legacy", "echo").args(["--era", "legacy"]).start().await;
    let vmcp = Vmcp::new().backend(&modern).backend(&legacy).start().await;
    vmcp.with_tool("modern_rich").await;
    vmcp.with_tool("legacy_rich").await;
    let direct = Client::modern(modern.url()).call_tool("rich", json!({})).await;
    let start = direct.text.find(r#""content":"#).expect("content");
    let end = direct.text.find(r#","_meta""#).expect("_meta after structuredContent");
    let body = &direct.text[start..end];
    for revision in REVISIONS {
        let client = vmcp.client(revision).await;
        for backend in ["modern", "legacy"] {
            let tool = format!("{backend}_rich");
            for answer in
                [client.call_tool(&tool, json!({})).await, client.call_found(&tool, json!({})).await]
            {
                assert!(answer.text.contains(body), "{revision} client, {tool}: {}", answer.text);
                assert!(answer.text.contains(r#""vendor.example/trace":"kept""#), "{}", answer.text);
                assert!(answer.text.contains(r#""vendorField":[1,2.5,"kept"]"#), "{}", answer.text);
            }
        }
    }
}

#[tokio::test]
async fn lists_are_sorted_and_the_same_bytes_every_time_and_everywhere() {
    let (echo, jira) =
        (Fixture::http("echo", "echo").start().await, Fixture::http("jira", "jira").start().await);
    let mut lists = Vec::new();
    for order in [[&echo, &jira], [&jira, &echo]] {
        // Replicas share their session keys, and with them the mark by which vmcp knows itself.
        let replica = Vmcp::new().config(json!({"server": {"sessionKeys": ["0123456789abcdef".repeat(4)]}}));
        let vmcp = order.into_iter().fold(replica, VmcpBuilder::backend).start().await;
        vmcp.with_tool("echo_echo").await;
        let client = vmcp.with_tool("jira_create_note").await;
        for _ in 0..2 {
            lists.push(client.request("tools/list", json!({})).await.result()["tools"].to_string());
        }
    }
    lists.dedup();
    assert_eq!(lists.len(), 1);
    let tools: Vec<Value> = serde_json::from_str(&lists[0]).expect("a list");
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert!(names.is_sorted(), "{names:?}");
    assert!(names.contains(&"optim_find_tool") && names.contains(&"optim_call_tool"), "{names:?}");
}

#[tokio::test]
async fn pages_of_backends_and_of_clients_lose_nothing() {
    for era in ["modern", "legacy"] {
        let many =
            Fixture::http("many", "synthetic:1234").args(["--page-size", "100", "--era", era]).start().await;
        let vmcp = Vmcp::new().backend(&many).config(json!({"optimizer": {"exposure": "All"}})).start().await;
        vmcp.with_tool("many_get_invoice_0").await;
        for revision in [MODERN, "2025-06-18"] {
            assert_eq!(
                vmcp.client(revision).await.tools().await.len(),
                1234 + 2,
                "{era} backend, {revision} client"
            );
        }
        let bad = vmcp.modern().request("tools/list", json!({"cursor": "made up"})).await;
        assert_eq!(bad.error()["code"], -32602);
    }
}

#[tokio::test]
async fn the_optimizers_tool_reads_texts_and_bytes() {
    let one = Fixture::http("one", "echo").start().await;
    let settings = json!({"optimizer": {"tools": ["find_tool", "call_tool", "read_mcp_resource"]}});
    let vmcp = Vmcp::new().backend(&one).config(settings).start().await;
    let client = vmcp.with_tool("one_echo").await;
    let read = async |uri: &str| {
        let asked = json!({"server_name": "one", "resource_uri": uri});
        client.call_tool("optim_read_mcp_resource", asked).await.structured().clone()
    };
    let text = read("fixture://one/greeting").await;
    assert_eq!((&text["success"], &text["server"]), (&json!(true), &json!("one")), "{text}");
    assert_eq!((&text["content"], &text["mime_type"]), (&json!("Hello from one"), &json!("text/plain")));
    let bytes = read("fixture://one/logo").await;
    assert_eq!(
        (&bytes["content"], &bytes["encoding"]),
        (&json!("iVBORw0KGgo="), &json!("base64")),
        "{bytes}"
    );
    assert_eq!(bytes["mime_type"], "image/png");
    assert_eq!(read("fixture://one/missing").await["success"], false);
}

#[tokio::test]
async fn resources_prompts_and_completions_are_routed() {
    let one = Fixture::http("one", "echo").args(["--era", "modern"]).start().await;
    let two = Fixture::stdio("two", "echo").args(["--era", "legacy"]).start().await;
    let vmcp = Vmcp::new().backend(&one).backend(&two).start().await;
    vmcp.with_tool("one_echo").await;
    vmcp.with_tool("two_echo").await;
    for revision in REVISIONS {
        let client = vmcp.client(revision).await;
        let resources = client.request("resources/list", json!({})).await;
        assert_eq!(resources.result()["resources"].as_array().map(Vec::len), Some(4), "{}", resources.text);
        assert!(resources.text.contains(r#""vendor":{"kept":true}"#), "{}", resources.text);
        let templates = client.request("resources/templates/list", json!({})).await;
        assert_eq!(
            templates.result()["resourceTemplates"].as_array().map(Vec::len),
            Some(2),
            "{}",
            templates.text
        );
        for name in ["one", "two"] {
            let greeting =
                client.request("resources/read", json!({"uri": format!("fixture://{name}/greeting")})).await;
            assert_eq!(greeting.result()["contents"][0]["text"], format!("Hello from {name}"));
            let note =
                client.request("resources/read", json!({"uri": format!("fixture://{name}/notes/7")})).await;
            assert_eq!(note.result()["contents"][0]["text"], format!("Note 7 of {name}"));
            let prompt = json!({"name": format!("{name}_greet"), "arguments": {"who": "Ada"}});
            let prompt = client.request("prompts/get", prompt).await;
            assert_eq!(prompt.result()["messages"][0]["content"]["text"], "Greet Ada", "{}", prompt.text);
            let completion = json!({"ref": {"type": "ref/prompt", "name": format!("{name}_greet")},
                "argument": {"name": "who", "value": "al"}});
            let completion = client.request("completion/complete", completion).await;
            assert_eq!(
                completion.result()["completion"]["values"],
                json!(["alice", "albert"]),
                "{}",
                completion.text
            );
        }
        let missing = client.request("resources/read", json!({"uri": "fixture://one/missing"})).await;
        let unknown = client.request("resources/read", json!({"uri": "nowhere://x"})).await;
        let code = if revision == MODERN { -32602 } else { -32002 };
        assert_eq!(missing.error()["code"], code, "{revision}: {}", missing.text);
        assert_eq!(unknown.error()["code"], code, "{revision}: {}", unknown.text);
        let unknown = client.request("prompts/get", json!({"name": "one_nothing"})).await;
        assert_eq!(unknown.error()["code"], -32602, "{}", unknown.text);
    }
}

#[tokio::test]
async fn a_modern_backend_gets_the_headers_that_its_schemas_ask_for() {
    let echo = Fixture::http("echo", "echo").args(["--era", "modern"]).start().await;
    let vmcp = Vmcp::new().backend(&echo).start().await;
    vmcp.with_tool("echo_region").await;
    // The fixture refuses a call whose Mcp-Param-Region differs from its body.
    let client = vmcp.legacy().await;
    for arguments in [json!({"region": "eu-west"}), json!({"region": "Zürich"})] {
        let answer = client.call_tool("echo_region", arguments.clone()).await;
        assert_eq!(answer.content_text(), arguments["region"].as_str().expect("a region"), "{}", answer.text);
    }
    let found = client.call_found("echo_region", json!({"region": "us-east"})).await;
    assert_eq!(found.content_text(), "us-east", "{}", found.text);
}

#[tokio::test]
async fn configured_headers_reach_the_backend_and_nothing_private_of_the_client_does() {
    let echo =
        Fixture::http("echo", "echo").args(["--require-header", "X-Api-Key: s3cret-value"]).start().await;
    let mut backend = echo.backend.clone();
    backend["headers"] = json!({"X-Api-Key": "${API_KEY}"});
    let vmcp = Vmcp::new().backend_entry(backend).env("API_KEY", "s3cret-value").start().await;
    let client = vmcp.with_tool("echo_inspect").await;
    let params = client.stamp(json!({"name": "echo_inspect", "arguments": {}}));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let sent = client
        .post("tools/call", &params, &body)
        .header("authorization", "Bearer mine")
        .header("cookie", "a=b");
    let text = sent.send().await.expect("an answer").text().await.expect("a body");
    assert!(text.contains("x-api-key"), "{text}");
    assert!(!text.contains("Bearer mine") && !text.contains("a=b"), "{text}");
    assert!(!vmcp.process.output().contains("s3cret-value"), "a secret in the log");
}

#[tokio::test]
async fn two_backends_of_one_tool_name_are_told_apart_by_every_strategy() {
    let (a, b) = (Fixture::http("a", "jira").start().await, Fixture::http("b", "jira").start().await);
    let renamed =
        json!([{"workload": "b", "overrides": {"create_note": {"name": "note"}}, "filter": ["note"]}]);
    // Each strategy, with the name by which `create_note` of either backend is then called; `None` if it
    // cannot be.
    for (rules, of_a, of_b) in [
        (json!({"conflictResolution": "prefix"}), Some("a_create_note"), Some("b_create_note")),
        (
            json!({"conflictResolution": "priority", "conflictResolutionConfig": {"priorityOrder": ["b", "a"]}}),
            None,
            Some("create_note"),
        ),
        (json!({"conflictResolution": "manual", "tools": renamed}), Some("create_note"), Some("note")),
        // Only names that clash change.
        (json!({"conflictResolution": "passthrough"}), Some("a_create_note"), Some("b_create_note")),
    ] {
        let vmcp = Vmcp::new().backend(&a).backend(&b).config(json!({"aggregation": rules})).start().await;
        // Names depend on which backends are listed: wait for both before the first call.
        eventually("both backends", async || {
            let status = vmcp.status().await;
            let mut backends = status["backends"].as_array()?.iter();
            backends.all(|backend| backend["tools"] == 9).then_some(())
        })
        .await;
        let calls = async || [a.calls("create_note").await, b.calls("create_note").await];
        for (backend, name) in [of_a, of_b].into_iter().enumerate().filter_map(|(at, name)| Some((at, name?)))
        {
            // The name may still be that of the other backend, listed first.
            eventually(name, async || {
                let all = vmcp.admin_json("admin/tools").await;
                let own = |tool: &Value| tool["name"] == name && tool["backend"] == ["a", "b"][backend];
                all["tools"].as_array()?.iter().any(own).then_some(())
            })
            .await;
            let client = vmcp.with_tool(name).await;
            let mut expected = calls().await;
            expected[backend] += 1;
            client.call_tool(name, json!({"title": "t", "content": "c"})).await.result();
            assert_eq!(calls().await, expected, "{name} by {rules}");
        }
    }
}

#[tokio::test]
async fn a_link_in_a_result_leads_back_to_the_backend_that_gave_it() {
    let (a, b) = (Fixture::http("a", "echo").start().await, Fixture::http("b", "echo").start().await);
    let vmcp = Vmcp::new().backend(&a).backend(&b).start().await;
    for tool in ["a_rich", "b_rich"] {
        vmcp.with_tool(tool).await;
    }
    let link = json!({"uri": "fixture://elsewhere/file"});
    let asked = async || (a.received("resources/read").await, b.received("resources/read").await);
    let mut reads = 0;
    for client in [vmcp.legacy().await, vmcp.modern()] {
        let unknown = client.request("resources/read", link.clone()).await;
        assert!(unknown.error()["message"].as_str().is_some_and(|said| said.contains("Resource not found")));
        assert_eq!(asked().await, (0, reads), "on no list, and both have resources");
        assert!(client.call_tool("b_rich", json!({})).await.text.contains("resource_link"));
        let answer = client.request("resources/read", link.clone()).await;
        reads += 1;
        assert_eq!(asked().await, (0, reads), "{}", answer.text);
        let other = vmcp.legacy().await;
        other.request("resources/read", link.clone()).await.error();
        assert_eq!(asked().await, (0, reads), "the link is not another client's");
    }
}

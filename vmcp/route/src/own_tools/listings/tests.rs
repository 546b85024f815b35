//! The own tools besides find_tool and call_tool, as clients call them.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use vmcp_config::OptimTool;

use crate::testing::{self, DenyTool, Scripted, backends, call, engine, engine_with, eventually};
use vmcp_engine::engine::{Engine, Options, Storage};

fn all() -> String {
    let tools = OptimTool::ALL.map(OptimTool::bare).join(", ");
    format!(
        "optimizer: {{ embeddings: {{ provider: none }}, exposure: MetaOnly, tools: [{tools}], \
         largeResults: {{ enabled: true }} }}\n"
    )
}

async fn server() -> Scripted {
    let properties = json!({"a": {"type": "number"}});
    Scripted::start(&[("add", "Adds a number. Then says so.", properties), ("fail", "Fails.", json!({}))])
        .await
}

async fn structured(engine: &Engine, tool: &str, arguments: Value) -> Value {
    call(engine, tool, arguments).await.unwrap()["structuredContent"].clone()
}

#[tokio::test]
async fn a_client_gets_along_with_list_schema_and_call() {
    let server = server().await;
    let engine = engine(&backends(&[("one", &server.url)], &all())).await;
    let add = json!({"name": "one_add", "brief": "Adds a number."});
    let fail = json!({"name": "one_fail", "brief": "Fails."});
    assert_eq!(
        structured(&engine, "optim_list_tools", json!({})).await,
        json!({"success": true, "servers": [{"name": "one", "tools": [add, fail]}]})
    );
    assert_eq!(
        structured(&engine, "optim.list_tools", json!({"server": "one"})).await,
        json!({"success": true, "server": "one", "tools": [add, fail]})
    );
    let unknown = call(&engine, "list_tools", json!({"server": "two"})).await.unwrap();
    assert_eq!(unknown["isError"], true);
    assert_eq!(unknown["structuredContent"]["success"], false);
    assert_eq!(unknown["structuredContent"]["available_servers"], json!(["one"]));

    for arguments in [json!({"tool_name": "one_add"}), json!({"server_name": "one", "tool_name": "add"})] {
        let schema = structured(&engine, "optim_get_tool_schema", arguments).await;
        assert_eq!((&schema["success"], &schema["server"]), (&json!(true), &json!("one")));
        assert_eq!(schema["tool"]["name"], "one_add");
        let whole = json!({"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]});
        assert_eq!(schema["tool"]["inputSchema"], whole);
        assert!(schema.get("stale").is_none());
    }
    let missing = structured(&engine, "optim_get_tool_schema", json!({"tool_name": "one_ad"})).await;
    assert_eq!(missing["success"], false);
    assert!(missing["error"].as_str().unwrap().contains("did you mean one_add"), "{missing}");
    let called = json!({"tool_name": "one_add", "parameters": {"a": 1}});
    assert_ne!(call(&engine, "optim_call_tool", called).await.unwrap()["isError"], true);
}

#[tokio::test]
async fn servers_are_listed_by_project() {
    let (one, two) = (server().await, server().await);
    let profiles = format!("{}profiles: {{ billing: {{ servers: [two] }} }}\n", all());
    let engine = engine(&backends(&[("one", &one.url), ("two", &two.url)], &profiles)).await;
    for (arguments, expected) in [
        (json!({}), json!(["one", "two"])),
        (json!({"project_id": "billing"}), json!(["two"])),
        (json!({"project_id": "unknown"}), json!([])),
    ] {
        let listed = structured(&engine, "optim_list_mcp_servers", arguments.clone()).await;
        let names: Vec<_> =
            listed["servers"].as_array().unwrap().iter().map(|server| &server["name"]).collect();
        assert_eq!((&listed["success"], json!(names)), (&json!(true), expected), "{arguments}");
    }
}

#[tokio::test]
async fn only_configured_tools_are_listed_and_callable() {
    let server = server().await;
    let few = "optimizer: { embeddings: { provider: none }, tools: [list_tools, call_tool] }\n";
    let engine = engine(&backends(&[("one", &server.url)], few)).await;
    for name in ["optim.find_tool", "optim_find_tool", "find_tool", "optim.reset_tool_metrics"] {
        let error = call(&engine, name, json!({"tool_description": "x"})).await.unwrap_err();
        assert!(error["message"].as_str().unwrap().contains("Unknown tool"), "{name}: {error}");
    }
    structured(&engine, "optim_list_tools", json!({})).await;
}

#[tokio::test]
async fn metrics_are_shown_with_the_tools_and_by_themselves() {
    let server = server().await;
    let engine = engine(&backends(&[("one", &server.url)], &all())).await;
    for _ in 0..3 {
        call(&engine, "one_fail", json!({})).await.unwrap();
    }
    let metrics = structured(&engine, "optim_get_tool_metrics", json!({})).await;
    assert_eq!(metrics["servers"][0]["server"], "one");
    let tool = &metrics["servers"][0]["tools"][0];
    assert_eq!(
        (&tool["tool"], &tool["call_count"], &tool["success_rate"]),
        (&json!("fail"), &json!(3), &json!(0.0))
    );
    assert!(tool.get("last_error").is_none(), "another caller's error is not shown");
    let listed =
        structured(&engine, "optim_list_tools", json!({"server": "one", "include_metrics": true})).await;
    assert_eq!(listed["tools"][0]["metrics"], Value::Null, "never called");
    assert_eq!(listed["tools"][1]["metrics"]["call_count"], 3);
    let failing = structured(&engine, "optim_get_tool_metrics", json!({"sort": "failing"})).await;
    assert_eq!(failing["tools"].as_array().unwrap().len(), 1);
    for threshold in [json!(1.01), json!(-0.1), json!("7")] {
        let asked = json!({"sort": "failing", "threshold": threshold});
        let refused = call(&engine, "optim_get_tool_metrics", asked).await.unwrap();
        let text = refused["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("threshold must be a number from 0 to 1"), "{threshold}: {refused}");
    }
    call(&engine, "one_add", json!({"a": 1})).await.unwrap();
    for (asked, expected) in [
        (json!({"server": "one"}), json!(["add", "fail"])),
        (json!({"server": "one", "tool": "fail"}), json!(["fail"])),
        (json!({"tool": "one_fail"}), json!(["fail"])),
        (json!({"server": "two"}), json!([])),
    ] {
        let metrics = structured(&engine, "optim_get_tool_metrics", asked.clone()).await;
        let tools: Vec<_> = metrics["tools"].as_array().unwrap().iter().map(|tool| &tool["tool"]).collect();
        assert_eq!(json!(tools), expected, "{asked}");
    }
    let one = json!({"server": "one", "tool": "add"});
    structured(&engine, "optim_reset_tool_metrics", one).await;
    let one = structured(&engine, "optim_get_tool_metrics", json!({"server": "one", "tool": "add"})).await;
    assert_eq!(one["success"], false);
    let reset = structured(&engine, "optim_reset_tool_metrics", json!({"tool": "one_fail"})).await;
    assert_eq!(reset, json!({"success": true, "reset": 1}));
    let metrics = structured(&engine, "optim_get_tool_metrics", json!({})).await;
    assert_eq!(metrics["servers"], json!([]));
}

#[tokio::test]
async fn success_rates_have_two_decimals_and_a_tool_without_calls_has_no_figures() {
    let (server, dir) = (server().await, tempfile::tempdir().unwrap());
    let calls: Vec<_> = (0..47)
        .map(|at| vmcp_store::CallFact {
            at,
            succeeded: at >= 3,
            latency_ms: 1250.0,
            outcome: "ok",
            error: None,
        })
        .collect();
    let store = vmcp_store::StateStore::open(dir.path()).unwrap();
    store.record_calls(&[("one", "add", &calls)]).unwrap();
    drop(store);
    let options = Options { storage: Storage::Dir(dir.path().to_owned()), ..Options::default() };
    let yaml = testing::config(&backends(&[("one", &server.url)], &all()));
    let engine = Engine::start(yaml, options).await.unwrap();
    engine.settled().await;
    engine.tool_metrics().flush().await;
    let listed = structured(&engine, "optim_list_tools", json!({"server": "one", "include_metrics": true}));
    let listed = listed.await;
    assert_eq!(
        listed["tools"][0]["metrics"],
        json!({"success_rate": 0.94, "avg_latency_ms": 1250.0, "call_count": 47})
    );
    assert_eq!(listed["tools"][1]["metrics"], Value::Null);
}

#[tokio::test]
async fn a_policy_may_keep_clients_from_resetting_metrics() {
    let server = server().await;
    let policies = format!(
        "incomingAuth: {{ authz: {{ policies: ['permit(principal, action, resource);', \
         'forbid(principal, action, resource == Tool::\"optim.reset_tool_metrics\");'] }} }}\n{}",
        all()
    );
    let engine = engine(&backends(&[("one", &server.url)], &policies)).await;
    call(&engine, "one_fail", json!({})).await.unwrap();
    let refused = call(&engine, "optim.reset_tool_metrics", json!({})).await.unwrap_err();
    assert_eq!(refused["message"], "Unknown tool: optim.reset_tool_metrics");
    let metrics = structured(&engine, "optim_get_tool_metrics", json!({})).await;
    assert_eq!(metrics["servers"][0]["tools"][0]["call_count"], 1, "nothing is forgotten");
}

#[tokio::test]
async fn servers_are_listed_with_their_states() {
    let server = server().await;
    let yaml = format!(
        "backends:\n- {{ name: down, url: 'http://127.0.0.1:9/mcp' }}\n- {{ name: one, url: '{}' }}\n\
         - {{ name: keyless, url: 'http://127.0.0.1:9/mcp', headers: {{ x-key: '${{KEY}}' }} }}\n\
         - {{ name: off, url: 'http://127.0.0.1:9/mcp', enabled: false }}\n{}",
        server.url,
        all()
    );
    let engine = engine(&yaml).await;
    let listed = async || structured(&engine, "optim_list_mcp_servers", json!({})).await["servers"].clone();
    eventually("it is connected", || {
        engine.backend_status().iter().any(|status| status.name == "one" && status.tools == Some(2))
    })
    .await;
    let servers = listed().await;
    let brief = |at: usize| {
        let server = &servers[at];
        ["name", "connected", "state", "tool_count"].map(|field| server[field].clone())
    };
    assert_eq!(brief(0), [json!("down"), json!(false), json!("failed"), json!(0)]);
    assert_eq!(brief(1), [json!("one"), json!(true), json!("connected"), json!(2)]);
    assert_eq!(brief(2), [json!("keyless"), json!(false), json!("failed"), json!(0)]);
    assert_eq!(brief(3), [json!("off"), json!(false), json!("disabled"), json!(0)]);
    assert_eq!(servers[1]["transport"], "streamable-http");

    let since = servers[1]["connected_at"].as_str().unwrap();
    assert!(humantime::parse_rfc3339(since).unwrap() <= std::time::SystemTime::now(), "{since}");
    assert!(servers[0]["last_error"].as_str().is_some_and(|error| !error.is_empty()), "{servers}");
    assert!(servers[2]["last_error"].as_str().unwrap().contains("`KEY` is not set"), "{servers}");
    for (at, absent) in [(0, "connected_at"), (1, "last_error"), (2, "connected_at"), (3, "last_error")] {
        assert_eq!(servers[at].get(absent), None, "{servers}");
    }
    // Causes may name hosts: clients of other machines do not read them.
    engine.apply(testing::config(&format!("{yaml}server: {{ listen: '0.0.0.0:8080' }}\n"))).await;
    let servers = listed().await;
    assert_eq!((&servers[0]["state"], servers[0].get("last_error")), (&json!("failed"), None), "{servers}");
    assert_eq!((&servers[2]["state"], servers[2].get("last_error")), (&json!("failed"), None), "{servers}");
}

#[tokio::test]
async fn a_server_is_connecting_until_it_answers_and_connected_from_then_on() {
    // Takes connections into its backlog and answers none of them yet.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let options = Options { storage: Storage::Memory, ..Options::default() };
    let yaml = testing::config(&backends(&[("slow", &url)], &all()));
    let engine = Engine::start(yaml, options).await.unwrap();
    let mut states = Vec::new();
    let mut poll_until = async |last: &str| {
        let seen = async {
            while states.last().is_none_or(|state| state != last) {
                let servers = structured(&engine, "optim_list_mcp_servers", json!({})).await;
                states.push(servers["servers"][0]["state"].as_str().unwrap().to_owned());
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), seen).await.expect(last);
    };
    poll_until("connecting").await;
    let _server = Scripted::serve(listener, &[("add", "Adds a number.", json!({}))]);
    poll_until("connected").await;
    states.dedup();
    // The first poll may come before the first attempt.
    let states = states.iter().map(String::as_str).skip_while(|state| *state == "configured");
    assert_eq!(states.collect::<Vec<_>>(), ["connecting", "connected"]);
}

#[tokio::test]
async fn a_resource_is_read_through_its_server() {
    let server = Scripted::everything("lib").await;
    let engine = engine(&backends(&[("lib", &server.url)], &all())).await;
    let read = structured(&engine, "optim_read_mcp_resource", json!({"resource_uri": "lib://note"})).await;
    let expected =
        json!({"success": true, "server": "lib", "content": "a note of lib", "mime_type": "text/plain"});
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&read[field], value, "{field} of {read}");
    }
    let empty = structured(&engine, "optim_read_mcp_resource", json!({"resource_uri": "lib://other"})).await;
    // The scripted server answers without contents, which is told as it is.
    assert_eq!((&empty["success"], &empty["server"]), (&json!(false), &json!("lib")));
    assert!(server.methods().contains(&"resources/read".to_owned()));
    let unknown = json!({"resource_uri": "lib://note", "server_name": "none"});
    let unknown = structured(&engine, "optim_read_mcp_resource", unknown).await;
    assert_eq!(unknown["error"], "resource not found: lib://note");
}

#[tokio::test]
async fn alternatives_are_named_without_a_failure_and_within_the_callers_rights() {
    let (one, two) = (server().await, server().await);
    let yaml = backends(&[("one", &one.url), ("two", &two.url)], &all());
    let engine = engine(&yaml).await;
    let asked = json!({"server_name": "one", "tool_name": "add"});
    let found = structured(&engine, "optim_get_tool_alternatives", asked.clone()).await;
    let named = &found["alternatives"][0];
    assert_eq!((&named["server"], &named["tool"]), (&json!("two"), &json!("two_add")), "{found}");
    let similarity = named["similarity"].as_f64().unwrap();
    assert!(similarity > 0.0 && similarity <= 1.0, "{found}");
    assert_eq!(named["success_rate"], Value::Null, "hardly called yet");
    assert!(named["reason"].as_str().unwrap().contains("another server"), "{found}");
    let options = Options { policy: Some(DenyTool::named("two_add")), ..Options::default() };
    let limited = engine_with(&yaml, options).await;
    let found = structured(&limited, "optim_get_tool_alternatives", asked).await;
    assert!(!found.to_string().contains("two_add"), "{found}");
    let denied = structured(&limited, "optim_get_tool_schema", json!({"tool_name": "two_add"})).await;
    assert_eq!(denied["success"], false, "a tool that may not be called is unknown");
}

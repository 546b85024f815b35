//! Code mode over real servers: scripts in worker processes of the built binary.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vmcp_integration::{Client, Fixture, Messages, Vmcp, VmcpBuilder};

async fn start(backend: &Fixture) -> Vmcp {
    let config = json!({ "optimizer": { "tools": ["find_tool", "call_tool", "execute_code"] } });
    let vmcp = Vmcp::new().backend(backend).config(config).start().await;
    vmcp.with_tool("one_inspect").await;
    vmcp
}

async fn run(client: &Client, code: &str, timeout_ms: u64) -> Value {
    let arguments = json!({ "code": code, "timeout_ms": timeout_ms, "context": { "who": "Ada" } });
    let answer = client.call_tool("optim.execute_code", arguments).await;
    serde_json::from_str(&answer.content_text()).unwrap_or_else(|_| panic!("{}", answer.text))
}

#[tokio::test]
async fn a_script_calls_tools_of_servers_for_clients_of_both_eras() {
    let backend = Fixture::http("one", "echo").start().await;
    let vmcp = start(&backend).await;
    for client in [vmcp.modern(), vmcp.legacy().await] {
        let sum = run(&client, "sum(x**2 for x in range(1000))", 20_000).await;
        assert_eq!((&sum["success"], &sum["result"]), (&json!(true), &json!("332833500")), "{sum}");
        assert_eq!((&sum["language"], &sum["context"]["who"]), (&json!("python"), &json!("Ada")), "{sum}");
        assert!(sum["execution_time"].is_number(), "{sum}");
        let modules =
            run(&client, "import json, math, statistics\nstatistics.mean([math.pi, math.pi])", 20_000).await;
        assert!(modules["result"].as_str().is_some_and(|mean| mean.starts_with("3.14159")), "{modules}");
        let code = "found = one.inspect(of=CONTEXT['who'])\n\
                    both = parallel([lambda: one.sleep(ms=2000), lambda: one.sleep(ms=2000)])\n\
                    [found['arguments']['of'], len(both)]";
        let begun = Instant::now();
        let called = run(&client, code, 20_000).await;
        assert_eq!((&called["result"], &called["calls"]), (&json!(["Ada", 2]), &json!(3)), "{called}");
        assert!(begun.elapsed() < Duration::from_millis(3900), "the calls did not overlap");
    }
}

#[tokio::test]
async fn a_chart_comes_as_an_image_beside_the_result() {
    let backend = Fixture::http("one", "echo").start().await;
    let vmcp = start(&backend).await;
    let code = "rows = [{'k': 'a', 'v': 1}, {'k': 'b', 'v': 2}]\nplot('bar', rows, 'k', 'v')\n\
                one.inspect()\nsum(row['v'] for row in rows)";
    for client in [vmcp.modern(), vmcp.legacy().await] {
        let answer = client.call_tool("optim.execute_code", json!({ "code": code })).await;
        let result = answer.result();
        let kinds: Vec<_> =
            result["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
        assert_eq!(kinds, ["text", "image"], "{result}");
        let image = &result["content"][1];
        assert_eq!(image["mimeType"], "image/png");
        // The signature of PNG in base64.
        assert!(image["data"].as_str().unwrap().starts_with("iVBORw0KGgo"), "{image}");
        let structured = &result["structuredContent"];
        assert_eq!(
            (&structured["result"], &structured["pictures"]),
            (&json!("3"), &json!(1)),
            "{structured}"
        );
    }
    let large = run(&vmcp.modern(), "emit_svg('x' * 20_000_000)", 20_000).await;
    assert_eq!(large["error_type"], "ValueError");
    assert!(large["error"].as_str().unwrap().contains("the limit is 1048576"), "{large}");
}

#[tokio::test]
async fn a_script_that_hangs_or_grows_ends_alone() {
    let backend = Fixture::http("one", "echo").start().await;
    let vmcp = start(&backend).await;
    let client = vmcp.modern();
    assert_eq!(run(&client, "1 + 1", 20_000).await["result"], "2");
    let before = vmcp.process.resident_mib();
    let begun = Instant::now();
    let hangs = run(&client, "while True: pass", 1000).await;
    let shape = json!({
        "success": false, "error": "Code execution timed out after 1 seconds", "error_type": "TimeoutError", "timeout": 1.0,
    });
    assert_eq!(hangs, shape);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    for (code, kind) in [
        ("x = []\nwhile True: x.append('y' * 10**6)", "MemoryError"),
        ("'a' * 10**10", "MemoryError"),
        ("import os", "ModuleNotFoundError"),
        ("from os import environ", "ModuleNotFoundError"),
        ("import socket", "ModuleNotFoundError"),
        ("open('/etc/passwd')", "PermissionError"),
        ("optim.call_tool(tool_name='one_inspect')", "NameError"),
    ] {
        let ended = run(&client, code, 20_000).await;
        assert_eq!(
            (&ended["success"], &ended["error_type"]),
            (&json!(false), &json!(kind)),
            "{code}: {ended}"
        );
        assert_eq!(run(&client, "1 + 1", 20_000).await["result"], "2", "after {code}");
    }
    let after = vmcp.process.resident_mib();
    assert!(after < before + 32, "memory of the server: {before} MiB, then {after} MiB");
}

/// Servers that count calls and that ask, and two processes with the same key and storage.
async fn two_processes() -> (Vec<Fixture>, Vmcp, Vmcp, tempfile::TempDir) {
    let backends = vec![
        Fixture::http("one", "echo").start().await,
        Fixture::rmcp("new", "modern").await,
        Fixture::rmcp("old", "legacy").await,
    ];
    let folder = tempfile::tempdir().expect("a folder");
    let config = json!({
        "server": { "sessionKeys": ["a key of the two processes, long enough"] },
        "profiles": { "other": {} },
        "optimizer": {
            "tools": ["find_tool", "call_tool", "execute_code"],
            "storage": { "dir": folder.path() },
        },
    });
    let start = async || {
        let builder = backends.iter().fold(Vmcp::new(), VmcpBuilder::backend).config(config.clone());
        let vmcp = builder.start().await;
        for tool in ["one_inspect", "new_test_input_required_result_elicitation", "old_test_elicitation"] {
            vmcp.with_tool(tool).await;
        }
        vmcp
    };
    let (first, second) = futures::join!(start(), start());
    (backends, first, second, folder)
}

/// A script that calls a tool, asks beside another call, and calls a tool again.
fn asking() -> Value {
    let code = "before = one.inspect(of='before')['arguments']['of']\n\
                ask = new.test_input_required_result_elicitation\n\
                both = parallel([lambda: one.inspect(of='beside'), lambda: ask()])\n\
                after = one.inspect(of=CONTEXT)['arguments']['of']\n\
                [before, both[0]['arguments']['of'], both[1], after]";
    json!({ "name": "optim.execute_code", "arguments": { "code": code, "context": "after" } })
}

fn ada(_: &str, _: &Value) -> Value {
    json!({ "action": "accept", "content": { "name": "Ada" } })
}

fn result(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}"))
}

#[tokio::test]
async fn a_script_that_waits_goes_on_at_another_process_for_its_own_client_alone() {
    let (backends, mut first, second, _folder) = two_processes().await;
    let capable = json!({ "elicitation": { "form": {} } });
    let client = first.modern().declaring(capable.clone());
    let asked = client.request("tools/call", asking()).await;
    let questions = asked.result()["inputRequests"].as_object().unwrap_or_else(|| panic!("{}", asked.text));
    assert_eq!(questions.keys().collect::<Vec<_>>(), ["1/user_name"]);
    assert_eq!(backends[0].calls("inspect").await, 2);
    first.process.signal("KILL").await;
    first.process.ended().await;

    let client = second.modern().declaring(capable.clone());
    let mut answered = asking();
    answered["requestState"] = asked.result()["requestState"].clone();
    answered["inputResponses"] = json!({ "1/user_name": ada("", &json!({})) });
    let state = answered["requestState"].as_str().expect("a state");
    let mut tampered = answered.clone();
    tampered["requestState"] = json!(format!("{}{}", &state[..state.len() - 8], "AAAAAAAA"));
    let mut other = answered.clone();
    other["arguments"]["code"] = json!("one.inspect(of='other')");
    for (refused, why) in [(tampered, "the token was altered"), (other, "belongs to another request")] {
        let answer = client.request("tools/call", refused).await;
        assert!(answer.text.contains(why), "{}", answer.text);
    }
    let stranger = Client::modern(&format!("{}/other", second.url)).declaring(capable);
    let refused = stranger.request("tools/call", answered.clone()).await;
    assert!(refused.text.contains("belongs to another identity"), "of another profile: {}", refused.text);
    // Without an answer it is asked again.
    let mut unanswered = answered.clone();
    unanswered.as_object_mut().expect("an object").remove("inputResponses");
    let again = client.request("tools/call", unanswered).await;
    assert_eq!(again.result()["resultType"], "input_required", "{}", again.text);
    assert_eq!(backends[0].calls("inspect").await, 2, "nothing ran meanwhile");

    let answer = client.request("tools/call", answered.clone()).await;
    let ended = result(&answer.content_text());
    assert_eq!(ended["result"], json!(["before", "beside", "Hello, Ada!", "after"]), "{ended}");
    assert_eq!(ended["calls"], 4, "{ended}");
    assert_eq!(backends[0].calls("inspect").await, 3, "no call was made twice");
    let used = client.request("tools/call", answered).await;
    assert!(used.text.contains("has been used"), "{}", used.text);
    assert_eq!(backends[0].calls("inspect").await, 3);
}

#[tokio::test]
async fn a_script_of_a_session_that_waits_survives_the_kill_of_its_process() {
    let (backends, mut first, second, _folder) = two_processes().await;
    let capable = json!({ "elicitation": { "form": {} } });
    let client = Client::legacy_with(&first.url, "2025-11-25", "raw", capable.clone()).await;
    let (answer, asked) = client.converse("tools/call", asking(), &ada).await;
    assert_eq!(asked.len(), 1, "{asked:?}");
    let expected = json!(["before", "beside", "Hello, Ada!", "after"]);
    assert_eq!(result(&answer.content_text())["result"], expected, "{}", answer.text);
    let before = backends[0].calls("inspect").await;

    let mut messages = Messages::of(client.open("tools/call", asking()).await);
    while messages.next().await.expect("a question")["method"] != "elicitation/create" {}
    first.process.signal("KILL").await;
    first.process.ended().await;
    let session = client.session.clone().expect("a session");
    let client = Client::modern(&second.url).as_legacy().declaring(capable).with_session(&session);
    let (answer, asked) = client.converse("tools/call", asking(), &ada).await;
    assert_eq!(asked.len(), 1, "asked again: {asked:?} {}", answer.text);
    assert_eq!(result(&answer.content_text())["result"], expected, "{}", answer.text);
    assert_eq!(backends[0].calls("inspect").await, before + 3, "no call was made twice");
}

#[tokio::test]
async fn servers_that_hold_their_calls_open_ask_the_user_of_a_script() {
    let (_backends, vmcp, _second, _folder) = two_processes().await;
    let capable = json!({ "elicitation": { "form": {} } });
    let clients = [
        vmcp.modern().declaring(capable.clone()),
        Client::legacy_with(&vmcp.url, "2025-11-25", "raw", capable).await,
    ];
    for client in clients {
        let code = "[old.test_elicitation(message='Who?'), one.inspect(of='after')['arguments']['of']]";
        let params = json!({ "name": "optim.execute_code", "arguments": { "code": code } });
        let (answer, asked) = client.converse("tools/call", params, &ada).await;
        assert_eq!(asked.len(), 1, "{asked:?} {}", answer.text);
        let ended = result(&answer.content_text());
        assert!(ended["success"] == true && ended["result"][1] == "after", "{ended}");
        assert!(ended["result"][0].to_string().contains("accept"), "{ended}");
    }
}

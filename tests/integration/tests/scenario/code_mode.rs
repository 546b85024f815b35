//! Code mode over real servers: scripts in worker processes of the built binary.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vmcp_integration::{Client, Fixture, Vmcp};

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
        let code = "found = one.inspect(of=CONTEXT['who'])\n\
                    both = parallel([lambda: one.sleep(ms=1000), lambda: one.sleep(ms=1000)])\n\
                    [found['arguments']['of'], len(both)]";
        let begun = Instant::now();
        let called = run(&client, code, 20_000).await;
        assert_eq!((&called["result"], &called["calls"]), (&json!(["Ada", 2]), &json!(3)), "{called}");
        assert!(begun.elapsed() < Duration::from_millis(1900), "the calls did not overlap");
    }
}

#[tokio::test]
async fn a_script_that_hangs_or_grows_ends_alone() {
    let backend = Fixture::http("one", "echo").start().await;
    let vmcp = start(&backend).await;
    let client = vmcp.modern();
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
        ("import os\nos.environ", "PermissionError"),
        ("import os\nos.system('id')", "AttributeError"),
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
}

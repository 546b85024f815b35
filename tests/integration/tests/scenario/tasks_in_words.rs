//! Tasks in words for execute_code: the client's own model writes the script, by sampling, and the built
//! binary runs it.

use serde_json::{Value, json};
use vmcp_integration::{Client, Fixture, Vmcp, VmcpBuilder};

/// A script with a mistake, and the mended one.
const WRONG: &str = "sum(CONTEXT['numbers']) + missing_name";
const RIGHT: &str = "sum(CONTEXT['numbers'])";

async fn start(backends: &[Fixture], tool: &str) -> Vmcp {
    let config = json!({
        "optimizer": { "tools": ["find_tool", "call_tool", "execute_code"] },
        "code": { "llm": "any" },
    });
    let vmcp = backends.iter().fold(Vmcp::new(), VmcpBuilder::backend).config(config).start().await;
    vmcp.with_tool(tool).await;
    vmcp
}

/// Clients of both eras that sample and answer questions.
async fn clients(vmcp: &Vmcp) -> [Client; 2] {
    let capable = json!({ "sampling": {}, "elicitation": { "form": {} } });
    [
        vmcp.modern().declaring(capable.clone()),
        Client::legacy_with(&vmcp.url, "2025-11-25", "raw", capable).await,
    ]
}

fn sampled(text: &str) -> Value {
    json!({ "role": "assistant", "model": "own", "content": { "type": "text", "text": text } })
}

fn prompt(question: &Value) -> &str {
    assert_eq!(question[0], "sampling/createMessage");
    question[1]["messages"][0]["content"]["text"].as_str().expect("a prompt")
}

fn call(arguments: &Value) -> Value {
    json!({ "name": "optim.execute_code", "arguments": arguments })
}

#[tokio::test]
async fn a_task_in_words_becomes_a_script_that_is_mended_once() {
    let backends = [Fixture::http("one", "echo").start().await];
    let vmcp = start(&backends, "one_inspect").await;
    let task = json!({ "task": "sum the numbers", "context": { "numbers": [4_001, 4_002, 4_003] } });
    for client in clients(&vmcp).await {
        let mends = |_: &str, params: &Value| {
            let is_second = params.to_string().contains("It failed: NameError");
            sampled(&format!("```python\n{}\n```", if is_second { RIGHT } else { WRONG }))
        };
        let (answer, asked) = client.converse("tools/call", call(&task), &mends).await;
        let ended = answer.structured();
        assert_eq!((&ended["success"], &ended["result"]), (&json!(true), &json!("12006")), "{}", answer.text);
        assert_eq!((&ended["engine"], &ended["code"]), (&json!("llm"), &json!(RIGHT)), "{ended}");
        assert_eq!(asked.len(), 2, "{asked:?}");
        assert!(prompt(&asked[0]).contains("Task: sum the numbers\nCONTEXT: {numbers: integer[3]}"));
        assert!(!prompt(&asked[0]).contains("4001"), "a value of the context: {asked:?}");
        assert!(prompt(&asked[1]).contains(WRONG), "{asked:?}");

        let insists = |_: &str, _: &Value| sampled(WRONG);
        let (answer, asked) = client.converse("tools/call", call(&task), &insists).await;
        assert_eq!((asked.len(), &answer.structured()["error_type"]), (2, &json!("NameError")));
        assert_eq!(answer.structured()["code"], WRONG, "{}", answer.text);

        let hangs = |_: &str, _: &Value| sampled("while True: pass");
        let mut short = task.clone();
        short["timeout_ms"] = json!(500);
        let (answer, asked) = client.converse("tools/call", call(&short), &hangs).await;
        assert_eq!((asked.len(), &answer.structured()["error_type"]), (1, &json!("TimeoutError")));
        let reads = |_: &str, _: &Value| sampled("open('/etc/passwd').read()");
        let (answer, _) = client.converse("tools/call", call(&task), &reads).await;
        assert_eq!(answer.structured()["error_type"], "PermissionError", "{}", answer.text);

        let refuses = |_: &str, _: &Value| json!({ "error": { "code": -1, "message": "rejected" } });
        let (answer, asked) = client.converse("tools/call", call(&task), &refuses).await;
        assert!(
            answer.is_tool_error() && answer.text.contains("the client did not sample"),
            "{}",
            answer.text
        );
        assert_eq!(asked.len(), 1, "asked once");
    }
    let alone = vmcp.modern().request("tools/call", call(&task)).await;
    assert!(alone.text.contains("the client offers no sampling; send a script as `code`"), "{}", alone.text);
}

#[tokio::test]
async fn a_script_that_may_have_changed_something_is_not_written_again() {
    let backends = [Fixture::http("one", "echo").start().await];
    let vmcp = start(&backends, "one_inspect").await;
    for client in clients(&vmcp).await {
        let before = backends[0].calls("inspect").await;
        let writes = |_: &str, _: &Value| sampled("one.inspect(of='it')\n1 / 0");
        let task = json!({ "task": "inspect it" });
        let (answer, asked) = client.converse("tools/call", call(&task), &writes).await;
        assert_eq!(answer.structured()["error_type"], "ZeroDivisionError", "{}", answer.text);
        assert_eq!(asked.len(), 1, "asked again: {asked:?}");
        assert_eq!(backends[0].calls("inspect").await, before + 1, "the call was made once");
        assert!(prompt(&asked[0]).contains("def one.inspect("), "{asked:?}");
    }
}

#[tokio::test]
async fn a_written_script_whose_tool_asks_the_user_goes_on_and_is_shown() {
    let backends = [Fixture::rmcp("new", "modern").await];
    let vmcp = start(&backends, "new_test_input_required_result_elicitation").await;
    let script = "answer = new.test_input_required_result_elicitation()\n[answer, 1 + 1]";
    let user = |method: &str, _: &Value| match method {
        "sampling/createMessage" => sampled(script),
        _ => json!({ "action": "accept", "content": { "name": "Ada" } }),
    };
    for client in clients(&vmcp).await {
        let task = json!({ "task": "ask for the name" });
        let (answer, asked) = client.converse("tools/call", call(&task), &user).await;
        let methods: Vec<_> = asked.iter().map(|question| &question[0]).collect();
        assert_eq!(methods, ["sampling/createMessage", "elicitation/create"], "{}", answer.text);
        let ended = answer.structured();
        assert_eq!(ended["result"], json!(["Hello, Ada!", 2]), "{}", answer.text);
        assert_eq!((&ended["engine"], &ended["code"]), (&json!("llm"), &json!(script)), "{ended}");
    }
}

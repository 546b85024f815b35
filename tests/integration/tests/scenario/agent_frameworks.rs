//! Agent frameworks complete find and call, and send names on that model APIs take.

use serde_json::json;
use vmcp_integration::{Fixture, Vmcp, installed, run_script};

#[tokio::test]
async fn an_agent_of_each_framework_finds_a_tool_and_calls_it() {
    let echo = Fixture::http("echo", "echo").start().await;
    let vmcp =
        Vmcp::new().backend(&echo).config(json!({"optimizer": {"exposure": "MetaOnly"}})).start().await;
    vmcp.with_tool("echo_add").await;
    let script = include_str!("../../clients/agent.py");
    for framework in ["openai-agents", "pydantic-ai", "langchain"] {
        let python = installed("agents/bin/python");
        let seen = run_script(&python, &["-", framework, &vmcp.url], script, &installed("agents")).await;
        let said = seen["said"].as_str().unwrap_or_default();
        // Some hand the text on, some the structured content: `{"sum":5.0}`.
        assert!(said.starts_with("The tool says: ") && said.contains('5'), "{framework}: {seen}");
        let mut tools: Vec<_> = seen["tools"].as_array().into_iter().flatten().collect();
        tools.sort_by_key(ToString::to_string);
        assert_eq!(tools, [&json!("optim_call_tool"), &json!("optim_find_tool")], "{framework}: {seen}");
        assert_eq!(seen["requests"], 3, "{framework}: {seen}");
    }
}

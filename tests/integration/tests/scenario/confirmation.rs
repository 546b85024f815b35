//! Confirmation: the user is asked before a call that the configuration holds back.

use serde_json::{Value, json};
use vmcp_integration::{Client, Fixture, Vmcp};

fn says(action: &'static str) -> impl Fn(&str, &Value) -> Value {
    move |_, _| json!({"action": action, "content": {}})
}

#[tokio::test]
async fn a_held_back_call_waits_for_the_users_consent() {
    let echo = Fixture::http("echo", "echo").start().await;
    let confirm =
        json!({"aggregation": {"confirm": {"tools": ["*_echo"]}}, "optimizer": {"exposure": "All"}});
    let vmcp = Vmcp::new().backend(&echo).config(confirm).start().await;
    vmcp.with_tool("echo_echo").await;
    let form = json!({"elicitation": {"form": {}}});
    let askable = [
        vmcp.modern().declaring(form.clone()),
        Client::legacy_with(&vmcp.url, "2025-11-25", "raw", form.clone()).await,
        Client::legacy_with(&vmcp.url, "2025-06-18", "raw", json!({"elicitation": {}})).await,
    ];
    let direct = json!({"name": "echo_echo", "arguments": {"message": "drop it all"}});
    let inner = json!({"tool_name": "echo_echo", "parameters": {"message": "drop it all"}});
    let ways = [direct, json!({"name": "optim_call_tool", "arguments": inner})];
    let mut made = 0;
    for client in &askable {
        for params in &ways {
            let (answer, asked) = client.converse("tools/call", params.clone(), &says("accept")).await;
            made += 1;
            assert_eq!(answer.content_text(), "drop it all", "{}", answer.text);
            assert_eq!(asked.len(), 1, "{asked:?}");
            let question = format!("{asked:?}");
            assert!(question.contains("echo_echo") && question.contains("drop it all"), "{question}");
            for refusal in ["decline", "cancel"] {
                let (answer, _) = client.converse("tools/call", params.clone(), &says(refusal)).await;
                assert!(answer.is_tool_error() || answer.message.get("error").is_some(), "{}", answer.text);
                assert!(answer.text.contains("the user declined"), "{}", answer.text);
            }
            assert_eq!(echo.calls("echo").await, made, "the backend hears what was accepted");
        }
        let (answer, asked) = client
            .converse("tools/call", json!({"name": "echo_sleep", "arguments": {"ms": 1}}), &says("decline"))
            .await;
        assert!(asked.is_empty() && !answer.is_tool_error(), "others are not held back: {}", answer.text);
    }
    for client in [vmcp.modern(), vmcp.legacy().await] {
        let answer = client.request("tools/call", ways[0].clone()).await;
        assert!(answer.text.contains("user's confirmation: the client did not declare"), "{}", answer.text);
    }
    assert_eq!(echo.calls("echo").await, made);
    let refused = vmcp.metric(r#"vmcp_backend_calls_total{backend="echo",outcome="not_confirmed"}"#).await;
    assert_eq!(refused, 14, "two of each of six, and the last two");
}

#[tokio::test]
async fn the_command_line_consents_by_yes_and_refuses_without_a_terminal() {
    let echo = Fixture::http("echo", "echo").start().await;
    let confirm = json!({"aggregation": {"confirm": {"tools": ["*_echo"]}}});
    let vmcp = Vmcp::new().backend(&echo).config(confirm).start().await;
    vmcp.with_tool("echo_echo").await;
    let mut made = 0;
    for place in [&[][..], &["--local"][..]] {
        let call = [&["call", "echo_echo", "message=drop it all"], place].concat();
        let refused = vmcp.cli(&call).await;
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.stderr.contains("no terminal") && refused.stderr.contains("--yes"), "{refused:?}");
        assert_eq!(echo.calls("echo").await, made, "nothing was sent");
        let called = vmcp.cli(&[&call[..], &["--yes"]].concat()).await;
        made += 1;
        assert!(called.success && called.stdout.contains("drop it all"), "{called:?}");
        assert_eq!(echo.calls("echo").await, made);
    }
}

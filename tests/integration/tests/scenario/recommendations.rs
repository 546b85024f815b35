//! Recommendations by the client's own model, asked by sampling.

use serde_json::{Value, json};
use vmcp_integration::{Client, Fixture, Vmcp};

fn samples(text: &'static str) -> impl Fn(&str, &Value) -> Value {
    move |_, _| json!({"role": "assistant", "model": "own", "content": {"type": "text", "text": text}})
}

#[tokio::test]
async fn a_client_that_offers_sampling_ranks_by_its_own_model() {
    let jira = Fixture::http("jira", "jira").start().await;
    let tools =
        json!({"optimizer": {"tools": ["find_tool", "call_tool", "recommend_tools", "search_tools"]}});
    let vmcp = Vmcp::new().backend(&jira).config(tools).start().await;
    vmcp.with_tool("jira_create_note").await;
    let sampling = json!({"sampling": {}});
    let chooses = r#"[{"tool": "jira_create_note", "reason": "Notes are kept."}, {"tool": "made_up"}]"#;
    let call = |mode: &str| json!({"name": "optim_recommend_tools", "arguments": {"task_description": "note it down", "search_mode": mode}});
    for client in [
        vmcp.modern().declaring(sampling.clone()),
        Client::legacy_with(&vmcp.url, "2025-11-25", "raw", sampling.clone()).await,
    ] {
        let (answer, asked) = client.converse("tools/call", call("llm"), &samples(chooses)).await;
        let recommended = answer.structured();
        assert_eq!(recommended["mode_used"], "llm", "{}", answer.text);
        assert_eq!(recommended["tools"][0]["tool"], "jira_create_note");
        assert_eq!(recommended["tools"][0]["reason"], "Notes are kept.");
        let [question] = asked.as_slice() else { panic!("{asked:?}") };
        assert_eq!(question[0], "sampling/createMessage");
        let prompt = question[1]["messages"][0]["content"]["text"].as_str().expect("a prompt");
        assert!(
            prompt.contains("Task: note it down") && prompt.matches("\n- jira_").count() == 9,
            "{prompt}"
        );

        let refuses =
            |_: &str, _: &Value| json!({"error": {"code": -1, "message": "User rejected sampling request"}});
        let (answer, asked) = client.converse("tools/call", call("llm"), &refuses).await;
        assert_eq!((asked.len(), &answer.structured()["success"]), (1, &json!(true)), "{}", answer.text);
        assert_eq!(answer.structured()["mode_used"], "keyword", "the search ranks: {}", answer.text);
        let warning = answer.structured()["warning"].as_str().expect("a warning");
        assert!(warning.contains("the client did not sample"), "{warning}");

        let (answer, asked) = client.converse("tools/call", call("semantic"), &samples(chooses)).await;
        assert_eq!(
            (asked.len(), &answer.structured()["mode_used"]),
            (0, &json!("keyword")),
            "{}",
            answer.text
        );
        let search = json!({"name": "optim_search_tools", "arguments": {"query": "note it down"}});
        let (_, asked) = client.converse("tools/call", search, &samples(chooses)).await;
        assert!(asked.is_empty(), "a search that names no mode troubles nobody: {asked:?}");
    }
    let answer = vmcp.modern().request("tools/call", call("llm")).await;
    let warning = answer.structured()["warning"].as_str().expect("a warning");
    assert!(warning.contains("offers no sampling"), "{warning}");
}

#[tokio::test]
async fn a_recommendation_names_the_server_that_has_the_documentation() {
    let context7 = Fixture::http("context7", "ctx7").start().await;
    let echo = Fixture::http("echo", "echo").start().await;
    let tools = json!({"optimizer": {"tools": ["call_tool", "recommend_tools"]}});
    let vmcp = Vmcp::new().backend(&context7).backend(&echo).config(tools).start().await;
    vmcp.with_tool("echo_echo").await;
    let client = vmcp.with_tool("context7_get-library-docs").await;
    let task = json!({"task_description": "Find React hooks documentation"});
    let answer = client.call_tool("optim_recommend_tools", task).await;
    let recommended = answer.structured();
    assert!(
        recommended["recommendation"].as_str().is_some_and(|words| words.contains("of context7")),
        "{}",
        answer.text
    );
    let catalog = vmcp.admin_json("admin/tools").await["tools"].as_array().map(Vec::len);
    assert_eq!(recommended["total_tools"], json!(catalog), "{}", answer.text);
    assert_eq!(recommended["available_servers"], json!(["context7", "echo"]), "{}", answer.text);
}

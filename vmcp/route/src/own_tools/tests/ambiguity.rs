//! Tests of the servers that find_tool names where it cannot decide.

use serde_json::{Value, json};

use crate::testing::{KEYWORDS, Scripted, backends, call, engine};

async fn server(more: &[&str]) -> Scripted {
    let names: Vec<String> = (0..10).map(|number| format!("thing{number}")).collect();
    let names = names.iter().map(String::as_str).chain(["send_message"]).chain(more.iter().copied());
    let tools: Vec<_> = names.map(|name| (name, "A tool.", json!({}))).collect();
    Scripted::start(&tools).await
}

#[tokio::test]
async fn servers_are_named_whose_tools_fit_equally_well() {
    let (mail, chat) = (server(&["archive_letter"]).await, server(&[]).await);
    let engine = engine(&backends(&[("mail", &mail.url), ("chat", &chat.url)], KEYWORDS)).await;
    let between = async |task: &str| {
        let found = call(&engine, "optim.find_tool", json!({"tool_description": task})).await.unwrap();
        let mut servers = found["structuredContent"]["ambiguous_between"].clone();
        if let Value::Array(servers) = &mut servers {
            servers.sort_by_key(ToString::to_string);
        }
        servers
    };
    assert_eq!(between("send a message to anna").await, json!(["chat", "mail"]));
    assert_eq!(between("archive this letter").await, Value::Null);
}

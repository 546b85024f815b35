//! Two modern clients of one name at one address, such as two windows of an application, use a server that
//! uses an SDK of other authors, at the same time: each client gets the same answers as alone.

use std::collections::BTreeMap;

use futures::future::join_all;
use serde_json::{Value, json};
use vmcp_integration::Client;

use super::same_as_direct::{Sdk, TURN, without_signature, without_source};

/// Calls of a client, in order. Each of the first five depends on the client: its user, its state, its level.
const CALLS: [&str; 7] = ["count", "roots", "ask", "sample", "log", "progress", "count"];

/// Limits how often `log` is called again until its messages were heard.
const MAX_LOG_CALLS: usize = 20;

/// A person in front of one of the windows.
#[derive(Debug, Clone, Copy)]
struct Person {
    name: &'static str,
    level: &'static str,
    /// Counts the messages of tool `log` at this level and above.
    logged: usize,
}

const ANN: Person = Person { name: "ann", level: "error", logged: 1 };
const BOB: Person = Person { name: "bob", level: "info", logged: 2 };

impl Person {
    /// Answers what the server asks.
    fn answer(self, method: &str) -> Value {
        match method {
            "roots/list" => json!({"roots": [{"uri": format!("file:///home/{}", self.name)}]}),
            "sampling/createMessage" => json!({"role": "assistant", "model": "m", "stopReason": "endTurn",
                "content": {"type": "text", "text": format!("four, says {}", self.name)}}),
            _ => json!({"action": "accept", "content": {"name": self.name}}),
        }
    }

    /// Makes the calls; returns for each its answer, the questions and the notifications, and last the log
    /// messages of all, each once.
    ///
    /// A server may send log messages on the stream of its session. They reach a modern client with the call
    /// that is under way when they come, so that `log` is called until the client has heard them.
    async fn use_server(self, url: &str) -> Vec<Value> {
        let able = json!({"elicitation": {}, "sampling": {}, "roots": {}});
        let client = Client::modern(url).named("twin").declaring(able);
        let mut logged = BTreeMap::new();
        let mut told = Vec::new();
        for tool in CALLS {
            told.push(self.call(&client, tool, &mut logged).await);
        }
        for _ in 0..MAX_LOG_CALLS {
            if logged.len() >= self.logged {
                break;
            }
            self.call(&client, "log", &mut logged).await;
        }
        assert_eq!(logged.len(), self.logged, "{self:?} hears {logged:?}");
        told.push(json!(["log messages", logged]));
        told
    }

    /// Calls a tool; returns its answer, the questions and the notifications, without the log messages.
    async fn call(self, client: &Client, tool: &str, logged: &mut BTreeMap<String, Value>) -> Value {
        let arguments = if tool == "progress" { json!({"steps": 3}) } else { json!({}) };
        let params = json!({"name": tool, "arguments": arguments, "_meta": {
            "progressToken": self.name, "io.modelcontextprotocol/logLevel": self.level}});
        let user = |method: &str, _: &Value| self.answer(method);
        let (answer, mut asked) = client.converse("tools/call", params, &user).await;
        asked.iter_mut().for_each(without_source);
        let heard = answer.notifications.iter();
        let heard = heard.map(|message| json!([message["method"], message["params"]]));
        let (logs, heard): (Vec<_>, Vec<_>) =
            heard.partition(|message| message[0] == "notifications/message");
        logged.extend(logs.into_iter().map(|message| (message.to_string(), message)));
        json!([tool, without_signature(answer.message), asked, heard])
    }
}

/// Compares both together with each alone, over each transport.
async fn compare(sdk: Sdk) {
    // One after the other: interpreters take long to start where many do.
    let _turn = TURN.lock().await;
    let (_server, url) = sdk.listen("http").await;
    for transport in ["http", "stdio"] {
        let [alone, also_alone, together]: [_; 3] = join_all((0..3).map(|_| sdk.behind(transport, &url)))
            .await
            .try_into()
            .unwrap_or_else(|_| unreachable!());
        let (ann, bob) = futures::join!(ANN.use_server(&alone.1.url), BOB.use_server(&also_alone.1.url));
        assert_ne!(ann, bob, "their stories differ");
        for round in 1..=2 {
            let url = &together.1.url;
            let both = futures::join!(ANN.use_server(url), BOB.use_server(url));
            for (person, told, expected) in [(ANN, both.0, &ann), (BOB, both.1, &bob)] {
                assert_eq!(told.len(), expected.len(), "{person:?} over {transport} in round {round}");
                for (told, expected) in told.iter().zip(expected) {
                    assert_eq!(told, expected, "{person:?} over {transport} in round {round}");
                }
            }
        }
    }
}

#[tokio::test]
async fn two_windows_at_a_server_on_the_python_sdk_1() {
    compare(Sdk::Python("agents/bin/python", "python")).await;
}

#[tokio::test]
async fn two_windows_at_a_server_on_the_python_sdk_2() {
    compare(Sdk::Python("python/bin/python", "python")).await;
}

#[tokio::test]
async fn two_windows_at_a_server_on_the_typescript_sdk_1() {
    compare(Sdk::TypeScript("1")).await;
}

#[tokio::test]
async fn two_windows_at_a_server_on_the_typescript_sdk_2() {
    compare(Sdk::TypeScript("2")).await;
}

//! vmcp's own state as resources: to whom they are listed, and what they tell.

use std::sync::Arc;

use serde_json::{Value, json};
use vmcp_engine::access::identity::Principal;
use vmcp_engine::access::policy::{AccessRequest, Decision, Item, ListedRights, Policy, PolicyId};
use vmcp_engine::engine::{Engine, Options};
use vmcp_engine::optim::names::NameStyle;
use vmcp_wire::lists::pages::List;
use vmcp_wire::owned::OwnedParams;

use crate::testing::{Scripted, backends, engine_with};
use crate::{CallContext, Caller};

const ON: &str = "optimizer: { embeddings: { provider: none }, ownResources: true }\nserver: { listen: '127.0.0.1:8765' }\n";
const OFF: &str = "optimizer: { embeddings: { provider: none } }\n";

/// Denies the own tool, or the tool of a backend, with this name.
#[derive(Debug)]
struct Deny(&'static str);

impl Policy for Deny {
    fn decide(&self, request: &AccessRequest<'_>) -> Decision {
        let policy = PolicyId::new("deny");
        if self.could_allow(request.item, request.backend) {
            Decision::Allow { policy }
        } else {
            Decision::Deny { policy }
        }
    }

    fn restricts_some(&self) -> bool {
        true
    }

    fn listed_rights<'a>(&'a self, _: &Principal) -> Box<dyn ListedRights + 'a> {
        Box::new(Deny(self.0))
    }
}

impl ListedRights for Deny {
    fn could_allow(&self, item: Item<'_>, _: &str) -> bool {
        match item {
            Item::OwnTool(name) => name != self.0,
            item => item.tool().is_none_or(|tool| tool.name != self.0),
        }
    }
}

/// Denies own tools that are called with these arguments.
#[derive(Debug)]
struct DenyArguments(&'static str);

impl Policy for DenyArguments {
    fn decide(&self, request: &AccessRequest<'_>) -> Decision {
        let policy = PolicyId::new("deny");
        if matches!(request.item, Item::OwnTool(_)) && request.arguments == Some(self.0) {
            Decision::Deny { policy }
        } else {
            Decision::Allow { policy }
        }
    }

    fn restricts_some(&self) -> bool {
        true
    }

    fn listed_rights<'a>(&'a self, _: &Principal) -> Box<dyn ListedRights + 'a> {
        Box::new(Deny(""))
    }
}

async fn setup(settings: &str, policy: Option<Arc<dyn Policy>>) -> (Engine, Scripted) {
    let fields = json!({"path": {"type": "string"}});
    let tools = [("read", "Reads a file.", fields.clone()), ("write", "Writes.", fields)];
    let server = Scripted::start(&tools).await;
    let options = Options { policy, ..Options::default() };
    (engine_with(&backends(&[("fs", &server.url)], settings), options).await, server)
}

/// The JSON text of a resource, or the error.
async fn read(engine: &Engine, uri: &str) -> Result<Value, Value> {
    let (snapshot, caller) = (engine.snapshot(), Caller::default());
    let view = snapshot.view(&caller.principal);
    let context = CallContext { engine, snapshot: &snapshot, view: &view, caller: &caller };
    let params = OwnedParams::from_text(json!({ "uri": uri }).to_string()).unwrap();
    let answer = crate::read_resource(context, &params).await.content.settled();
    let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let result = answer.map_err(|error| parse(error.get()))?;
    let contents = parse(result.get())["contents"][0].clone();
    assert_eq!((&contents["uri"], &contents["mimeType"]), (&json!(uri), &json!("application/json")));
    Ok(parse(contents["text"].as_str().unwrap()))
}

/// The URIs, or templates, of a list.
fn listed(engine: &Engine, kind: List) -> Vec<String> {
    let view = engine.snapshot().view(&Principal::default());
    view.list(kind, NameStyle::Underscore).entries().iter().map(|entry| entry.key.clone()).collect()
}

#[tokio::test]
async fn state_and_configuration_are_read_under_both_names() {
    let (engine, server) = setup(ON, None).await;
    let config =
        json!({"daemon_port": 8765, "mcp_servers": [{"name": "fs", "transport": "streamable-http"}]});
    for uri in ["gobby://config", "vmcp://config"] {
        assert_eq!(read(&engine, uri).await, Ok(config.clone()));
    }
    for uri in ["gobby://daemon/status", "vmcp://status"] {
        let status = read(&engine, uri).await.unwrap();
        assert_eq!((&status["running"], &status["http_port"]), (&json!(true), &json!(8765)));
        assert_eq!((&status["connected_servers"], &status["total_tools"]), (&json!(1), &json!(2)));
        assert_eq!(status["servers"][0]["state"], "connected", "{status}");
        assert!(!status.to_string().contains(&server.url), "an address may hold secrets: {status}");
    }
    let fs = read(&engine, "vmcp://servers/fs").await.unwrap();
    assert_eq!((&fs["name"], &fs["tools"]), (&json!("fs"), &json!(["fs_read", "fs_write"])));
    let tool = read(&engine, "vmcp://tools/fs_read").await.unwrap();
    assert_eq!(tool["tool"]["name"], "fs_read");
    assert!(tool["tool"]["inputSchema"].is_object(), "{tool}");
    for uri in ["vmcp://servers/none", "vmcp://tools/none", "vmcp://other", "gobby://daemon"] {
        assert!(read(&engine, uri).await.is_err(), "{uri}");
    }
    let uris = ["gobby://config", "gobby://daemon/status", "vmcp://config", "vmcp://status"];
    assert_eq!(listed(&engine, List::Resources), uris);
    let templates = listed(&engine, List::ResourceTemplates);
    assert_eq!(templates, ["vmcp://servers/{name}", "vmcp://tools/{name}"]);
}

#[tokio::test]
async fn without_the_setting_there_are_none() {
    let (engine, _server) = setup(OFF, None).await;
    for uri in ["gobby://config", "vmcp://status", "vmcp://servers/fs", "vmcp://tools/fs_read"] {
        assert!(read(&engine, uri).await.is_err(), "{uri}");
    }
    assert_eq!(listed(&engine, List::Resources), Vec::<String>::new());
}

#[tokio::test]
async fn a_client_reads_what_it_may_ask_the_tools_for() {
    let (engine, _server) = setup(ON, Some(Arc::new(Deny("optim.list_mcp_servers")))).await;
    for uri in ["gobby://config", "vmcp://status", "vmcp://servers/fs"] {
        assert!(read(&engine, uri).await.is_err(), "{uri}");
    }
    assert!(read(&engine, "vmcp://tools/fs_read").await.is_ok());
    assert_eq!(listed(&engine, List::Resources), Vec::<String>::new());
    assert_eq!(listed(&engine, List::ResourceTemplates), ["vmcp://tools/{name}"]);
}

#[tokio::test]
async fn a_policy_about_arguments_guards_the_resource_too() {
    let policy = DenyArguments(r#"{"tool_name":"fs_read"}"#);
    let (engine, _server) = setup(ON, Some(Arc::new(policy))).await;
    assert!(read(&engine, "vmcp://tools/fs_read").await.is_err());
    assert!(read(&engine, "vmcp://tools/fs_write").await.is_ok());
    assert!(read(&engine, "vmcp://servers/fs").await.is_ok());
}

#[tokio::test]
async fn a_hidden_tool_is_in_no_resource() {
    let (engine, _server) = setup(ON, Some(Arc::new(Deny("fs_write")))).await;
    assert_eq!(read(&engine, "vmcp://servers/fs").await.unwrap()["tools"], json!(["fs_read"]));
    assert_eq!(read(&engine, "vmcp://status").await.unwrap()["total_tools"], 1);
    let unknown = read(&engine, "vmcp://tools/fs_nothing").await.unwrap_err();
    let hidden = read(&engine, "vmcp://tools/fs_write").await.unwrap_err();
    assert_eq!(hidden.to_string().replace("write", "nothing"), unknown.to_string());
}

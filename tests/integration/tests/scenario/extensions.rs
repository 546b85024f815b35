//! Extensions: their methods, capabilities and user interfaces are relayed to the backend that declares them.

use serde_json::{Value, json};
use vmcp_integration::{Client, Fixture, Vmcp, VmcpBuilder};

fn with_skills() -> Value {
    json!({"extensions": {"com.example/skills": {}}})
}

async fn start_with_backends(backends: &[Fixture]) -> Vmcp {
    let vmcp = backends.iter().fold(Vmcp::new(), VmcpBuilder::backend).start().await;
    for backend in backends {
        let tool = if backend.name.starts_with("plain") { "echo" } else { "show" };
        vmcp.with_tool(&format!("{}_{tool}", backend.name)).await;
    }
    vmcp
}

#[tokio::test]
async fn a_method_of_an_extension_goes_to_the_backend_that_has_it() {
    for era in ["modern", "legacy"] {
        let backends = [
            Fixture::http("plain", "echo").start().await,
            Fixture::http("skilled", "extended").args(["--era", era]).start().await,
        ];
        let vmcp = start_with_backends(&backends).await;
        let modern = vmcp.modern().declaring(with_skills());
        let legacy = Client::legacy_with(&vmcp.url, "2025-11-25", "raw", with_skills()).await;
        for client in [&modern, &legacy] {
            let params = json!({"deep": [{"a": 1}], "_meta": {"com.example/x": 2}});
            let answer = client.request("skills/list", params).await;
            let result = answer.result();
            assert_eq!((&result["skills"], &result["vendor"]), (&json!(["skilled"]), &json!({"kept": true})));
            assert_eq!(result["params"]["deep"], json!([{"a": 1}]));
            assert_eq!(result["params"]["_meta"]["com.example/x"], 2);
        }
        assert_eq!(modern.request("skills/list", json!({})).await.result()["resultType"], "complete");
        // A client that did not declare the extension is refused, and so is a method that the backend does
        // not know.
        let undeclared = vmcp.modern().request("skills/list", json!({})).await;
        assert_eq!((undeclared.status.as_u16(), &undeclared.error()["code"]), (404, &json!(-32601)));
        assert_eq!(vmcp.legacy().await.request("skills/list", json!({})).await.error()["code"], -32601);
        assert_eq!(modern.request("vendor/other", json!({})).await.error()["code"], -32601);
        assert_eq!(backends[0].received("skills/list").await, 0);
    }
}

#[tokio::test]
async fn of_two_backends_with_an_extension_the_uri_tells() {
    let start = |name| Fixture::http(name, "extended").start();
    let backends = [start("one").await, start("two").await];
    let vmcp = start_with_backends(&backends).await;
    let client = vmcp.modern().declaring(with_skills());
    assert_eq!(client.request("skills/list", json!({})).await.error()["code"], -32601);
    let of = client.request("skills/list", json!({"uri": "fixture://two/greeting"})).await;
    assert_eq!(of.result()["skills"], json!(["two"]), "{}", of.text);
}

#[tokio::test]
async fn the_user_interface_of_a_tool_is_read_though_it_is_on_no_list() {
    let start = |name| Fixture::http(name, "extended").start();
    let backends = [start("one").await, start("two").await];
    let vmcp = start_with_backends(&backends).await;
    for client in [vmcp.modern(), vmcp.legacy().await] {
        let read = client.request("resources/read", json!({"uri": "ui://two/show"})).await;
        assert_eq!(read.result()["contents"][0]["text"], "two", "{}", read.text);
        // Both backends could have it, and neither lists it: vmcp does not guess.
        let unknown = client.request("resources/read", json!({"uri": "ui://nobody/show"})).await;
        assert!([json!(-32602), json!(-32002)].contains(&unknown.error()["code"]), "{}", unknown.text);
    }
    assert_eq!(backends[0].received("resources/read").await, 0);

    // A single backend with resources may have more than it lists, so it is asked.
    let vmcp = start_with_backends(&backends[..1]).await;
    let unknown = vmcp.modern().request("resources/read", json!({"uri": "fixture://one/unlisted"})).await;
    assert_eq!(unknown.error()["data"]["uri"], "fixture://one/unlisted", "{}", unknown.text);
    assert_eq!(backends[0].received("resources/read").await, 1);
}

#[tokio::test]
async fn capabilities_are_what_the_backends_of_either_era_declare() {
    let declared = async |vmcp: &Vmcp, revision: &str| {
        let hello = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        let legacy = Client::legacy(&vmcp.url, revision, "raw").await.request("initialize", hello).await;
        legacy.result()["capabilities"].clone()
    };
    let nobody = Vmcp::new().start().await;
    assert_eq!(declared(&nobody, "2025-11-25").await, json!({"tools": {"listChanged": true}}));

    let modern = [Fixture::http("new", "extended").args(["--era", "modern"]).start().await];
    let vmcp = start_with_backends(&modern).await;
    let discovered = vmcp.modern().request("server/discover", json!({})).await;
    let capabilities = &discovered.result()["capabilities"];
    let extensions =
        json!({"com.example/skills": {"of": "the fixture"}, "io.modelcontextprotocol/tasks": {}});
    assert_eq!(capabilities["extensions"], extensions);
    assert_eq!(capabilities["resources"], json!({"listChanged": true, "subscribe": true}));
    let legacy = declared(&vmcp, "2025-11-25").await;
    assert_eq!(legacy["extensions"], json!({"com.example/skills": {"of": "the fixture"}}));
    assert!(legacy.get("tasks").is_none(), "{legacy}");

    let old = [Fixture::http("old", "extended").args(["--era", "legacy"]).start().await];
    let vmcp = start_with_backends(&old).await;
    let tasks = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
    assert_eq!(declared(&vmcp, "2025-11-25").await["tasks"], tasks);
    assert!(declared(&vmcp, "2025-06-18").await.get("tasks").is_none());
    let discovered = vmcp.modern().request("server/discover", json!({})).await;
    assert_eq!(discovered.result()["capabilities"]["extensions"], json!({"com.example/skills": {}}));
}

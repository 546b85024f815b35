//! Observed shapes in the signatures of tools.

use std::net::{IpAddr, Ipv4Addr};

use vmcp_engine::engine::Storage;

use super::*;
use crate::testing::call_with;

/// A client without an identity at an address of its own.
fn at(last: u8) -> Caller {
    let mut caller = Caller::default();
    caller.principal.address = Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)));
    caller
}

async fn works(engine: &Engine, caller: &Caller, structured: Value) {
    let params = json!({ "name": "fs_do-it", "arguments": { "structured": structured } });
    call_with(engine, caller, params).await.unwrap();
    engine.shapes().flush().await;
}

async fn described(engine: &Engine, caller: &Caller) -> String {
    signature_of(engine, caller, "fs.do-it").await
}

async fn signature_of(engine: &Engine, caller: &Caller, name: &str) -> String {
    let snapshot = engine.snapshot();
    let view = snapshot.view(&caller.principal);
    let context = CallContext { engine, snapshot: &snapshot, view: &view, caller };
    let call = HostCall::Describe { name: name.to_owned() };
    match Host::new(context, Dialect::Python).call(call).await {
        Called::Ended(CallEnd::Value(Value::String(signature))) => signature,
        other => panic!("{other:?}"),
    }
}

const PLAIN: &str = "def fs.do_it() -> Any: ...  # Does it.";

#[tokio::test]
async fn results_of_others_show_in_a_signature_once_three_clients_had_the_key() {
    let server = server().await;
    let engine = engine(&backends(&[("fs", &server.url)], OFFERED)).await;
    assert_eq!(described(&engine, &at(1)).await, PLAIN);
    works(&engine, &at(1), json!({ "id": 7, "secret_project": "s3cret" })).await;
    let own = "# observed in 1 call, not declared: {\"id\": int, \"secret_project\": str}";
    assert_eq!(described(&engine, &at(1)).await, format!("{PLAIN}\n{own}"));
    works(&engine, &at(2), json!({ "id": 8 })).await;
    let other = described(&engine, &at(4)).await;
    assert_eq!(other, format!("{PLAIN}\n# observed in 2 calls, not declared: dict"));
    works(&engine, &at(3), json!({ "id": null })).await;
    let other = described(&engine, &at(4)).await;
    assert_eq!(other, format!("{PLAIN}\n# observed in 3 calls, not declared: {{\"id\": int | None}}"));
    let arguments = json!({ "tool_description": "fs do it", "detail": "signatures" });
    let found = call_with(&engine, &at(4), json!({ "name": "optim.find_tool", "arguments": arguments }))
        .await
        .unwrap();
    let tools = found["structuredContent"]["tools"].as_array().unwrap();
    assert!(tools.iter().any(|tool| tool["signature"] == other), "{found}");
}

#[tokio::test]
async fn shapes_outlive_the_process_and_end_with_the_definition_or_the_setting() {
    let (server, dir) = (server().await, tempfile::tempdir().unwrap());
    let start = async |more: &str| {
        let options = Options { storage: Storage::Dir(dir.path().to_owned()), ..Options::default() };
        let yaml = backends(&[("fs", &server.url)], &format!("{OFFERED}{more}"));
        let engine = Engine::start(crate::testing::config(&yaml), options).await.unwrap();
        engine.settled().await;
        engine
    };
    let engine = start("").await;
    works(&engine, &at(1), json!([1])).await;
    let failed = json!({ "name": "fs_fail", "arguments": {} });
    call_with(&engine, &at(1), failed).await.unwrap();
    engine.shapes().flush().await;
    assert_eq!(signature_of(&engine, &at(1), "fs.fail").await, "def fs.fail() -> Any: ...  # Fails.");
    engine.shutdown(Duration::ZERO).await;
    drop(engine);
    let off = start("code: { observedShapes: false }\n").await;
    assert_eq!(described(&off, &at(1)).await, PLAIN);
    drop(off);
    let engine = start("").await;
    engine.shapes().flush().await;
    let learned = described(&engine, &at(2)).await;
    assert_eq!(learned, format!("{PLAIN}\n# observed in 1 call, not declared: list[int]"));
    server.set("do-it", "Does it otherwise.", &json!({}));
    engine.refresh_and_wait(&["fs".into()], false).await;
    assert_eq!(described(&engine, &at(2)).await, "def fs.do_it() -> Any: ...  # Does it otherwise.");
}

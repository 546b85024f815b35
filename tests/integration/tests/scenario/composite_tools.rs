//! Composite tools over real servers: steps that overlap, questions to the user, runs that another process
//! continues.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vmcp_integration::{Client, Fixture, Messages, Redis, Vmcp, VmcpBuilder, eventually};

use super::audit::events;

/// A→(B, C)→D, a question before a call, and a tool that asks its user itself.
fn tools() -> Value {
    let inspect = |id: &str, of: &str, after: &[&str]| json!({ "id": id, "tool": "one.inspect", "arguments": { "of": of }, "dependsOn": after });
    json!({ "compositeTools": [
        {
            "name": "diamond",
            "description": "Makes four calls, two of them at once.",
            "parameters": { "type": "object", "properties": { "ms": { "type": "integer" } }, "required": ["ms"] },
            "steps": [
                inspect("a", "a", &[]),
                { "id": "b", "tool": "one.sleep", "arguments": { "ms": "{{.params.ms}}" }, "dependsOn": ["a"] },
                { "id": "c", "tool": "two.sleep", "arguments": { "ms": "{{.params.ms}}" }, "dependsOn": ["a"] },
                { "id": "d", "tool": "two.inspect", "arguments": {
                    "of": "{{.steps.b.output.text}} and {{.steps.c.output.text}}",
                    "a": "{{.steps.a.output.arguments.of}}",
                } },
            ],
            "output": { "properties": { "all": { "type": "object", "value": "{{.steps.d.output.arguments}}" } } },
        },
        {
            "name": "approve",
            "description": "Asks before it calls.",
            "steps": [
                inspect("before", "{{.params.what}}", &[]),
                { "id": "sure", "type": "elicitation", "message": "Go on with {{.steps.before.output.arguments.of}}?",
                  "schema": { "type": "object", "properties": { "note": { "type": "string" } }, "required": ["note"] } },
                inspect("after", "{{.steps.sure.content.note}}", &["sure"]),
            ],
        },
        { "name": "nested", "description": "Its tool asks.", "steps": [
            { "id": "call", "tool": "new.test_elicitation", "arguments": { "message": "Who?" } },
            inspect("after", "{{.steps.call.output.text}}", &[]),
        ] },
        { "name": "each", "description": "Calls for each item.", "steps": [
            { "id": "all", "type": "forEach", "collection": "{{.params.items}}",
              "step": { "tool": "one.inspect", "arguments": { "of": "{{.forEach.item}}" } } },
        ] },
    ] })
}

async fn backends() -> Vec<Fixture> {
    vec![
        Fixture::http("one", "echo").start().await,
        Fixture::http("two", "echo").start().await,
        Fixture::rmcp("new", "modern").await,
    ]
}

async fn start(backends: &[Fixture]) -> Vmcp {
    start_with(backends, json!({})).await
}

async fn start_with(backends: &[Fixture], more: Value) -> Vmcp {
    let key = json!({"server": {"sessionKeys": ["a key of the two processes, long enough"]}});
    let builder = backends.iter().fold(Vmcp::new(), VmcpBuilder::backend).config(key).config(tools());
    let builder = builder.config(more);
    let vmcp = builder.start().await;
    vmcp.with_tool("composite.nested").await;
    vmcp
}

fn call(tool: &str, arguments: &Value) -> Value {
    json!({"name": tool, "arguments": arguments})
}

fn capable() -> Value {
    json!({"elicitation": {"form": {}}})
}

fn accept(_: &str, _: &Value) -> Value {
    json!({"action": "accept", "content": {"note": "noted", "name": "Ada", "username": "Ada", "email": "a@example.com"}})
}

#[tokio::test]
async fn steps_that_depend_on_one_another_wait_and_others_overlap() {
    let backends = backends().await;
    let vmcp = start(&backends).await;
    for client in [vmcp.modern(), vmcp.legacy().await] {
        let begun = Instant::now();
        let answer = client.request("tools/call", call("composite.diamond", &json!({"ms": 1500}))).await;
        let took = begun.elapsed();
        let all = json!({"of": "slept 1500 ms and slept 1500 ms", "a": "a"});
        assert_eq!(answer.result()["structuredContent"]["all"], all, "{}", answer.text);
        assert!(took < Duration::from_millis(2900), "the two calls of 1.5 s did not overlap: {took:?}");
    }
    let items = json!({"items": ["x", "y"]});
    let answer = vmcp.modern().request("tools/call", call("composite.each", &items)).await;
    let output = &answer.result()["structuredContent"];
    assert_eq!((&output["count"], &output["completed"]), (&json!(2), &json!(2)), "{}", answer.text);
    assert_eq!(output["iterations"][1]["output"]["arguments"]["of"], "y", "{}", answer.text);
}

#[tokio::test]
async fn audit_events_of_a_run_and_its_steps_have_the_id_that_operators_see() {
    let backends = backends().await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("audit.jsonl");
    let vmcp = start_with(&backends, json!({"audit": {"enabled": true, "logFile": file}})).await;
    vmcp.modern().request("tools/call", call("composite.diamond", &json!({"ms": 1}))).await;
    let id = vmcp.admin_json("admin/runs").await["runs"][0]["id"].clone();
    assert!(id.is_string(), "{id}");
    let names = eventually("an event of the run, and one of each step", async || {
        let of_run = |event: &Value| event["metadata"]["extra"]["run"] == id && event["outcome"] == "success";
        let events: Vec<_> = events(&file).into_iter().filter(of_run).collect();
        let names: Vec<_> = events.iter().map(|event| event["target"]["name"].to_string()).collect();
        (names.len() == 5).then_some(names)
    })
    .await;
    assert!(names.iter().any(|name| name.contains("composite.diamond")), "{names:?}");
}

#[tokio::test]
async fn questions_of_steps_and_of_their_tools_reach_clients_of_both_eras() {
    let backends = backends().await;
    let vmcp = start(&backends).await;
    let clients = [
        vmcp.modern().declaring(capable()),
        Client::legacy_with(&vmcp.url, "2025-11-25", "raw", capable()).await,
    ];
    for client in clients {
        for (tool, arguments, expected) in
            [("composite.approve", json!({"what": "it"}), "noted"), ("composite.nested", json!({}), "Ada")]
        {
            let direct = call(tool, &arguments);
            let found = call("optim.call_tool", &json!({"tool_name": tool, "parameters": arguments}));
            for params in [direct, found] {
                let (answer, asked) = client.converse("tools/call", params, &accept).await;
                assert_eq!(asked.len(), 1, "{tool}: {asked:?} {}", answer.text);
                assert!(answer.content_text().contains(expected), "{tool}: {}", answer.text);
            }
        }
    }
}

#[tokio::test]
async fn a_run_that_waits_survives_its_process_and_is_continued_by_another() {
    let backends = backends().await;
    let (mut first, second) = (start(&backends).await, start(&backends).await);
    let client = first.modern().declaring(capable());
    let params = call("composite.approve", &json!({"what": "it"}));
    let asked = client.request("tools/call", params.clone()).await;
    let question = &asked.result()["inputRequests"]["sure"]["params"];
    assert_eq!(question["message"], "Go on with it?", "{}", asked.text);
    let before = backends[0].calls("inspect").await;
    first.process.signal("KILL").await;
    first.process.ended().await;

    let mut answered = params;
    answered["requestState"] = asked.result()["requestState"].clone();
    answered["inputResponses"] = json!({"sure": accept("", &json!({}))});
    let client = second.modern().declaring(capable());
    let answer = client.request("tools/call", answered.clone()).await;
    assert_eq!(answer.result()["structuredContent"]["arguments"]["of"], "noted", "{}", answer.text);
    assert_eq!(backends[0].calls("inspect").await, before + 1, "the step before the question ran once");

    // An answer is good once: the step behind it may not be repeated.
    let again = client.request("tools/call", answered).await;
    assert!(again.text.contains("has been used"), "{}", again.text);
    assert_eq!(backends[0].calls("inspect").await, before + 1);
}

#[tokio::test]
async fn a_run_of_a_session_survives_the_kill_of_its_process_and_repeats_nothing() {
    let (backends, redis) = (backends().await, Redis::start().await);
    let folder = tempfile::tempdir().expect("a folder");
    let in_folder = json!({"optimizer": {"storage": {"dir": folder.path()}}});
    let in_redis = json!({"sessionStorage": {
        "provider": "redis", "address": redis.address, "password": Redis::PASSWORD, "keyPrefix": "runs:",
    }});
    for shared in [in_folder, in_redis] {
        let (mut first, second) =
            futures::join!(start_with(&backends, shared.clone()), start_with(&backends, shared.clone()));
        let client = Client::legacy_with(&first.url, "2025-11-25", "raw", capable()).await;
        let before = backends[0].calls("inspect").await;
        let params = call("composite.approve", &json!({"what": "it"}));
        let mut messages = Messages::of(client.open("tools/call", params.clone()).await);
        while messages.next().await.expect("a question")["method"] != "elicitation/create" {}
        let runs = first.admin_json("admin/runs").await;
        assert_eq!(runs["runs"][0]["state"], "waiting", "{runs}");
        first.process.signal("KILL").await;
        first.process.ended().await;

        // The session goes on at another process, as behind a balancer.
        let session = client.session.clone().expect("a session");
        let client = Client::modern(&second.url).as_legacy().declaring(capable()).with_session(&session);
        let (answer, asked) = client.converse("tools/call", params, &accept).await;
        assert_eq!(asked.len(), 1, "asked again: {asked:?} {}", answer.text);
        assert!(answer.content_text().contains("noted"), "{shared}: {}", answer.text);
        assert_eq!(backends[0].calls("inspect").await, before + 2, "{shared}: each step ran once");
        let continued = second.admin_json("admin/runs").await;
        assert_eq!(
            (&continued["runs"][0]["state"], &continued["runs"][0]["id"]),
            (&json!("done"), &runs["runs"][0]["id"])
        );
    }
}

#[tokio::test]
async fn mistakes_of_a_definition_are_shown_with_their_line() {
    let vmcp = Vmcp::new().start().await;
    vmcp.write_config(
        "backends: []\ncompositeTools:\n  - name: circle\n    steps:\n      - id: a\n        tool: x.y\n        dependsOn: [b]\n      - id: b\n        tool: x.y\n        arguments: { v: '{{.steps.a.output}}' }\n        timeout: soon\n",
    );
    let file = vmcp.config_file();
    let checked = vmcp.cli(&["validate", file.to_str().expect("a path")]).await;
    for part in [
        "compositeTools[0].steps",
        "a after b after a",
        ":11: compositeTools[0].steps[1].timeout",
        "write it as 30s",
    ] {
        assert!(
            checked.stderr.contains(part) || checked.stdout.contains(part),
            "{part}: {} {}",
            checked.stdout,
            checked.stderr
        );
    }
}

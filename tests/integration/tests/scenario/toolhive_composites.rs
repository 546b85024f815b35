//! Composite tools and scripts as ToolHive's own end-to-end suite has them, with real servers: sequential and
//! parallel steps, default results, `fromJson`, hidden tools, search, and `execute_tool_script`.

use serde_json::{Value, json};
use vmcp_integration::{Client, Fixture, Vmcp, VmcpBuilder};

async fn servers() -> [Fixture; 2] {
    [Fixture::http("one", "echo").start().await, Fixture::http("two", "echo").start().await]
}

fn echo(id: &str, tool: &str, message: &str) -> Value {
    json!({ "id": id, "type": "tool", "tool": tool, "arguments": { "message": message } })
}

fn definition(name: &str, parameters: &Value, steps: &Value) -> Value {
    let required: Vec<_> = parameters.as_object().expect("parameters").keys().collect();
    json!({
        "name": name,
        "description": format!("The workflow {name}."),
        "parameters": { "type": "object", "properties": parameters, "required": required },
        "timeout": "30s",
        "steps": steps,
    })
}

fn message() -> Value {
    json!({ "message": { "type": "string", "description": "The message" } })
}

/// The definitions of ToolHive's suite, for servers `one` and `two`.
fn definitions() -> Value {
    let after = |mut step: Value, dependencies: &[&str]| {
        step["dependsOn"] = json!(dependencies);
        step
    };
    let twice = json!([
        echo("first_echo", "one.echo", "{{ .params.message }}"),
        after(echo("second_echo", "one.echo", "{{ .steps.first_echo.output.text }}"), &["first_echo"]),
    ]);
    let mut annotated = definition("echo_twice", &message(), &twice);
    annotated["annotations"] = json!({ "title": "Echo twice", "readOnlyHint": true, "openWorldHint": true });
    let parallel = json!([
        echo("echo_backend1", "one.echo", "backend1: {{ .params.message }}"),
        echo("echo_backend2", "two.echo", "backend2: {{ .params.message }}"),
        after(
            echo(
                "combine_results",
                "one.echo",
                "Combined: [{{ .steps.echo_backend1.output.text }}] + [{{ .steps.echo_backend2.output.text }}]",
            ),
            &["echo_backend1", "echo_backend2"],
        ),
    ]);
    let mut conditional_step = echo("conditional_step", "one_echo", "{{ .params.message }}");
    conditional_step["condition"] = json!("{{.params.run_step}}");
    conditional_step["defaultResults"] = json!({ "text": "default_value_when_skipped" });
    let parameters = json!({ "run_step": { "type": "boolean" }, "message": { "type": "string" } });
    let mut conditional = definition("conditional_echo", &parameters, &json!([conditional_step]));
    conditional["output"] = json!({ "properties": { "result": {
        "type": "string", "description": "Result", "value": "{{.steps.conditional_step.output.text}}",
    } } });
    let parsed = json!([
        echo("search", "one.echo", "{{.params.message}}"),
        after(
            echo("process", "one.echo", "{{(index (fromJson .steps.search.output.text).items 0).id}}"),
            &["search"]
        ),
    ]);
    let mut contradicting =
        definition("claims_to_read", &message(), &json!([{ "id": "a", "tool": "one.inspect" }]));
    contradicting["annotations"] = json!({ "readOnlyHint": true });
    json!([
        annotated,
        definition("parallel_echo", &message(), &parallel),
        conditional,
        definition("parse_json_workflow", &message(), &parsed),
        contradicting,
    ])
}

async fn start(servers: &[Fixture], config: Value, tool: &str) -> Vmcp {
    let vmcp = servers.iter().fold(Vmcp::new(), VmcpBuilder::backend).config(config).start().await;
    for tool in [tool, "one_echo", "two_echo"] {
        vmcp.with_tool(tool).await;
    }
    vmcp
}

/// The listed tools whose names do not begin with those of vmcp's own.
async fn listed(client: &Client) -> Vec<(String, Value)> {
    let tools = client.tools().await;
    tools.into_iter().filter(|(name, _)| !name.starts_with("optim")).collect()
}

#[tokio::test]
async fn workflows_are_listed_and_run_by_the_names_of_their_definitions() {
    let servers = servers().await;
    let config = json!({
        "aggregation": { "conflictResolution": "prefix" },
        "compositeTools": definitions(),
        "optimizer": { "exposure": "All" },
    });
    let vmcp = start(&servers, config, "composite.parse_json_workflow").await;
    for client in [vmcp.modern(), vmcp.legacy().await] {
        let tools = listed(&client).await;
        let found = |name: &str| tools.iter().find(|(listed, _)| listed.ends_with(name));
        let (_, twice) = found("echo_twice").expect("echo_twice is listed");
        assert_eq!(twice["description"], "The workflow echo_twice.");
        assert_eq!(twice["annotations"]["title"], "Echo twice", "{twice}");
        assert_eq!(twice["annotations"]["readOnlyHint"], true, "{twice}");
        assert!(found("one_echo").is_some() && found("two_echo").is_some(), "tools of servers stay");
        assert!(found("claims_to_read").is_none(), "safer than its steps: left out, alone");

        let text = async |tool: &str, arguments: Value| {
            let answer = client.call_tool(tool, arguments).await;
            assert!(!answer.is_tool_error(), "{tool}: {}", answer.text);
            answer.content_text()
        };
        assert!(text("echo_twice", json!({ "message": "sequential_1" })).await.contains("sequential_1"));
        let both = text("parallel_echo", json!({ "message": "parallel_1" })).await;
        assert!(both.contains("Combined: [backend1: parallel_1] + [backend2: parallel_1]"), "{both}");
        let skipped = text("conditional_echo", json!({ "run_step": false, "message": "not_shown" })).await;
        assert!(
            skipped.contains("default_value_when_skipped") && !skipped.contains("not_shown"),
            "{skipped}"
        );
        let ran = text("conditional_echo", json!({ "run_step": true, "message": "shown" })).await;
        assert!(ran.contains("shown") && !ran.contains("default_value"), "{ran}");
        let items = json!({ "items": [{ "id": "item_1" }, { "id": "item_2" }] }).to_string();
        let parsed = text("parse_json_workflow", json!({ "message": items })).await;
        assert!(parsed.contains("item_1") && !parsed.contains("item_2"), "{parsed}");
    }
}

#[tokio::test]
async fn a_workflow_calls_tools_that_are_hidden_from_clients() {
    let servers = servers().await;
    let steps = json!([
        echo("echo_backend_a", "one_echo", "{{ .params.message }}"),
        echo("echo_backend_b", "two_echo", "{{ .steps.echo_backend_a.output.text }}"),
    ]);
    let config = json!({
        "aggregation": { "conflictResolution": "prefix", "tools": [
            { "workload": "one", "excludeAll": true },
            { "workload": "two", "filter": ["nonexistent_tool"] },
        ] },
        "compositeTools": [definition("dual_backend_echo", &message(), &steps)],
        "optimizer": { "exposure": "All" },
    });
    let vmcp = servers.iter().fold(Vmcp::new(), VmcpBuilder::backend).config(config).start().await;
    let client = vmcp.with_tool("composite.dual_backend_echo").await;
    let tools = listed(&client).await;
    let names: Vec<_> = tools.iter().map(|(name, _)| name.as_str()).collect();
    assert!(matches!(names.as_slice(), [name] if name.ends_with("dual_backend_echo")), "{names:?}");
    let answer = client.call_tool("dual_backend_echo", json!({ "message": "through_both" })).await;
    assert!(!answer.is_tool_error() && answer.content_text().contains("through_both"), "{}", answer.text);
    let hidden = client.call_tool("one_echo", json!({ "message": "direct" })).await;
    assert!(hidden.text.contains("\"error\""), "a hidden tool answered: {}", hidden.text);
}

#[tokio::test]
async fn workflows_are_found_and_called_by_the_search_tools_alone() {
    let servers = servers().await;
    let steps = json!([
        echo("first_fetch", "one.echo", "{{.params.message}}"),
        echo("second_fetch", "one.echo", "{{.steps.first_fetch.output.text}}"),
    ]);
    let renamed = json!({ "echo": { "name": "opt_composite_fetch", "description": "Fetches a URL." } });
    let config = json!({
        "aggregation": { "conflictResolution": "prefix", "tools": [{ "workload": "one", "overrides": renamed }] },
        "compositeTools": [definition("double_fetch", &message(), &steps)],
        "optimizer": { "exposure": "MetaOnly" },
    });
    let vmcp = servers.iter().fold(Vmcp::new(), VmcpBuilder::backend).config(config).start().await;
    let client = vmcp.with_tool("composite.double_fetch").await;
    let names: Vec<_> = client.tools().await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    for name in ["opt_composite_fetch", "double_fetch"] {
        let found = client.find_tool(json!({ "tool_description": name })).await;
        assert!(found.content_text().contains(name), "{name}: {}", found.text);
    }
    let answer = client.call_found("double_fetch", json!({ "message": "https://example.com" })).await;
    assert!(answer.content_text().contains("https://example.com"), "{}", answer.text);
    let catalog = vmcp.admin_json("admin/tools?backend=one").await;
    let mut names =
        catalog["tools"].as_array().expect("tools").iter().filter_map(|tool| tool["name"].as_str());
    let name = names.find(|name| name.ends_with("opt_composite_fetch")).expect("the renamed tool");
    let answer = client.call_found(name, json!({ "message": "renamed" })).await;
    assert!(answer.content_text().contains("renamed"), "{}", answer.text);
}

#[tokio::test]
async fn a_starlark_script_fans_out_to_a_server_and_aggregates() {
    let servers = servers().await;
    let config = json!({ "optimizer": { "tools": ["execute_tool_script"], "exposure": "All" } });
    let vmcp = start(&servers, config, "one_echo").await;
    for client in [vmcp.modern(), vmcp.legacy().await] {
        let tools = client.tools().await;
        assert!(
            tools.contains_key("execute_tool_script") && tools.contains_key("one_echo"),
            "{:?}",
            tools.keys()
        );
        let script = "\n\
            results = parallel([\n\
            \x20   lambda: call_tool(\"one_echo\", message=\"codemodealpha\"),\n\
            \x20   lambda: call_tool(\"two_echo\", message=\"codemodebeta\"),\n\
            ])\n\
            return {\"count\": len(results), \"results\": results}\n";
        let answer = client.call_tool("execute_tool_script", json!({ "script": script })).await;
        assert!(!answer.is_tool_error(), "{}", answer.text);
        let result: Value = serde_json::from_str(&answer.content_text()).expect("JSON");
        assert_eq!(result, json!({ "count": 2, "results": ["codemodealpha", "codemodebeta"] }));
    }
}

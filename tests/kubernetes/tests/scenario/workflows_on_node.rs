//! Composite tools and scripts of ToolHive's manifests in running pods: inline, by reference, with
//! `fromJson`, beside a tool that contradicts its steps, and `codeMode`.

use serde_json::{Value, json};
use vmcp_kubernetes_tests::Cluster;

use super::{client, ready};

const SERVERS: &str = "apiVersion: toolhive.stacklok.com/v1alpha1
kind: MCPGroup
metadata: {name: workflows}
spec: {description: Test group for workflows}
---
apiVersion: toolhive.stacklok.com/v1alpha1
kind: MCPServer
metadata: {name: yardstick}
spec:
  groupRef: {name: workflows}
  image: localhost/vmcp-tests/servers:1
  transport: streamable-http
  command: [vmcp-fixture, --transport, http, --host, 0.0.0.0, --port, '8080', --name, yardstick]
  mcpPort: 8080
---
apiVersion: toolhive.stacklok.com/v1alpha1
kind: VirtualMCPCompositeToolDefinition
metadata: {name: echo-twice-definition}
spec:
  name: echo_twice_ref
  description: Echoes the input message twice in sequence (referenced)
  parameters:
    type: object
    properties: {message: {type: string, description: The message to echo twice}}
    required: [message]
  annotations: {title: Echo twice, readOnlyHint: true}
  timeout: 30s
  steps:
    - {id: first_echo, type: tool, tool: yardstick.echo, arguments: {message: '{{ .params.message }}'}}
    - id: second_echo
      type: tool
      tool: yardstick.echo
      dependsOn: [first_echo]
      arguments: {message: '{{ .steps.first_echo.output.text }}'}
---
apiVersion: toolhive.stacklok.com/v1alpha1
kind: VirtualMCPCompositeToolDefinition
metadata: {name: fromjson-template-definition}
spec:
  name: parse_json_workflow
  description: Workflow that parses JSON text responses using fromJson
  parameters: {type: object, properties: {query: {type: string}}, required: [query]}
  steps:
    - {id: search, type: tool, tool: yardstick.echo, arguments: {message: '{{.params.query}}'}}
    - id: process
      type: tool
      tool: yardstick.echo
      dependsOn: [search]
      arguments: {message: '{{(index (fromJson .steps.search.output.text).items 0).id}}'}
---
apiVersion: toolhive.stacklok.com/v1alpha1
kind: VirtualMCPServer
metadata: {name: flows}
spec:
  groupRef: {name: workflows}
  incomingAuth: {type: anonymous}
  config:
    aggregation: {conflictResolution: prefix}
    codeMode: {enabled: true}
    compositeToolRefs: [{name: echo-twice-definition}, {name: fromjson-template-definition}]
    compositeTools:
      - name: conditional_echo
        description: Conditionally echoes input, uses default when skipped
        parameters:
          type: object
          properties: {run_step: {type: boolean}, message: {type: string}}
          required: [run_step, message]
        timeout: 30s
        steps:
          - id: conditional_step
            type: tool
            tool: yardstick_echo
            condition: '{{.params.run_step}}'
            arguments: {message: '{{ .params.message }}'}
            defaultResults: {text: default_value_when_skipped}
        output:
          properties:
            result: {type: string, value: '{{.steps.conditional_step.output.text}}'}
      - name: claims_to_read
        description: Claims more safety than its step has
        annotations: {readOnlyHint: true}
        steps: [{id: a, tool: yardstick.inspect}]
";

#[tokio::test]
async fn workflows_and_scripts_of_toolhive_run_in_pods() {
    let cluster = Cluster::from_environment();
    let place = cluster.served("workflows").await;
    place.apply(SERVERS).await;
    ready(&place, "flows").await;
    let validated = place.condition("virtualmcpserver/flows", "CompositeToolRefsValidated").await;
    assert_eq!(validated["status"], "True", "{validated}");
    let (_way, client) = client(&place, "flows").await;
    let listed = async || {
        let tools = client.tools().await;
        tools.keys().any(|name| name.ends_with("parse_json_workflow")).then_some(tools)
    };
    let tools = place.eventually("the workflows to be listed", listed).await;
    let found = |name: &str| tools.iter().find(|(listed, _)| listed.ends_with(name)).map(|(_, tool)| tool);
    let twice = found("echo_twice_ref").expect("the referenced workflow");
    assert_eq!(twice["description"], "Echoes the input message twice in sequence (referenced)");
    assert_eq!(twice["annotations"]["title"], "Echo twice", "{twice}");
    assert!(
        found("yardstick_echo").is_some() && found("execute_tool_script").is_some(),
        "{:?}",
        tools.keys()
    );
    assert!(found("claims_to_read").is_none(), "left out, and the server is ready all the same");

    let text = async |tool: &str, arguments: Value| {
        let answer = client.call_tool(tool, arguments).await;
        assert!(!answer.is_tool_error(), "{tool}: {}", answer.text);
        answer.content_text()
    };
    assert!(text("echo_twice_ref", json!({ "message": "referenced_1" })).await.contains("referenced_1"));
    let skipped = text("conditional_echo", json!({ "run_step": false, "message": "not_shown" })).await;
    assert!(skipped.contains("default_value_when_skipped") && !skipped.contains("not_shown"), "{skipped}");
    let items = json!({ "items": [{ "id": "item_1" }] }).to_string();
    assert!(text("parse_json_workflow", json!({ "query": items })).await.contains("item_1"));
    let script = "results = parallel([\n\
                  \x20   lambda: call_tool(\"yardstick_echo\", message=\"alpha\"),\n\
                  \x20   lambda: call_tool(\"yardstick_echo\", message=\"beta\"),\n\
                  ])\n\
                  return {\"count\": len(results), \"results\": results}";
    let result = text("execute_tool_script", json!({ "script": script })).await;
    let result: Value = serde_json::from_str(&result).expect("JSON");
    assert_eq!(result, json!({ "count": 2, "results": ["alpha", "beta"] }));
    place.remove().await;
}

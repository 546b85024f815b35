//! Composite tools on a real API server: definitions of their own, and servers that refer to them.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use vmcp_crds::shared_settings::composite_tool_definition::ValidationStatus;
use vmcp_crds::{
    VirtualMCPCompositeToolDefinition, VirtualMCPCompositeToolDefinitionStatus, VirtualMCPServer,
};
use vmcp_kubernetes_tests::Namespace;

use super::backends::{apply, await_condition, place};

const KIND: &str = "VirtualMCPCompositeToolDefinition";
const FINE: &str = "{name: greet, description: Greets, steps: [{id: say, tool: echo.echo,
    arguments: {text: 'Hello {{.params.who}}, ${5}', deep: {list: [1, {any: thing}]}}}]}";

/// Waits until the status of a definition is as wanted.
async fn status(
    place: &Namespace,
    name: &str,
    wanted: impl Fn(&VirtualMCPCompositeToolDefinitionStatus) -> bool,
) -> VirtualMCPCompositeToolDefinitionStatus {
    place
        .eventually(&format!("the status of {name}"), async || {
            let definition = place.get::<VirtualMCPCompositeToolDefinition>(name).await?;
            let generation = definition.metadata.generation;
            definition.status.filter(|status| status.observed_generation == generation && wanted(status))
        })
        .await
}

/// Waits until the configuration of server `x` has these composite tools, and returns them.
async fn served(place: &Namespace, names: &[&str]) -> Value {
    place
        .eventually(&format!("composite tools {names:?}"), async || {
            let text = place.get::<ConfigMap>("x-vmcp-config").await?.data?.remove("vmcp.yaml")?;
            let file: Value = serde_saphyr::from_str(&text).ok()?;
            let tools = file.get("compositeTools").cloned().unwrap_or_else(|| json!([]));
            let found: Vec<_> = tools.as_array()?.iter().filter_map(|tool| tool["name"].as_str()).collect();
            (found == names).then(|| tools.clone())
        })
        .await
}

#[tokio::test]
async fn definitions_are_followed_and_a_broken_one_costs_itself_alone() {
    let (place, _operator) = place("composites").await;
    let own = "{name: own, steps: [{id: a, tool: echo.echo}]}";
    let spec =
        format!("{{config: {{compositeTools: [{own}], compositeToolRefs: [{{name: one}}, {{name: two}}]}}}}");
    apply(&place, "VirtualMCPServer", "x", &spec).await;
    let is = async |status: &str, reason: &str| {
        await_condition::<VirtualMCPServer>(&place, "x", "CompositeToolRefsValidated", status, reason).await
    };
    let message = is("False", "CompositeToolRefNotFound").await;
    assert!(message.contains(&format!("no {KIND} one")) && message.contains("two"), "{message}");
    served(&place, &["own"]).await;

    // Created after the server: the server follows.
    apply(&place, KIND, "one", FINE).await;
    apply(&place, KIND, "two", "{name: second, steps: [{id: a, tool: echo.echo}]}").await;
    is("True", "CompositeToolRefsValid").await;
    let tools = served(&place, &["own", "greet", "second"]).await;
    let arguments = &tools[1]["steps"][0]["arguments"];
    assert_eq!(
        arguments["deep"],
        json!({ "list": [1, { "any": "thing" }] }),
        "the API server prunes nothing"
    );
    assert_eq!(arguments["text"], "Hello {{.params.who}}, $${5}");
    let valid = Some(ValidationStatus::Valid);
    let found = status(&place, "one", |status| status.referencing_virtual_servers == ["x"]).await;
    assert_eq!((found.validation_status, found.validation_errors.len()), (valid, 0));
    await_condition::<VirtualMCPCompositeToolDefinition>(&place, "one", "Ready", "True", "WorkflowReady")
        .await;

    // Changed: pods get the new text.
    let change = json!({ "spec": { "name": "hail" } });
    place.edit::<VirtualMCPCompositeToolDefinition>("one", change).await;
    served(&place, &["own", "hail", "second"]).await;

    // A circle: the API server takes it, the status names it, the other tools are served.
    let step = |id: &str, after: &str| json!({ "id": id, "tool": "echo.echo", "dependsOn": [after] });
    let circle = json!({ "spec": { "steps": [step("a", "b"), step("b", "a")] } });
    place.edit::<VirtualMCPCompositeToolDefinition>("one", circle).await;
    let found = status(&place, "one", |status| status.validation_status != valid).await;
    let mistake = found.validation_errors.first().unwrap();
    assert!(mistake.starts_with("spec.steps: a circle of dependencies"), "{mistake}");
    let why = "DependencyCycle";
    await_condition::<VirtualMCPCompositeToolDefinition>(&place, "one", "WorkflowValidated", "False", why)
        .await;
    await_condition::<VirtualMCPCompositeToolDefinition>(&place, "one", "Ready", "False", "WorkflowNotReady")
        .await;
    let message = is("False", "CompositeToolRefInvalid").await;
    assert!(message.contains(&format!("{KIND} one: spec.steps: a circle")), "{message}");
    served(&place, &["own", "second"]).await;
    await_condition::<VirtualMCPServer>(&place, "x", "ConfigValid", "True", "Valid").await;

    // No longer referred to.
    let without = json!({ "spec": { "config": { "compositeToolRefs": [{ "name": "two" }] } } });
    place.edit::<VirtualMCPServer>("x", without).await;
    is("True", "CompositeToolRefsValid").await;
    status(&place, "one", |status| status.referencing_virtual_servers.is_empty()).await;

    // Mistakes that the schema can tell are refused at once.
    let cluster = place.cluster();
    let refused = async |spec: &str| {
        let manifest = format!(
            "{{apiVersion: toolhive.stacklok.com/v1alpha1, kind: {KIND}, metadata: {{name: odd}}, spec: {spec}}}"
        );
        cluster.apply(&manifest, &place.name).await.unwrap_err().to_string()
    };
    let itself = refused("{name: odd, steps: [{id: a, tool: x, dependsOn: [a]}]}").await;
    assert!(itself.contains("the step waits for itself"), "{itself}");
    let many: Vec<_> = (0..101).map(|n| format!("{{id: s{n}, tool: x}}")).collect();
    let many = refused(&format!("{{name: odd, steps: [{}]}}", many.join(", "))).await;
    assert!(many.contains("spec.steps"), "{many}");
    let loops = refused("{name: odd, steps: [{id: a, type: forEach, maxIterations: 1000000}]}").await;
    assert!(loops.contains("maxIterations"), "{loops}");
    place.remove().await;
}

/// ToolHive's definitions with questions: every action of an answer, and questions between tools. A
/// definition that no server refers to changes no server.
#[tokio::test]
async fn questions_with_every_action_are_valid_and_unrelated_definitions_change_nothing() {
    let (place, _operator) = place("elicitation").await;
    let question = |action: &str| {
        format!(
            "{{id: elicit_{action}, type: elicitation, message: Test, schema: {{type: object}}, \
             onDecline: {{action: {action}}}, onCancel: {{action: {action}}}}}"
        )
    };
    let all = ["skip_remaining", "abort", "continue"].map(question).join(", ");
    apply(&place, KIND, "all-handlers", &format!("{{name: all_handlers_workflow, steps: [{all}]}}")).await;
    let mixed = "{name: interactive_workflow, timeout: 15m, steps: [
        {id: prepare, type: tool, tool: echo, timeout: 1m},
        {id: confirm_deploy, type: elicitation, message: 'Proceed with deployment?', dependsOn: [prepare], timeout: 5m,
         schema: {type: object, properties: {proceed: {type: boolean}}},
         onDecline: {action: skip_remaining}, onCancel: {action: abort}},
        {id: select_env, type: elicitation, message: Select target environment, dependsOn: [confirm_deploy],
         schema: {type: object, properties: {environment: {type: string, enum: [staging, production]}}},
         onDecline: {action: continue}, onCancel: {action: abort}},
        {id: deploy, type: tool, tool: deploy_app, dependsOn: [select_env], timeout: 2m}]}";
    apply(&place, KIND, "interactive", mixed).await;
    let spec = "{config: {compositeToolRefs: [{name: all-handlers}, {name: interactive}]}}";
    apply(&place, "VirtualMCPServer", "x", spec).await;
    let reason = "CompositeToolRefsValid";
    await_condition::<VirtualMCPServer>(&place, "x", "CompositeToolRefsValidated", "True", reason).await;
    let tools = served(&place, &["all_handlers_workflow", "interactive_workflow"]).await;
    assert_eq!(tools[0]["steps"][0]["onDecline"]["action"], "skip_remaining", "{tools}");
    assert_eq!(tools[1]["steps"][1]["message"], "Proceed with deployment?", "{tools}");
    let valid = Some(ValidationStatus::Valid);
    for name in ["all-handlers", "interactive"] {
        status(&place, name, |status| status.validation_status == valid).await;
    }

    let version = async || {
        let config = place.get::<ConfigMap>("x-vmcp-config").await.expect("the configuration");
        config.metadata.resource_version
    };
    let before = version().await;
    apply(&place, KIND, "unrelated", FINE).await;
    status(&place, "unrelated", |status| status.validation_status == valid).await;
    assert_eq!(version().await, before, "a definition that no server refers to");
    place.remove().await;
}

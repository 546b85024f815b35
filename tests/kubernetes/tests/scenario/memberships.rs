//! Members of groups and servers: the backends that come into the configuration of a VirtualMCPServer.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use vmcp_crds::{MCPGroup, MCPServer, MCPServerEntry, MCPToolConfig, VirtualMCPServer};
use vmcp_kubernetes_tests::{Stopwatch, written_by_operator};

use super::backends::{apply, await_condition, deployment, place};

#[tokio::test]
async fn a_group_knows_its_members() {
    let (place, _operator) = place("group").await;
    apply(&place, "MCPGroup", "tools", "{}").await;
    await_condition::<MCPGroup>(&place, "tools", "Ready", "True", "Empty").await;
    apply(&place, "MCPServer", "time", "{image: 'x:1', command: [run], groupRef: {name: tools}}").await;
    apply(
        &place,
        "MCPServerEntry",
        "github",
        "{remoteUrl: 'https://a.example/mcp', groupRef: {name: tools}}",
    )
    .await;
    let members = async |servers: &[&str], entries: &[&str]| {
        place
            .eventually("the members", async || {
                let status = place.get::<MCPGroup>("tools").await?.status?;
                let counted = (status.server_count as usize, status.entry_count as usize)
                    == (servers.len(), entries.len());
                (counted && status.servers == servers && status.entries == entries).then_some(())
            })
            .await;
    };
    members(&["time"], &["github"]).await;
    apply(&place, "MCPGroup", "others", "{}").await;
    place.edit::<MCPServer>("time", json!({ "spec": { "groupRef": { "name": "others" } } })).await;
    members(&[], &["github"]).await;
    place.delete::<MCPServerEntry>("github").await;
    members(&[], &[]).await;
    place.delete::<MCPGroup>("others").await;
    await_condition::<MCPServer>(&place, "time", "GroupRefValidated", "False", "GroupNotFound").await;
}

/// Members of the group are configured, and no others; the pod template does not change.
#[tokio::test]
async fn backends_come_and_go_in_the_configuration() {
    let (place, _operator) = place("members").await;
    apply(&place, "MCPGroup", "tools", "{}").await;
    apply(&place, "VirtualMCPServer", "x", "{groupRef: {name: tools}}").await;
    apply(&place, "VirtualMCPServer", "all", "{}").await;
    let configured = async |server: &str, what: &str, present: bool| {
        let map = format!("{server}-vmcp-config");
        let wanted = if present { "to come" } else { "to go" };
        place
            .eventually(&format!("{what} {wanted} in {map}"), async || {
                let text = place.get::<ConfigMap>(&map).await?.data?.remove("vmcp.yaml")?;
                (text.contains(what) == present).then_some(text)
            })
            .await
    };
    configured("x", "mcp-time", false).await;
    let before = deployment(&place, "x").await.spec.unwrap().template;
    let url = format!("http://mcp-time.{}.svc.cluster.local:8080/mcp", place.name);
    apply(&place, "MCPServer", "time", "{image: 'x:1', command: [run], groupRef: {name: tools}}").await;
    apply(&place, "MCPServer", "free", "{image: 'x:1', transport: sse}").await;
    apply(&place, "MCPServerEntry", "inside", "{remoteUrl: 'http://10.0.0.1/mcp', groupRef: {name: tools}}")
        .await;
    let text = configured("x", &url, true).await;
    assert!(!text.contains("mcp-free") && !text.contains("10.0.0.1"), "{text}");
    configured("all", "mcp-free", true).await;
    let watch = Stopwatch::start(&place).await;
    place.delete::<MCPServer>("time").await;
    configured("x", "mcp-time", false).await;
    let metadata = place.get::<ConfigMap>("x-vmcp-config").await.unwrap().metadata;
    let written = written_by_operator(&metadata).expect("a write of the operator");
    watch.assert_within(Duration::from_secs(5), "a deleted backend leaves the configuration", &written);
    assert_eq!(deployment(&place, "x").await.spec.unwrap().template, before);
}

#[tokio::test]
async fn a_backend_whose_tool_config_cannot_be_followed_is_named() {
    let (place, _operator) = place("filters").await;
    let entry = "{remoteUrl: 'https://a.example.com/mcp', toolConfigRef: {name: filter}}";
    apply(&place, "MCPServerEntry", "web", entry).await;
    apply(&place, "VirtualMCPServer", "x", "{}").await;
    let is = async |status: &str, reason: &str| {
        await_condition::<VirtualMCPServer>(&place, "x", "ToolConfigRefsValidated", status, reason).await
    };
    let message = is("False", "ToolConfigRefNotFound").await;
    assert!(message.contains("no MCPToolConfig filter") && message.contains("backend web"), "{message}");

    apply(&place, "MCPToolConfig", "filter", "{toolsFilter: [search]}").await;
    is("True", "ToolConfigRefsValid").await;
    let clash = json!({ "spec": { "toolsOverride": { "a": { "name": "x" }, "b": { "name": "x" } } } });
    place.edit::<MCPToolConfig>("filter", clash).await;
    let message = is("False", "ToolConfigRefNotValid").await;
    assert!(message.contains("MCPToolConfig filter: spec.toolsOverride.b.name"), "{message}");
    place.remove().await;
}

#[tokio::test]
async fn a_server_has_backends_of_its_own_and_those_that_name_it() {
    let (place, _operator) = place("inline").await;
    apply(&place, "MCPServerEntry", "shared", "{remoteUrl: 'https://shared.example.com/mcp'}").await;
    apply(
        &place,
        "MCPServerEntry",
        "only-a",
        "{remoteUrl: 'https://only-a.example.com/mcp', vmcpRef: {name: a}}",
    )
    .await;
    apply(
        &place,
        "VirtualMCPServer",
        "a",
        "{backends: [{name: docs, remoteUrl: 'https://docs.example.com/mcp'}]}",
    )
    .await;
    apply(&place, "VirtualMCPServer", "b", "{}").await;
    let has = async |server: &str, expected: &[&str], others: &[&str]| {
        let map = format!("{server}-vmcp-config");
        place
            .eventually(&format!("the backends of {server}"), async || {
                let map = place.get::<ConfigMap>(&map).await?;
                let text = map.data?.remove("vmcp.yaml")?;
                let backends = vmcp_crds::lower::backends_of(&text);
                let is_there = |name: &&str| backends.contains(*name);
                (expected.iter().all(is_there) && !others.iter().any(is_there)).then_some(())
            })
            .await;
    };
    has("a", &["docs", "only-a"], &["shared"]).await;
    has("b", &["shared"], &["docs", "only-a"]).await;

    // An entry of another author takes the name of none of them.
    apply(
        &place,
        "MCPServerEntry",
        "docs",
        "{remoteUrl: 'https://elsewhere.example.com/mcp', vmcpRef: {name: a}}",
    )
    .await;
    let message = await_condition::<VirtualMCPServer>(
        &place,
        "a",
        "BackendsDiscovered",
        "False",
        "DuplicateBackendName",
    )
    .await;
    assert!(message.contains("is called docs"), "{message}");
    let text = place.get::<ConfigMap>("a-vmcp-config").await.and_then(|map| map.data?.remove("vmcp.yaml"));
    let text = text.expect("a configuration");
    assert!(text.contains("https://docs.example.com") && !text.contains("elsewhere"), "{text}");
    place.delete::<MCPServerEntry>("docs").await;

    // An own backend that leaves the spec leaves the configuration, and with the last one all come back.
    let none = json!({ "spec": { "backends": null } });
    place.edit::<VirtualMCPServer>("a", none).await;
    has("a", &["only-a", "shared"], &["docs"]).await;
}

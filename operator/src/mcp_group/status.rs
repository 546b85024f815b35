//! Step 2 of a reconcile, status: the status of an MCPGroup: names and numbers of its members. Pure.

use std::sync::Arc;

use kube::ResourceExt as _;
use vmcp_crds::fields::references::LocalReference;
use vmcp_crds::mcp_group::MCPGroupPhase;
use vmcp_crds::{MCPGroup, MCPGroupStatus, MCPRemoteProxy, MCPServer, MCPServerEntry};

use crate::runtime::Conditions;

/// Most members of a kind that the status names; the counts are those of all.
const MAX_LISTED: usize = 1000;

/// Computes the status. `servers`, `entries` and `proxies` are all of the namespace.
pub(super) fn compute(
    group: &MCPGroup,
    servers: &[Arc<MCPServer>],
    entries: &[Arc<MCPServerEntry>],
    proxies: &[Arc<MCPRemoteProxy>],
) -> MCPGroupStatus {
    let name = group.name_any();
    let belongs = |reference: Option<&LocalReference>| reference.is_some_and(|group| group.name == name);
    let servers: Vec<_> = servers
        .iter()
        .filter(|server| belongs(server.spec.group_ref.as_ref()))
        .map(|server| server.name_any())
        .collect();
    let entries: Vec<_> = entries
        .iter()
        .filter(|entry| belongs(entry.spec.group_ref.as_ref()))
        .map(|entry| entry.name_any())
        .collect();
    let proxies: Vec<_> = proxies
        .iter()
        .filter(|proxy| belongs(proxy.spec.remote.group_ref.as_ref()))
        .map(|proxy| proxy.name_any())
        .collect();
    let generation = group.metadata.generation.unwrap_or_default();
    let before = group.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let mut conditions = Conditions::new(before, generation);
    if servers.is_empty() && entries.is_empty() && proxies.is_empty() {
        let message = format!(
            "the group has no members; set `groupRef: {{name: {name}}}` in an MCPServer, MCPServerEntry or MCPRemoteProxy"
        );
        conditions.set("Ready", true, "Empty", message);
    } else {
        let message = format!(
            "members: {} MCPServers, {} MCPServerEntries, {} MCPRemoteProxies",
            servers.len(),
            entries.len(),
            proxies.len()
        );
        conditions.set("Ready", true, "MembersListed", message);
    }
    MCPGroupStatus {
        phase: Some(MCPGroupPhase::Ready),
        observed_generation: Some(generation),
        server_count: count(&servers),
        servers: listed(servers),
        entry_count: count(&entries),
        entries: listed(entries),
        remote_proxy_count: count(&proxies),
        remote_proxies: listed(proxies),
        conditions: conditions.finish(),
    }
}

/// Returns the first names: a status has to fit into an object of 1.5 MiB.
fn listed(mut names: Vec<String>) -> Vec<String> {
    names.truncate(MAX_LISTED);
    names
}

fn count(names: &[String]) -> i32 {
    i32::try_from(names.len()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn named<K: serde::de::DeserializeOwned>(kind: &str, name: &str, spec: &Value) -> K {
        let object = json!({
            "apiVersion": "toolhive.stacklok.com/v1alpha1", "kind": kind,
            "metadata": { "name": name, "namespace": "n", "generation": 1 }, "spec": spec,
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn members_are_those_that_say_so() {
        let member = |group: &str| json!({ "image": "i", "groupRef": { "name": group } });
        let servers: Vec<MCPServer> = vec![
            named("MCPServer", "time", &member("tools")),
            named("MCPServer", "other", &member("others")),
            named("MCPServer", "free", &json!({ "image": "i" })),
        ];
        let servers: Vec<_> = servers.into_iter().map(Arc::new).collect();
        let group: MCPGroup = named("MCPGroup", "tools", &json!({}));
        let proxy = json!({ "remoteUrl": "https://x.example/mcp", "groupRef": { "name": "tools" } });
        let proxies = [Arc::new(named::<MCPRemoteProxy>("MCPRemoteProxy", "remote", &proxy))];
        let status = compute(&group, &servers, &[], &proxies);
        assert_eq!((status.remote_proxies, status.remote_proxy_count), (vec!["remote".to_owned()], 1));
        assert_eq!(
            (status.servers, status.server_count, status.entry_count),
            (vec!["time".to_owned()], 1, 0)
        );
        let many: Vec<_> = (0..=MAX_LISTED).map(|_| Arc::clone(&servers[0])).collect();
        let status = compute(&group, &many, &[], &[]);
        assert_eq!((status.servers.len(), status.server_count), (MAX_LISTED, 1001));
        let empty = compute(&group, &[], &[], &[]);
        assert_eq!(empty.conditions[0].reason, "Empty");
    }
}

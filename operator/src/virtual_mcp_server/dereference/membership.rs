//! Membership of backends: by `groupRef`, `backendSelector` and `backends` of the server, and by `groupRef`
//! and `vmcpRef` of the backend.

use std::collections::BTreeMap;

use vmcp_crds::VirtualMCPServer;
use vmcp_crds::fields::references::LocalReference;
use vmcp_crds::lower::ADDED_BY_LABEL;

use super::group_elsewhere;

/// Returns the name of the MCPGroup: `spec.groupRef`, else `spec.config.groupRef`.
pub(in crate::virtual_mcp_server) fn group_of(server: &VirtualMCPServer) -> Option<&str> {
    server.spec.group().map(|(group, _)| group)
}

/// Returns true if a backend of the namespace belongs to the server. `server_of` is its `vmcpRef`.
pub(super) fn is_member(
    server: &VirtualMCPServer,
    group: Option<&LocalReference>,
    server_of: Option<&LocalReference>,
    labels: &BTreeMap<String, String>,
) -> bool {
    let is_own = server_of.map(|own| server.metadata.name.as_deref() == Some(own.name.as_str()));
    if is_own == Some(false) {
        return false;
    }
    // With a group of another namespace, no backend of this one belongs.
    if group_elsewhere(server).is_some() {
        return false;
    }
    let wanted = group_of(server);
    // Backends of its own are a choice, as a group and a selector are; without a choice, all belong.
    let chooses_others = wanted.is_some() || server.spec.backend_selector.is_some();
    if !chooses_others && !server.spec.backends.is_empty() && is_own.is_none() {
        return false;
    }
    (wanted.is_none() || wanted == group.map(|group| group.name.as_str())) && selected(server, labels)
}

/// Returns true if `spec.backendSelector` selects these labels. A backend that a client of a VirtualMCPServer
/// added belongs to that one alone: the client has no say in others.
pub(super) fn selected(server: &VirtualMCPServer, labels: &BTreeMap<String, String>) -> bool {
    if let Some(added_by) = labels.get(ADDED_BY_LABEL) {
        return group_elsewhere(server).is_none()
            && server.metadata.name.as_deref() == Some(added_by.as_str());
    }
    let Some(selector) = &server.spec.backend_selector else { return true };
    // An invalid selector selects nothing; `validate` reports it.
    kube::core::Selector::try_from(selector.clone())
        .is_ok_and(|selector| kube::core::SelectorExt::matches(&selector, labels))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(yaml: &str) -> VirtualMCPServer {
        serde_saphyr::from_str(yaml).expect("a VirtualMCPServer")
    }

    #[test]
    fn a_group_is_written_in_one_of_two_places() {
        let with = |spec: &str| server(&format!("metadata: {{name: x}}\nspec: {spec}"));
        assert_eq!(group_of(&with("{groupRef: {name: a}}")), Some("a"));
        assert_eq!(group_of(&with("{config: {groupRef: b}}")), Some("b"));
        assert_eq!(group_of(&with("{}")), None);
    }

    #[test]
    fn labels_select_among_the_members() {
        let server = server("metadata: {name: x}\nspec: {backendSelector: {matchLabels: {stage: prod}}}");
        let labels = |stage: &str| BTreeMap::from([("stage".to_owned(), stage.to_owned())]);
        assert!(selected(&server, &labels("prod")));
        assert!(!selected(&server, &labels("staging")));
    }

    #[test]
    fn a_backend_belongs_by_its_group_its_server_and_the_servers_own_choice() {
        let name = |name: &str| LocalReference { name: name.to_owned() };
        let is_member = |spec: &str, group: Option<&str>, server_of: Option<&str>| {
            let server = server(&format!("metadata: {{name: x}}\nspec: {spec}"));
            let (group, server_of) = (group.map(name), server_of.map(name));
            is_member(&server, group.as_ref(), server_of.as_ref(), &BTreeMap::new())
        };
        let inline = "backends: [{name: a, remoteUrl: 'https://a.example/mcp'}]";
        let (alone, with_group) = (format!("{{{inline}}}"), format!("{{{inline}, groupRef: {{name: g}}}}"));
        for (spec, group, server_of, expected) in [
            ("{}", None, None, true),
            ("{}", Some("g"), None, true),
            ("{}", None, Some("x"), true),
            ("{}", None, Some("other"), false),
            ("{groupRef: {name: g}}", Some("g"), Some("other"), false),
            ("{groupRef: {name: g}}", None, Some("x"), false),
            (alone.as_str(), None, None, false),
            (alone.as_str(), None, Some("x"), true),
            (with_group.as_str(), Some("g"), None, true),
            (with_group.as_str(), None, None, false),
        ] {
            assert_eq!(is_member(spec, group, server_of), expected, "{spec} {group:?} {server_of:?}");
        }
    }
}

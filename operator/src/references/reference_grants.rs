//! References of VirtualMCPServers to objects of other namespaces, which these grant by a ReferenceGrant of
//! the Gateway API.

use std::collections::BTreeSet;

use vmcp_crds::MCPServer;

use crate::runtime::{BuildSettings, Context, GrantFrom, GrantTo, ReferenceGrant, unchecked};

/// The kind whose references are granted.
const REFERRING_KIND: &str = "VirtualMCPServer";
/// The kind of grants, as the table of authors' rights names it.
const GRANT_KIND: &str = "ReferenceGrant";
/// Most objects that one proposed grant names; a condition holds 2 KiB.
const MAX_PROPOSED: usize = 8;

/// An object of another namespace that a VirtualMCPServer refers to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GrantTarget {
    /// Its namespace.
    pub namespace: String,
    /// Its kind.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
}

/// The fault of references that no grant allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GrantRefusal {
    /// The reason of the condition.
    pub reason: &'static str,
    /// The fault, and the remedy.
    pub message: String,
}

/// Returns true if the target's namespace lets VirtualMCPServers of the namespace `from` refer to the target.
pub(crate) fn is_granted(context: &Context, from: &str, target: &GrantTarget) -> bool {
    let grants = context.resources.reference_grants.list(&target.namespace);
    grants.iter().any(|grant| grants_to(grant, from, target, &context.settings))
}

/// Returns the namespaces whose VirtualMCPServers may refer to an MCPServer or to its group.
pub(crate) fn granted_namespaces(context: &Context, server: &MCPServer) -> BTreeSet<String> {
    let namespace = server.metadata.namespace.as_deref().unwrap_or_default();
    let grants = context.resources.reference_grants.list(namespace);
    let granted = grants.iter().flat_map(|grant| namespaces_of(grant, server, &context.settings));
    granted.filter(|from| from != namespace).collect()
}

/// Returns the fault of references from the namespace `from` that no grant allows; `None` without any.
pub(crate) fn refusal(context: &Context, from: &str, refused: &[GrantTarget]) -> Option<GrantRefusal> {
    let first = refused.first()?;
    let namespace = &first.namespace;
    if !context.watches(namespace) {
        let message = format!(
            "the operator does not watch the namespace {namespace}; add it to `namespaces` of the operator's chart, or \
             remove the reference"
        );
        return Some(GrantRefusal { reason: "NamespaceNotWatched", message });
    }
    if context.resources.reference_grants.is_missing() {
        let message = "references to other namespaces need ReferenceGrants, a kind that this cluster lacks; install the \
                       Gateway API, or remove them";
        return Some(GrantRefusal { reason: "ApiMissing", message: message.to_owned() });
    }
    if !context.settings.authors_checked {
        let message = "grants of other namespaces are not followed, since nothing checks that their authors may create \
                       NetworkPolicies; install the admission policies and set `AUTHORS_CHECKED: \"true\"` of the operator, \
                       or remove the reference";
        return Some(GrantRefusal { reason: "AuthorsUnchecked", message: message.to_owned() });
    }
    let group = context.settings.api_group.name();
    Some(GrantRefusal { reason: "RefNotPermitted", message: not_permitted(group, from, refused) })
}

/// Returns the message with the grant that is missing. It is the same whether or not the object exists.
fn not_permitted(group: &str, from: &str, refused: &[GrantTarget]) -> String {
    let namespace = refused.first().map(|first| first.namespace.as_str()).unwrap_or_default();
    let of_namespace: Vec<_> =
        refused.iter().filter(|target| target.namespace == namespace).take(MAX_PROPOSED).collect();
    let more = match refused.len() - of_namespace.len() {
        0 => String::new(),
        more => format!(" ({more} more references have no grant either)"),
    };
    let (kind, name) = refused.first().map(|first| (first.kind, first.name.as_str())).unwrap_or_default();
    format!(
        "the namespace {namespace} does not let VirtualMCPServers of {from} refer to its {kind} {name}; apply there: {}{more}",
        manifest(group, from, namespace, &of_namespace)
    )
}

/// Returns a ReferenceGrant as one line of YAML.
fn manifest(group: &str, from: &str, namespace: &str, targets: &[&GrantTarget]) -> String {
    let to = targets.iter().map(|GrantTarget { kind, name, .. }| {
        format!("{{group: {group}, kind: {kind}, name: {}}}", scalar(name))
    });
    let to: Vec<_> = to.collect();
    format!(
        "{{apiVersion: gateway.networking.k8s.io/v1beta1, kind: ReferenceGrant, metadata: {{name: vmcp-{from}, \
         namespace: {}}}, spec: {{from: [{{group: {group}, kind: {REFERRING_KIND}, namespace: {}}}], to: [{}]}}}}",
        scalar(namespace),
        scalar(from),
        to.join(", ")
    )
}

/// Returns a name of Kubernetes as a YAML string. Some would be numbers, or true and false.
fn scalar(name: &str) -> String {
    let words = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_plain = name.starts_with(|first: char| first.is_ascii_alphabetic()) && !words.contains(&name);
    if is_plain { name.to_owned() } else { format!("'{name}'") }
}

/// Returns true if a grant lets VirtualMCPServers of the namespace `from` refer to an object of its
/// namespace.
fn grants_to(grant: &ReferenceGrant, from: &str, target: &GrantTarget, settings: &BuildSettings) -> bool {
    let group = settings.api_group.name();
    is_followed(grant, settings)
        && grant.spec.from.iter().any(|by| is_ours(by, group) && by.namespace == from)
        && grant.spec.to.iter().any(|to| to.means(group, target.kind, &target.name))
}

/// Returns the namespaces to whose VirtualMCPServers a grant gives an MCPServer of its namespace, or the
/// group of the server.
fn namespaces_of(grant: &ReferenceGrant, server: &MCPServer, settings: &BuildSettings) -> Vec<String> {
    let group = settings.api_group.name();
    let name = server.metadata.name.as_deref().unwrap_or_default();
    let own_group = server.spec.group_ref.as_ref();
    let is_meant = |to: &GrantTo| {
        to.means(group, "MCPServer", name)
            || own_group.is_some_and(|own_group| to.means(group, "MCPGroup", &own_group.name))
    };
    if !is_followed(grant, settings) || !grant.spec.to.iter().any(is_meant) {
        return Vec::new();
    }
    let from = grant.spec.from.iter().filter(|by| is_ours(by, group));
    from.map(|by| by.namespace.clone()).collect()
}

/// Returns true unless the grant is being deleted, or nothing checks the rights of its author.
fn is_followed(grant: &ReferenceGrant, settings: &BuildSettings) -> bool {
    grant.metadata.deletion_timestamp.is_none() && unchecked(GRANT_KIND, &grant.spec, settings).is_none()
}

fn is_ours(by: &GrantFrom, group: &str) -> bool {
    by.group == group && by.kind == REFERRING_KIND
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: &str = "toolhive.stacklok.com";

    fn grant(spec: &str) -> ReferenceGrant {
        let text = format!("{{metadata: {{name: g, namespace: b}}, spec: {spec}}}");
        serde_saphyr::from_str(&text).expect("a grant")
    }

    fn target(kind: &'static str, name: &str) -> GrantTarget {
        GrantTarget { namespace: "b".to_owned(), kind, name: name.to_owned() }
    }

    fn server(group: &str) -> MCPServer {
        let text = format!(
            "{{metadata: {{name: github, namespace: b}}, spec: {{image: i, groupRef: {{name: {group}}}}}}}"
        );
        serde_saphyr::from_str(&text).expect("a server")
    }

    #[test]
    fn a_grant_names_who_refers_and_to_what() {
        let granted = |spec: &str, kind, name: &str| {
            grants_to(&grant(spec), "a", &target(kind, name), &BuildSettings::default())
        };
        let from = "from: [{group: toolhive.stacklok.com, kind: VirtualMCPServer, namespace: a}]";
        let one = format!("{{{from}, to: [{{group: {GROUP}, kind: MCPServer, name: github}}]}}");
        assert!(granted(&one, "MCPServer", "github"));
        assert!(!granted(&one, "MCPServer", "other") && !granted(&one, "MCPGroup", "github"));
        let all = format!("{{{from}, to: [{{group: {GROUP}, kind: MCPServer}}]}}");
        assert!(granted(&all, "MCPServer", "other"));
        for (from, to) in [
            ("{group: toolhive.stacklok.com, kind: VirtualMCPServer, namespace: c}", GROUP),
            ("{group: toolhive.stacklok.com, kind: MCPServer, namespace: a}", GROUP),
            ("{group: toolhive.stacklok.dev, kind: VirtualMCPServer, namespace: a}", GROUP),
            ("{group: toolhive.stacklok.com, kind: VirtualMCPServer, namespace: a}", "''"),
        ] {
            let spec = format!("{{from: [{from}], to: [{{group: {to}, kind: MCPServer}}]}}");
            assert!(!granted(&spec, "MCPServer", "github"), "{spec}");
        }
        assert!(!granted("{}", "MCPServer", "github"));
        let mut deleted = grant(&all);
        deleted.metadata.deletion_timestamp = serde_json::from_str("\"2026-01-01T00:00:00Z\"").ok();
        let settings = BuildSettings::default();
        assert!(!grants_to(&deleted, "a", &target("MCPServer", "github"), &settings));
        let unchecked = BuildSettings { authors_checked: false, ..settings };
        assert!(!grants_to(&grant(&all), "a", &target("MCPServer", "github"), &unchecked));
    }

    #[test]
    fn a_server_is_granted_by_its_name_or_by_its_group() {
        let namespaces = |to: &str| {
            let from = format!("{{group: {GROUP}, kind: VirtualMCPServer, namespace: a}}");
            let foreign = "{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: web}";
            let spec = format!("{{from: [{from}, {foreign}], to: [{{group: {GROUP}, {to}}}]}}");
            namespaces_of(&grant(&spec), &server("tools"), &BuildSettings::default())
        };
        assert_eq!(namespaces("kind: MCPServer, name: github"), ["a"]);
        assert_eq!(namespaces("kind: MCPGroup, name: tools"), ["a"]);
        assert_eq!(namespaces("kind: MCPGroup"), ["a"]);
        assert!(namespaces("kind: MCPGroup, name: others").is_empty());
        assert!(namespaces("kind: MCPServerEntry").is_empty());
    }

    #[test]
    fn the_missing_grant_is_written_out_and_grants() {
        let refused = [target("MCPServer", "true"), target("MCPGroup", "tools")];
        let message = not_permitted(GROUP, "1e3", &refused);
        let (_, proposed) = message.split_once("apply there: ").expect("a manifest");
        let grant: ReferenceGrant = serde_saphyr::from_str(proposed).expect("YAML");
        assert_eq!(grant.metadata.namespace.as_deref(), Some("b"));
        for target in &refused {
            assert!(grants_to(&grant, "1e3", target, &BuildSettings::default()), "{proposed}");
        }
        let many: Vec<_> = (0..64).map(|_| target("MCPServer", &"s".repeat(59))).collect();
        let message = not_permitted(GROUP, &"n".repeat(63), &many);
        assert!(message.len() < 2048 && message.contains("56 more references"), "{message}");
    }
}

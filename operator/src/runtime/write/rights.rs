//! The rights that the operator needs, derived from its watches and calls.
//!
//! The chart grants exactly these (`operator/tests/chart.rs` compares). Watches come from the stores
//! themselves; calls come from [`verbs_of`], which `Context::call` asserts in debug builds, so that a call
//! without its right here fails the tests. Two parts of the operator call the API server on their own: events
//! are published by kube's recorder, whose rights stand below, and the Lease of the leader election has a
//! Role of its own in the chart.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::runtime::watch::{ChildKind, ResourceStores};

/// A kind of call of the API server; the label of the metric `api_writes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads many objects.
    List,
    /// Server-side apply.
    Apply,
    /// A merge patch.
    Patch,
    /// Deletes one object.
    Delete,
}

impl Verb {
    /// Returns the verb as metrics and messages spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Apply => "apply",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }

    /// Returns the verbs of RBAC that the call takes: applying an object that does not exist creates it.
    fn rbac(self) -> &'static [&'static str] {
        match self {
            Self::Get => &["get"],
            Self::List => &["list"],
            Self::Apply => &["create", "patch"],
            Self::Patch => &["patch"],
            Self::Delete => &["delete"],
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// RBAC verbs by (API group, resource or `resource/subresource`).
pub type Rights = BTreeMap<(String, String), BTreeSet<&'static str>>;

/// Returns every right that the operator needs, without those of the leader election.
///
/// ```
/// # use vmcp_operator::runtime::rights;
/// let rights = rights();
/// let pods = &rights[&(String::new(), "pods".to_owned())];
/// assert_eq!(pods.iter().copied().collect::<Vec<_>>(), ["list", "patch", "watch"]);
/// ```
pub fn rights() -> Rights {
    let mut rights = Rights::new();
    let mut need = |group: &str, resource: &str, verbs: &[&'static str]| {
        rights.entry((group.to_owned(), resource.to_owned())).or_default().extend(verbs);
    };
    for kind in ChildKind::ALL {
        let resource = kind.resource();
        need(&resource.group, &resource.plural, &["list", "watch"]);
        for verb in verbs_of(kind.as_str()) {
            need(&resource.group, &resource.plural, verb.rbac());
        }
    }
    for resource in ResourceStores::default().watched() {
        let own = resource.group == vmcp_crds::GROUP;
        need(&resource.group, &resource.plural, &["list", "watch"]);
        if own {
            // The only write of a resource that a person wrote.
            need(&resource.group, &format!("{}/status", resource.plural), Verb::Patch.rbac());
        }
        for verb in verbs_of(&resource.kind).iter().filter(|verb| !own || **verb != Verb::Patch) {
            need(&resource.group, &resource.plural, verb.rbac());
        }
    }
    // Binding a role takes this, or every right of the role. The chart names the roles that are bound: that
    // of servers whose scripts run as Jobs, and those of servers whose clients add servers.
    for roles in ["clusterroles", "roles"] {
        need("rbac.authorization.k8s.io", roles, &["bind"]);
    }
    for verb in verbs_of(EVENT) {
        need("", "events", verb.rbac());
    }
    // kube's recorder creates an event and patches the series when it repeats.
    need("events.k8s.io", "events", &["create", "patch"]);
    rights
}

/// The kind of the events that are read to learn why pods do not run.
const EVENT: &str = "Event";

/// Returns the calls that `Context::call` makes for a kind. A patch of one of the operator's own kinds is one
/// of its status.
pub(super) fn verbs_of(kind: &str) -> &'static [Verb] {
    match kind {
        // An annotation is changed, so that the kubelet syncs mounted files at once.
        "Pod" => &[Verb::Patch],
        EVENT => &[Verb::List],
        // Lists also policies of others, where connections fail.
        "NetworkPolicy" => &[Verb::Get, Verb::List, Verb::Apply, Verb::Patch, Verb::Delete],
        // Read once when it is malformed, to say where the mistake is.
        "VirtualMCPServer"
        | "MCPGroup"
        | "MCPServer"
        | "MCPRegistry"
        | "MCPServerEntry"
        | "MCPRemoteProxy"
        | "MCPTelemetryConfig"
        | "MCPAuthzConfig"
        | "MCPOIDCConfig"
        | "MCPExternalAuthConfig"
        | "MCPToolConfig"
        | "MCPWebhookConfig"
        | "VirtualMCPCompositeToolDefinition" => &[Verb::Get, Verb::Patch],
        child if ChildKind::ALL.iter().any(|kind| kind.as_str() == child) => {
            &[Verb::Get, Verb::Apply, Verb::Patch, Verb::Delete]
        }
        _ => &[],
    }
}

//! Addresses that clients of a VirtualMCPServer added, held to its rules.

use kube::ResourceExt as _;
use url::Url;
use vmcp_config::ServerSource;
use vmcp_config::addresses::{self, ReachableAddresses};
use vmcp_crds::mcp_server_entry::MCPServerEntrySpec;
use vmcp_crds::virtual_mcp_server::Optimizer;
use vmcp_crds::{MCPServerEntry, Problem, VirtualMCPServer};

use crate::references::{adder, is_of_added_servers, shared_secrets};
use crate::runtime::Context;

/// Returns the problem of an entry that clients of a VirtualMCPServer of its namespace added.
pub(super) fn problem_in(entry: &MCPServerEntry, context: &Context) -> Option<Problem> {
    let namespace = entry.namespace().unwrap_or_default();
    // Without its VirtualMCPServer, an added entry is served by none.
    let server = context.resources.virtual_mcp_servers.get(&namespace, adder(entry)?)?;
    problem(entry, &server)
}

/// Returns the addresses that the host of an entry may have at each connection. The rules of `server` decide
/// about an entry that its clients added.
pub(crate) fn addresses_of_added(entry: &MCPServerEntry, server: &VirtualMCPServer) -> ReachableAddresses {
    if adder(entry).is_none() {
        return ReachableAddresses::Any;
    }
    let rules = server.spec.optimizer.as_ref().and_then(Optimizer::rules_of_added_servers);
    match (rules, Url::parse(&entry.spec.remote_url)) {
        (Some(rules), Ok(url)) => rules.addresses_of(&url),
        _ => ReachableAddresses::Public,
    }
}

/// Returns the first field by which an added server would reach more than its own address and the Secrets of
/// added servers. The admission policy refuses the same, where it is installed.
fn foreign_field(spec: &MCPServerEntrySpec, adder: &str) -> Option<&'static str> {
    let headers = &spec.header_forward.add_headers_from_secret;
    let fields = [
        ("spec.allowPrivateEndpoint", spec.allow_private_endpoint),
        ("spec.externalAuthConfigRef", spec.external_auth_config_ref.is_some()),
        ("spec.caBundleRef", spec.ca_bundle_ref.is_some()),
        (
            "spec.headerForward.addHeadersFromSecret",
            headers.iter().any(|header| !is_of_added_servers(&header.value_secret_ref.name, adder)),
        ),
    ];
    fields.into_iter().find_map(|(field, is_foreign)| is_foreign.then_some(field))
}

/// Refuses an entry that clients of `server` added, if its name may lead inside, or if the server has rules
/// and none of them names the address with these headers. The pods of the server check the rules before they
/// add an entry; pods in the hands of an attacker would add any address. An MCPRemoteProxy is held to the
/// same. An entry that is switched off is not connected, and is valid.
pub(crate) fn problem(entry: &MCPServerEntry, server: &VirtualMCPServer) -> Option<Problem> {
    let spec = &entry.spec;
    let adder = adder(entry)?;
    if spec.enabled == Some(false) || server.metadata.name.as_deref() != Some(adder) {
        return None;
    }
    if let Some(field) = foreign_field(spec, adder) {
        let message =
            format!("clients of the VirtualMCPServer {adder} added the server, and may not set this");
        let remedy = "remove it; a person's server goes without the label toolhive.stacklok.com/added-by";
        return Some(Problem::new(field, message, remedy));
    }
    // An unusable URL is a problem of its own.
    let url = Url::parse(&spec.remote_url).ok()?;
    if let Some(inside) = addresses::may_lead_inside(&url) {
        let remedy = "delete the entry; a person adds a server there, by an MCPServerEntry without the label";
        return Some(Problem::new("spec.remoteUrl", format!("leads to {inside}"), remedy));
    }
    let forwarded = &spec.header_forward;
    let of_secrets = forwarded.add_headers_from_secret.iter().map(|header| header.header_name.as_str());
    let plain = forwarded.add_plaintext_headers.keys().map(String::as_str);
    let source = ServerSource::Remote { url: &url, headers: of_secrets.chain(plain).collect() };
    let secrets = forwarded.add_headers_from_secret.iter();
    let shared = shared_secrets(secrets.map(|header| header.value_secret_ref.name.as_str()), adder);
    let rules = server.spec.optimizer.as_ref().map(Optimizer::rules_of_added_servers);
    let fault = match rules {
        None if shared.is_empty() => return None,
        Some(Some(rules)) if rules.allow.is_empty() && shared.is_empty() => return None,
        Some(Some(rules)) if rules.lends(&source, &shared) => return None,
        None => "no rule lends it these Secrets",
        Some(Some(rules)) if rules.names(&source) => "no rule that names it lends it these Secrets",
        Some(Some(_)) => "none of its rules names this address with these headers",
        Some(None) => "its rules have a mistake",
    };
    let message = format!("clients of the VirtualMCPServer {adder} added the entry, and {fault}");
    let remedy = "correct its `spec.optimizer.admin.allow`, or switch off or delete the entry";
    Some(Problem::new("spec.remoteUrl", message, remedy))
}

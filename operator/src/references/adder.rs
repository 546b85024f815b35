//! [`adder`]: the VirtualMCPServer whose clients added a server. Secrets that such servers may refer to.

use kube::ResourceExt;
use vmcp_crds::lower::ADDED_BY_LABEL;

/// Returns the name of the VirtualMCPServer whose clients added a server; `None` if a person made it.
pub(crate) fn adder<K: ResourceExt>(server: &K) -> Option<&str> {
    server.labels().get(ADDED_BY_LABEL).map(String::as_str)
}

/// Returns true for the Secrets that servers of clients may refer to: Secrets that were made for them
/// (`ADDER.added.…`), and Secrets that an administrator made for clients to name (`ADDER.shared.…`).
pub(crate) fn is_of_added_servers(secret: &str, adder: &str) -> bool {
    let kind = secret.strip_prefix(adder).and_then(|rest| rest.strip_prefix('.'));
    kind.is_some_and(|kind| kind.starts_with("added.") || kind.starts_with("shared."))
}

/// Returns the Secrets that clients named themselves, which a rule has to lend.
pub(crate) fn shared_secrets<'a>(secrets: impl Iterator<Item = &'a str>, adder: &str) -> Vec<&'a str> {
    let made = format!("{adder}.added.");
    secrets.filter(|secret| !secret.starts_with(&made)).collect()
}

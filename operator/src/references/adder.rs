//! [`adder`]: the VirtualMCPServer whose clients added a server.

use kube::ResourceExt;
use vmcp_crds::lower::ADDED_BY_LABEL;

/// Returns the name of the VirtualMCPServer whose clients added a server; `None` if a person made it.
pub(crate) fn adder<K: ResourceExt>(server: &K) -> Option<&str> {
    server.labels().get(ADDED_BY_LABEL).map(String::as_str)
}

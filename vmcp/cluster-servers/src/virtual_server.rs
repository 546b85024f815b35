//! [`VirtualServer`]: the VirtualMCPServer that this process serves, which owns the servers that are added.

/// Variable with the name of the VirtualMCPServer. The operator sets it where clients may add servers.
pub const NAME_VARIABLE: &str = "VMCP_ADDED_SERVERS_OF";
/// Variable with the UID of the VirtualMCPServer.
pub const UID_VARIABLE: &str = "VMCP_ADDED_SERVERS_OWNER";
/// Variable with the group and version of the resources, such as `toolhive.stacklok.com/v1alpha1`.
pub const API_VARIABLE: &str = "VMCP_ADDED_SERVERS_API";
/// Variable with the MCPGroup of the VirtualMCPServer; absent without one.
pub const GROUP_VARIABLE: &str = "VMCP_ADDED_SERVERS_GROUP";
/// Variable that is `true` where programs may be added, as MCPServers.
pub const PROGRAMS_VARIABLE: &str = "VMCP_ADDED_SERVERS_PROGRAMS";
/// Variable with the namespace of the pod.
pub const NAMESPACE_VARIABLE: &str = "VMCP_POD_NAMESPACE";

/// A VirtualMCPServer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VirtualServer {
    /// Its name.
    pub name: String,
    /// Its UID: the servers that were added are collected as garbage with it.
    pub uid: String,
    /// Its namespace, and that of the servers that are added.
    pub namespace: String,
    /// Group and version of the resources.
    pub api_version: String,
    /// Its MCPGroup, which the servers join.
    pub group: Option<String>,
    /// True if programs may be added.
    pub runs_programs: bool,
}

impl VirtualServer {
    /// Reads the variables that the operator sets; `None` outside of a pod whose clients may add servers.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Option<VirtualServer> {
        Some(VirtualServer {
            name: variable(NAME_VARIABLE)?,
            uid: variable(UID_VARIABLE)?,
            namespace: variable(NAMESPACE_VARIABLE)?,
            api_version: variable(API_VARIABLE)?,
            group: variable(GROUP_VARIABLE),
            runs_programs: variable(PROGRAMS_VARIABLE).is_some_and(|value| value == "true"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_known_only_by_all_its_variables() {
        let needed = [NAME_VARIABLE, UID_VARIABLE, API_VARIABLE, NAMESPACE_VARIABLE];
        let server = |known: &[&str]| {
            VirtualServer::from_variables(|name| known.contains(&name).then(|| format!("of {name}")))
        };
        let known = server(&needed).unwrap();
        assert_eq!((known.group, known.runs_programs), (None, false));
        for missing in needed {
            let others: Vec<_> = needed.into_iter().filter(|name| *name != missing).collect();
            assert_eq!(server(&others), None, "{missing}");
        }
        let more = VirtualServer::from_variables(|name| {
            Some(if name == PROGRAMS_VARIABLE { "true" } else { "g" }.to_owned())
        });
        assert_eq!(
            more.map(|server| (server.group, server.runs_programs)),
            Some((Some("g".to_owned()), true))
        );
    }
}

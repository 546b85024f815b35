//! [`ServerPod`]: the pod that this process runs in, which owns the Jobs of its scripts.

/// Port at which the pod of a script listens for its server.
pub const SCRIPT_PORT: u16 = 4484;
/// Variable with the name of the pod.
pub const NAME_VARIABLE: &str = "VMCP_POD_NAME";
/// Variable with the namespace of the pod.
pub const NAMESPACE_VARIABLE: &str = "VMCP_POD_NAMESPACE";
/// Variable with the UID of the pod.
pub const UID_VARIABLE: &str = "VMCP_POD_UID";
/// Variable with the name of the VirtualMCPServer. The operator sets it where scripts may run as Jobs.
pub const SERVER_VARIABLE: &str = "VMCP_SCRIPT_JOBS_OF";
/// Variable with the user id of scripts; without it, the platform or the image decides.
pub const USER_VARIABLE: &str = "VMCP_SCRIPT_USER";

/// A pod of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerPod {
    /// Name of the pod.
    pub name: String,
    /// Namespace of the pod and of its Jobs.
    pub namespace: String,
    /// UID of the pod, which owns the Jobs: they are collected as garbage with it.
    pub uid: String,
    /// Name of the VirtualMCPServer, a label of the Jobs and their pods.
    pub server: String,
    /// User id of scripts; `None`: the platform decides (OpenShift).
    pub script_user: Option<i64>,
    /// Port at which pods of scripts listen.
    pub script_port: u16,
}

impl ServerPod {
    /// Reads the variables that the operator sets; `None` outside of a pod of a server with Jobs.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Option<ServerPod> {
        Some(ServerPod {
            server: variable(SERVER_VARIABLE)?,
            name: variable(NAME_VARIABLE)?,
            namespace: variable(NAMESPACE_VARIABLE)?,
            uid: variable(UID_VARIABLE)?,
            script_user: variable(USER_VARIABLE).and_then(|user| user.parse().ok()),
            script_port: SCRIPT_PORT,
        })
    }
}

/// Returns true if this process runs in a pod whose scripts may run as Jobs.
pub fn is_in_server_pod() -> bool {
    ServerPod::from_variables(|name| std::env::var(name).ok()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_known_only_by_all_its_variables() {
        let all = [SERVER_VARIABLE, NAME_VARIABLE, NAMESPACE_VARIABLE, UID_VARIABLE];
        let pod = |known: &[&str]| {
            ServerPod::from_variables(|name| known.contains(&name).then(|| format!("of {name}")))
        };
        assert_eq!(pod(&all).unwrap().uid, "of VMCP_POD_UID");
        for missing in all {
            let others: Vec<_> = all.into_iter().filter(|name| *name != missing).collect();
            assert_eq!(pod(&others), None, "{missing}");
        }
    }
}

//! Ports and paths of a pod of vmcp, which `vmcp.yaml` and the pod template both name.

/// Port for clients.
pub const CLIENT_PORT: u16 = 4483;
/// Port for probes, metrics and status.
pub const ADMIN_PORT: u16 = 9090;
/// Port for viewers of events, where the resource asks for it.
pub const EVENTS_PORT: u16 = 8766;
/// Folder where the cache volume is mounted.
pub const CACHE_DIR: &str = "/var/lib/vmcp/cache";

/// Folder where the Secret with the values of the server is mounted.
pub const SECRETS_DIR: &str = "/etc/vmcp/secrets";
/// File with the bearer token of the admin port.
pub const ADMIN_TOKEN: &str = "admin-token";
/// File with the bearer token of `/metrics`.
pub const METRICS_TOKEN: &str = "metrics-token";
/// File with the key that seals session ids.
pub const SESSION_KEY: &str = "session-key";
/// File with the trusted definitions of tools under quarantine.
pub const TRUSTED_TOOLS: &str = "trusted-tools";
/// Environment variables with the name, the namespace and the UID of the pod, which owns the Jobs of scripts.
/// The namespace is also that of added servers.
pub const POD_IDENTITY_VARIABLES: [(&str, &str); 3] = [
    ("VMCP_POD_NAME", "metadata.name"),
    ("VMCP_POD_NAMESPACE", "metadata.namespace"),
    ("VMCP_POD_UID", "metadata.uid"),
];
/// Environment variable with the name of the VirtualMCPServer, where scripts may run as Jobs.
pub const SCRIPT_JOBS_VARIABLE: &str = "VMCP_SCRIPT_JOBS_OF";
/// Environment variable with the user id of scripts in Jobs.
pub const SCRIPT_USER_VARIABLE: &str = "VMCP_SCRIPT_USER";
/// Value of `app.kubernetes.io/name` of Jobs and pods of scripts.
pub const SCRIPT_APP_NAME: &str = "vmcp-script";
/// Port at which a pod of a script listens for its server.
pub const SCRIPT_PORT: u16 = 4484;
/// Environment variable with the name of the VirtualMCPServer, where clients may add servers.
pub const ADDED_SERVERS_VARIABLE: &str = "VMCP_ADDED_SERVERS_OF";
/// Environment variable with the UID of the VirtualMCPServer, which owns the servers that are added.
pub const ADDED_SERVERS_OWNER_VARIABLE: &str = "VMCP_ADDED_SERVERS_OWNER";
/// Environment variable with the group and version of the resources of added servers.
pub const ADDED_SERVERS_API_VARIABLE: &str = "VMCP_ADDED_SERVERS_API";
/// Environment variable with the MCPGroup that added servers join.
pub const ADDED_SERVERS_GROUP_VARIABLE: &str = "VMCP_ADDED_SERVERS_GROUP";
/// Environment variable that is `true` where clients may add programs.
pub const ADDED_PROGRAMS_VARIABLE: &str = "VMCP_ADDED_SERVERS_PROGRAMS";
/// Label with the name of the VirtualMCPServer whose clients added an object.
pub const ADDED_BY_LABEL: &str = "toolhive.stacklok.com/added-by";
/// Environment variable with the address of the pod, at which the other replicas reach it.
pub const POD_IP_VARIABLE: &str = "POD_IP";

//! Ports and paths of a pod of vmcp, which `vmcp.yaml` and the pod template both name.

/// The client port.
pub const CLIENT_PORT: u16 = 4483;
/// The admin port.
pub const ADMIN_PORT: u16 = 9090;
/// Where the cache volume is mounted.
pub const CACHE_DIR: &str = "/var/lib/vmcp/cache";

/// Where the Secret with the server's values is mounted.
pub const SECRETS_DIR: &str = "/etc/vmcp/secrets";
/// The file with the bearer token of the admin port.
pub const ADMIN_TOKEN: &str = "admin-token";
/// The file with the secret that seals session ids.
pub const SESSION_KEY: &str = "session-key";

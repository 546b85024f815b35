//! MCPRegistry: ToolHive's registry server in a pod.

mod build;
mod controller;
mod status;
#[cfg(test)]
mod tests;
mod validate;

pub(crate) use self::controller::controller;

/// The value of `app.kubernetes.io/name` of all children and pods.
const WORKLOAD_NAME: &str = "mcp-registry";

/// Returns the name of the Secret with the key of digests of Secret values.
fn digest_secret_name(registry: &str) -> String {
    format!("{registry}-api-digest")
}

/// Returns the name of the Deployment, of the Service and of the ConfigMap.
fn child_name(registry: &str) -> String {
    format!("{registry}-api")
}

//! Names of an EmbeddingServer's children, and its address.

/// The value of `app.kubernetes.io/name` of all children and pods.
pub(super) const WORKLOAD_NAME: &str = "embedding-server";

/// Returns the name of the StatefulSet, of the Service and of the claim.
pub(super) fn child_name(server: &str) -> String {
    format!("{server}-tei")
}

/// Returns the name of the Secret with the key of digests of Secret values.
pub(super) fn digest_secret_name(server: &str) -> String {
    format!("{server}-tei-digest")
}

/// Returns the base URL of its Service, whether or not the server exists yet.
pub(crate) fn url(server: &str, namespace: &str, port: u16, cluster_domain: &str) -> String {
    format!("http://{}.{namespace}.svc.{cluster_domain}:{port}", child_name(server))
}

//! Where an embedding service is reached.

/// Name of the StatefulSet, of the Service and of the claim.
pub fn child_name(server: &str) -> String {
    format!("{server}-tei")
}

/// The base URL.
pub fn url(server: &str, namespace: &str, port: u16, cluster_domain: &str) -> String {
    format!("http://{}.{namespace}.svc.{cluster_domain}:{port}", child_name(server))
}

//! Names of the three images of the tests, in our own cluster and in an existing one.

use std::path::{Path, PathBuf};

use super::{OPERATOR, SERVERS, VMCP, buildah, ours, run, servers};

/// Our names, and the variables that name the images in an existing cluster.
const IMAGES: [(&str, &str); 3] =
    [("VMCP_IMAGE", VMCP), ("VMCP_OPERATOR_IMAGE", OPERATOR), ("VMCP_TESTS_IMAGE", SERVERS)];

/// Returns the names of the images in the cluster: `vmcp`, the operator, the servers of the tests.
pub fn in_cluster() -> [String; 3] {
    IMAGES.map(|(variable, ours)| std::env::var(variable).unwrap_or_else(|_| ours.to_owned()))
}

/// Replaces our names of images in a manifest by those in the cluster.
pub fn renamed(manifest: &str) -> String {
    let names = IMAGES.into_iter().zip(in_cluster());
    names.fold(manifest.to_owned(), |text, ((_, ours), name)| text.replace(ours, &name))
}

/// Builds all images, and returns their archives in the order of [`in_cluster`].
pub async fn all() -> Vec<PathBuf> {
    let mut archives = ours().await;
    archives.push(servers().await);
    archives
}

/// Builds all images, pushes them to a registry under names with their hashes, and returns the variables that
/// make the scenarios use them.
pub async fn push(registry: &str) -> Vec<String> {
    let registry = registry.trim_end_matches('/');
    // A local registry speaks plain HTTP, as Docker assumes too.
    let is_local = registry.starts_with("localhost") || registry.starts_with("127.");
    let mut settings = Vec::new();
    for (archive, (variable, ours)) in all().await.iter().zip(IMAGES) {
        let name = ours.trim_start_matches("localhost/").replace('/', "-");
        let (name, key) = (name.trim_end_matches(":1"), archive.file_stem().unwrap_or_default());
        let name = format!("{registry}/{name}:{}", Path::new(key).display());
        let from = format!("docker-archive:{}", archive.display());
        let image = run("buildah pull", buildah().args(["pull", "--quiet", &from])).await;
        let check = format!("--tls-verify={}", !is_local);
        let to = format!("docker://{name}");
        run("buildah push", buildah().args(["push", "--quiet", &check, image.trim(), &to])).await;
        settings.push(format!("{variable}={name}"));
    }
    settings
}

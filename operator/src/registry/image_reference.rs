//! References of images, as `docker pull` reads them: registry, repository, and tag or digest.

use std::fmt;

/// The registry of a reference without one.
const DEFAULT_REGISTRY: &str = "docker.io";
/// The host that serves the API of [`DEFAULT_REGISTRY`].
const DEFAULT_REGISTRY_HOST: &str = "registry-1.docker.io";
/// The repositories of a reference without a folder.
const DEFAULT_FOLDER: &str = "library";

/// A parsed reference of an image.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ImageReference {
    /// The name of the registry, with its port if it has one.
    pub(crate) registry: String,
    /// The path of the repository in the registry.
    pub(crate) repository: String,
    /// A tag, or a digest such as `sha256:…`, which wins over a tag.
    pub(crate) version: String,
}

impl ImageReference {
    /// Parses a reference; `None` if the kubelet could not pull it either.
    pub(crate) fn parse(image: &str) -> Option<Self> {
        let (name, digest) = match image.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (image, None),
        };
        // A colon after the last slash begins the tag, any other a port.
        let (name, tag) = match name.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (name, None),
        };
        let (registry, path) = match name.split_once('/') {
            Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => (host, path),
            _ => (DEFAULT_REGISTRY, name),
        };
        let registry = if registry == "index.docker.io" { DEFAULT_REGISTRY } else { registry };
        let repository = match registry {
            DEFAULT_REGISTRY if !path.contains('/') => format!("{DEFAULT_FOLDER}/{path}"),
            _ => path.to_owned(),
        };
        let version = digest.or(tag).unwrap_or("latest").to_owned();
        let is_host = !registry.is_empty() && registry.chars().all(|c| is_plain(c) || ".-:[]".contains(c));
        let is_path = repository.split('/').all(|part| {
            !part.is_empty()
                && !part.starts_with('.')
                && part.chars().all(|c| is_plain(c) || "._-".contains(c))
        });
        let is_version = !version.is_empty() && version.chars().all(|c| is_plain(c) || "._-:+".contains(c));
        let registry = registry.to_owned();
        (is_host && is_path && is_version).then_some(Self { registry, repository, version })
    }

    /// Returns the host, with its port, that serves the API of the registry.
    pub(crate) fn host(&self) -> &str {
        if self.registry == DEFAULT_REGISTRY { DEFAULT_REGISTRY_HOST } else { &self.registry }
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.version.contains(':') { '@' } else { ':' };
        write!(formatter, "{}/{}{separator}{}", self.registry, self.repository, self.version)
    }
}

fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_as_docker_reads_them() {
        for (image, read) in [
            ("node", "docker.io/library/node:latest"),
            ("node:24", "docker.io/library/node:24"),
            ("mcp/fetch", "docker.io/mcp/fetch:latest"),
            ("index.docker.io/mcp/fetch:1", "docker.io/mcp/fetch:1"),
            ("ghcr.io/a/b/c:1.1.1", "ghcr.io/a/b/c:1.1.1"),
            ("localhost:5000/x", "localhost:5000/x:latest"),
            ("localhost/x:1", "localhost/x:1"),
            ("ghcr.io/a/b:1@sha256:0123", "ghcr.io/a/b@sha256:0123"),
        ] {
            assert_eq!(ImageReference::parse(image).map(|image| image.to_string()).as_deref(), Some(read));
        }
        for image in ["", "a//b", "ghcr.io/../x", "ghcr.io/a b", "user@host/x", "a:1?x", "ghcr.io/a#b"] {
            assert_eq!(ImageReference::parse(image), None, "{image}");
        }
    }
}

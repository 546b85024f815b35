//! Credentials of registries, from Secrets of the type `kubernetes.io/dockerconfigjson`.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

/// The key of such a Secret.
pub(crate) const DOCKER_CONFIG_KEY: &str = ".dockerconfigjson";

/// User names and passwords by registry.
#[derive(Clone, Default)]
pub(crate) struct PullCredentials(BTreeMap<String, (String, String)>);

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: BTreeMap<String, DockerAuth>,
}

#[derive(Deserialize)]
struct DockerAuth {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
}

impl PullCredentials {
    /// Adds the credentials of one Secret; earlier ones win, as with the kubelet. Unreadable entries are left
    /// out: the registry then says that it wants credentials.
    pub(crate) fn add(&mut self, docker_config: &[u8]) {
        let Ok(config) = serde_json::from_slice::<DockerConfig>(docker_config) else { return };
        for (registry, auth) in config.auths {
            if let Some(pair) = auth.pair() {
                self.0.entry(registry_of(&registry).to_owned()).or_insert(pair);
            }
        }
    }

    /// Returns user name and password for a registry.
    pub(crate) fn for_registry(&self, registry: &str) -> Option<(&str, &str)> {
        let (user, password) = self.0.get(registry)?;
        Some((user, password))
    }

    /// Returns a digest that tells credentials apart without keeping them.
    pub(crate) fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        for (registry, (user, password)) in &self.0 {
            for part in [registry, user, password] {
                hash.update((part.len() as u64).to_le_bytes());
                hash.update(part);
            }
        }
        hash.finalize().into()
    }
}

impl DockerAuth {
    /// Returns user name and password, which are given one by one or joined by a colon in base64.
    fn pair(self) -> Option<(String, String)> {
        if let (Some(user), Some(password)) = (self.username, self.password) {
            return Some((user, password));
        }
        let joined = String::from_utf8(STANDARD.decode(self.auth?.trim()).ok()?).ok()?;
        let (user, password) = joined.split_once(':')?;
        Some((user.to_owned(), password.to_owned()))
    }
}

/// Returns the name of a registry, of which the keys of `auths` may be URLs.
fn registry_of(key: &str) -> &str {
    let key = key.trim_start_matches("https://").trim_start_matches("http://");
    let host = key.split('/').next().unwrap_or(key);
    if host == "index.docker.io" { "docker.io" } else { host }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_forms_are_read_and_the_first_secret_wins() {
        let mut credentials = PullCredentials::default();
        let first = json!({ "auths": {
            "https://index.docker.io/v1/": { "auth": STANDARD.encode("ann:p:w") },
            "ghcr.io": { "username": "bob", "password": "s" },
            "empty.example": {},
        } });
        credentials.add(first.to_string().as_bytes());
        credentials.add(br#"{"auths": {"ghcr.io": {"username": "eve", "password": "x"}}}"#);
        credentials.add(b"no JSON");
        assert_eq!(credentials.for_registry("docker.io"), Some(("ann", "p:w")));
        assert_eq!(credentials.for_registry("ghcr.io"), Some(("bob", "s")));
        assert_eq!(credentials.for_registry("empty.example"), None);
    }
}

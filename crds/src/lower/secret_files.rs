//! Names the files of secrets, and refers to them from `vmcp.yaml` as `${file:…}`.

use std::collections::BTreeMap;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::pod_layout::SECRETS_DIR;
use crate::fields::references::SecretKeyReference;

/// Maximum characters of a key in a Secret.
const MAX_KEY: usize = 253;

/// Files that the text refers to, each with the Secret key it must hold.
#[derive(Debug, Default)]
pub(super) struct SecretFiles {
    pub(super) files: BTreeMap<String, SecretKeyReference>,
    /// Certificates of authorities, and key sets, by file.
    pub(super) certificates: BTreeMap<String, String>,
}

impl SecretFiles {
    /// Adds the file of a secret; returns the reference that stands for its value.
    pub(super) fn refer(&mut self, secret: &SecretKeyReference) -> Value {
        let file = file_name(secret);
        let reference = reference(&file);
        self.files.insert(file, secret.clone());
        reference
    }

    /// Adds the file of a secret; returns its path.
    pub(super) fn path(&mut self, secret: &SecretKeyReference) -> String {
        let file = file_name(secret);
        let path = format!("{SECRETS_DIR}/{file}");
        self.files.insert(file, secret.clone());
        path
    }

    /// Adds a file of certificates; returns its path. The name follows from the content, so that other
    /// certificates are another configuration. It has no `_`, as all names of secrets have.
    pub(super) fn certificates(&mut self, pem: &str) -> String {
        self.public("ca-bundle", pem)
    }

    /// Adds the file of an issuer's keys (JWKS), which is named like a file of certificates; returns its
    /// path.
    pub(super) fn key_set(&mut self, keys: &str) -> String {
        self.public("key-set", keys)
    }

    fn public(&mut self, kind: &str, content: &str) -> String {
        let file = format!("{kind}-{}", hex::encode(Sha256::digest(content.as_bytes())));
        let path = format!("{SECRETS_DIR}/{file}");
        self.certificates.insert(file, content.to_owned());
        path
    }
}

/// Returns the reference `${file:…}` to a file of the Secret.
pub(super) fn reference(file: &str) -> Value {
    format!("${{file:{SECRETS_DIR}/{file}}}").into()
}

/// Returns `NAME_KEY`, or `long_` and a SHA-256 beyond 253 characters. Names of Secrets contain no `_`, so
/// that two values never share a file; neither do [`ADMIN_TOKEN`](super::ADMIN_TOKEN),
/// [`METRICS_TOKEN`](super::METRICS_TOKEN), [`SESSION_KEY`](super::SESSION_KEY) and
/// [`TRUSTED_TOOLS`](super::TRUSTED_TOOLS).
fn file_name(SecretKeyReference { name, key }: &SecretKeyReference) -> String {
    let file = format!("{name}_{key}");
    if file.len() <= MAX_KEY {
        return file;
    }
    format!("long_{}", hex::encode(Sha256::digest(file.as_bytes())))
}

/// Returns a value for any file, another one for each: two keys must not be equal. Lowering runs in the
/// operator, where the files do not exist; any value passes the other checks.
#[expect(clippy::unnecessary_wraps, reason = "the validator asks for files in this way")]
pub(super) fn placeholder(path: &str) -> Result<Option<String>, String> {
    Ok(Some(format!("not-the-real-value-of-{path}")))
}

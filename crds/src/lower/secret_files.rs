//! References from `vmcp.yaml` to the files of secrets.

use std::collections::BTreeMap;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::pod_layout::SECRETS_DIR;
use crate::fields::references::SecretKeyReference;

/// Longest key of a Secret.
const MAX_KEY: usize = 253;

/// The files that are referred to.
#[derive(Debug, Default)]
pub(super) struct SecretFiles {
    pub files: BTreeMap<String, SecretKeyReference>,
}

impl SecretFiles {
    /// What stands in `vmcp.yaml` for the value.
    pub fn refer(&mut self, secret: &SecretKeyReference) -> Value {
        let file = file_name(secret);
        let reference = reference(&file);
        self.files.insert(file, secret.clone());
        reference
    }
}

/// `${file:…}` for a file of the Secret.
pub(super) fn reference(file: &str) -> Value {
    format!("${{file:{SECRETS_DIR}/{file}}}").into()
}

/// `NAME_KEY`. Names of Secrets have no `_`, so that two values never share a file; [`ADMIN_TOKEN`](super::ADMIN_TOKEN) and [`SESSION_KEY`](super::SESSION_KEY) have
/// none either.
fn file_name(SecretKeyReference { name, key }: &SecretKeyReference) -> String {
    let file = format!("{name}_{key}");
    if file.len() <= MAX_KEY {
        return file;
    }
    let digest = Sha256::digest(file.as_bytes());
    digest.iter().fold("long_".to_owned(), |name, byte| format!("{name}{byte:02x}"))
}

/// What stands for the content of a file here, where there is none: as good as any value.
#[expect(clippy::unnecessary_wraps, reason = "the validator asks for files in this way")]
pub(super) fn placeholder(_path: &str) -> Result<Option<String>, String> {
    Ok(Some("not-the-real-value-of-the-secret".to_owned()))
}

/// Keeps `${` and `$$` of people as they are: in `vmcp.yaml` they would be references.
pub(super) fn escape(value: Value) -> Value {
    match value {
        Value::String(text) if text.contains("${") || text.contains("$$") => text.replace('$', "$$").into(),
        Value::Object(entries) => {
            Value::Object(entries.into_iter().map(|(key, value)| (key, escape(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(escape).collect()),
        other => other,
    }
}

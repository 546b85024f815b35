//! Whether an entry can be used as it is written.
//!
//! One that cannot be used is kept out of `vmcp.yaml`: it would make the file as a whole invalid, to the harm of all other
//! backends. So it is judged by the validator of the file itself, alone, with the values of its Secrets.

use std::collections::BTreeMap;

use serde_json::json;
use url::Url;
use vmcp_crds::fields::references::SecretKeyReference;
use vmcp_crds::lower::{Backend, HeaderValue};
use vmcp_crds::mcp_server_entry::HeaderFromSecret;
use vmcp_crds::{MCPServerEntry, Problem};

use super::endpoint;
use crate::references::Secrets;

/// What an entry comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// For `vmcp.yaml`, when [`Judged::is_usable`]; disabled while a Secret is missing.
    pub backend: Backend,
    /// What is wrong with the name or the URL.
    pub address: Vec<Problem>,
    /// What is wrong with headers.
    pub headers: Vec<Problem>,
    /// Which Secrets are not there.
    pub missing: Option<String>,
}

impl Judged {
    /// Whether it makes sense; Secrets may be missing all the same.
    pub fn is_usable(&self) -> bool {
        self.address.is_empty() && self.headers.is_empty()
    }
}

/// The Secrets that an entry refers to.
pub fn secret_references(entry: &MCPServerEntry) -> Vec<SecretKeyReference> {
    let from_secrets = &entry.spec.header_forward.add_headers_from_secret;
    from_secrets.iter().map(|header| header.value_secret_ref.clone()).collect()
}

/// Judges an entry. `secrets` are those of [`secret_references`], as far as they are there.
pub fn judge(entry: &MCPServerEntry, secrets: &Secrets) -> Judged {
    let spec = &entry.spec;
    let namespace = entry.metadata.namespace.as_deref().unwrap_or_default();
    let mut headers = BTreeMap::new();
    let mut values = BTreeMap::new();
    let mut judged = Judged {
        backend: Backend {
            name: entry.metadata.name.clone().unwrap_or_default(),
            url: spec.remote_url.clone(),
            transport: spec.transport,
            headers: BTreeMap::new(),
            enabled: true,
        },
        address: Vec::new(),
        headers: Vec::new(),
        missing: secrets.missing(namespace, &secret_references(entry)),
    };
    judged.backend.enabled = judged.missing.is_none();
    for (name, value) in &spec.header_forward.add_plaintext_headers {
        headers.insert(name.clone(), HeaderValue::Plain(value.clone()));
        values.insert(name.clone(), value.clone());
    }
    for HeaderFromSecret { header_name, value_secret_ref } in &spec.header_forward.add_headers_from_secret {
        if headers.insert(header_name.clone(), HeaderValue::Secret(value_secret_ref.clone())).is_some() {
            let message = "given in `addPlaintextHeaders` too";
            judged.headers.push(Problem::new(header_path(entry, header_name), message, "keep one of them"));
        }
        let Some(value) = secrets.get(value_secret_ref) else { continue };
        if let Ok(value) = std::str::from_utf8(value) {
            // As the server reads the file that it will be in.
            values.insert(header_name.clone(), value.trim_end_matches(['\r', '\n']).to_owned());
        } else {
            let message = format!("the value in the Secret {} is not text", value_secret_ref.name);
            judged.headers.push(Problem::new(header_path(entry, header_name), message, "store it as text"));
        }
    }
    judged.backend.headers = headers;
    ask_the_file(entry, &values, &mut judged);
    if let Some(inside) = Url::parse(&spec.remote_url).ok().as_ref().and_then(endpoint::inside)
        && !spec.allow_private_endpoint
    {
        let remedy = "use a public address, or set `spec.allowPrivateEndpoint: true` if it is meant";
        judged.address.push(Problem::new("spec.remoteUrl", format!("leads to {inside}"), remedy));
    }
    judged
}

/// What the validator of `vmcp.yaml` says to a file with this one backend.
fn ask_the_file(entry: &MCPServerEntry, headers: &BTreeMap<String, String>, judged: &mut Judged) {
    let escape = |text: &str| text.replace('$', "$$");
    let headers: BTreeMap<_, _> = headers.iter().map(|(name, value)| (name, escape(value))).collect();
    let file = json!({ "backends": [{
        "name": judged.backend.name,
        "url": escape(&judged.backend.url),
        "transport": judged.backend.transport,
        "headers": headers,
    }] });
    let Err(found) = vmcp_config::load(&file.to_string(), "vmcp.yaml", &|_| None) else { return };
    for vmcp_config::Problem { path, message, remedy, line: _ } in found.list {
        let path = path.strip_prefix("backends[0].").unwrap_or(&path);
        if let Some(header) = path.strip_prefix("headers") {
            let name = header.trim_matches(['.', '[', ']', '"']);
            judged.headers.push(Problem::new(header_path(entry, name), message, remedy));
        } else {
            let path = if path == "name" { "metadata.name" } else { "spec.remoteUrl" };
            judged.address.push(Problem::new(path, message, remedy));
        }
    }
}

fn header_path(entry: &MCPServerEntry, name: &str) -> String {
    let secret = entry
        .spec
        .header_forward
        .add_headers_from_secret
        .iter()
        .position(|header| header.header_name == name);
    match secret {
        Some(index) => format!("spec.headerForward.addHeadersFromSecret[{index}]"),
        None => format!("spec.headerForward.addPlaintextHeaders[{name}]"),
    }
}

//! Step 2 of a reconcile, validate: checks an entry with the values of its Secrets, and returns a
//! [`ValidatedEntry`]. Pure.
//!
//! The validator of `vmcp.yaml` itself decides, on a file with this one backend and the values of its
//! Secrets. An entry that fails is kept out of the real file, which it would make invalid as a whole, to the
//! harm of all other backends.

use std::collections::BTreeMap;

use serde_json::json;
use url::Url;
use vmcp_config::addresses::{self, ReachableAddresses};
use vmcp_crds::fields::pending;
use vmcp_crds::lower::{Backend, HeaderValue};
use vmcp_crds::mcp_server_entry::HeaderFromSecret;
use vmcp_crds::{MCPServerEntry, Problem};

use super::dereference::secret_references;
use crate::references::{CaBundle, ReferencedSecrets, adder};

/// An entry as a backend, with everything that is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ValidatedEntry {
    /// The backend for `vmcp.yaml`, unless there are problems; disabled while a Secret or a certificate is
    /// missing.
    pub backend: Backend,
    /// Problems of the name and the URL.
    pub address_problems: Vec<Problem>,
    /// Problems of the headers.
    pub header_problems: Vec<Problem>,
    /// Fields that nothing follows and that refuse the resource.
    pub unfollowed: Vec<Problem>,
    /// Which Secrets are missing, with the command that creates each.
    pub missing_secrets: Option<String>,
    /// The fault of the certificates, with the remedy.
    pub unusable_ca_bundle: Option<String>,
}

/// Checks an entry. `secrets` holds the values that [`secret_references`] names, as far as they exist.
pub(crate) fn validate(
    entry: &MCPServerEntry,
    secrets: &ReferencedSecrets,
    ca_bundle: &CaBundle,
) -> ValidatedEntry {
    let spec = &entry.spec;
    let namespace = entry.metadata.namespace.as_deref().unwrap_or_default();
    let mut headers = BTreeMap::new();
    let mut values = BTreeMap::new();
    let mut validated = ValidatedEntry {
        backend: Backend {
            name: entry.metadata.name.clone().unwrap_or_default(),
            url: spec.remote_url.clone(),
            transport: spec.transport,
            headers: BTreeMap::new(),
            ca_bundle: ca_bundle.pem().map(str::to_owned),
            // Rules of the VirtualMCPServer may allow an added entry more.
            addresses: adder(entry).map_or(ReachableAddresses::Any, |_| ReachableAddresses::Public),
            auth: None,
            tool_config: None,
            isolation: spec.isolation,
            protocol_era: spec.protocol_era,
            questions: spec.questions.unwrap_or(true),
            enabled: spec.enabled.unwrap_or(true),
        },
        address_problems: Vec::new(),
        header_problems: Vec::new(),
        unfollowed: pending::problems_of_entry(&spec.pending, entry.metadata.annotations.as_ref()),
        missing_secrets: secrets.missing(namespace, &secret_references(entry)),
        unusable_ca_bundle: match ca_bundle {
            CaBundle::Unusable(message) => Some(message.clone()),
            CaBundle::OfTheSystem | CaBundle::Found(_) => None,
        },
    };
    validated.backend.enabled &=
        validated.missing_secrets.is_none() && validated.unusable_ca_bundle.is_none();
    for (name, value) in &spec.header_forward.add_plaintext_headers {
        headers.insert(name.clone(), HeaderValue::Plain(value.clone()));
        values.insert(name.clone(), value.clone());
    }
    for HeaderFromSecret { header_name, value_secret_ref } in &spec.header_forward.add_headers_from_secret {
        if headers.insert(header_name.clone(), HeaderValue::Secret(value_secret_ref.clone())).is_some() {
            let message = "given in `addPlaintextHeaders` too";
            validated.header_problems.push(Problem::new(
                header_path(entry, header_name),
                message,
                "keep one of them",
            ));
        }
        let Some(value) = secrets.get(value_secret_ref) else { continue };
        if let Ok(value) = std::str::from_utf8(value) {
            // Without the line break at the end, as `vmcp` reads it from the mounted file.
            values.insert(header_name.clone(), value.trim_end_matches(['\r', '\n']).to_owned());
        } else {
            let message = format!("the value in the Secret {} is not text", value_secret_ref.name);
            validated.header_problems.push(Problem::new(
                header_path(entry, header_name),
                message,
                "store it as text",
            ));
        }
    }
    validated.backend.headers = headers;
    check_as_configuration(entry, &values, &mut validated);
    if let Some(inside) = Url::parse(&spec.remote_url).ok().as_ref().and_then(addresses::inside)
        && !spec.allow_private_endpoint
    {
        let remedy = "use a public address, or set `spec.allowPrivateEndpoint: true` if it is meant";
        validated.address_problems.push(Problem::new("spec.remoteUrl", format!("leads to {inside}"), remedy));
    }
    validated
}

/// Runs the validator of `vmcp.yaml` on a file with this one backend; its problems get the paths of the
/// resource's fields.
fn check_as_configuration(
    entry: &MCPServerEntry,
    headers: &BTreeMap<String, String>,
    validated: &mut ValidatedEntry,
) {
    // A literal `$` would begin a reference in `vmcp.yaml`.
    let escape = |text: &str| text.replace('$', "$$");
    let headers: BTreeMap<_, _> = headers.iter().map(|(name, value)| (name, escape(value))).collect();
    // The file of certificates is not there, and its reference counts also while its content is missing.
    let ca_bundle_path = entry.spec.ca_bundle_ref.as_ref().map(|_| "ca.crt");
    let file = json!({ "backends": [{
        "name": validated.backend.name,
        "url": escape(&validated.backend.url),
        "transport": validated.backend.transport,
        "headers": headers,
        "caBundlePath": ca_bundle_path,
    }] });
    let Err(problems) = vmcp_config::load(&file.to_string(), "vmcp.yaml", &|_| None) else { return };
    for Problem { path, message, remedy, line: _ } in problems.list {
        let path = path.strip_prefix("backends[0].").unwrap_or(&path);
        if let Some(header) = path.strip_prefix("headers") {
            let name = header.trim_matches(['.', '[', ']', '"']);
            validated.header_problems.push(Problem::new(header_path(entry, name), message, remedy));
        } else {
            let path = match path {
                "name" => "metadata.name",
                "caBundlePath" => "spec.caBundleRef",
                _ => "spec.remoteUrl",
            };
            validated.address_problems.push(Problem::new(path, message, remedy));
        }
    }
}

/// Returns the path of the field that sets a header.
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

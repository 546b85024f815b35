//! [`Manifests`]: the resource of a server, and the Secret with every value that a person gave. Whoever reads
//! a resource reads its spec, and GitOps tools copy it; so no value stands there, secret or not.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};
use vmcp_config::Secret;

use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::kubernetes::{GROUP, MANAGER, names};
use crate::cli::setup::server_arguments::Description;

/// API version of the resources.
const VERSION: &str = "v1alpha1";
/// Text in place of a secret or unknown value.
const HIDDEN: &str = "…";

/// Kinds of servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerKind {
    /// A program that the operator runs.
    Server,
    /// A server at a URL.
    Entry,
}

/// A resource, and the values that it refers to.
#[derive(Debug)]
pub(super) struct Manifests {
    kind: ServerKind,
    name: String,
    resource: Value,
    /// The values, by their key in the Secret.
    values: BTreeMap<String, Secret>,
}

impl fmt::Display for ServerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Server => "MCPServer",
            Self::Entry => "MCPServerEntry",
        })
    }
}

impl ServerKind {
    /// Returns the name by which `kubectl` knows one.
    pub(super) fn resource(self) -> &'static str {
        match self {
            Self::Server => "mcpserver",
            Self::Entry => "mcpserverentry",
        }
    }
}

impl Manifests {
    /// Describes a server in the terms of Kubernetes.
    pub(super) fn new(
        name: &str,
        namespace: Option<&str>,
        group: Option<&str>,
        image: Option<String>,
        server: Description,
    ) -> Result<Self, CommandFailure> {
        names::check("resource", name)?;
        let kind = match &server {
            Description::Remote { .. } => ServerKind::Entry,
            Description::Program { .. } => ServerKind::Server,
        };
        let secret = secret_name(name, kind);
        let (mut spec, values) = match server {
            Description::Remote { url, headers } => entry(&url, headers, &secret)?,
            Description::Program { command, env } => program(image, &command, env, &secret)?,
        };
        if let Some(group) = group {
            spec.insert("groupRef".to_owned(), json!({ "name": group }));
        }
        let mut resource = json!({
            "apiVersion": format!("{GROUP}/{VERSION}"), "kind": kind.to_string(),
            "metadata": { "name": name }, "spec": spec,
        });
        if let (Some(namespace), Some(metadata)) = (namespace, resource.get_mut("metadata")) {
            merge(metadata, json!({ "namespace": namespace }));
        }
        Ok(Self { kind, name: name.to_owned(), resource, values })
    }

    /// Returns the kind of the resource.
    pub(super) fn kind(&self) -> ServerKind {
        self.kind
    }

    /// Returns the resource.
    pub(super) fn resource(&self) -> &Value {
        &self.resource
    }

    /// Returns true if the resource refers to a Secret.
    pub(super) fn has_values(&self) -> bool {
        !self.values.is_empty()
    }

    /// Returns the values.
    pub(super) fn values(&self) -> impl Iterator<Item = &Secret> {
        self.values.values()
    }

    /// Returns the name of the Secret.
    pub(super) fn secret_name(&self) -> String {
        secret_name(&self.name, self.kind)
    }

    /// Returns the Secret with the values; `owner` is the uid of the resource, with which it is deleted.
    pub(super) fn secret(&self, owner: Option<&str>) -> Value {
        self.secret_with(owner, |value| BASE64_STANDARD.encode(value.expose()))
    }

    /// Names another transport of a remote server than streamable HTTP.
    #[must_use]
    pub(super) fn with_transport(mut self, transport: &str) -> Self {
        if let Some(spec) = self.resource.get_mut("spec") {
            merge(spec, json!({ "transport": transport }));
        }
        self
    }

    /// Returns both as YAML, each a document, with the values. Without an owner, which is not there yet, the
    /// Secret outlives the resource.
    pub(super) fn documents(&self) -> Result<Vec<String>, CommandFailure> {
        let mut documents = vec![serde_saphyr::to_string(&self.resource)?];
        if self.has_values() {
            documents.push(serde_saphyr::to_string(&self.secret(None))?);
        }
        Ok(documents)
    }

    /// Returns both as YAML, without the values.
    pub(super) fn shown(&self) -> Result<String, CommandFailure> {
        let resource = serde_saphyr::to_string(&self.resource)?;
        if self.values.is_empty() {
            return Ok(resource);
        }
        let secret = self.secret_with(Some(HIDDEN), |_| HIDDEN.to_owned());
        Ok(format!("{resource}---\n{}", serde_saphyr::to_string(&secret)?))
    }

    /// Returns the Secret, with `data`: of `stringData`, a key that is no longer applied would stay.
    fn secret_with(&self, owner: Option<&str>, shown: impl Fn(&Secret) -> String) -> Value {
        let data: BTreeMap<_, _> = self.values.iter().map(|(key, value)| (key, shown(value))).collect();
        let labels = json!({
            "app.kubernetes.io/managed-by": MANAGER, "app.kubernetes.io/instance": self.name,
        });
        let mut metadata = json!({ "name": self.secret_name(), "labels": labels });
        if let Some(namespace) = self.resource.pointer("/metadata/namespace") {
            merge(&mut metadata, json!({ "namespace": namespace }));
        }
        if let Some(uid) = owner {
            let of = |key: &str| self.resource.get(key).cloned().unwrap_or_default();
            let owner = json!({
                "apiVersion": of("apiVersion"), "kind": of("kind"), "name": self.name, "uid": uid,
            });
            merge(&mut metadata, json!({ "ownerReferences": [owner] }));
        }
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data })
    }
}

/// Returns the name of the Secret. Kinds have different ones: an MCPServer and an MCPServerEntry may have the
/// same name.
fn secret_name(name: &str, kind: ServerKind) -> String {
    match kind {
        ServerKind::Server => format!("{name}-env"),
        ServerKind::Entry => format!("{name}-headers"),
    }
}

type Spec = (Map<String, Value>, BTreeMap<String, Secret>);

fn entry(url: &str, headers: Vec<(String, Secret)>, secret: &str) -> Result<Spec, CommandFailure> {
    let (mut values, mut references) = (BTreeMap::new(), Vec::new());
    for (header, value) in headers {
        check_value(&header, &value)?;
        let key = header.to_ascii_lowercase();
        if !is_key(&key) || values.contains_key(&key) {
            return Err(usage(format!("the header {header} cannot be given, or is given twice"))
                .remedy("name each header once, in letters, digits and `-`"));
        }
        references.push(json!({ "headerName": header, "valueSecretRef": { "name": secret, "key": key } }));
        values.insert(key, value);
    }
    let mut spec = Map::from_iter([("remoteUrl".to_owned(), url.into())]);
    let scheme = url.split(':').next().unwrap_or_default();
    if ["ws", "wss"].iter().any(|websocket| scheme.eq_ignore_ascii_case(websocket)) {
        spec.insert("transport".to_owned(), "websocket".into());
    }
    if !references.is_empty() {
        spec.insert("headerForward".to_owned(), json!({ "addHeadersFromSecret": references }));
    }
    Ok((spec, values))
}

fn program(
    image: Option<String>,
    command: &[String],
    env: Vec<(String, Secret)>,
    secret: &str,
) -> Result<Spec, CommandFailure> {
    let Some(image) = image else {
        return Err(usage("in a cluster a program runs in an image".to_owned()).remedy(image_for(command)));
    };
    let (mut values, mut references) = (BTreeMap::new(), Vec::new());
    for (variable, value) in env {
        check_value(&variable, &value)?;
        if !is_key(&variable) || values.contains_key(&variable) {
            return Err(usage(format!("the variable {variable} cannot be given, or is given twice"))
                .remedy("name each variable once, in letters, digits and `_`"));
        }
        references.push(json!({ "name": secret, "key": variable, "targetEnvName": variable }));
        values.insert(variable, value);
    }
    let mut spec =
        Map::from_iter([("image".to_owned(), image.into()), ("transport".to_owned(), "stdio".into())]);
    if let Some((program, arguments)) = command.split_first() {
        spec.insert("command".to_owned(), json!([program]));
        if !arguments.is_empty() {
            spec.insert("args".to_owned(), json!(arguments));
        }
    }
    if !references.is_empty() {
        spec.insert("secrets".to_owned(), references.into());
    }
    Ok((spec, values))
}

/// Returns an image in which a program is, by the program's name.
pub(super) fn image_of(program: &str) -> Option<&'static str> {
    match program {
        "npx" | "node" | "npm" => Some("docker.io/library/node:22-alpine"),
        "uvx" | "uv" | "python" | "python3" => Some("ghcr.io/astral-sh/uv:python3.13-alpine"),
        _ => None,
    }
}

/// Returns the remedy for a missing image, with one in which the program is.
fn image_for(command: &[String]) -> String {
    let example = command.first().and_then(|program| image_of(program)).unwrap_or("ghcr.io/TEAM/SERVER:TAG");
    format!("name it: --image {example}")
}

/// Refuses a reference: the cluster has neither the variables nor the files of this machine.
fn check_value(name: &str, value: &Secret) -> Result<(), CommandFailure> {
    if value.expose().contains("${") {
        return Err(usage(format!("the value of {name} is a reference, which a cluster cannot look up"))
            .remedy("let your shell put the value in its place: double quotes instead of single ones"));
    }
    if value.expose().is_empty() {
        return Err(usage(format!("the value of {name} is empty")).remedy("give it a value, or leave it out"));
    }
    Ok(())
}

/// Returns true for a key that a Secret may have.
fn is_key(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !text.is_empty() && text.len() <= 253 && text.chars().all(fits) && !text.starts_with("..") && text != "."
}

fn merge(into: &mut Value, from: Value) {
    if let (Some(into), Value::Object(from)) = (into.as_object_mut(), from) {
        into.extend(from);
    }
}

fn usage(message: String) -> CommandFailure {
    CommandFailure::new(message).exit(Exit::Usage)
}

#[cfg(test)]
mod tests;

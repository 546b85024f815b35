//! The resources of added servers, and the Secrets with their values. Pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use url::Url;
use vmcp_config::{Secret, sanitize};
use vmcp_engine::server_registrar::{MadeChange, NewServer, ServerPlace};
use vmcp_registry::plan::{Part, Target, Text};

use crate::server_kind::ServerKind;
use crate::virtual_server::VirtualServer;

/// Label with the name of the VirtualMCPServer that added an object.
pub const ADDED_BY: &str = "toolhive.stacklok.com/added-by";
/// Annotation with the server of a registry that an object is from: its version, its package, the registry.
pub const INSTALLED_FROM: &str = "toolhive.stacklok.com/installed-from";
/// Value of `app.kubernetes.io/managed-by` of objects that vmcp makes.
pub const MANAGED_BY: &str = "vmcp";

/// Returns the kind of resource that a place takes.
pub(crate) fn kind_of(place: &ServerPlace) -> ServerKind {
    match place {
        ServerPlace::Program { .. } | ServerPlace::Image { .. } => ServerKind::Program,
        ServerPlace::Remote { .. } => ServerKind::Entry,
    }
}

/// Returns the values of a server, each with its key in the Secret: a number, and the name as far as a key
/// may hold it.
fn keyed(place: &ServerPlace) -> impl Iterator<Item = (String, &String, &Secret)> {
    let values = match place {
        ServerPlace::Program { env, .. } | ServerPlace::Image { env, .. } => env,
        ServerPlace::Remote { headers, .. } => headers,
    };
    let legal = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '_' };
    values.iter().enumerate().map(move |(index, (name, value))| {
        let name_in_key: String = name.chars().take(100).map(legal).collect();
        (format!("{index}-{name_in_key}"), name, value)
    })
}

/// Returns the value of a header or variable as the entry of a registry has it, if the user has to set it: a
/// part of it is a secret, which passes through no client.
fn open_text<'a>(new: &'a NewServer, name: &str) -> Option<&'a Text> {
    let texts = match &new.registered.as_ref()?.draft.target {
        Target::Program { env, .. } => env,
        Target::Remote { headers, .. } => headers,
    };
    texts.get(name).filter(|text| secret_of(text).is_some())
}

/// Returns the input of the first secret in a text.
fn secret_of(text: &Text) -> Option<&str> {
    text.0.iter().find_map(|part| match part {
        Part::Secret { label, .. } => Some(label.as_str()),
        Part::Fixed(_) | Part::Value(_) | Part::Reference(_) => None,
    })
}

/// Returns the input of a secret that the resource of a server would hold itself, in arguments or the URL.
pub(crate) fn secret_in_plain_text(new: &NewServer) -> Option<&str> {
    match &new.registered.as_ref()?.draft.target {
        Target::Program { command, .. } => command.iter().find_map(secret_of),
        Target::Remote { url, .. } => secret_of(url),
    }
}

/// Returns the keys that the user has to set in the Secret `secret`, which was made without them.
pub(crate) fn needed(server: &VirtualServer, new: &NewServer, secret: &str) -> MadeChange {
    let mut made = MadeChange::default();
    let mut forms = Vec::new();
    for (key, name, _) in keyed(&new.place) {
        let Some(text) = open_text(new, name) else { continue };
        let mut form = String::new();
        for part in &text.0 {
            match part {
                Part::Secret { label, .. } => {
                    form.extend(["<", label.as_str(), ">"]);
                    let keys = made.needed.entry(label.clone()).or_default();
                    if !keys.is_empty() {
                        keys.push_str(" and ");
                    }
                    keys.push_str(&key);
                }
                Part::Fixed(plain) | Part::Value(plain) | Part::Reference(plain) => form.push_str(plain),
            }
        }
        if text.0.len() > 1 {
            forms.push(format!("; {key} holds `{}`", sanitize::text(&form)));
        }
    }
    if !made.needed.is_empty() {
        let namespace = &server.namespace;
        made.needed_in = format!("the Secret `{secret}` in namespace {namespace}{}", forms.concat());
    }
    made
}

/// Returns the name of the Secret of a server. A dot ends the name of the VirtualMCPServer, which has none
/// itself, so that the names of two of them never begin alike. The random digits keep it apart from the
/// Secret of a server of the same name that was removed a moment ago.
pub(crate) fn secret_name(server: &VirtualServer, added: &str, random: [u8; 4]) -> String {
    format!("{}.added.{added}-{}", server.name, hex::encode(random))
}

/// Returns the manifest of a server, which refers to the Secret `secret` for each of its values.
pub(crate) fn resource(server: &VirtualServer, new: &NewServer, secret: &str) -> Value {
    let owner = json!({
        "apiVersion": server.api_version, "kind": "VirtualMCPServer", "name": server.name, "uid": server.uid,
    });
    let mut spec = match &new.place {
        ServerPlace::Remote { url, .. } => {
            let headers: Vec<_> = keyed(&new.place)
                .map(|(key, name, _)| {
                    let (secret, key) = source_of(new, name, secret, &key);
                    json!({ "headerName": name, "valueSecretRef": { "name": secret, "key": key } })
                })
                .collect();
            let mut spec = json!({ "remoteUrl": url.as_str() });
            if let Some(transport) = transport_of(new, url) {
                insert(&mut spec, "transport", transport.into());
            }
            if !headers.is_empty() {
                insert(&mut spec, "headerForward", json!({ "addHeadersFromSecret": headers }));
            }
            spec
        }
        ServerPlace::Program { words, .. } => {
            let (program, args) = words.split_at(words.len().min(1));
            let mut spec = json!({ "image": new.image, "transport": "stdio", "command": program });
            insert_program(&mut spec, args, new, secret);
            spec
        }
        // Without a command, the operator asks the registry of the image for its program.
        ServerPlace::Image { image, args, .. } => {
            let mut spec = json!({ "image": image, "transport": "stdio" });
            insert_program(&mut spec, args, new, secret);
            spec
        }
    };
    insert(&mut spec, "enabled", new.enabled.into());
    if let Some(group) = &server.group {
        insert(&mut spec, "groupRef", json!({ "name": group }));
    }
    let mut metadata = metadata(server, &new.name, &owner);
    if let Some(registered) = &new.registered {
        insert(&mut metadata, "annotations", json!({ INSTALLED_FROM: registered.origin }));
    }
    json!({
        "apiVersion": server.api_version,
        "kind": kind_of(&new.place).name(),
        "metadata": metadata,
        "spec": spec,
    })
}

/// Returns the transport of an address, unless it is streamable HTTP.
fn transport_of(new: &NewServer, url: &Url) -> Option<&'static str> {
    let target = new.registered.as_ref().map(|registered| &registered.draft.target);
    if matches!(url.scheme(), "ws" | "wss") {
        Some("websocket")
    } else {
        matches!(target, Some(Target::Remote { is_sse: true, .. })).then_some("sse")
    }
}

/// Adds the arguments and the variables of a program to its MCPServer.
fn insert_program(spec: &mut Value, args: &[String], new: &NewServer, secret: &str) {
    if !args.is_empty() {
        insert(spec, "args", json!(args));
    }
    let variables: Vec<_> = keyed(&new.place)
        .map(|(key, name, _)| {
            let (secret, key) = source_of(new, name, secret, &key);
            json!({ "name": secret, "key": key, "targetEnvName": name })
        })
        .collect();
    if !variables.is_empty() {
        insert(spec, "secrets", variables.into());
    }
}

/// Returns the values for the server's own Secret: all but references.
fn own_values(new: &NewServer) -> impl Iterator<Item = (String, &String, &Secret)> {
    keyed(&new.place).filter(move |(_, name, _)| !new.secret_refs.contains_key(*name))
}

/// Returns Secret and key of a value: as a client named them, or else in the server's own Secret.
fn source_of<'a>(new: &'a NewServer, name: &str, secret: &'a str, key: &'a str) -> (&'a str, &'a str) {
    match new.secret_refs.get(name) {
        Some(reference) => (reference.name.as_str(), reference.key.as_deref().unwrap_or(key)),
        None => (secret, key),
    }
}

/// Returns the Secret with the values of a server, which the resource with this UID owns; `None` for a server
/// that takes no values of its own. Values that the user has to set are absent.
pub(crate) fn secret(server: &VirtualServer, new: &NewServer, name: &str, owner_uid: &str) -> Option<Value> {
    own_values(new).next()?;
    let given = own_values(new).filter(|(_, name, _)| open_text(new, name).is_none());
    let values: BTreeMap<_, _> = given.map(|(key, _, value)| (key, value.expose().to_owned())).collect();
    let owner = json!({
        "apiVersion": server.api_version, "kind": kind_of(&new.place).name(), "name": new.name,
        "uid": owner_uid,
    });
    Some(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": metadata(server, name, &owner),
        "stringData": values,
    }))
}

fn metadata(server: &VirtualServer, name: &str, owner: &Value) -> Value {
    json!({
        "name": name,
        "namespace": server.namespace,
        "labels": { ADDED_BY: server.name, "app.kubernetes.io/managed-by": MANAGED_BY },
        "ownerReferences": [owner],
    })
}

fn insert(block: &mut Value, key: &str, value: Value) {
    if let Value::Object(fields) = block {
        fields.insert(key.to_owned(), value);
    }
}

//! The resources of added servers, and the Secrets with their values. Pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use vmcp_config::Secret;
use vmcp_engine::server_registrar::{NewServer, ServerPlace};

use crate::calls::ServerKind;
use crate::virtual_server::VirtualServer;

/// Label with the name of the VirtualMCPServer that added an object.
pub const ADDED_BY: &str = "toolhive.stacklok.com/added-by";
/// Value of `app.kubernetes.io/managed-by` of objects that vmcp makes.
pub const MANAGED_BY: &str = "vmcp";

/// Returns the kind of resource that a place takes.
pub(crate) fn kind_of(place: &ServerPlace) -> ServerKind {
    match place {
        ServerPlace::Program { .. } => ServerKind::Program,
        ServerPlace::Remote { .. } => ServerKind::Entry,
    }
}

/// Returns the values of a server, each with its key in the Secret: a number, and the name as far as a key
/// may hold it.
fn keyed(place: &ServerPlace) -> impl Iterator<Item = (String, &String, &Secret)> {
    let values = match place {
        ServerPlace::Program { env, .. } => env,
        ServerPlace::Remote { headers, .. } => headers,
    };
    let legal = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '_' };
    values.iter().enumerate().map(move |(index, (name, value))| {
        let name_in_key: String = name.chars().take(100).map(legal).collect();
        (format!("{index}-{name_in_key}"), name, value)
    })
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
                    json!({ "headerName": name, "valueSecretRef": { "name": secret, "key": key } })
                })
                .collect();
            let mut spec = json!({ "remoteUrl": url.as_str() });
            if !headers.is_empty() {
                insert(&mut spec, "headerForward", json!({ "addHeadersFromSecret": headers }));
            }
            spec
        }
        ServerPlace::Program { words, .. } => {
            let variables: Vec<_> = keyed(&new.place)
                .map(|(key, name, _)| json!({ "name": secret, "key": key, "targetEnvName": name }))
                .collect();
            let (program, args) = words.split_at(words.len().min(1));
            let mut spec = json!({ "image": new.image, "transport": "stdio", "command": program });
            if !args.is_empty() {
                insert(&mut spec, "args", json!(args));
            }
            if !variables.is_empty() {
                insert(&mut spec, "secrets", variables.into());
            }
            spec
        }
    };
    insert(&mut spec, "enabled", new.enabled.into());
    if let Some(group) = &server.group {
        insert(&mut spec, "groupRef", json!({ "name": group }));
    }
    json!({
        "apiVersion": server.api_version,
        "kind": kind_of(&new.place).name(),
        "metadata": metadata(server, &new.name, &owner),
        "spec": spec,
    })
}

/// Returns the Secret with the values of a server, which the resource with this UID owns; `None` without
/// values.
pub(crate) fn secret(server: &VirtualServer, new: &NewServer, name: &str, owner_uid: &str) -> Option<Value> {
    let values: BTreeMap<_, _> =
        keyed(&new.place).map(|(key, _, value)| (key, value.expose().to_owned())).collect();
    let owner = json!({
        "apiVersion": server.api_version, "kind": kind_of(&new.place).name(), "name": new.name,
        "uid": owner_uid,
    });
    (!values.is_empty()).then(|| {
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": metadata(server, name, &owner),
            "stringData": values,
        })
    })
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

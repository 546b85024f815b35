//! Tells servers that were added here from servers of people, of GitOps and of other VirtualMCPServers. Pure.

use std::collections::BTreeMap;

use serde_json::Value;
use url::Url;
use vmcp_config::{Secret, sanitize};
use vmcp_engine::server_registrar::{RegistrarError, ServerPlace};

use crate::manifests::ADDED_BY;
use crate::server_kind::ServerKind;
use crate::virtual_server::VirtualServer;

/// A server that this VirtualMCPServer added.
#[derive(Debug)]
pub(crate) struct AddedServer {
    pub(crate) kind: ServerKind,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// Version that was read; `None`: any.
    pub(crate) resource_version: Option<String>,
    spec: Value,
}

impl AddedServer {
    /// Reads an object that was just created; whatever version it has by now.
    pub(crate) fn created(kind: ServerKind, name: &str, object: &Value) -> Result<AddedServer, String> {
        let uid = text(object, &["metadata", "uid"]).ok_or("the API server gave the object no UID")?;
        let (name, uid) = (name.to_owned(), uid.to_owned());
        Ok(AddedServer { kind, name, uid, resource_version: None, spec: Value::Null })
    }

    /// Reads an object; refuses an object that others keep, and says where.
    pub(crate) fn read(
        server: &VirtualServer,
        kind: ServerKind,
        name: &str,
        object: &Value,
    ) -> Result<AddedServer, RegistrarError> {
        let label = text(object, &["metadata", "labels", ADDED_BY]);
        let owners = at(object, &["metadata", "ownerReferences"]).and_then(Value::as_array);
        let mut owners = owners.into_iter().flatten();
        let is_own = label == Some(server.name.as_str())
            && owners.any(|owner| text(owner, &["uid"]) == Some(server.uid.as_str()));
        let where_defined = match keeper(object) {
            Some(keeper) => format!("which {keeper} keeps"),
            None if !is_own => "which this server did not add".to_owned(),
            None => {
                let version = text(object, &["metadata", "resourceVersion"]);
                return Ok(AddedServer {
                    kind,
                    name: name.to_owned(),
                    uid: text(object, &["metadata", "uid"]).unwrap_or_default().to_owned(),
                    resource_version: version.map(str::to_owned),
                    spec: object.get("spec").cloned().unwrap_or_default(),
                });
            }
        };
        Err(RegistrarError::Foreign(format!(
            "server `{name}` is defined by {} {name} in namespace {}, {where_defined}; it is changed there alone",
            kind.name(),
            server.namespace
        )))
    }

    /// Returns its address or its command line, with the names of its values.
    pub(crate) fn place(&self) -> Result<ServerPlace, RegistrarError> {
        let list = |path: &[&str]| at(&self.spec, path).and_then(Value::as_array).into_iter().flatten();
        let without_value = |name: &str| (name.to_owned(), Secret::default());
        match self.kind {
            ServerKind::Entry => {
                let url = text(&self.spec, &["remoteUrl"]).and_then(|url| Url::parse(url).ok());
                let url = url.ok_or_else(|| {
                    let text = format!("MCPServerEntry {} has no usable `remoteUrl`; delete it", self.name);
                    RegistrarError::Invalid(text)
                })?;
                let of_secrets = list(&["headerForward", "addHeadersFromSecret"]);
                let mut headers: BTreeMap<_, _> = of_secrets
                    .filter_map(|header| text(header, &["headerName"]))
                    .map(without_value)
                    .collect();
                let plain = at(&self.spec, &["headerForward", "addPlaintextHeaders"]);
                let plain = plain.and_then(Value::as_object).into_iter().flatten();
                headers.extend(plain.map(|(name, _)| without_value(name)));
                Ok(ServerPlace::Remote { url, headers })
            }
            ServerKind::Program => {
                let texts = |path: &[&str]| list(path).filter_map(Value::as_str).map(str::to_owned);
                let variable = |secret| text(secret, &["targetEnvName"]).or_else(|| text(secret, &["key"]));
                let plain = list(&["env"]).filter_map(|variable| text(variable, &["name"]));
                let env = list(&["secrets"]).filter_map(variable).chain(plain).map(without_value).collect();
                let words: Vec<_> = texts(&["command"]).collect();
                let args = texts(&["args"]);
                if words.is_empty() {
                    let image = text(&self.spec, &["image"]).unwrap_or_default().to_owned();
                    return Ok(ServerPlace::Image { image, args: args.collect(), env });
                }
                Ok(ServerPlace::Program { words: words.into_iter().chain(args).collect(), env })
            }
        }
    }
}

/// Refuses a server that is configured, and whose object this process does not find.
pub(crate) fn not_found(server: &VirtualServer, name: &str) -> RegistrarError {
    let (kinds, others) = if server.runs_programs {
        ("MCPServerEntry or MCPServer", "an MCPRemoteProxy")
    } else {
        ("MCPServerEntry", "an MCPServer or MCPRemoteProxy")
    };
    RegistrarError::Foreign(format!(
        "there is no {kinds} `{name}` in namespace {}: {others} of this name defines the server and is changed \
         there alone, or the server was removed a moment ago",
        server.namespace
    ))
}

/// Names the tool that keeps an object in step with a repository or a release, by its marks.
fn keeper(object: &Value) -> Option<String> {
    let mark = |kind: &str, key: &str| {
        let value = text(object, &["metadata", kind, key])?;
        Some((format!("{key}: {}", sanitize::text(value)), kind.trim_end_matches('s').to_owned()))
    };
    let of = |tool: &str, (mark, kind): (String, String)| format!("{tool} ({kind} {mark})");
    mark("annotations", "argocd.argoproj.io/tracking-id")
        .or_else(|| mark("labels", "argocd.argoproj.io/instance"))
        .map(|found| of("Argo CD", found))
        .or_else(|| {
            let found = mark("labels", "kustomize.toolkit.fluxcd.io/name");
            found.or_else(|| mark("labels", "helm.toolkit.fluxcd.io/name")).map(|found| of("Flux", found))
        })
        .or_else(|| mark("annotations", "meta.helm.sh/release-name").map(|found| of("Helm", found)))
}

fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |block, key| block.get(key))
}

fn text<'a>(object: &'a Value, path: &[&str]) -> Option<&'a str> {
    at(object, path).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn server() -> VirtualServer {
        VirtualServer {
            name: "x".to_owned(),
            uid: "of-x".to_owned(),
            namespace: "n".to_owned(),
            api_version: "toolhive.stacklok.com/v1alpha1".to_owned(),
            group: None,
            runs_programs: true,
        }
    }

    fn refusal(metadata: &Value) -> String {
        let object = json!({ "metadata": metadata });
        AddedServer::read(&server(), ServerKind::Entry, "github", &object).unwrap_err().to_string()
    }

    #[test]
    fn a_server_of_others_is_refused_with_its_place() {
        let owner = json!([{ "uid": "of-x" }]);
        for metadata in [
            json!({}),
            json!({ "labels": { ADDED_BY: "y" }, "ownerReferences": owner }),
            json!({ "labels": { ADDED_BY: "x" } }),
            json!({ "labels": { ADDED_BY: "x" }, "ownerReferences": [{ "uid": "of-an-older-x" }] }),
        ] {
            let refused = refusal(&metadata);
            let expected = "server `github` is defined by MCPServerEntry github in namespace n, which this server did not add";
            assert!(refused.starts_with(expected), "{metadata}: {refused}");
        }
    }

    #[test]
    fn a_server_that_gitops_keeps_is_refused_with_the_mark_also_if_it_was_added_here() {
        for (place, key, expected) in [
            (
                "annotations",
                "argocd.argoproj.io/tracking-id",
                "Argo CD (annotation argocd.argoproj.io/tracking-id: a/b)",
            ),
            ("labels", "argocd.argoproj.io/instance", "Argo CD (label "),
            (
                "labels",
                "kustomize.toolkit.fluxcd.io/name",
                "Flux (label kustomize.toolkit.fluxcd.io/name: a/b)",
            ),
            ("labels", "helm.toolkit.fluxcd.io/name", "Flux (label "),
            ("annotations", "meta.helm.sh/release-name", "Helm (annotation "),
        ] {
            let mut metadata = json!({
                "labels": { ADDED_BY: "x" }, "annotations": {}, "ownerReferences": [{ "uid": "of-x" }],
            });
            metadata[place][key] = json!("a/b");
            let refused = refusal(&metadata);
            assert!(refused.contains(expected), "{key}: {refused}");
        }
    }

    #[test]
    fn the_place_of_a_server_has_the_names_of_its_values_alone() {
        let of = |kind, spec: Value| {
            let metadata =
                json!({ "labels": { ADDED_BY: "x" }, "ownerReferences": [{ "uid": "of-x" }], "uid": "u" });
            let object = json!({ "metadata": metadata, "spec": spec });
            AddedServer::read(&server(), kind, "a", &object).unwrap().place()
        };
        let entry = of(
            ServerKind::Entry,
            json!({ "remoteUrl": "https://mcp.example.com/mcp", "headerForward": {
                "addHeadersFromSecret": [{ "headerName": "Authorization", "valueSecretRef": {} }],
                "addPlaintextHeaders": { "X-Team": "a" },
            }}),
        );
        let Ok(ServerPlace::Remote { url, headers }) = entry else { panic!("{entry:?}") };
        assert_eq!(url.as_str(), "https://mcp.example.com/mcp");
        assert_eq!(headers.keys().collect::<Vec<_>>(), ["Authorization", "X-Team"]);
        let program = of(
            ServerKind::Program,
            json!({ "command": ["npx"], "args": ["-y", "@acme/mcp"], "env": [{ "name": "B", "value": "1" }],
                "secrets": [{ "name": "s", "key": "0-A", "targetEnvName": "A" }] }),
        );
        let Ok(ServerPlace::Program { words, env }) = program else { panic!("{program:?}") };
        assert_eq!(words, ["npx", "-y", "@acme/mcp"]);
        assert_eq!(env.keys().collect::<Vec<_>>(), ["A", "B"]);
        let image = of(ServerKind::Program, json!({ "image": "ghcr.io/acme/a:1", "args": ["--utc"] }));
        let Ok(ServerPlace::Image { image, args, env }) = image else { panic!("{image:?}") };
        assert_eq!((image.as_str(), args.join(" "), env.len()), ("ghcr.io/acme/a:1", "--utc".to_owned(), 0));
        assert!(of(ServerKind::Entry, json!({})).is_err());
    }
}

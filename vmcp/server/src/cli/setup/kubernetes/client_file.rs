//! `vmcp init --from … --kubernetes`: the servers of another client as resources of a cluster, with a Secret
//! for the values of each.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use vmcp_client_files::import::Imported;
use vmcp_config::{Backend, Secret, Transport};

use super::manifests::{Manifests, image_of};
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::setup::server_arguments::Description;

/// Options for manifests in place of a configuration file.
#[derive(Debug, Args)]
#[command(next_help_heading = "In a Kubernetes cluster")]
pub(in crate::cli) struct ManifestArguments {
    /// Write the imported servers as resources of a cluster, with their values in Secrets
    #[arg(long, requires = "from", conflicts_with_all = ["merge", "preset"])]
    pub(in crate::cli) kubernetes: bool,
    /// Namespace of the resources [default: none, so that kubectl decides]
    #[arg(long, value_name = "NAMESPACE", requires = "kubernetes")]
    namespace: Option<String>,
    /// MCPGroup of the servers [default: none; a VirtualMCPServer without a group serves all]
    #[arg(long, value_name = "GROUP", requires = "kubernetes")]
    group: Option<String>,
    /// Image in which programs run [default: Node.js for npx, uv for uvx; others are left out]
    #[arg(long, value_name = "IMAGE", requires = "kubernetes")]
    image: Option<String>,
}

/// Manifests of imported servers.
#[derive(Debug)]
pub(in crate::cli) struct ServerManifests {
    /// The documents, with the values of the Secrets.
    pub(in crate::cli) yaml: String,
    /// Number of servers.
    pub(in crate::cli) servers: usize,
    /// Number of values in Secrets.
    pub(in crate::cli) values: usize,
    /// Servers that cannot run in a cluster as they are, each with the reason.
    pub(in crate::cli) left_out: Vec<String>,
}

/// Describes imported servers in the terms of Kubernetes. `variable` returns variables of the environment,
/// for references that the other client had.
pub(in crate::cli) fn manifests(
    imported: &Imported,
    wanted: &ManifestArguments,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<ServerManifests, CommandFailure> {
    // References stay, in the form that the kubelet replaces in arguments.
    let kept = |name: &str| Some(reference(name));
    let loaded = vmcp_config::load(&imported.yaml, "the import", &kept)
        .map_err(|problems| CommandFailure::new(problems.to_string()))?;
    let known = KnownValues { imported, variable };
    let mut made = ServerManifests { yaml: String::new(), servers: 0, values: 0, left_out: Vec::new() };
    let mut names = BTreeSet::new();
    for backend in &loaded.config.backends {
        let name = resource_name(backend);
        let described = if names.insert(name.clone()) {
            known.manifests(backend, wanted)
        } else {
            Err(format!("a server before it is named {name} in the cluster, too; rename one of them"))
        };
        match described {
            Ok(manifests) => {
                made.servers += 1;
                made.values += manifests.values().count();
                for document in manifests.documents()? {
                    made.yaml.push_str("---\n");
                    made.yaml.push_str(&document);
                }
            }
            Err(reason) => made.left_out.push(format!("{} left out: {reason}", backend.name)),
        }
    }
    if made.servers == 0 {
        return Err(CommandFailure::new(made.left_out.join("\n")).exit(Exit::NothingFound));
    }
    Ok(made)
}

/// Returns the name of a server's resource.
fn resource_name(backend: &Backend) -> String {
    backend.name.replace(['_', '.'], "-")
}

/// Values behind the references of an import.
struct KnownValues<'a> {
    imported: &'a Imported,
    variable: &'a dyn Fn(&str) -> Option<String>,
}

impl KnownValues<'_> {
    /// Describes one server; the error is the reason why it is left out.
    fn manifests(&self, backend: &Backend, wanted: &ManifestArguments) -> Result<Manifests, String> {
        if !backend.enabled {
            return Err("it is switched off".to_owned());
        }
        let name = resource_name(backend);
        let (server, image, transport) = match &backend.transport {
            Transport::Http { url, headers } | Transport::WebSocket { url, headers } => {
                (self.remote(url.as_str(), headers)?, None, None)
            }
            Transport::Sse { url, headers } => (self.remote(url.as_str(), headers)?, None, Some("sse")),
            Transport::Stdio { command, args, env, cwd, .. } => {
                if cwd.is_some() {
                    return Err(
                        "its working directory (`cwd`) is a folder of this machine; remove it".to_owned()
                    );
                }
                let image = wanted.image.as_deref().or_else(|| image_of(command));
                let missing = || {
                    format!(
                        "`{command}` is a program of this machine; name an image that has it: --image IMAGE"
                    )
                };
                let image = image.ok_or_else(missing)?.to_owned();
                (self.program(command, args, env)?, Some(image), None)
            }
        };
        let (namespace, group) = (wanted.namespace.as_deref(), wanted.group.as_deref());
        let made = Manifests::new(&name, namespace, group, image, server);
        let made = made.map_err(|failure| match failure.remedy_text() {
            Some(remedy) => format!("{}; {remedy}", failure.message()),
            None => failure.message().to_owned(),
        })?;
        Ok(match transport {
            Some(transport) => made.with_transport(transport),
            None => made,
        })
    }

    fn remote<'h>(
        &self,
        url: &str,
        headers: impl IntoIterator<Item = (&'h String, &'h Secret)>,
    ) -> Result<Description, String> {
        if url.contains("$(") {
            return Err(
                "its address has a secret, which every reader of the resource would see; give it as a \
                        header"
                    .to_owned(),
            );
        }
        let headers = headers.into_iter();
        let headers = headers.map(|(name, value)| Ok((name.clone(), self.value(value.expose())?)));
        Ok(Description::Remote { url: url.to_owned(), headers: headers.collect::<Result<_, String>>()? })
    }

    /// Describes a program. Variables that its arguments refer to are added to its own, for the kubelet puts
    /// them in their place.
    fn program(
        &self,
        command: &str,
        args: &[String],
        env: &BTreeMap<String, Secret>,
    ) -> Result<Description, String> {
        let mut values = BTreeMap::new();
        for (name, value) in env {
            values.insert(name.clone(), self.value(value.expose())?);
        }
        for name in args.iter().flat_map(|word| references(word)) {
            if !values.contains_key(name) {
                values.insert(name.to_owned(), self.value(&reference(name))?);
            }
        }
        let command = std::iter::once(command.to_owned()).chain(args.iter().cloned()).collect();
        Ok(Description::Program { command, env: values.into_iter().collect() })
    }

    /// Puts the values of variables into a text.
    fn value(&self, text: &str) -> Result<Secret, String> {
        let mut whole = text.to_owned();
        for name in references(text) {
            let value = match self.imported.variables.get(name) {
                Some(value) => value.expose().to_owned(),
                None => (self.variable)(name).ok_or_else(|| {
                    format!("it needs {name}: set this variable, and run the command again")
                })?,
            };
            whole = whole.replace(&reference(name), &value);
        }
        Ok(Secret::from(whole))
    }
}

/// Writes a reference to a variable as the kubelet reads it in arguments.
fn reference(name: &str) -> String {
    format!("$({name})")
}

/// Returns the names of the variables that a text refers to.
fn references(text: &str) -> impl Iterator<Item = &str> {
    text.split("$(").skip(1).filter_map(|rest| rest.split_once(')')).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use serde_json::{Value, json};
    use vmcp_client_files::import;

    use super::*;

    fn made(servers: &Value, image: Option<&str>) -> Result<ServerManifests, CommandFailure> {
        let file = json!({ "mcpServers": servers }).to_string();
        let imported = import::import(&file, ".mcp.json").unwrap();
        let wanted = ManifestArguments {
            kubernetes: true,
            namespace: Some("tools".to_owned()),
            group: Some("team".to_owned()),
            image: image.map(str::to_owned),
        };
        manifests(&imported, &wanted, &|name| (name == "HOME_TOKEN").then(|| "of-the-shell".to_owned()))
    }

    fn documents(made: &ServerManifests) -> Vec<Value> {
        let parts = made.yaml.split("---\n").filter(|part| !part.is_empty());
        parts.map(|part| serde_saphyr::from_str(part).unwrap()).collect()
    }

    fn decoded(secret: &Value, key: &str) -> String {
        let bytes = BASE64_STANDARD.decode(secret["data"][key].as_str().unwrap()).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn two_servers_become_two_resources_with_secrets() {
        let made = made(
            &json!({
                "search": {
                    "command": "npx", "args": ["-y", "some-server"], "env": { "API_KEY": "sk-0123456789abcdef" }
                },
                "my_remote": {
                    "url": "https://mcp.example.com/mcp",
                    "headers": { "Authorization": "Bearer ghp_0123456789abcdef0123456789abcdef0123" }
                },
            }),
            None,
        )
        .unwrap();
        assert_eq!((made.servers, made.values, made.left_out.len()), (2, 2, 0));
        let documents = documents(&made);
        let kinds: Vec<_> = documents.iter().map(|document| document["kind"].as_str().unwrap()).collect();
        assert_eq!(documents.len(), 4, "{kinds:?}");
        let of = |kind: &str, name: &str| {
            let is = |document: &&Value| document["kind"] == kind && document["metadata"]["name"] == name;
            documents.iter().find(is).unwrap_or_else(|| panic!("no {kind} {name}"))
        };
        let program = of("MCPServer", "search");
        assert_eq!(program["spec"]["image"], "docker.io/library/node:22-alpine");
        assert_eq!(program["metadata"]["namespace"], "tools");
        assert_eq!(program["spec"]["groupRef"]["name"], "team");
        assert_eq!(decoded(of("Secret", "search-env"), "API_KEY"), "sk-0123456789abcdef");
        let remote = of("MCPServerEntry", "my-remote");
        assert_eq!(remote["spec"]["remoteUrl"], "https://mcp.example.com/mcp");
        let bearer = decoded(of("Secret", "my-remote-headers"), "authorization");
        assert_eq!(bearer, "Bearer ghp_0123456789abcdef0123456789abcdef0123");
        let resources = format!("{program} {remote}");
        assert!(!resources.contains("ghp_") && !resources.contains("sk-0"), "{resources}");
    }

    #[test]
    fn a_secret_argument_is_a_variable_that_the_kubelet_puts_in_its_place() {
        let server =
            json!({ "a": { "command": "uvx", "args": ["serve", "--api-key", "sk-0123456789abcdef"] } });
        let made = made(&server, None).unwrap();
        let documents = documents(&made);
        let spec = &documents[0]["spec"];
        assert!(!spec.to_string().contains("sk-0"), "{spec}");
        let variable = spec["secrets"][0]["targetEnvName"].as_str().unwrap();
        assert_eq!(spec["args"], json!(["serve", "--api-key", format!("$({variable})")]));
        assert_eq!(decoded(&documents[1], variable), "sk-0123456789abcdef");
    }

    #[test]
    fn two_names_that_are_one_in_a_cluster_make_one_resource() {
        let url = |path: &str| json!({ "url": format!("https://mcp.example.com/{path}") });
        let made = made(&json!({ "a-b": url("one"), "a_b": url("two") }), None).unwrap();
        assert_eq!((made.servers, documents(&made).len()), (1, 1));
        let left_out = made.left_out.join("\n");
        assert!(left_out.contains("left out: a server before it is named a-b"), "{left_out}");
    }

    #[test]
    fn servers_that_cannot_run_in_a_cluster_are_named_with_the_reason() {
        let servers = json!({
            "own": { "command": "/usr/local/bin/own" },
            "here": { "command": "npx", "args": ["x"], "cwd": "/home/me" },
            "old": { "type": "sse", "url": "https://old.example.com/sse" },
            "asks": { "url": "https://asks.example.com/mcp", "headers": { "X-Key": "${MISSING_KEY}" } },
            "shell": { "url": "https://shell.example.com/mcp", "headers": { "X-Key": "${HOME_TOKEN}" } },
        });
        let made = made(&servers, None).unwrap();
        assert_eq!(made.servers, 2, "{:?}", made.left_out);
        let left_out = made.left_out.join("\n");
        assert!(left_out.contains("own left out") && left_out.contains("--image IMAGE"), "{left_out}");
        assert!(left_out.contains("here left out: its working directory"), "{left_out}");
        assert!(left_out.contains("asks left out: it needs MISSING_KEY"), "{left_out}");
        let documents = documents(&made);
        let old = documents.iter().find(|document| document["metadata"]["name"] == "old").unwrap();
        assert_eq!(old["spec"]["transport"], "sse");
        let secret = documents.iter().find(|document| document["kind"] == "Secret").unwrap();
        assert_eq!(decoded(secret, "x-key"), "of-the-shell");
        assert!(tests::made(&json!({ "own": { "command": "own" } }), Some("x:1")).is_ok());
        assert!(tests::made(&json!({ "own": { "command": "own" } }), None).is_err());
    }
}

//! [`ClusterServer`]: the VirtualMCPServer that a command is about, read and changed through `kubectl`.

use std::ffi::OsString;

use clap::Args;
use serde_json::Value;

use super::kubectl::Kubectl;
use super::server_resource::ServerResource;
use super::{GROUP, names};
use crate::cli::console::failure::{CommandFailure, Exit};

/// Options that name a server of a cluster in place of one of this machine.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "In a Kubernetes cluster")]
pub(in crate::cli) struct ClusterServerArguments {
    /// The VirtualMCPServer of this name, in place of a server of this machine; by your `kubectl` and with
    /// your rights
    #[arg(long, value_name = "NAME")]
    kubernetes: Option<String>,
    /// Namespace of the VirtualMCPServer [default: that of kubectl's context]
    #[arg(long, value_name = "NAMESPACE", requires = "kubernetes")]
    namespace: Option<String>,
    /// Context of the kubeconfig [default: kubectl's current one]
    #[arg(long, value_name = "CONTEXT", requires = "kubernetes")]
    context: Option<String>,
}

impl ClusterServerArguments {
    /// Returns the server that is named; `None` for a server of this machine.
    pub(in crate::cli) fn server(&self) -> Result<Option<ClusterServer>, CommandFailure> {
        let Some(name) = &self.kubernetes else { return Ok(None) };
        names::check("VirtualMCPServer", name)?;
        if let Some(namespace) = &self.namespace {
            names::check("namespace", namespace)?;
        }
        let (context, namespace) = (self.context.as_deref(), self.namespace.as_deref());
        let words = [("namespace", namespace), ("context", context)].into_iter();
        let words = words.filter_map(|(option, value)| Some(format!("--{option}={}", value?)));
        Ok(Some(ClusterServer {
            name: name.clone(),
            kubectl: Kubectl::new(context, namespace, std::iter::empty()),
            words: words.collect(),
        }))
    }
}

/// A VirtualMCPServer of a cluster.
#[derive(Debug, Clone)]
pub(in crate::cli) struct ClusterServer {
    name: String,
    kubectl: Kubectl<'static>,
    /// Options that choose its cluster and namespace.
    words: Vec<String>,
}

impl ClusterServer {
    /// Returns its name.
    pub(in crate::cli) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the `kubectl` of its cluster.
    pub(super) fn kubectl(&self) -> &Kubectl<'static> {
        &self.kubectl
    }

    /// Returns the options by which another command names this server.
    pub(in crate::cli) fn options(&self) -> Vec<OsString> {
        let name = format!("--kubernetes={}", self.name);
        std::iter::once(name).chain(self.words.iter().cloned()).map(OsString::from).collect()
    }

    /// Returns the words of a command of vmcp about this server, for a person.
    pub(in crate::cli) fn words_for(&self, command: &str) -> String {
        let words: Vec<_> =
            [self.name.as_str()].into_iter().chain(self.words.iter().map(String::as_str)).collect();
        format!("`vmcp {command} --kubernetes {}`", words.join(" "))
    }

    /// Reads the resource.
    pub(in crate::cli) fn read(&self) -> Result<ServerResource, CommandFailure> {
        let kind = kind();
        let get = ["get", &kind, "--ignore-not-found", "--output=json", "--", &self.name];
        let found = self.kubectl.run(&get, None)?;
        if found.trim().is_empty() {
            return Err(self.absent());
        }
        parse(&found)
    }

    /// Changes the resource by a JSON merge patch, and returns it.
    pub(in crate::cli) fn patch(&self, change: &Value) -> Result<ServerResource, CommandFailure> {
        let (kind, change) = (kind(), format!("--patch={change}"));
        let patch = ["patch", &kind, "--type=merge", &change, "--output=json", "--", &self.name];
        parse(&self.kubectl.run(&patch, None)?)
    }

    /// Returns the name of a pod that is ready; `None` without one.
    pub(in crate::cli) fn ready_pod(&self) -> Result<Option<String>, CommandFailure> {
        let labels =
            format!("--selector=app.kubernetes.io/name=vmcp,app.kubernetes.io/instance={}", self.name);
        let pods: Value =
            serde_json::from_str(&self.kubectl.run(&["get", "pods", &labels, "--output=json"], None)?)?;
        let pods = pods.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        Ok(pods.iter().find(|pod| is_ready_pod(pod, &self.name)).and_then(name_of))
    }

    /// Returns the failure for a missing resource, with the names of the existing ones.
    fn absent(&self) -> CommandFailure {
        let list = ["get", &kind(), "--output=jsonpath={.items[*].metadata.name}"];
        // Without the right to list them, the way to look elsewhere is told.
        let names = self.kubectl.run(&list, None).unwrap_or_default();
        let names: Vec<_> = names.split_whitespace().collect();
        let remedy = if names.is_empty() {
            "`kubectl get virtualmcpservers --all-namespaces` lists them; name its --namespace, or another --context"
                .to_owned()
        } else {
            format!("there are {}; --namespace names another namespace", names.join(", "))
        };
        let message = format!("there is no VirtualMCPServer {} in this namespace", self.name);
        CommandFailure::new(message).exit(Exit::NothingFound).remedy(remedy)
    }
}

/// Returns the resource type, as `kubectl` names it without doubt.
fn kind() -> String {
    format!("virtualmcpservers.{GROUP}")
}

fn parse(text: &str) -> Result<ServerResource, CommandFailure> {
    serde_json::from_str(text).map_err(|error| {
        CommandFailure::new(format!("kubectl's answer is no VirtualMCPServer: {error}"))
            .remedy("`kubectl version` must show 1.28 or later")
    })
}

fn name_of(pod: &Value) -> Option<String> {
    pod.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned)
}

/// Returns true for a ready pod of the server's Deployment, or of its StatefulSet. Labels alone prove
/// nothing: authors of pods choose them, and a client's token goes to this pod.
fn is_ready_pod(pod: &Value, server: &str) -> bool {
    let list =
        |path: &str| pod.pointer(path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let is_ready =
        list("/status/conditions").iter().any(|it| it["type"] == "Ready" && it["status"] == "True");
    let hash = pod.pointer("/metadata/labels/pod-template-hash").and_then(Value::as_str).unwrap_or_default();
    let set = format!("{server}-{hash}");
    let is_own = list("/metadata/ownerReferences").iter().any(|owner| {
        let is_of = |kind: &str, name: &str| owner["kind"] == kind && owner["name"] == name;
        let is_of_deployment = !hash.is_empty() && is_of("ReplicaSet", &set);
        owner["controller"] == true && (is_of_deployment || is_of("StatefulSet", server))
    });
    let is_ending = pod.pointer("/metadata/deletionTimestamp").is_some();
    is_ready && is_own && !is_ending
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn arguments(name: &str, namespace: Option<&str>) -> ClusterServerArguments {
        let namespace = namespace.map(str::to_owned);
        ClusterServerArguments {
            kubernetes: Some(name.to_owned()),
            namespace,
            context: Some("a b".to_owned()),
        }
    }

    #[test]
    fn another_command_names_the_same_server() {
        let server = arguments("x", Some("team")).server().unwrap().unwrap();
        assert_eq!(server.options(), ["--kubernetes=x", "--namespace=team", "--context=a b"]);
        assert_eq!(server.words_for("start"), "`vmcp start --kubernetes x --namespace=team --context=a b`");
        assert!(arguments("x", Some("-n")).server().is_err());
        assert!(arguments("x;y", None).server().is_err());
    }

    #[test]
    fn a_pod_with_the_labels_alone_gets_no_token() {
        let pod = |ready: &str, owner: &str, deleted: bool| {
            let mut pod = json!({
                "metadata": {
                    "name": "x-5d4f-abc", "labels": { "pod-template-hash": "5d4f" },
                    "ownerReferences": [{ "kind": "ReplicaSet", "name": owner, "controller": true }],
                },
                "status": { "conditions": [{ "type": "Ready", "status": ready }] },
            });
            if deleted {
                pod["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
            }
            pod
        };
        assert!(is_ready_pod(&pod("True", "x-5d4f", false), "x"));
        assert!(!is_ready_pod(&pod("False", "x-5d4f", false), "x"));
        assert!(!is_ready_pod(&pod("True", "x-5d4f", true), "x"));
        assert!(!is_ready_pod(&pod("True", "other-5d4f", false), "x"));
        let of_set = |owner: &str, controller: bool| {
            let mut pod = pod("True", owner, false);
            pod["metadata"]["labels"] = json!({ "controller-revision-hash": "x-5d4f" });
            pod["metadata"]["ownerReferences"][0]["kind"] = json!("StatefulSet");
            pod["metadata"]["ownerReferences"][0]["controller"] = json!(controller);
            pod
        };
        assert!(is_ready_pod(&of_set("x", true), "x"), "each pod has a claim of its own");
        assert!(!is_ready_pod(&of_set("x", false), "x"));
        assert!(!is_ready_pod(&of_set("x-tei", true), "x"));
        let bare = json!({ "metadata": { "name": "p" }, "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
        assert!(!is_ready_pod(&bare, "x"));
    }
}

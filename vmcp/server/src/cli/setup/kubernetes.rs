//! `vmcp add --kubernetes` and `vmcp remove --kubernetes`: a server of a cluster instead of one in the
//! configuration file. `kubectl` does it, with the rights of the person.
//!
//! | room | holds |
//! |---|---|
//! | `arguments` | the options of the commands |
//! | `client_file` | servers of another client as manifests, which `vmcp init --from` writes; pure |
//! | `manifests` | the resource, and the Secret with every value that was given; pure |

mod arguments;
pub(in crate::cli) mod client_file;
mod manifests;

use serde_json::{Value, json};

pub(in crate::cli) use self::arguments::{AddToCluster, ClusterArguments};
use self::manifests::Manifests;
use super::server_arguments::ServerArguments;
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes::{self, counted};
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::kubernetes::kubectl::Kubectl;
use crate::cli::kubernetes::{GROUP, MANAGER, names};
use crate::cli::options::GlobalOptions;

/// Puts a server into a cluster, or shows what would be put there.
pub(in crate::cli) fn add(
    name: &str,
    server: ServerArguments,
    cluster: &ClusterArguments,
    add: AddToCluster,
    format: OutputFormat,
    global: &GlobalOptions,
) -> Result<Exit, CommandFailure> {
    server.refuse_secrets_in_words(name)?;
    let AddToCluster { image, group, dry_run } = add;
    let namespace = cluster.namespace.as_deref();
    let transport = match server.transport().as_deref() {
        Some("sse") => Some("sse"),
        Some("ws" | "websocket") => Some("websocket"),
        _ => None,
    };
    let manifests = Manifests::new(name, namespace, group.as_deref(), image, server.describe()?)?;
    let manifests = match transport {
        Some(transport) => manifests.with_transport(transport),
        None => manifests,
    };
    if dry_run {
        output::result(&manifests.shown()?)?;
        return Ok(Exit::Done);
    }
    global.start_logs()?;
    let kubectl = cluster.kubectl(manifests.values());
    if manifests.has_values() {
        refuse_foreign_secret(&kubectl, &manifests)?;
        // Before the resource, so that nothing is half done where rights or the namespace are missing.
        kubectl.apply(&manifests.secret(None), &["--dry-run=server", "--output=name"])?;
    }
    let applied = kubectl.apply(manifests.resource(), &["--output=json"])?;
    let applied: Value = serde_json::from_str(&applied)?;
    let text = |pointer: &str| applied.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (uid, namespace) = (text("/metadata/uid"), text("/metadata/namespace"));
    let (kind, secret) = (manifests.kind(), manifests.secret_name());
    if manifests.has_values() {
        kubectl.apply(&manifests.secret(Some(uid)), &["--output=name"]).map_err(|failure| {
            failure.remedy(format!(
                "{kind} {name} is there and waits for its Secret: run the command again when that is mended, or \
                 `vmcp remove {name} --kubernetes`"
            ))
        })?;
    } else if applied.pointer("/metadata/generation").and_then(Value::as_u64) > Some(1) {
        // The values of an earlier `vmcp add` under the name.
        let stale = format!("--selector=app.kubernetes.io/managed-by=vmcp,app.kubernetes.io/instance={name}");
        let field = format!("--field-selector=metadata.name={secret}");
        kubectl.run(&["delete", "secrets", &stale, &field, "--ignore-not-found"], None)?;
    }
    let values = if manifests.has_values() {
        let values = counted(manifests.values().count(), "value");
        format!("; {values} in Secret {secret}, which is deleted with it")
    } else {
        String::new()
    };
    notes::note(&format!("added {kind} {name} to namespace {namespace}{values}"));
    notes::note(&format!("`kubectl get {} {name} --namespace {namespace}` shows its state", kind.resource()));
    let secret = manifests.has_values().then_some(&secret);
    let result = json!({ "kind": kind.to_string(), "name": name, "namespace": namespace, "secret": secret });
    output::print_for_programs(format, &result)?;
    Ok(Exit::Done)
}

/// Deletes a server of a cluster; the garbage collector deletes its Secret.
pub(in crate::cli) fn remove(
    name: &str,
    cluster: &ClusterArguments,
    format: OutputFormat,
    global: &GlobalOptions,
) -> Result<Exit, CommandFailure> {
    names::check("resource", name)?;
    global.start_logs()?;
    let kubectl = cluster.kubectl(std::iter::empty());
    let objects = ["mcpservers", "mcpserverentries"].map(|resource| format!("{resource}.{GROUP}/{name}"));
    let [server, entry] = &objects;
    let found = kubectl.run(&["get", server, entry, "--ignore-not-found", "--output=name"], None)?;
    let found: Vec<&str> = found.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if found.is_empty() {
        let message = format!("there is no MCPServer or MCPServerEntry {name}");
        return Err(CommandFailure::new(message).exit(Exit::NothingFound).remedy(
            "`kubectl get mcpservers,mcpserverentries --all-namespaces` lists them; name its --namespace",
        ));
    }
    let deleted = kubectl.run(&[&["delete", "--wait=false"], &*found].concat(), None)?;
    for line in deleted.lines() {
        notes::note(line);
    }
    output::print_for_programs(format, &json!({ "removed": found }))?;
    Ok(Exit::Done)
}

/// Refuses to write into a Secret of another owner: it would be deleted with the server.
fn refuse_foreign_secret(kubectl: &Kubectl<'_>, manifests: &Manifests) -> Result<(), CommandFailure> {
    let secret = manifests.secret_name();
    let labels = "--output=jsonpath={.metadata.name} {.metadata.labels.app\\.kubernetes\\.io/managed-by}";
    let found = kubectl.run(&["get", "secret", &secret, "--ignore-not-found", labels], None)?;
    let owner = found.split_once(' ').map(|(_, owner)| owner);
    if owner.is_some_and(|owner| owner != MANAGER) {
        return Err(CommandFailure::new(format!("there is a Secret {secret} that `vmcp add` has not made"))
            .remedy("choose another name for the server, or remove that Secret"));
    }
    Ok(())
}

//! `vmcp add --kubernetes`: a person puts a server into a cluster from a laptop, with values that are secret.

use std::fmt::Debug;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Resource;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;
use vmcp_crds::{MCPServer, MCPServerEntry};
use vmcp_integration::Cli;
use vmcp_kubernetes_tests::{ControlPlane, Namespace, Programs};

use super::backends::{await_condition, deployment, place};

const VALUE: &str = "hunter2-of-a-person";
/// Base64 of [`VALUE`], as Secrets have it.
const ENCODED: &str = "aHVudGVyMi1vZi1hLXBlcnNvbg==";
/// Rights of a person who may add servers, and read Secrets but not write them.
const RIGHTS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: servers}
rules:
  - {apiGroups: [toolhive.stacklok.com], resources: [mcpservers], verbs: [get, create, patch]}
  - {apiGroups: [''], resources: [secrets], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: servers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: servers}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: eve}]";

/// A laptop with `vmcp`, a kubeconfig, and a `kubectl` that notes its arguments.
struct Laptop {
    folder: TempDir,
    namespace: String,
}

impl Laptop {
    fn of(place: &Namespace) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let kubectl = Programs::find().path("kubectl");
        let script = format!(
            "#!/bin/sh\nprintf '%s\\n' \"$*\" >> {}\nexec {} \"$@\"\n",
            folder.path().join("arguments").display(),
            kubectl.display()
        );
        let program = folder.path().join("kubectl");
        std::fs::write(&program, script).expect("writing");
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("a program");
        std::fs::copy(place.cluster().kubeconfig(), folder.path().join("kubeconfig")).expect("a kubeconfig");
        Self { folder, namespace: place.name.clone() }
    }

    /// Runs `vmcp` with these arguments and the namespace, and with everything that it may log.
    async fn vmcp(&self, arguments: &[&str]) -> Cli {
        let cluster = ["--kubernetes", "--namespace", &self.namespace, "--log-level", "trace"];
        let (command, rest) = arguments.split_at(2);
        let arguments = [command, &cluster, rest].concat();
        let path = format!("{}:/usr/bin:/bin", self.path(""));
        let kubeconfig = self.path("kubeconfig");
        let environment = [("PATH", path.as_str()), ("KUBECONFIG", kubeconfig.as_str())];
        let run = Cli::run_with(&arguments, &environment, self.folder.path()).await;
        let arguments = std::fs::read_to_string(self.folder.path().join("arguments")).unwrap_or_default();
        for text in [&run.stdout, &run.stderr, &arguments] {
            assert!(!text.contains(VALUE) && !text.contains(ENCODED), "the value is shown: {text}");
        }
        run
    }

    /// As [`Laptop::vmcp`], for a command that fails; returns what it says.
    async fn refused(&self, arguments: &[&str]) -> String {
        let run = self.vmcp(arguments).await;
        assert!(!run.success, "{run:?}");
        run.stderr
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Acts as another user of the cluster from here on.
    fn become_user(&self, name: &str) {
        let path = self.folder.path().join("kubeconfig");
        let text = std::fs::read_to_string(&path).expect("a kubeconfig");
        let mut config: Value = serde_json::from_str(&text).expect("JSON");
        config["users"][0]["user"]["as"] = name.into();
        std::fs::write(&path, config.to_string()).expect("writing");
    }
}

/// Returns an object as `kubectl get -o yaml` shows it.
async fn yaml(place: &Namespace, object: &str) -> String {
    let arguments = ["get", object, "--namespace", &place.name, "--output", "yaml", "--show-managed-fields"];
    place.cluster().kubectl(&arguments).await.expect("the object")
}

/// Checks that a Secret has the value under `key`, and that it goes with `owner`.
async fn assert_holds(place: &Namespace, secret: &str, key: &str, value: &str, owner: &str) {
    let found = place.get::<Secret>(secret).await.expect("the Secret");
    assert_eq!(found.data.unwrap_or_default()[key].0, value.as_bytes());
    let owners = found.metadata.owner_references.unwrap_or_default();
    let owners: Vec<_> = owners.iter().map(|owner| (owner.kind.as_str(), owner.name.as_str())).collect();
    assert_eq!(owners, [owner.split_once('/').expect("a kind and a name")]);
}

async fn gone<K>(place: &Namespace, name: &str)
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType: Default> + Clone + DeserializeOwned + Debug,
{
    place
        .eventually(&format!("the end of {name}"), async || {
            place.api::<K>().get_opt(name).await.expect("an answer").is_none().then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_variable_that_is_given_is_in_a_secret_alone_and_goes_with_the_server() {
    if ControlPlane::shared().await.skips_without_controllers() {
        return;
    }
    let (place, operator) = place("variable").await;
    let laptop = Laptop::of(&place);
    let variable = format!("API_KEY={VALUE}");
    let program = ["--", "run", "--fast", "--key", "$(API_KEY)"];
    let added = [&["add", "search", "--image", "x:1", "--env", &variable], &program[..]].concat();
    let added = laptop.vmcp(&added).await;
    assert!(added.success, "{added:?}");
    let said = format!("added MCPServer search to namespace {}; 1 value in Secret search-env", place.name);
    assert!(added.stderr.contains(&said) && added.stderr.contains("--server-side"), "{added:?}");
    let arguments = std::fs::read_to_string(laptop.path("arguments")).expect("what kubectl was called with");
    assert!(arguments.contains("apply --server-side --field-manager=vmcp --filename=-"), "{arguments}");

    let shown = yaml(&place, "mcpserver/search").await;
    assert!(!shown.contains(VALUE) && !shown.contains(ENCODED), "{shown}");
    assert!(shown.contains("name: search-env") && shown.contains("- --fast"), "{shown}");
    assert_holds(&place, "search-env", "API_KEY", VALUE, "MCPServer/search").await;
    await_condition::<MCPServer>(&place, "search", "SecretRefsValidated", "True", "SecretsFound").await;
    // The kubelet puts the variable into the argument.
    deployment(&place, "mcp-search").await;
    let deployed = yaml(&place, "deployment/mcp-search").await;
    assert!(deployed.contains("- $(API_KEY)") && deployed.contains("name: search-env"), "{deployed}");
    assert!(!deployed.contains(VALUE) && !deployed.contains(ENCODED), "{deployed}");
    assert!(!operator.process.output().contains(VALUE));

    place.delete::<MCPServer>("search").await;
    gone::<Secret>(&place, "search-env").await;
}

#[tokio::test]
async fn a_header_that_is_given_is_in_a_secret_alone_and_goes_with_the_entry() {
    if ControlPlane::shared().await.skips_without_controllers() {
        return;
    }
    let (place, operator) = place("header").await;
    let vmcp =
        "{apiVersion: toolhive.stacklok.com/v1alpha1, kind: VirtualMCPServer, metadata: {name: x}, spec: {}}";
    place.apply(vmcp).await;
    let laptop = Laptop::of(&place);
    let header = format!("Authorization: Bearer {VALUE}");
    let added = laptop.vmcp(&["add", "docs", "https://docs.example.com/mcp", "--header", &header]).await;
    assert!(added.success, "{added:?}");

    let shown = yaml(&place, "mcpserverentry/docs").await;
    assert!(!shown.contains(VALUE) && shown.contains("name: docs-headers"), "{shown}");
    let value = format!("Bearer {VALUE}");
    assert_holds(&place, "docs-headers", "authorization", &value, "MCPServerEntry/docs").await;
    // The header reaches the pod as a file.
    place
        .eventually("the header in the configuration", async || {
            let text = place.get::<ConfigMap>("x-vmcp-config").await?.data?.remove("vmcp.yaml")?;
            assert!(!text.contains(VALUE), "{text}");
            (text.contains("docs.example.com") && text.contains("${file:/etc/vmcp/secrets/")).then_some(())
        })
        .await;
    assert!(!operator.process.output().contains(VALUE));

    let removed = laptop.vmcp(&["remove", "docs"]).await;
    assert!(removed.success && removed.stderr.contains("docs"), "{removed:?}");
    gone::<MCPServerEntry>(&place, "docs").await;
    gone::<Secret>(&place, "docs-headers").await;
    let again = laptop.vmcp(&["remove", "docs"]).await;
    assert_eq!(again.code, Some(3), "{again:?}");
}

#[tokio::test]
async fn adding_a_server_again_replaces_its_values_and_a_dry_run_changes_nothing() {
    let (place, _operator) = place("again").await;
    let laptop = Laptop::of(&place);
    let add = ["add", "search", "--image", "x:1", "--env"];
    let with = |value: &str| format!("{value}={VALUE}");
    let (old, new) = (with("OLD_KEY"), with("NEW_KEY"));

    let dry = laptop.vmcp(&[&add[..], &[&old, "--dry-run", "--", "run"]].concat()).await;
    assert!(dry.success && dry.stdout.contains("kind: MCPServer"), "{dry:?}");
    assert!(dry.stdout.contains("OLD_KEY: …") && dry.stdout.contains("ownerReferences"), "{dry:?}");
    assert!(
        place.get::<MCPServer>("search").await.is_none() && place.get::<Secret>("search-env").await.is_none()
    );

    for variable in [&old, &new] {
        let added = laptop.vmcp(&[&add[..], &[variable, "--", "run"]].concat()).await;
        assert!(added.success, "{added:?}");
    }
    let secret = place.get::<Secret>("search-env").await.expect("the Secret");
    let keys: Vec<_> = secret.data.unwrap_or_default().into_keys().collect();
    assert_eq!(keys, ["NEW_KEY"], "the value of before is not kept");
    let without = laptop.vmcp(&["add", "search", "--image", "x:1", "--", "run"]).await;
    assert!(without.success, "{without:?}");
    assert!(place.get::<Secret>("search-env").await.is_none(), "nobody refers to it");

    let secret = "{apiVersion: v1, kind: Secret, metadata: {name: other-env}, stringData: {a: b}}";
    place.apply(secret).await;
    let refused = laptop.refused(&["add", "other", "--image", "x:1", "--env", &new]).await;
    assert!(refused.contains("Secret other-env that `vmcp add` has not made"), "{refused}");
    assert!(place.get::<MCPServer>("other").await.is_none());
}

#[tokio::test]
async fn who_may_not_write_secrets_is_told_so_before_anything_is_written() {
    let (place, _operator) = place("rights").await;
    place.apply(RIGHTS).await;
    let laptop = Laptop::of(&place);
    let variable = format!("API_KEY={VALUE}");
    let add = ["add", "search", "--image", "x:1", "--env", &variable];

    let reserved = laptop.refused(&["add", "optim", "--image", "x:1"]).await;
    assert!(reserved.contains("the names optim and composite are reserved"), "{reserved}");
    let address =
        laptop.refused(&["add", "docs", "https://docs.example.com/mcp?api_key=sk-0123456789"]).await;
    assert!(address.contains("the address has a secret in it") && !address.contains("sk-01"), "{address}");
    let argument =
        laptop.refused(&["add", "s", "--image", "x:1", "--", "run", "--api-key", "sk-0123456789"]).await;
    assert!(
        argument.contains("an argument has a secret in it") && argument.contains("$(TOKEN)"),
        "{argument}"
    );

    laptop.become_user("eve");
    let forbidden = laptop.refused(&add).await;
    let right = "the right to patch secrets in that namespace";
    assert!(forbidden.contains("forbidden") && forbidden.contains(right), "{forbidden}");
    assert!(place.get::<MCPServer>("search").await.is_none(), "not half of it");
    let without = laptop.vmcp(&["add", "search", "--image", "x:1"]).await;
    assert!(without.success, "a server without values needs no rights on Secrets: {without:?}");

    // An empty file would mean port 8080 of this machine, where a server may listen.
    let nowhere = json!({"apiVersion": "v1", "kind": "Config", "current-context": "none"});
    std::fs::write(laptop.path("kubeconfig"), nowhere.to_string()).expect("writing");
    let nowhere = laptop.refused(&add).await;
    assert!(nowhere.contains("kubectl config get-contexts"), "{nowhere}");
    std::fs::remove_file(Path::new(&laptop.path("kubectl"))).expect("removing");
    let missing = laptop.refused(&add).await;
    assert!(missing.contains("kubectl") && missing.contains("try:"), "{missing}");
}

//! [`Cluster`]: an API server as its administrator sees it, with `kubectl`, `helm` and server-side apply.

mod chart;
mod definitions;
mod endpoint;
mod existing;
mod kinds;
mod namespace;
mod namespace_report;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1 as core;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams, ValidationDirective};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Config, discovery};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};

use crate::{CLUSTER_WAIT_TIMEOUT, Programs, images};
use existing::LABEL;
use kinds::Kinds;

pub use chart::{RELEASE, chart, older_chart};
pub use endpoint::Endpoint;
pub use namespace::Namespace;

/// Longest wait until discovery lists a kind that was defined a moment ago, on a busy machine.
const DISCOVERY_LAG: Duration = Duration::from_secs(30);

/// A cluster that answers, as its administrator sees it. `programs` are ours; `None` for those on the `PATH`.
#[derive(Debug, Clone)]
pub struct Cluster {
    kubeconfig: PathBuf,
    programs: Option<Programs>,
    /// Set once our resources are defined.
    defined: Arc<OnceCell<()>>,
    kinds: Arc<Kinds>,
}

impl Cluster {
    pub(crate) fn at(kubeconfig: PathBuf, programs: Programs) -> Self {
        Self { kubeconfig, programs: Some(programs), defined: Arc::default(), kinds: Arc::default() }
    }

    /// Returns the cluster that `KUBECONFIG` names, if `VMCP_E2E=1` says that tests may use it. `make e2e`
    /// sets both.
    pub fn from_environment() -> Self {
        let kubeconfig = std::env::var_os("KUBECONFIG").filter(|_| std::env::var_os("VMCP_E2E").is_some());
        let kubeconfig = kubeconfig.expect("no cluster: run `make e2e`, or set KUBECONFIG and VMCP_E2E=1");
        Self { kubeconfig: kubeconfig.into(), programs: None, defined: Arc::default(), kinds: Arc::default() }
    }

    /// Returns true if it collects garbage: without a controller manager a deleted namespace stays.
    pub(crate) fn collects(&self) -> bool {
        self.programs.as_ref().is_none_or(|programs| programs.get("kube-controller-manager").is_some())
    }

    /// Returns the path of the kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns a client. It belongs to the runtime of the test that asks for it.
    pub async fn client(&self) -> Client {
        let file = Kubeconfig::read_from(&self.kubeconfig).expect("a kubeconfig");
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
        let config = config.expect("a configuration");
        Client::try_from(config).expect("a client")
    }

    /// Creates a namespace whose name begins with `prefix`.
    pub async fn namespace(&self, prefix: &str) -> Namespace {
        let client = self.client().await;
        let metadata = json!({"generateName": format!("{prefix}-"), "labels": {LABEL: "scenario"}});
        let wanted = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        let wanted: core::Namespace = serde_json::from_value(wanted).expect("a namespace");
        let made = Api::all(client.clone()).create(&PostParams::default(), &wanted).await;
        let name = made.expect("a namespace").metadata.name.expect("a name");
        Namespace::new(self.clone(), client, name)
    }

    /// Applies every document of `yaml` by server-side apply, with strict validation; documents without a
    /// namespace go into `namespace`.
    pub async fn apply(&self, yaml: &str, namespace: &str) -> Result<Vec<DynamicObject>, kube::Error> {
        self.apply_by(&self.client().await, yaml, namespace).await
    }

    /// As [`Cluster::apply`], by a client that the test has already.
    async fn apply_by(
        &self,
        client: &Client,
        yaml: &str,
        namespace: &str,
    ) -> Result<Vec<DynamicObject>, kube::Error> {
        let mut applied = Vec::new();
        for document in serde_saphyr::from_multiple::<Value>(&images::renamed(yaml)).expect("YAML") {
            let wanted: DynamicObject = serde_json::from_value(document).expect("an object of Kubernetes");
            applied.push(self.apply_object(client, &wanted, namespace).await?);
        }
        Ok(applied)
    }

    async fn apply_object(
        &self,
        client: &Client,
        wanted: &DynamicObject,
        namespace: &str,
    ) -> Result<DynamicObject, kube::Error> {
        let api = self.api_of(client, wanted, namespace).await?;
        let how = PatchParams::apply("test").force();
        let how = PatchParams { field_validation: Some(ValidationDirective::Strict), ..how };
        let name = wanted.metadata.name.as_deref().expect("a name");
        api.patch(name, &how, &Patch::Apply(wanted)).await
    }

    async fn api_of(
        &self,
        client: &Client,
        object: &DynamicObject,
        namespace: &str,
    ) -> Result<Api<DynamicObject>, kube::Error> {
        let types = object.types.as_ref().expect("apiVersion and kind");
        let kind = GroupVersionKind::try_from(types).expect("apiVersion");
        let namespace = object.metadata.namespace.as_deref().unwrap_or(namespace);
        if let Some(kind) = self.kinds.of_manifest(client, &kind).await? {
            return Ok(kind.api(client, namespace));
        }
        // A definition of this moment: the document about all groups lags behind those of each.
        let (resource, capabilities) = discovery::pinned_kind(client, &kind).await?;
        Ok(match capabilities.scope {
            discovery::Scope::Cluster => Api::all_with(client.clone(), &resource),
            discovery::Scope::Namespaced => Api::namespaced_with(client.clone(), namespace, &resource),
        })
    }

    /// Returns the API of the kind that `kubectl` knows by a name, such as `mcpserver` or `svc`.
    async fn api_named(
        &self,
        client: &Client,
        kind: &str,
        namespace: &str,
    ) -> Result<Api<DynamicObject>, String> {
        let deadline = Instant::now() + DISCOVERY_LAG;
        loop {
            let found = self.kinds.named(client, kind).await.map_err(|error| error.to_string())?;
            if let Some(found) = found {
                return Ok(found.api(client, namespace));
            }
            if Instant::now() >= deadline {
                return Err(format!("the API server has no resource `{kind}`"));
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Defines our resources, as they are committed, and waits until they are served. A second call returns
    /// at once: the API server spends a second of a core on all of them, changed or not.
    pub async fn define_resources(&self) {
        self.defined.get_or_init(async || self.define_all().await).await;
    }

    async fn define_all(&self) {
        let client = self.client().await;
        for definition in definitions::committed() {
            let applied = self.apply_object(&client, definition, "").await;
            drop(applied.unwrap_or_else(|error| panic!("{:?}: {error}", definition.metadata.name)));
        }
        self.await_definitions().await;
    }

    /// Waits until the kinds of all definitions are served.
    pub async fn await_definitions(&self) {
        let client = self.client().await;
        let deadline = Instant::now() + CLUSTER_WAIT_TIMEOUT;
        loop {
            let missing = definitions::unserved(&client).await.expect("the definitions");
            if missing.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "waited {CLUSTER_WAIT_TIMEOUT:?} in vain for {missing:?}");
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Returns the output of `kubectl`, or its error output.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        self.run("kubectl", arguments).await
    }

    /// Returns the output of `helm`, or its error output.
    pub async fn helm(&self, arguments: &[&str]) -> Result<String, String> {
        self.run("helm", arguments).await
    }

    async fn run(&self, program: &str, arguments: &[&str]) -> Result<String, String> {
        let ours = self.programs.as_ref().and_then(|programs| programs.get(program));
        let mut command = Command::new(ours.unwrap_or_else(|| program.into()));
        let run = command.args(arguments).env("KUBECONFIG", &self.kubeconfig).kill_on_drop(true).output();
        let run = tokio::time::timeout(2 * CLUSTER_WAIT_TIMEOUT, run)
            .await
            .map_err(|_| format!("{program} does not end"))?;
        let output = run.map_err(|error| format!("{program}: {error}"))?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }
}

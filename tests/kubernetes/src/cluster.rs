//! [`Cluster`]: an API server as its administrator sees it, with `kubectl`, `helm` and server-side apply.

mod chart;
mod endpoint;
mod existing;
mod namespace;
mod namespace_report;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams, ValidationDirective,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Config, discovery};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};

use crate::{CLUSTER_WAIT_TIMEOUT, Programs, images, repository};
use existing::LABEL;

pub use chart::{RELEASE, chart, older_chart};
pub use endpoint::Endpoint;
pub use namespace::Namespace;

/// A cluster that answers, as its administrator sees it. `programs` are ours; `None` for those on the `PATH`.
#[derive(Debug, Clone)]
pub struct Cluster {
    kubeconfig: PathBuf,
    programs: Option<Programs>,
    /// Set once our resources are defined.
    defined: Arc<OnceCell<()>>,
}

impl Cluster {
    pub(crate) fn at(kubeconfig: PathBuf, programs: Programs) -> Self {
        Self { kubeconfig, programs: Some(programs), defined: Arc::default() }
    }

    /// Returns the cluster that `KUBECONFIG` names, if `VMCP_E2E=1` says that tests may use it. `make e2e`
    /// sets both.
    pub fn from_environment() -> Self {
        let kubeconfig = std::env::var_os("KUBECONFIG").filter(|_| std::env::var_os("VMCP_E2E").is_some());
        let kubeconfig = kubeconfig.expect("no cluster: run `make e2e`, or set KUBECONFIG and VMCP_E2E=1");
        Self { kubeconfig: kubeconfig.into(), programs: None, defined: Arc::default() }
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
        let client = self.client().await;
        let mut applied = Vec::new();
        for document in serde_saphyr::from_multiple::<Value>(&images::renamed(yaml)).expect("YAML") {
            let wanted: DynamicObject = serde_json::from_value(document).expect("an object of Kubernetes");
            let api = api_of(&client, &wanted, namespace).await?;
            let how = PatchParams::apply("test").force();
            let how = PatchParams { field_validation: Some(ValidationDirective::Strict), ..how };
            let name = wanted.metadata.name.as_deref().expect("a name");
            applied.push(api.patch(name, &how, &Patch::Apply(&wanted)).await?);
        }
        Ok(applied)
    }

    /// Defines our resources, as they are committed, and waits until they are served. A second call returns
    /// at once: the API server spends a second of a core on all of them, changed or not.
    pub async fn define_resources(&self) {
        self.defined.get_or_init(async || self.define_all().await).await;
    }

    async fn define_all(&self) {
        let folder = std::fs::read_dir(repository().join("crds")).expect("the folder of definitions");
        let files = folder.map(|file| file.expect("a file").path());
        for file in files.filter(|file| file.extension().is_some_and(|extension| extension == "yaml")) {
            let yaml = std::fs::read_to_string(&file).expect("a definition");
            self.apply(&yaml, "").await.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        }
        self.await_definitions().await;
    }

    /// Waits until the kinds of all definitions are served.
    pub async fn await_definitions(&self) {
        let client = self.client().await;
        let definitions = Api::<CustomResourceDefinition>::all(client.clone());
        let deadline = Instant::now() + CLUSTER_WAIT_TIMEOUT;
        loop {
            let mut missing = Vec::new();
            for definition in definitions.list(&ListParams::default()).await.expect("the definitions") {
                if !is_served(&client, &definition).await {
                    missing.push(definition.metadata.name);
                }
            }
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

/// Returns true once the API server has established a definition, and discovery finds all of its versions.
async fn is_served(client: &Client, definition: &CustomResourceDefinition) -> bool {
    let conditions = definition.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut established = conditions.filter(|condition| condition.type_ == "Established");
    if !established.any(|condition| condition.status == "True") {
        return false;
    }
    let spec = &definition.spec;
    for version in spec.versions.iter().filter(|version| version.served) {
        let found = client.list_api_group_resources(&format!("{}/{}", spec.group, version.name)).await;
        if !found.is_ok_and(|found| found.resources.iter().any(|kind| kind.name == spec.names.plural)) {
            return false;
        }
    }
    true
}

async fn api_of(
    client: &Client,
    object: &DynamicObject,
    namespace: &str,
) -> Result<Api<DynamicObject>, kube::Error> {
    let types = object.types.as_ref().expect("apiVersion and kind");
    let kind = GroupVersionKind::try_from(types).expect("apiVersion");
    let (resource, capabilities): (ApiResource, _) = discovery::pinned_kind(client, &kind).await?;
    Ok(match capabilities.scope {
        discovery::Scope::Cluster => Api::all_with(client.clone(), &resource),
        discovery::Scope::Namespaced => {
            let namespace = object.metadata.namespace.as_deref().unwrap_or(namespace);
            Api::namespaced_with(client.clone(), namespace, &resource)
        }
    })
}

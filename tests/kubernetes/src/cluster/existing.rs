//! An existing cluster: checks before the scenarios, removal of their objects after them.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{Cluster, RELEASE, images, repository};

/// Label of every namespace that tests make.
pub(crate) const LABEL: &str = "vmcp-tests";
/// Longest time for a node to fetch an image.
const FETCHING: Duration = Duration::from_mins(5);

impl Cluster {
    /// Checks that the scenarios can run here; an error says what is missing and the remedy. Until
    /// [`Cluster::clear`], the cluster then has the namespace of the release. Leftovers of an interrupted run
    /// are removed first.
    pub async fn prepare(&self) -> Result<(), String> {
        let help = "helm.sh/docs/intro/install has it";
        self.helm(&["version"]).await.map_err(|complaint| format!("helm is needed: {complaint}; {help}"))?;
        let reach = ["version", "--request-timeout", "20s"];
        let unreachable =
            |complaint| format!("the cluster of KUBECONFIG does not answer kubectl: {complaint}");
        self.kubectl(&reach).await.map_err(unreachable)?;
        let may = self.kubectl(&["auth", "can-i", "*", "*", "--all-namespaces"]).await.unwrap_or_default();
        if may.trim() != "yes" {
            let remedy =
                "they define resources and cluster roles; use a context whose user is bound to cluster-admin";
            return Err(format!("the user of KUBECONFIG may not do all that the scenarios do: {remedy}"));
        }
        let selector = format!("{LABEL}=release");
        let interrupted =
            self.kubectl(&["get", "namespaces", "--selector", &selector, "--output", "name"]).await?;
        if !interrupted.is_empty() {
            self.clear().await?;
        }
        self.assert_without_vmcp().await?;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": RELEASE, "labels": {LABEL: "release"}}});
        self.apply(&namespace.to_string(), "").await.map_err(|error| error.to_string())?;
        for image in images::in_cluster() {
            self.run_image(&image).await?;
        }
        Ok(())
    }

    /// Fails if vmcp is installed: the scenarios replace the resource definitions and delete them in the end,
    /// and with them every resource.
    async fn assert_without_vmcp(&self) -> Result<(), String> {
        let definitions = definitions();
        let mut get = vec!["get", "crd", "--ignore-not-found", "--output", "name"];
        get.extend(definitions.iter().map(String::as_str));
        let found = self.kubectl(&get).await?;
        let remedy =
            "the scenarios would delete them, and every resource of these kinds; use a cluster without vmcp";
        if found.is_empty() {
            Ok(())
        } else {
            Err(format!("the cluster has these already:\n{found}{remedy}"))
        }
    }

    /// Runs an image until its node has it.
    async fn run_image(&self, image: &str) -> Result<(), String> {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "image"}, "spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "image", "image": image, "args": ["--version"]}]}});
        self.apply(&pod.to_string(), RELEASE).await.map_err(|error| error.to_string())?;
        let pods = Api::<Pod>::namespaced(self.client().await, RELEASE);
        let deadline = Instant::now() + FETCHING;
        loop {
            let pod = pods.get("image").await.map_err(|error| error.to_string())?;
            let status = pod.status.unwrap_or_default();
            let container = status.container_statuses.clone().unwrap_or_default().pop();
            if container.as_ref().is_some_and(|container| !container.image_id.is_empty()) {
                break;
            }
            let waiting = container.and_then(|container| container.state?.waiting).unwrap_or_default();
            let is_refused = waiting.reason.is_some_and(|reason| reason.contains("Image"));
            if is_refused || Instant::now() > deadline {
                let said = waiting.message.unwrap_or_else(|| format!("{:?}", status.conditions));
                return Err(format!("the cluster cannot run the image {image}: {said}\n{LOADING}"));
            }
            sleep(Duration::from_millis(500)).await;
        }
        self.kubectl(&["delete", "pod/image", "--namespace", RELEASE]).await.map(drop)
    }

    /// Removes everything that tests put into the cluster: the release, namespaces, resource definitions.
    pub async fn clear(&self) -> Result<(), String> {
        // The operator goes last, in case that a deletion waits for it.
        let scenarios = format!("{LABEL}=scenario");
        self.kubectl(&["delete", "namespaces", "--selector", &scenarios]).await?;
        let releases = self.helm(&["list", "--all", "--short", "--namespace", RELEASE]).await?;
        for release in releases.lines() {
            self.helm(&["uninstall", release, "--namespace", RELEASE]).await?;
        }
        let definitions = definitions();
        let mut delete = vec!["delete", "crd", "--ignore-not-found"];
        delete.extend(definitions.iter().map(String::as_str));
        self.kubectl(&delete).await?;
        self.kubectl(&["delete", "namespaces", "--selector", LABEL]).await.map(drop)
    }

    /// Returns true if the cluster has a default StorageClass.
    pub async fn has_volumes(&self) -> bool {
        let annotations = ["get", "storageclasses", "--output", "jsonpath={.items[*].metadata.annotations}"];
        let default = r#""storageclass.kubernetes.io/is-default-class":"true""#;
        self.kubectl(&annotations).await.is_ok_and(|annotations| annotations.contains(default))
    }
}

const LOADING: &str = "Give it to the cluster: LOAD='kind load image-archive' or LOAD='k3d image import' puts the images of the \
    tests into its nodes, REGISTRY=registry.example.com/team into a registry that they pull from (docs/contributor/testing.md).";

/// Returns the names of our resource definitions.
fn definitions() -> Vec<String> {
    let files = std::fs::read_dir(repository().join("crds")).expect("the folder of definitions").flatten();
    let files = files.filter_map(|file| file.file_name().into_string().ok());
    files.filter_map(|file| Some(file.strip_suffix(".yaml")?.to_owned())).collect()
}

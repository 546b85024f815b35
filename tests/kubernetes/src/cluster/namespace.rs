//! [`Namespace`]: the part of a cluster that one test owns.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1 as core;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::kinds::{read, read_list};
use super::namespace_report::namespace_report;
use crate::{CLUSTER_WAIT_TIMEOUT, Cluster, RELEASE};

/// A namespace of one test. Its objects, events and logs are printed when a wait in it times out.
pub struct Namespace {
    /// Its name.
    pub name: String,
    /// Client of this test.
    pub client: Client,
    cluster: Cluster,
    /// True if a release in this namespace looks after it and no other.
    has_operator: bool,
}

impl Namespace {
    pub(crate) fn new(cluster: Cluster, client: Client, name: String) -> Self {
        Self { name, client, cluster, has_operator: false }
    }

    /// Notes that a release is in this namespace; it is uninstalled when the namespace is removed.
    pub(crate) fn with_operator(self) -> Self {
        Self { has_operator: true, ..self }
    }

    /// Returns the namespace in which the operator runs that looks after this one.
    pub fn of_operator(&self) -> &str {
        if self.has_operator { &self.name } else { RELEASE }
    }

    /// Returns the cluster that it is in.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Returns the API of a kind in this namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType: Default>,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// Applies every document of `yaml` as a user would; a refusal fails the test.
    pub async fn apply(&self, yaml: &str) -> Vec<DynamicObject> {
        self.try_apply(yaml).await.unwrap_or_else(|error| panic!("refused: {error}\n{yaml}"))
    }

    /// Applies every document of `yaml`, or returns the refusal.
    pub async fn try_apply(&self, yaml: &str) -> Result<Vec<DynamicObject>, kube::Error> {
        self.cluster.apply_by(&self.client, yaml, &self.name).await
    }

    /// Returns an object; `None` if it does not exist or is being deleted.
    pub async fn get<K>(&self, name: &str) -> Option<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType: Default> + Clone + DeserializeOwned + Debug,
    {
        let found = self.api::<K>().get_opt(name).await.expect("an answer of the API server")?;
        found.meta().deletion_timestamp.is_none().then_some(found)
    }

    /// Returns the objects of a kind that a label selector selects.
    pub async fn list<K>(&self, labels: &str) -> Vec<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType: Default> + Clone + DeserializeOwned + Debug,
    {
        let selected = self.api::<K>().list(&ListParams::default().labels(labels)).await;
        selected.expect("an answer of the API server").items
    }

    /// Returns an object as JSON, such as `json("mcpserver/web")`, by a name of its kind that `kubectl`
    /// takes; null if it does not exist.
    pub async fn json(&self, object: &str) -> Value {
        let found = self.find(object).await;
        let (objects, name) = found.unwrap_or_else(|error| panic!("{object}: {error}"));
        read(&self.client, &objects, name).await.unwrap_or_else(|error| panic!("{object}: {error}"))
    }

    /// Returns all objects of a kind as JSON, by a name of the kind that `kubectl` takes.
    pub async fn json_list(&self, kind: &str) -> Vec<Value> {
        let objects = self.cluster.api_named(&self.client, kind, &self.name).await;
        let objects = objects.unwrap_or_else(|error| panic!("{kind}: {error}"));
        let list = read_list(&self.client, &objects).await;
        list.unwrap_or_else(|error| panic!("{kind}: {error}"))
    }

    /// Merges `change` into an object that is named as for [`Namespace::json`], or returns the refusal.
    pub async fn try_merge(&self, object: &str, change: &Value) -> Result<DynamicObject, String> {
        let (objects, name) = self.find(object).await?;
        let merged = objects.patch(name, &PatchParams::default(), &Patch::Merge(change)).await;
        merged.map_err(|error| error.to_string())
    }

    /// Returns the API of an object and its name.
    async fn find<'a>(&self, object: &'a str) -> Result<(Api<DynamicObject>, &'a str), String> {
        let (kind, name) = object.split_once('/').expect("kind/name");
        Ok((self.cluster.api_named(&self.client, kind, &self.name).await?, name))
    }

    /// Returns a condition in the status of an object; null if the status lacks it.
    pub async fn condition(&self, object: &str, kind: &str) -> Value {
        let object = self.json(object).await;
        let conditions =
            object.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        conditions
            .into_iter()
            .find(|condition| condition.get("type").is_some_and(|found| found == kind))
            .unwrap_or_default()
    }

    /// Merges `change` into an object: objects merge, everything else replaces.
    pub async fn edit<K>(&self, name: &str, change: Value) -> K
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType: Default> + Clone + DeserializeOwned + Debug,
    {
        let edited = self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(change)).await;
        edited.unwrap_or_else(|error| panic!("editing {name}: {error}"))
    }

    /// Deletes an object, which has to be there.
    pub async fn delete<K>(&self, name: &str)
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType: Default> + Clone + DeserializeOwned + Debug,
    {
        let deleted = self.api::<K>().delete(name, &DeleteParams::background()).await;
        drop(deleted.unwrap_or_else(|error| panic!("deleting {name}: {error}")));
    }

    /// Asks `check` until it returns something, or fails the test after [`CLUSTER_WAIT_TIMEOUT`] with
    /// everything that is in this namespace.
    pub async fn eventually<T>(&self, what: &str, check: impl AsyncFnMut() -> Option<T>) -> T {
        self.eventually_within(CLUSTER_WAIT_TIMEOUT, what, check).await
    }

    /// Waits as [`Namespace::eventually`] does, with another limit.
    pub async fn eventually_within<T>(
        &self,
        limit: Duration,
        what: &str,
        mut check: impl AsyncFnMut() -> Option<T>,
    ) -> T {
        let began = Instant::now();
        loop {
            if let Some(found) = check().await {
                return found;
            }
            if began.elapsed() >= limit {
                eprintln!("{}", namespace_report(&self.cluster, &self.name).await);
                panic!("waited {limit:?} in vain for {what} in {}", self.name);
            }
            sleep(poll_pause(began.elapsed())).await;
        }
    }

    /// Deletes it and waits until it is gone, if the cluster has controllers to end it. A test that fails
    /// leaves its namespace for inspection.
    pub async fn remove(self) {
        if self.has_operator {
            // Its admission policies lie outside of the namespace.
            let uninstall = ["uninstall", RELEASE, "--namespace", &self.name, "--wait"];
            self.cluster.helm(&uninstall).await.unwrap_or_else(|complaint| panic!("helm: {complaint}"));
        }
        let namespaces: Api<core::Namespace> = Api::all(self.client.clone());
        drop(namespaces.delete(&self.name, &DeleteParams::default()).await.expect("deleting the namespace"));
        if !self.cluster.collects() {
            return;
        }
        self.eventually("its end", async || match namespaces.get_opt(&self.name).await {
            Ok(None) => Some(()),
            _ => None,
        })
        .await;
    }
}

/// Returns the pause before the next look, after a wait of `waited`: a tenth of it, within 50 and 250 ms.
/// Each look takes time of the cores on which the operator works.
fn poll_pause(waited: Duration) -> Duration {
    (waited / 10).clamp(Duration::from_millis(50), Duration::from_millis(250))
}

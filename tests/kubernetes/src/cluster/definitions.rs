//! Definitions of kinds: the committed ones, and which of a cluster's definitions are not served yet.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::OnceLock;

use http::Request;
use kube::Client;
use kube::api::DynamicObject;
use serde::Deserialize;
use serde_json::Value;

use crate::repository;

/// Returns our definitions. Parsing them takes a while in a debug build, so a process does it once.
pub(super) fn committed() -> &'static [DynamicObject] {
    static DEFINITIONS: OnceLock<Vec<DynamicObject>> = OnceLock::new();
    DEFINITIONS.get_or_init(|| {
        let folder = std::fs::read_dir(repository().join("crds")).expect("the folder of definitions");
        let files = folder.map(|file| file.expect("a file").path());
        let files = files.filter(|file| file.extension().is_some_and(|extension| extension == "yaml"));
        files.map(|file| parsed(&file)).collect()
    })
}

fn parsed(file: &Path) -> DynamicObject {
    let yaml = std::fs::read_to_string(file).expect("a definition");
    let definition = serde_saphyr::from_str::<Value>(&yaml);
    let definition = definition.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_value(definition).expect("an object of Kubernetes")
}

/// Returns the names of definitions of which a version is not served yet: not established, or not found by
/// discovery.
pub(super) async fn unserved(client: &Client) -> Result<Vec<String>, kube::Error> {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let request = Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
    let definitions: Definitions = client.request(request).await?;
    let mut found = Found::new();
    let established = definitions.items.iter().filter(|definition| definition.is_established());
    for version in established.flat_map(Definition::served_versions) {
        if let Entry::Vacant(new) = found.entry(version) {
            // Until its first kind is served, the version is unknown.
            let kinds = client.list_api_group_resources(new.key()).await;
            let kinds = kinds.map(|kinds| kinds.resources).unwrap_or_default();
            new.insert(kinds.into_iter().map(|kind| kind.name).collect());
        }
    }
    let missing = definitions.items.into_iter().filter(|definition| !definition.is_served(&found));
    Ok(missing.map(|definition| definition.metadata.name).collect())
}

/// Plurals that discovery finds, by group and version.
type Found = BTreeMap<String, BTreeSet<String>>;

#[derive(Deserialize)]
struct Definitions {
    items: Vec<Definition>,
}

/// A definition but for its schemas: parsing those of all our kinds takes longer than all else.
#[derive(Deserialize)]
struct Definition {
    metadata: Metadata,
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Deserialize)]
struct Spec {
    group: String,
    names: Names,
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct Names {
    plural: String,
}

#[derive(Deserialize)]
struct Version {
    name: String,
    served: bool,
}

#[derive(Deserialize, Default)]
struct Status {
    conditions: Option<Vec<Condition>>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl Definition {
    fn is_established(&self) -> bool {
        let mut conditions = self.status.conditions.iter().flatten();
        conditions.any(|condition| condition.kind == "Established" && condition.status == "True")
    }

    fn served_versions(&self) -> impl Iterator<Item = String> {
        let served = self.spec.versions.iter().filter(|version| version.served);
        served.map(move |version| format!("{}/{}", self.spec.group, version.name))
    }

    fn is_served(&self, found: &Found) -> bool {
        let plural = &self.spec.names.plural;
        let is_found = |version: String| found.get(&version).is_some_and(|plurals| plurals.contains(plural));
        self.is_established() && self.served_versions().all(is_found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn definition(established: &str) -> Definition {
        let definition = json!({
            "metadata": { "name": "tools.a.example" },
            "spec": {
                "group": "a.example", "names": { "plural": "tools", "kind": "Tool" },
                "versions": [
                    { "name": "v1", "served": true, "schema": { "openAPIV3Schema": { "type": "object" } } },
                    { "name": "v1alpha1", "served": false },
                ],
            },
            "status": { "conditions": [{ "type": "Established", "status": established }] },
        });
        serde_json::from_value(definition).expect("a definition")
    }

    fn found(version: &str, plural: &str) -> Found {
        Found::from([(version.to_owned(), BTreeSet::from([plural.to_owned()]))])
    }

    #[test]
    fn an_established_definition_is_served_once_discovery_finds_each_served_version() {
        let known = found("a.example/v1", "tools");
        assert!(definition("True").is_served(&known));
        assert!(!definition("False").is_served(&known));
        assert!(!definition("True").is_served(&found("a.example/v1", "others")));
        assert!(!definition("True").is_served(&found("a.example/v1alpha1", "tools")));
    }

    #[test]
    fn a_new_definition_has_no_conditions() {
        for status in [json!({}), json!({ "conditions": null })] {
            let status: Status = serde_json::from_value(status).expect("a status");
            assert!(status.conditions.is_none());
        }
    }
}

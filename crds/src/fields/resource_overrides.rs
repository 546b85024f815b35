//! Labels and annotations for the objects that the operator makes of a resource: for load balancers, workload
//! identity, service meshes, bills. The shape is ToolHive's.
//!
//! Keys that the operator or a controller of Kubernetes uses are refused: an overridden label of the selector
//! would take the pods from their Service.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::LocalObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::yaml_block::Block;
use crate::problem::Problem;

/// Prefix of the operator's own labels and annotations.
const OWN_PREFIX: &str = "toolhive.stacklok.com/";
/// Labels of selectors, and labels that controllers of Kubernetes give to pods.
const RESERVED_LABELS: [&str; 6] = [
    "app.kubernetes.io/component",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/name",
    "controller-revision-hash",
    "pod-template-hash",
];
/// Annotations that controllers of Kubernetes and `kubectl apply` write.
const RESERVED_ANNOTATIONS: [&str; 2] =
    ["deployment.kubernetes.io/revision", "kubectl.kubernetes.io/last-applied-configuration"];
/// Pattern of the value of a label.
const LABEL_VALUE: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
/// Maximum entries of one map; the API server refuses more.
const MAX_ENTRIES: usize = 64;
/// Remedy for a reserved key.
const OTHER_KEY: &str = "remove the key, or choose another one";

/// Labels and annotations of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct MetadataOverrides {
    /// Labels that the object gets besides those of the operator. At most 64.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "labels_schema")]
    pub labels: BTreeMap<String, String>,
    /// Annotations that the object gets besides those of the operator. At most 64.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "annotations_schema")]
    pub annotations: BTreeMap<String, String>,
}

impl MetadataOverrides {
    /// Adds the labels and annotations to those of an object, which win over them.
    #[must_use]
    pub fn on(&self, mut meta: ObjectMeta) -> ObjectMeta {
        for (own, added) in [(&mut meta.labels, &self.labels), (&mut meta.annotations, &self.annotations)] {
            for (key, value) in added {
                own.get_or_insert_default().entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        meta
    }

    /// Finds reserved keys, and keys and values that Kubernetes refuses. `path` is that of this block.
    pub(crate) fn check(&self, path: &str, problems: &mut Vec<Problem>) {
        for (field, entries, reserved) in [
            ("labels", &self.labels, RESERVED_LABELS.as_slice()),
            ("annotations", &self.annotations, RESERVED_ANNOTATIONS.as_slice()),
        ] {
            let path = format!("{path}.{field}");
            if entries.len() > MAX_ENTRIES {
                let message = format!("{} entries, more than {MAX_ENTRIES}", entries.len());
                problems.push(Problem::new(path.clone(), message, "remove some"));
            }
            for key in entries.keys() {
                if reserved.contains(&key.as_str()) || key.starts_with(OWN_PREFIX) {
                    let message = format!("`{key}` belongs to the operator or to Kubernetes");
                    problems.push(Problem::new(path.clone(), message, OTHER_KEY));
                } else if !is_key(key) {
                    let remedy =
                        "write NAME or DOMAIN/NAME: a name has letters, digits, `-`, `_` and `.`, 63 at most";
                    problems.push(Problem::new(path.clone(), format!("`{key}` is no key"), remedy));
                }
            }
        }
        for (key, value) in &self.labels {
            if !value.is_empty() && !is_name(value) {
                let message = format!("`{value}` is no value of a label");
                let remedy = "write letters, digits, `-`, `_` and `.`, 63 at most, or make it an annotation";
                problems.push(Problem::new(format!("{path}.labels.{key}"), message, remedy));
            }
        }
    }
}

/// Labels and annotations of a Deployment or StatefulSet, and of its pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
// Fields written out: serde leaves those of a struct that is flattened twice to the pending ones beside it.
pub struct WorkloadOverrides {
    /// Labels that the object gets besides those of the operator. At most 64.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "labels_schema")]
    pub labels: BTreeMap<String, String>,
    /// Annotations that the object gets besides those of the operator. At most 64.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "annotations_schema")]
    pub annotations: BTreeMap<String, String>,
    /// Labels and annotations of the pods. A change replaces the pods.
    #[serde(skip_serializing_if = "is_default")]
    pub pod_template_metadata_overrides: MetadataOverrides,
}

impl WorkloadOverrides {
    /// Adds the labels and annotations to those of the Deployment or StatefulSet, which win over them.
    #[must_use]
    pub fn on(&self, meta: ObjectMeta) -> ObjectMeta {
        self.metadata().on(meta)
    }

    /// Adds the labels and annotations for pods to those of the pod template, which win over them.
    #[must_use]
    pub fn on_pods(&self, meta: ObjectMeta) -> ObjectMeta {
        self.pod_template_metadata_overrides.on(meta)
    }

    fn metadata(&self) -> MetadataOverrides {
        MetadataOverrides { labels: self.labels.clone(), annotations: self.annotations.clone() }
    }

    fn check(&self, path: &str, problems: &mut Vec<Problem>) {
        self.metadata().check(path, problems);
        self.pod_template_metadata_overrides.check(&format!("{path}.podTemplateMetadataOverrides"), problems);
    }
}

/// Labels and annotations of the objects that are made of a VirtualMCPServer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct VirtualMCPServerOverrides {
    /// Labels and annotations of the Deployment and its pods.
    #[serde(skip_serializing_if = "is_default")]
    pub deployment: WorkloadOverrides,
    /// Labels and annotations of the Service for clients, such as those of a load balancer.
    #[serde(skip_serializing_if = "is_default")]
    pub service: MetadataOverrides,
    /// Labels and annotations of the ServiceAccount that is made, such as those of workload identity. Not for
    /// an account that `serviceAccount` names.
    #[serde(skip_serializing_if = "is_default")]
    pub service_account: MetadataOverrides,
}

impl VirtualMCPServerOverrides {
    /// Finds reserved keys, and keys and values that Kubernetes refuses.
    pub(crate) fn check(&self, problems: &mut Vec<Problem>) {
        self.deployment.check("spec.resourceOverrides.deployment", problems);
        self.service.check("spec.resourceOverrides.service", problems);
        self.service_account.check("spec.resourceOverrides.serviceAccount", problems);
    }
}

/// Labels and annotations of the objects that are made of an MCPServer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct MCPServerOverrides {
    /// Labels and annotations of the Deployment and its pods, which are the server's own: it runs without a
    /// proxy.
    #[serde(skip_serializing_if = "is_default")]
    pub proxy_deployment: ProxyDeploymentOverrides,
    /// Labels and annotations of the Service.
    #[serde(skip_serializing_if = "is_default")]
    pub proxy_service: MetadataOverrides,
}

impl MCPServerOverrides {
    /// Finds reserved keys, and keys and values that Kubernetes refuses.
    pub fn check(&self, problems: &mut Vec<Problem>) {
        self.proxy_deployment.workload.check("spec.resourceOverrides.proxyDeployment", problems);
        self.proxy_service.check("spec.resourceOverrides.proxyService", problems);
    }
}

/// Overrides of the Deployment of an MCPServer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ProxyDeploymentOverrides {
    /// Labels and annotations.
    #[serde(flatten)]
    pub workload: WorkloadOverrides,
    /// Secrets with credentials for registries, besides `spec.imagePullSecrets`. At most 64.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// Fields that are accepted and not followed, as written.
    #[serde(flatten)]
    #[schemars(skip)]
    pub pending: Block,
}

/// Labels and annotations of the objects that are made of an EmbeddingServer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct EmbeddingServerOverrides {
    /// Labels and annotations of the StatefulSet and its pods.
    #[serde(skip_serializing_if = "is_default")]
    pub stateful_set: WorkloadOverrides,
    /// Labels and annotations of the Service.
    #[serde(skip_serializing_if = "is_default")]
    pub service: MetadataOverrides,
    /// Labels and annotations of the PersistentVolumeClaim.
    #[serde(skip_serializing_if = "is_default")]
    pub persistent_volume_claim: MetadataOverrides,
}

impl EmbeddingServerOverrides {
    /// Finds reserved keys, and keys and values that Kubernetes refuses.
    pub fn check(&self, problems: &mut Vec<Problem>) {
        self.stateful_set.check("spec.resourceOverrides.statefulSet", problems);
        self.service.check("spec.resourceOverrides.service", problems);
        self.persistent_volume_claim.check("spec.resourceOverrides.persistentVolumeClaim", problems);
    }
}

/// Returns true for a value that says nothing.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

pub(crate) fn labels_schema(_: &mut SchemaGenerator) -> Schema {
    let value = json_schema!({ "type": "string", "maxLength": 63, "pattern": LABEL_VALUE });
    map_schema(&value, &RESERVED_LABELS)
}

pub(crate) fn annotations_schema(_: &mut SchemaGenerator) -> Schema {
    map_schema(&json_schema!({ "type": "string" }), &RESERVED_ANNOTATIONS)
}

/// Returns the schema of a map without the `reserved` keys.
fn map_schema(value: &Schema, reserved: &[&str]) -> Schema {
    let rule = format!("self.all(key, !(key in {reserved:?}) && !key.startsWith('{OWN_PREFIX}'))");
    let named = reserved.join(", ");
    let message = format!("{named} and {OWN_PREFIX}* belong to the operator or to Kubernetes; {OTHER_KEY}");
    json_schema!({
        "type": "object",
        "maxProperties": MAX_ENTRIES,
        "additionalProperties": value,
        "x-kubernetes-validations": [{ "rule": rule, "message": message }],
    })
}

/// Returns true for a key of a label or an annotation: a name, or a domain, a slash and a name.
fn is_key(key: &str) -> bool {
    match key.split_once('/') {
        None => is_name(key),
        Some((domain, name)) => is_domain(domain) && is_name(name),
    }
}

fn is_name(name: &str) -> bool {
    let alphanumeric = |end: char| end.is_ascii_alphanumeric();
    name.len() <= 63
        && name.starts_with(alphanumeric)
        && name.ends_with(alphanumeric)
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

fn is_domain(domain: &str) -> bool {
    domain.len() <= 253
        && domain.split('.').all(|label| {
            !label.is_empty()
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn problems(labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> Vec<String> {
        let mut problems = Vec::new();
        let overrides = MetadataOverrides { labels: map(labels), annotations: map(annotations) };
        overrides.check("spec.x", &mut problems);
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_the_operator_goes_by_is_not_overridden() {
        let own = MetadataOverrides { labels: map(&[("a", "ours")]), annotations: BTreeMap::new() };
        let added = MetadataOverrides {
            labels: map(&[("a", "theirs"), ("team", "tools")]),
            annotations: map(&[("example.com/cost", "42")]),
        };
        let meta = added.on(own.on(ObjectMeta::default()));
        assert_eq!(meta.labels, Some(map(&[("a", "ours"), ("team", "tools")])));
        assert_eq!(meta.annotations, Some(map(&[("example.com/cost", "42")])));
        assert_eq!(MetadataOverrides::default().on(ObjectMeta::default()), ObjectMeta::default());
    }

    #[test]
    fn reserved_keys_are_named_with_their_field_and_a_remedy() {
        let said = problems(
            &[("app.kubernetes.io/name", "x"), ("team", "tools")],
            &[
                ("toolhive.stacklok.com/desired-digest", "0"),
                ("service.beta.kubernetes.io/aws-load-balancer-scheme", "internal"),
            ],
        );
        assert_eq!(
            said,
            [
                "spec.x.labels: `app.kubernetes.io/name` belongs to the operator or to Kubernetes; remove the key, or choose another one",
                "spec.x.annotations: `toolhive.stacklok.com/desired-digest` belongs to the operator or to Kubernetes; remove the key, or choose another one",
            ]
        );
    }

    #[test]
    fn keys_and_values_that_kubernetes_refuses_are_found_before_it_is_asked() {
        assert!(
            problems(&[("a_B.c-1", ""), ("example.com/team", "Tools_1.x")], &[("x", "any text: {}")])
                .is_empty()
        );
        for key in ["", "-a", "a/b/c", "Example.com/a", "/a", "a/", "ä"] {
            assert_eq!(problems(&[(key, "")], &[]).len(), 1, "{key}");
        }
        assert!(
            problems(&[("a", "two words")], &[])[0].starts_with("spec.x.labels.a: `two words` is no value")
        );
    }
}

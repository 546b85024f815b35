//! Merge rules of pod templates, as the API server publishes them in its OpenAPI document: the fields of each
//! type, and how `kubectl patch` merges their lists (`x-kubernetes-patch-merge-key`,
//! `x-kubernetes-patch-strategy`).
//!
//! Read once at start, so that fields of a Kubernetes newer than the operator are known and merged as that
//! version merges them. Without an answer the rules of 1.34 hold, which are built in.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use kube::Client;
use serde_json::Value;
use vmcp_error_chain::error_chain;

/// The type of `spec.template` of a Deployment.
const ROOT: &str = "io.k8s.api.core.v1.PodTemplateSpec";
/// The document that has it.
const DOCUMENT: &str = "/openapi/v3/apis/apps/v1";
/// The longest that the document may take; it has about a megabyte.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(10);
/// The part of the document of Kubernetes 1.34 that pod templates need.
const BUILT_IN: &str = include_str!("pod_schema/kubernetes-1.34.json");

/// The fields of every type that a pod template can hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodSchema(HashMap<String, BTreeMap<String, Field>>);

/// A field of a type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Field {
    /// The shape of its value.
    pub(crate) shape: Shape,
    /// The key that tells the entries of its list apart.
    pub(crate) merge_key: Option<String>,
    /// True for a list that is merged with the existing list; other lists are replaced.
    pub(crate) merges: bool,
    /// True if an entry replaces the fields that it does not name: they exclude each other, as the sources of
    /// a volume do.
    pub(crate) retains_keys: bool,
}

/// The shape of a value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A scalar, or anything at all.
    #[default]
    Any,
    /// An object of a type.
    Type(String),
    /// A list.
    List(Box<Self>),
    /// A map with any keys.
    Map(Box<Self>),
}

impl Default for PodSchema {
    fn default() -> Self {
        // The built-in document is part of the program, and a test reads it.
        let document = serde_json::from_str(BUILT_IN).unwrap_or_default();
        Self::of_open_api(&document).unwrap_or(Self(HashMap::new()))
    }
}

impl PodSchema {
    /// Reads the rules of the API server; those of 1.34 if it does not answer.
    pub(crate) async fn served(client: &Client) -> Self {
        let served = tokio::time::timeout(DOCUMENT_TIMEOUT, document(client)).await;
        let found = match served {
            Ok(Ok(document)) => Self::of_open_api(&document).ok_or_else(|| format!("it has no {ROOT}")),
            Ok(Err(error)) => Err(error_chain(&error)),
            Err(_) => Err(format!("no answer within {} s", DOCUMENT_TIMEOUT.as_secs())),
        };
        found.unwrap_or_else(|error| {
            tracing::warn!(
                error,
                "cannot read {DOCUMENT}; spec.podTemplateSpec is merged by the rules of 1.34"
            );
            Self::default()
        })
    }

    /// Returns the shape of a pod template.
    pub(crate) fn root() -> Shape {
        Shape::Type(ROOT.to_owned())
    }

    /// Returns the fields of a type; `None` for a type without fields, such as a quantity.
    pub(crate) fn fields(&self, name: &str) -> Option<&BTreeMap<String, Field>> {
        self.0.get(name).filter(|fields| !fields.is_empty())
    }

    /// Takes the types that pod templates need out of an OpenAPI document; `None` if it has no pod templates.
    pub(crate) fn of_open_api(document: &Value) -> Option<Self> {
        let schemas = document.pointer("/components/schemas")?;
        schemas.get(ROOT)?;
        let mut types = HashMap::new();
        let mut pending = vec![ROOT.to_owned()];
        while let Some(name) = pending.pop() {
            if types.contains_key(&name) {
                continue;
            }
            let properties = schemas.get(&name).and_then(|schema| schema.get("properties")?.as_object());
            let fields = properties
                .into_iter()
                .flatten()
                .map(|(field, schema)| (field.clone(), Field::from_schema(schema, &mut pending)));
            types.insert(name, fields.collect());
        }
        Some(Self(types))
    }
}

async fn document(client: &Client) -> kube::Result<Value> {
    let request = http::Request::get(DOCUMENT).body(Vec::new()).map_err(kube::Error::HttpError)?;
    client.request(request).await
}

impl Field {
    /// Reads a field; the types that it refers to are added to `types`.
    fn from_schema(schema: &Value, types: &mut Vec<String>) -> Self {
        let word = |name: &str| schema.get(name).and_then(Value::as_str);
        let strategies = word("x-kubernetes-patch-strategy").unwrap_or_default();
        let has = |strategy: &str| strategies.split(',').any(|found| found == strategy);
        Self {
            shape: Shape::from_schema(schema, types),
            merge_key: word("x-kubernetes-patch-merge-key").map(str::to_owned),
            merges: has("merge"),
            retains_keys: has("retainKeys"),
        }
    }
}

impl Shape {
    fn from_schema(schema: &Value, types: &mut Vec<String>) -> Self {
        // A reference with a default stands in `allOf`.
        let all_of = schema.get("allOf").and_then(Value::as_array).into_iter().flatten();
        let mut references = std::iter::once(schema).chain(all_of).filter_map(|schema| schema.get("$ref"));
        if let Some(name) = references.next().and_then(|reference| reference.as_str()?.rsplit('/').next()) {
            types.push(name.to_owned());
            return Self::Type(name.to_owned());
        }
        if let Some(items) = schema.get("items") {
            return Self::List(Box::new(Self::from_schema(items, types)));
        }
        match schema.get("additionalProperties") {
            Some(values) => Self::Map(Box::new(Self::from_schema(values, types))),
            None => Self::Any,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_built_in_rules_are_those_of_kubernetes() {
        let schema = PodSchema::default();
        let pod = schema.fields("io.k8s.api.core.v1.PodSpec").expect("the fields of a pod");
        let volumes = &pod["volumes"];
        assert_eq!(
            (volumes.merge_key.as_deref(), volumes.merges, volumes.retains_keys),
            (Some("name"), true, true)
        );
        assert!(!pod["containers"].retains_keys && pod["containers"].merges);
        assert!(!pod["tolerations"].merges);
        assert_eq!(pod["nodeSelector"].shape, Shape::Map(Box::new(Shape::Any)));
        assert_eq!(schema.fields("io.k8s.apimachinery.pkg.api.resource.Quantity"), None);
    }

    #[test]
    fn a_document_is_read_as_the_api_server_writes_it() {
        let container = "io.k8s.api.core.v1.Container";
        let document = json!({ "components": { "schemas": {
            ROOT: { "properties": { "containers": {
                "items": { "allOf": [{ "$ref": format!("#/components/schemas/{container}") }], "default": {} },
                "type": "array", "x-kubernetes-patch-merge-key": "name", "x-kubernetes-patch-strategy": "merge",
            } } },
            container: { "properties": { "name": { "type": "string" } } },
            "io.k8s.api.apps.v1.Deployment": { "properties": { "spec": {} } },
        } } });
        let schema = PodSchema::of_open_api(&document).expect("a schema");
        assert_eq!(schema.0.len(), 2, "a Deployment is none of it");
        let containers = &schema.fields(ROOT).expect("fields")["containers"];
        assert_eq!(containers.shape, Shape::List(Box::new(Shape::Type(container.to_owned()))));
        assert_eq!(PodSchema::of_open_api(&json!({ "components": { "schemas": {} } })), None);
    }
}

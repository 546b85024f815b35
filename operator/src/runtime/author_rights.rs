//! Rights that authors of resources need, since the operator makes objects and hands on Secrets with rights
//! of its own (confused deputy).
//!
//! One table decides. The chart's admission policy is generated from it, and so is the page of reference; the
//! API server then refuses an author who lacks a right. Without the policy, no later step knows the author.
//! The operator then refuses every field that asks for more than pods, unless
//! [`BuildSettings::authors_checked`] says that authors are checked or trusted. Running pods is what write
//! access to a VirtualMCPServer, MCPServer or EmbeddingServer means, and a pod may mount every Secret of its
//! namespace.

mod page;
mod policy;
mod table;

use serde::Serialize;
use serde_json::Value;
use vmcp_crds::Problem;

pub use self::page::author_rights_page;
pub use self::policy::author_rights_policy;
pub use self::table::{AUTHOR_RIGHTS, AuthorRight, Right, Trigger};
use super::context::BuildSettings;

impl Trigger {
    /// Returns the path, below `spec`, of the part of a spec that asks for the right.
    fn asked_by(self, spec: &Value) -> Option<&'static str> {
        let given = |path: &str| {
            let found = path.split('.').try_fold(spec, |block, key| block.get(key));
            found.filter(|value| !is_empty(value))
        };
        match self {
            Self::Always => Some(""),
            Self::Given(paths) => paths.iter().copied().find(|path| given(path).is_some()),
            Self::GivenInItem(lists, field) => lists.iter().copied().find(|list| {
                let items = given(list).and_then(Value::as_array);
                items.is_some_and(|items| {
                    items.iter().any(|item| item.get(field).is_some_and(|value| !is_empty(value)))
                })
            }),
            Self::HasWord(list, words) => {
                let items = given(list).and_then(Value::as_array)?;
                items.iter().any(|item| words.iter().any(|word| item == word)).then_some(list)
            }
            Self::IsInItem(list, field, value) => {
                let items = given(list).and_then(Value::as_array)?;
                items.iter().any(|item| item.get(field).is_some_and(|found| found == value)).then_some(list)
            }
            Self::Is(path, value) => given(path).is_some_and(|found| found == value).then_some(path),
            Self::Unless(path, value) => given(path).is_some_and(|found| found != value).then_some(path),
        }
    }
}

/// Returns true for a value that asks for nothing. An empty block asks: `serviceMonitor: {}` makes one.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Returns the first field of a resource that needs a right of its author; `None` if the admission policies
/// check authors.
pub(crate) fn unchecked(kind: &str, spec: &impl Serialize, settings: &BuildSettings) -> Option<Problem> {
    if settings.authors_checked {
        return None;
    }
    // A spec that was parsed from JSON always serializes.
    let spec = serde_json::to_value(spec).unwrap_or_default();
    let mut rows =
        AUTHOR_RIGHTS.iter().filter(|row| row.kinds.contains(&kind) && !row.right.is_to_run_pods());
    let (row, path) = rows.find_map(|row| Some((row, row.trigger.asked_by(&spec)?)))?;
    let message = format!("{}, and nothing checks that its author may {}", row.gives, row.right.words());
    let remedy = "install the admission policies and set `AUTHORS_CHECKED: \"true\"` of the operator, or remove the field";
    Some(Problem::new(format!("spec.{path}"), message, remedy))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a spec in which a trigger asks for its right, with each of its paths in turn.
    fn asking(trigger: Trigger) -> Vec<Value> {
        let with =
            |path: &str, value: Value| path.rsplit('.').fold(value, |inner, key| json!({ key: inner }));
        match trigger {
            Trigger::Always => vec![json!({})],
            Trigger::Given(paths) => paths.iter().map(|path| with(path, json!({ "a": "b" }))).collect(),
            Trigger::GivenInItem(lists, field) => {
                let item = json!([{ "name": "a" }, { field: { "a": "b" } }]);
                lists.iter().map(|list| with(list, item.clone())).collect()
            }
            Trigger::HasWord(list, words) => {
                words.iter().map(|word| with(list, json!(["other", word]))).collect()
            }
            Trigger::IsInItem(list, field, value) => {
                vec![with(list, json!([{ field: "other" }, { field: value }]))]
            }
            Trigger::Is(path, value) => vec![with(path, json!(value))],
            Trigger::Unless(path, value) => vec![with(path, json!(format!("not-{value}")))],
        }
    }

    #[test]
    fn every_line_of_the_table_holds_without_a_policy_but_those_about_pods() {
        let unsafe_settings = BuildSettings { authors_checked: false, ..BuildSettings::default() };
        for row in AUTHOR_RIGHTS {
            for spec in asking(row.trigger) {
                for kind in row.kinds {
                    let problem = unchecked(kind, &spec, &unsafe_settings);
                    assert_eq!(problem.is_none(), row.right.is_to_run_pods(), "{kind} {spec}: {problem:?}");
                    assert_eq!(unchecked(kind, &spec, &BuildSettings::default()), None, "{kind} {spec}");
                }
            }
        }
    }

    #[test]
    fn fields_that_ask_for_nothing_are_free() {
        let settings = BuildSettings { authors_checked: false, ..BuildSettings::default() };
        for (kind, spec) in [
            ("VirtualMCPServer", json!({ "serviceType": "ClusterIP", "replicas": 3, "httpRoute": null })),
            (
                "MCPServer",
                json!({ "image": "i", "permissionProfile": { "type": "builtin", "name": "none" } }),
            ),
            ("MCPServerEntry", json!({ "remoteUrl": "https://a.example/mcp", "headerForward": {} })),
            ("MCPExternalAuthConfig", json!({ "type": "unauthenticated" })),
            ("MCPGroup", json!({})),
            ("ReferenceGrant", json!({ "from": [{ "kind": "HTTPRoute", "namespace": "web" }] })),
            (
                "MCPWebhookConfig",
                json!({ "post": [{ "name": "a", "url": "https://a/", "tlsConfig": null }] }),
            ),
        ] {
            assert_eq!(unchecked(kind, &spec, &settings), None, "{kind} {spec}");
        }
        let asked = json!({ "remoteUrl": "https://a.example/mcp", "externalAuthConfigRef": { "name": "a" } });
        let problem = unchecked("MCPServerEntry", &asked, &settings).unwrap().to_string();
        assert!(problem.starts_with("spec.externalAuthConfigRef: sends the credentials"), "{problem}");
        assert!(problem.contains("may get Secrets; install the admission policies"), "{problem}");
    }

    /// Collects the paths, below `spec`, of references to Secrets, to ConfigMaps and to credentials.
    fn references(schema: &Value, path: &str, found: &mut Vec<String>) {
        let names = ["SecretRef", "SecretRefs", "SecretKeyRef", "ConfigMapRef", "ExternalAuthConfigRef"];
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            let key = key.to_lowercase();
            if names.iter().any(|name| key.ends_with(&name.to_lowercase())) {
                found.push(path.clone());
            }
            for inner in [property, &property["items"], &property["additionalProperties"]] {
                references(inner, &path, found);
            }
        }
    }

    /// Returns true if a line asks for a right wherever the reference at this path is given.
    fn covers(row: &AuthorRight, reference: &str) -> bool {
        let is_in = |path: &str| reference == path || reference.starts_with(&format!("{path}."));
        match row.trigger {
            Trigger::Always | Trigger::Unless("type", _) => true,
            Trigger::Given(paths) => paths.iter().any(|path| is_in(path)),
            Trigger::GivenInItem(lists, field) => lists.iter().any(|list| is_in(&format!("{list}.{field}"))),
            Trigger::HasWord(..) | Trigger::IsInItem(..) | Trigger::Is(..) | Trigger::Unless(..) => false,
        }
    }

    #[test]
    fn every_reference_of_authors_who_run_no_pods_is_in_the_table() {
        let mut seen = 0;
        for definition in vmcp_crds::definitions::all() {
            let kind = definition.spec.names.kind;
            let version = json!(definition.spec.versions.first().expect("a version"));
            let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
            assert!(spec.is_object(), "{kind} has a spec");
            let mut found = Vec::new();
            references(spec, "", &mut found);
            let rows: Vec<_> =
                AUTHOR_RIGHTS.iter().filter(|row| row.kinds.contains(&kind.as_str())).collect();
            for reference in found {
                seen += 1;
                assert!(rows.iter().any(|row| covers(row, &reference)), "{kind}: spec.{reference}");
            }
        }
        assert!(seen > 40, "{seen}");
    }
}

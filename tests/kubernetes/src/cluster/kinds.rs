//! [`Kinds`]: the kinds that an API server serves, found by the names that `kubectl` takes. Reading an object
//! by a process of `kubectl` costs seventy milliseconds of a core, each time.

use http::Request;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::core::discovery::v2::{APIGroupDiscovery, APIResourceDiscovery};
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::Value;

/// The kinds that one API server was seen to serve. It is asked again for a kind that is not among them.
#[derive(Debug, Default)]
pub(crate) struct Kinds(Mutex<Vec<Kind>>);

/// A kind in one version.
#[derive(Debug, Clone)]
pub(crate) struct Kind {
    resource: ApiResource,
    is_namespaced: bool,
    /// Plural, singular and short names, and the kind in lower case.
    names: Vec<String>,
}

impl Kinds {
    /// Returns the kind of a name such as `MCPServer`, `svc` or `mcpservers.toolhive.stacklok.com`, in any
    /// letter case. The API server's order of groups decides between several, as it does for `kubectl`.
    pub(crate) async fn named(&self, client: &Client, name: &str) -> Result<Option<Kind>, kube::Error> {
        let name = name.to_lowercase();
        self.find(client, |kind| kind.is_called(&name)).await
    }

    /// Returns a kind of a manifest.
    pub(crate) async fn of_manifest(
        &self,
        client: &Client,
        wanted: &GroupVersionKind,
    ) -> Result<Option<Kind>, kube::Error> {
        self.find(client, |kind| kind.is_in(wanted)).await
    }

    async fn find(
        &self,
        client: &Client,
        is_wanted: impl Fn(&Kind) -> bool,
    ) -> Result<Option<Kind>, kube::Error> {
        let known = self.known(&is_wanted);
        if known.is_some() {
            return Ok(known);
        }
        let core = client.list_core_api_versions_aggregated().await?;
        let others = client.list_api_groups_aggregated().await?;
        let served = core.items.into_iter().chain(others.items).flat_map(kinds_of_group).collect();
        *self.0.lock() = served;
        Ok(self.known(&is_wanted))
    }

    fn known(&self, is_wanted: &impl Fn(&Kind) -> bool) -> Option<Kind> {
        self.0.lock().iter().find(|kind| is_wanted(kind)).cloned()
    }
}

impl Kind {
    /// Returns the API of its objects; a kind of the whole cluster ignores `namespace`.
    pub(crate) fn api(&self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        if self.is_namespaced {
            Api::namespaced_with(client.clone(), namespace, &self.resource)
        } else {
            Api::all_with(client.clone(), &self.resource)
        }
    }

    fn is_called(&self, name: &str) -> bool {
        let (name, group) = name.split_once('.').map_or((name, None), |(name, group)| (name, Some(group)));
        let is_in_group = group.is_none_or(|group| group == self.resource.group);
        is_in_group && self.names.iter().any(|known| known == name)
    }

    fn is_in(&self, wanted: &GroupVersionKind) -> bool {
        let found = &self.resource;
        found.group == wanted.group && found.version == wanted.version && found.kind == wanted.kind
    }
}

/// Reads an object as the API server has it, save for its managed fields, which `kubectl get` hides, too;
/// null if it does not exist.
pub(crate) async fn read(
    client: &Client,
    objects: &Api<DynamicObject>,
    name: &str,
) -> Result<Value, kube::Error> {
    match get(client, &format!("{}/{name}", objects.resource_url())).await {
        Ok(mut object) => {
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("managedFields");
            }
            Ok(object)
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Value::Null),
        Err(error) => Err(error),
    }
}

/// Reads all objects of a kind as the API server has them.
pub(crate) async fn read_list(
    client: &Client,
    objects: &Api<DynamicObject>,
) -> Result<Vec<Value>, kube::Error> {
    let mut list = get(client, objects.resource_url()).await?;
    Ok(list.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default())
}

async fn get(client: &Client, path: &str) -> Result<Value, kube::Error> {
    let request = Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
    client.request(request).await
}

fn kinds_of_group(group: APIGroupDiscovery) -> Vec<Kind> {
    // The group of the core has no name.
    let name = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
    let mut kinds = Vec::new();
    for version in group.versions {
        let number = version.version.unwrap_or_default();
        kinds.extend(version.resources.into_iter().filter_map(|found| kind_of(&name, &number, found)));
    }
    kinds
}

/// Returns `None` for a resource that has no kind.
fn kind_of(group: &str, version: &str, found: APIResourceDiscovery) -> Option<Kind> {
    let plural = found.resource?;
    let kind = found.response_kind?.kind?;
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut names = found.short_names;
    names.extend(found.singular_resource);
    names.extend([plural.clone(), kind.to_lowercase()]);
    Some(Kind {
        resource: ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version,
            kind,
            plural,
        },
        is_namespaced: found.scope.as_deref() == Some("Namespaced"),
        names,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn group() -> Vec<Kind> {
        let version = |version: &str| {
            json!({ "version": version, "resources": [{
                "resource": "mcpservers", "singularResource": "mcpserver", "shortNames": ["mcp"],
                "scope": "Namespaced",
                "responseKind": { "group": "a.example", "version": version, "kind": "MCPServer" },
                "verbs": ["get"],
            }] })
        };
        let group =
            json!({ "metadata": { "name": "a.example" }, "versions": [version("v1"), version("v1beta1")] });
        kinds_of_group(serde_json::from_value(group).expect("a group"))
    }

    #[test]
    fn kinds_have_the_names_that_kubectl_takes() {
        let kinds = group();
        let kind = kinds.first().expect("a kind");
        for name in ["mcpservers", "mcpserver", "mcp", "mcpservers.a.example"] {
            assert!(kind.is_called(name), "{name}");
        }
        for name in ["mcpservers.b.example", "mcps", ""] {
            assert!(!kind.is_called(name), "{name}");
        }
        assert_eq!(kind.resource.version, "v1", "the version that the API server prefers comes first");
    }

    #[test]
    fn a_manifest_is_of_the_kind_of_its_own_version() {
        let wanted = GroupVersionKind::gvk("a.example", "v1beta1", "MCPServer");
        let found: Vec<_> = group().into_iter().filter(|kind| kind.is_in(&wanted)).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].resource.api_version, "a.example/v1beta1");
    }
}

//! SecretProviderClasses: the CSI driver of secret stores makes their Secrets once a pod mounts a volume of
//! theirs.

use std::collections::BTreeSet;

use serde_json::Value;
use vmcp_crds::Block;

/// Returns the SecretProviderClasses that the pods of a template mount. `volumes` and `mounts` are further
/// ones of the pod. A volume that no container mounts does not count: the kubelet leaves it out.
pub(crate) fn provider_classes(template: &Block, volumes: &[Block], mounts: &[Block]) -> BTreeSet<String> {
    let of_pod = |key: &str| blocks(template.get("spec").and_then(|pod| pod.get(key)));
    let containers = of_pod("initContainers").chain(of_pod("containers"));
    let of_containers = containers.flat_map(|container| blocks(container.get("volumeMounts")));
    let all_mounts = of_containers.chain(mounts);
    let mounted: BTreeSet<&str> = all_mounts.filter_map(|mount| mount.get("name")?.as_str()).collect();
    of_pod("volumes")
        .chain(volumes)
        .filter(|volume| {
            volume.get("name").and_then(Value::as_str).is_some_and(|name| mounted.contains(name))
        })
        .filter_map(|volume| volume.get("csi")?.get("volumeAttributes")?.get("secretProviderClass")?.as_str())
        .map(str::to_owned)
        .collect()
}

/// Returns the objects of a list.
fn blocks(list: Option<&Value>) -> impl Iterator<Item = &Block> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn block(value: Value) -> Block {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_class_counts_once_a_container_mounts_its_volume() {
        let of = |mounts: Value, init: Value| {
            let csi = json!({ "volumeAttributes": { "secretProviderClass": "keys" } });
            let volumes = json!([{ "name": "a", "csi": csi }, { "name": "b", "emptyDir": {} }]);
            let pod = json!({ "volumes": volumes, "containers": mounts, "initContainers": init });
            provider_classes(&block(json!({ "spec": pod })), &[], &[]).into_iter().collect::<Vec<_>>()
        };
        let mounts = |name: &str| json!([{ "name": "mcp", "volumeMounts": [{ "name": name }] }]);
        assert_eq!(of(mounts("a"), json!([])), ["keys"]);
        assert_eq!(of(json!([]), mounts("a")), ["keys"]);
        assert!(of(mounts("b"), json!([])).is_empty());
        assert!(of(json!([]), json!([])).is_empty());
        assert!(provider_classes(&Block::new(), &[], &[]).is_empty());
        let csi = json!({ "volumeAttributes": { "secretProviderClass": "db" } });
        let volume = block(json!({ "name": "c", "csi": csi }));
        let mount = block(json!({ "name": "c", "mountPath": "/db" }));
        assert_eq!(provider_classes(&Block::new(), &[volume], &[mount]).len(), 1);
    }
}

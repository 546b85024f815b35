use serde_json::json;

use super::*;

fn base() -> PodTemplateSpec {
    serde_json::from_value(json!({
        "metadata": {"labels": {"app": "x"}, "annotations": {"digest": "1"}},
        "spec": {
            "containers": [{
                "name": "vmcp", "image": "vmcp:1", "env": [{"name": "A", "value": "1"}],
                "volumeMounts": [{"name": "c", "mountPath": "/c"}],
            }],
            "volumes": [{"name": "c", "emptyDir": {"sizeLimit": "1Gi"}}],
            "tolerations": [{"key": "a"}],
            "nodeSelector": {"disk": "ssd"},
        },
    }))
    .expect("a template")
}

fn merged_by(schema: &PodSchema, overlay: Value) -> Result<Value, String> {
    let Value::Object(overlay) = overlay else { panic!("an object") };
    merge(&base(), &overlay, schema).map_err(|error| error.to_string())
}

fn merged(overlay: Value) -> Result<Value, String> {
    merged_by(&PodSchema::default(), overlay)
}

fn spec(overlay: &Value) -> Value {
    merged(json!({ "spec": overlay })).expect("merged")["spec"].take()
}

#[test]
fn named_entries_are_merged_and_others_replaced() {
    let merged = merged(json!({
        "metadata": {"labels": {"app": "y", "team": "z"}, "annotations": {"digest": "2", "note": "n"}},
        "spec": {
            "containers": [
                {"name": "vmcp", "env": [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}]},
                {"name": "sidecar", "image": "s"},
            ],
            "tolerations": [{"key": "b"}],
            "priorityClassName": "high",
        },
    }))
    .expect("merged");
    assert_eq!(merged["metadata"]["labels"], json!({"app": "x", "team": "z"}));
    assert_eq!(merged["metadata"]["annotations"], json!({"digest": "1", "note": "n"}));
    let spec = &merged["spec"];
    assert_eq!(spec["containers"][0]["image"], "vmcp:1");
    assert_eq!(
        spec["containers"][0]["env"],
        json!([{"name": "A", "value": "2"}, {"name": "B", "value": "3"}])
    );
    assert_eq!(spec["containers"][1]["name"], "sidecar");
    assert_eq!(spec["tolerations"], json!([{"key": "b"}]));
    assert_eq!(spec["priorityClassName"], "high");
    assert_eq!(spec["volumes"][0]["name"], "c");
}

#[test]
fn a_volume_has_the_source_that_the_template_gives_it() {
    let claim = json!({"name": "c", "persistentVolumeClaim": {"claimName": "cache"}});
    assert_eq!(spec(&json!({"volumes": [claim]}))["volumes"], json!([claim]), "no two sources");
    let larger = json!({"name": "c", "emptyDir": {"medium": "Memory"}});
    assert_eq!(
        spec(&json!({"volumes": [larger]}))["volumes"][0]["emptyDir"],
        json!({"medium": "Memory", "sizeLimit": "1Gi"}),
        "the same source is merged"
    );
    assert_eq!(spec(&json!({"volumes": [{"name": "c"}]}))["volumes"][0]["emptyDir"]["sizeLimit"], "1Gi");
}

#[test]
fn directives_delete_and_replace() {
    let container = |overlay: Value| spec(&json!({"containers": [overlay]}))["containers"][0].take();
    let without = container(
        json!({"name": "vmcp", "env": [{"name": "A", "$patch": "delete"}, {"name": "B", "value": "2"}]}),
    );
    assert_eq!(without["env"], json!([{"name": "B", "value": "2"}]));
    let replaced = spec(&json!({"volumes": [{"$patch": "replace"}, {"name": "d", "emptyDir": {}}]}));
    assert_eq!(replaced["volumes"], json!([{"name": "d", "emptyDir": {}}]));
    let replaced = spec(&json!({"nodeSelector": {"$patch": "replace", "zone": "a"}}));
    assert_eq!(replaced["nodeSelector"], json!({"zone": "a"}));
    assert_eq!(spec(&json!({"nodeSelector": {"zone": "a"}}))["nodeSelector"]["disk"], "ssd");
    let kept = spec(&json!({"nodeSelector": {"$retainKeys": ["zone"], "zone": "a"}}));
    assert_eq!(kept["nodeSelector"], json!({"zone": "a"}));
    assert_eq!(spec(&json!({"nodeSelector": null})).get("nodeSelector"), None);
    let error = merged(json!({"spec": {"$patch": "drop"}})).expect_err("refused");
    assert!(error.contains("spec.podTemplateSpec.spec.$patch is no directive"), "{error}");
}

#[test]
fn fields_of_a_newer_kubernetes_are_merged_by_its_own_rules() {
    let newer = json!({"restartRules": [{"name": "oom", "action": "Restart"}]});
    let overlay =
        json!({"spec": {"gpuLayout": {"slices": 2}, "containers": [{"name": "vmcp", "budgets": [newer]}]}});
    let error = merged(overlay.clone()).expect_err("1.34 does not know it");
    assert!(error.contains("spec.podTemplateSpec.spec.gpuLayout is no field"), "{error}");

    let mut document: Value =
        serde_json::from_str(include_str!("../../runtime/pod_schema/kubernetes-1.34.json")).expect("JSON");
    let schemas = &mut document["components"]["schemas"];
    schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["gpuLayout"] =
        json!({"allOf": [{"$ref": "#/components/schemas/x.GpuLayout"}]});
    schemas["x.GpuLayout"] = json!({"properties": {"slices": {"type": "integer"}}});
    schemas["io.k8s.api.core.v1.Container"]["properties"]["budgets"] = json!({"type": "array", "items": {}});
    let schema = PodSchema::of_open_api(&document).expect("a schema");
    let merged = merged_by(&schema, overlay).expect("merged");
    assert_eq!(merged["spec"]["gpuLayout"], json!({"slices": 2}));
    assert_eq!(merged["spec"]["containers"][0]["budgets"], json!([newer]));
    assert_eq!(merged["spec"]["containers"][0]["image"], "vmcp:1");
    let typo = json!({"spec": {"gpuLayout": {"slizes": 2}}});
    assert!(merged_by(&schema, typo).expect_err("refused").contains("gpuLayout.slizes is no field"));
}

#[test]
fn what_cannot_be_is_named() {
    for (overlay, word) in [
        (
            json!({"spec": {"containers": [{"name": "vmcp", "imagee": "x"}]}}),
            "spec.podTemplateSpec.spec.containers[0].imagee",
        ),
        (json!({"spec": {"containers": "vmcp"}}), "no pod template"),
        (json!({"spec": {"containers": [{"image": "x"}]}}), "needs a `name`"),
    ] {
        let error = merged(overlay).expect_err("refused");
        assert!(error.contains(word), "{error}");
    }
    // Where the operator has no such list, an entry needs its key all the same.
    let overlay = json!({"spec": {"initContainers": [{"image": "x"}]}});
    assert!(merged(overlay).expect_err("refused").contains("needs a `name`"));
}

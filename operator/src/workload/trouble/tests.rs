#![expect(clippy::needless_pass_by_value, reason = "values are written where they are passed")]

use serde_json::{Value, json};

use super::*;

/// A pod of generation `hash`, made at minute `minute`.
fn pod(name: &str, hash: &str, minute: u8, status: Value) -> Arc<Pod> {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": "tools", "labels": { "pod-template-hash": hash },
            "creationTimestamp": format!("2026-01-01T00:{minute:02}:00Z"),
        },
        "status": status,
    }))
    .unwrap();
    Arc::new(pod)
}

fn container(state: Value, last: Value, restarts: i32) -> Value {
    json!({
        "name": "mcp", "image": "example/time:1", "imageID": "", "ready": false, "restartCount": restarts,
        "state": state, "lastState": last,
    })
}

fn with(container: Value) -> Arc<Pod> {
    pod("mcp-time-1", "a", 0, json!({ "phase": "Pending", "containerStatuses": [container] }))
}

fn trouble(pod: Arc<Pod>) -> (TroubleReason, String) {
    let trouble = of_pods(&[pod], "mcp").unwrap();
    (trouble.reason, trouble.message)
}

#[test]
fn an_image_that_cannot_be_had_stays_one_message() {
    let cause = "rpc error: code = NotFound desc = example/time:1: not found";
    let waiting = |reason: &str, message: &str| {
        with(container(json!({ "waiting": { "reason": reason, "message": message } }), json!({}), 0))
    };
    let (reason, first) = trouble(waiting("ErrImagePull", cause));
    assert_eq!(reason, TroubleReason::ImagePullFailed);
    assert!(first.starts_with("pod mcp-time-1 cannot pull image example/time:1: rpc error"), "{first}");
    assert!(first.contains("imagePullSecrets"), "{first}");
    let behind = format!("Back-off pulling image \"example/time:1\": ErrImagePull: {cause}");
    assert_eq!(trouble(waiting("ImagePullBackOff", &behind)).1, first);

    let (_, never) =
        trouble(waiting("ErrImageNeverPull", "Container image is not present with pull policy of Never"));
    assert!(never.contains("put the image on the node"), "{never}");
}

#[test]
fn a_crash_tells_its_last_words() {
    let ended = json!({ "terminated": { "exitCode": 1, "reason": "Error", "message": "loading\nAPI_KEY is not set\n" } });
    for state in [
        json!({ "waiting": { "reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container" } }),
        json!({ "running": {} }),
    ] {
        let (reason, message) = trouble(with(container(state, ended.clone(), 4)));
        assert_eq!(reason, TroubleReason::Crashing);
        assert_eq!(
            message,
            "container mcp of pod mcp-time-1 ended with exit code 1 (restarts: 4), saying: loading API_KEY is not set; \
             see `kubectl logs -n tools mcp-time-1 -c mcp --previous`"
        );
    }
    let killed = json!({ "terminated": { "exitCode": 137, "reason": "OOMKilled" } });
    let (_, message) = trouble(with(container(killed, json!({}), 0)));
    assert!(message.contains("more memory than its limit; raise spec.resources.limits.memory"), "{message}");
}

#[test]
fn a_command_that_is_not_there_is_told_from_one_that_fails() {
    let state = json!({ "terminated": { "exitCode": 128, "reason": "StartError", "message": "exec: \"uvx\": not found" } });
    let (reason, message) = trouble(with(container(state, json!({}), 0)));
    assert_eq!(reason, TroubleReason::Crashing);
    assert!(message.contains("uvx") && message.ends_with("exists in the image"), "{message}");
}

#[test]
fn a_program_that_the_node_does_not_run_is_told_from_one_that_is_not_there() {
    let started = "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create \
                   failed: unable to start container process: ";
    let never = |words: &str| json!({ "exitCode": 128, "reason": "StartError", "message": format!("{started}{words}") });
    let ended = |words: &str| json!({ "exitCode": 255, "reason": "Error", "message": words });
    for (terminated, remedy) in [
        (never("exec /bridge/vmcp: permission denied: unknown"), "mounts its volume with noexec"),
        (never("exec: \"uvx\": executable file not found in $PATH: unknown"), "exists in the image"),
        (never("exec: \"/nope\": stat /nope: no such file or directory: unknown"), "exists in the image"),
        (ended("exec /bridge/vmcp: exec format error"), "spec.podTemplateSpec.spec.nodeSelector"),
        (ended("exec /server.sh: no such file or directory"), "the loader of this program"),
        (ended("config.json: no such file or directory"), "--previous`"),
    ] {
        let (reason, message) = trouble(with(container(json!({ "terminated": terminated }), json!({}), 0)));
        assert_eq!(reason, TroubleReason::Crashing);
        assert!(message.contains("exec") || message.contains("config.json"), "{message}");
        assert!(message.contains(remedy), "{message}");
    }
}

#[test]
fn long_last_words_are_cut_at_the_front() {
    let message = format!("{}the cause", "é".repeat(5000));
    let state = json!({ "terminated": { "exitCode": 1, "message": message } });
    let (_, message) = trouble(with(container(state, json!({}), 0)));
    assert!(message.len() < 2000 && message.contains("the cause;"), "{message}");
}

#[test]
fn a_container_that_may_not_run_says_which_setting_lets_it() {
    let state = json!({ "waiting": {
        "reason": "CreateContainerConfigError", "message": "container has runAsNonRoot and image will run as root",
    } });
    let (reason, message) = trouble(with(container(state, json!({}), 0)));
    assert_eq!(reason, TroubleReason::ContainerConfigInvalid);
    assert!(message.contains("set runAsUser"), "{message}");
}

#[test]
fn a_pod_without_a_node() {
    let status = json!({ "phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Insufficient cpu.",
    }] });
    let (reason, message) = trouble(pod("p", "a", 0, status));
    assert_eq!(reason, TroubleReason::Unschedulable);
    assert_eq!(
        message,
        "pod p cannot be scheduled: 0/1 nodes are available: 1 Insufficient cpu; lower spec.resources.requests or add nodes"
    );
    assert!(!reason.needs_person(), "a node may come by itself");
}

#[test]
fn running_and_silent_is_not_starting() {
    let (reason, _) = trouble(with(container(json!({ "running": {} }), json!({}), 0)));
    assert_eq!(reason, TroubleReason::NotAnswering);
    let (reason, _) =
        trouble(with(container(json!({ "waiting": { "reason": "PodInitializing" } }), json!({}), 0)));
    assert_eq!(reason, TroubleReason::Starting);
    assert_eq!(trouble(pod("p", "a", 0, json!(null))).0, TroubleReason::Starting);
}

#[test]
fn an_init_container_that_fails_comes_first() {
    let status = json!({
        "initContainerStatuses": [{
            "name": "bridge", "image": "vmcp", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "waiting": { "reason": "ImagePullBackOff", "message": "x" } },
        }],
        "containerStatuses": [container(json!({ "waiting": { "reason": "PodInitializing" } }), json!({}), 0)],
    });
    let (reason, message) = trouble(pod("p", "a", 0, status));
    assert_eq!(reason, TroubleReason::ImagePullFailed);
    assert!(message.contains("image vmcp"), "{message}");
}

#[test]
fn only_the_newest_generation_counts() {
    let ready = || json!({ "conditions": [{ "type": "Ready", "status": "True" }] });
    let pull = || {
        let waiting = json!({ "waiting": { "reason": "ErrImagePull", "message": "no" } });
        json!({ "containerStatuses": [container(waiting, json!({}), 0)] })
    };
    assert_eq!(of_pods(&[pod("old", "a", 0, pull()), pod("new", "b", 1, ready())], "mcp"), None);
    let new = of_pods(&[pod("new", "b", 1, pull()), pod("old", "a", 0, ready())], "mcp").unwrap();
    assert_eq!(new.reason, TroubleReason::ImagePullFailed);
    assert_eq!(of_pods(&[], "mcp"), None);
}

#[test]
fn pods_of_two_templates_that_were_made_in_one_second_both_count() {
    let waiting = json!({ "waiting": { "reason": "ErrImagePull", "message": "not found" } });
    let status = json!({ "phase": "Pending", "containerStatuses": [container(waiting, json!({}), 0)] });
    let ready = json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] });
    // The name of the healthy one comes last.
    let (failing, healthy) = (pod("a-new", "new", 1, status.clone()), pod("b-old", "old", 1, ready.clone()));
    let trouble = of_pods(&[failing, healthy], "mcp").expect("the new pod cannot start");
    assert_eq!(trouble.reason, TroubleReason::ImagePullFailed);
    let (failing, healthy) = (pod("a-old", "old", 0, status), pod("b-new", "new", 1, ready));
    assert_eq!(of_pods(&[failing, healthy], "mcp"), None, "of a second ago, only the newest count");
}

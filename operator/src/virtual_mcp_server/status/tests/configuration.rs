//! Conditions about the configuration, and about what it refers to.

use super::*;
use crate::runtime::{ApplyError, ChildKind};
use crate::virtual_mcp_server::testing::with_secret;

#[test]
fn an_invalid_configuration_degrades_what_serves() {
    let world = World::new("{optimizer: {enabled: true, search: {maxTools: 1000}}}");
    assert_eq!(world.status().phase, Some(Phase::Failed), "nothing serves");
    let status = world.pod(json!({"configuration": {"digest": "old"}})).status();
    assert_eq!(status.phase, Some(Phase::Degraded));
    let condition = condition(&status, "ConfigValid");
    assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", "InvalidConfiguration"));
    assert!(status.message.expect("a message").contains("spec.optimizer.search.maxTools"));
}

#[test]
fn what_pods_refuse_is_not_valid() {
    let plan = plan("{}", &with_server(with_server(references(), "a"), "b"));
    let wanted = vmcp_config::status::digest(&plan.configuration.expect("valid").lowered.text);
    let refused = |digest: &str| json!({"configuration": {"digest": "old", "refused": {"digest": digest, "message": "optimizer: no"}}});
    let status = World::new("{}").pod(refused(&wanted)).status();
    assert_eq!(condition(&status, "ConfigValid").reason, "RefusedByPods");
    let status = World::new("{}").pod(refused("older")).status();
    assert_eq!(condition(&status, "ConfigValid").status, "True", "that was another text");
}

#[test]
fn failing_embeddings_degrade_and_say_what_to_do() {
    let mut report = all_well();
    report["embeddings"] =
        json!({"provider": "tei", "state": "degraded", "reason": "connection refused", "hint": "start it"});
    let status = World::new("{optimizer: {enabled: true}}").pod(report).status();
    assert_eq!(status.phase, Some(Phase::Degraded));
    let condition = condition(&status, "EmbeddingsReady");
    assert_eq!(condition.status, "False");
    assert!(condition.message.contains("connection refused") && condition.message.ends_with("start it"));
}

#[test]
fn a_language_model_without_its_key_degrades_and_is_not_told_of_where_there_is_none() {
    let llm = "{optimizer: {enabled: true, llm: {model: m, apiKeySecretRef: {name: s, key: k}}}}";
    let mut world = World::new(llm).pod(all_well());
    let status = world.status();
    assert_eq!(status.phase, Some(Phase::Degraded));
    let without_key = condition(&status, "LanguageModelConfigured");
    assert_eq!((without_key.status.as_str(), without_key.reason.as_str()), ("False", "SecretNotFound"));
    assert!(without_key.message.contains("kubectl create secret generic s"), "{}", without_key.message);
    assert_eq!(condition(&status, "ConfigValid").status, "True");
    world.references = with_secret(world.references);
    assert_eq!(condition(&world.status(), "LanguageModelConfigured").status, "True");
    let status = World::new("{}").pod(all_well()).status();
    assert!(status.conditions.iter().all(|condition| condition.type_ != "LanguageModelConfigured"));
}

#[test]
fn a_group_that_is_missing_is_named() {
    let mut world = World::new("{groupRef: {name: g}}").pod(all_well());
    assert_eq!(condition(&world.status(), "GroupRefValidated").status, "True");
    world.references.group_exists = false;
    let status = world.status();
    assert_eq!(condition(&status, "GroupRefValidated").reason, "GroupRefNotFound");
    assert_eq!(status.phase, Some(Phase::Degraded));
}

#[test]
fn every_composite_tool_that_is_left_out_is_named() {
    let mut world = World::new("{config: {compositeToolRefs: [{name: one}, {name: two}]}}").pod(all_well());
    let status = world.status();
    let refs = condition(&status, "CompositeToolRefsValidated");
    assert_eq!((refs.status.as_str(), refs.reason.as_str()), ("False", "CompositeToolRefNotFound"));
    assert!(refs.message.contains("Definition one ") && refs.message.contains("Definition two "), "{refs:?}");
    assert_eq!(condition(&status, "Degraded").reason, "CompositeToolRefNotFound");
    assert_eq!(condition(&status, "Ready").status, "True");
    for name in ["one", "two"] {
        let text =
            format!("metadata: {{name: {name}}}\nspec: {{name: {name}, steps: [{{id: a, tool: x.y}}]}}");
        world.references.composite_tools.insert(name.to_owned(), Arc::new(yaml(&text)));
    }
    let status = world.status();
    assert_eq!(condition(&status, "CompositeToolRefsValidated").reason, "CompositeToolRefsValid");
    assert_eq!(condition(&status, "Degraded").status, "False");
}

#[test]
fn an_api_that_the_cluster_lacks_degrades() {
    let mut world = World::new("{serviceMonitor: {enabled: true}}").pod(all_well());
    world.applied.missing.push(ChildKind::ServiceMonitor);
    let status = world.status();
    assert!(condition(&status, "Degraded").message.contains("set `serviceMonitors.enabled` of its chart"));
}

#[test]
fn what_cannot_be_written_degrades_a_server_that_serves() {
    let taken = || ApplyError::NameTaken {
        kind: ChildKind::PodDisruptionBudget,
        name: "x-vmcp".to_owned(),
        owner: "no owner that this operator knows".to_owned(),
    };
    let of = |world: &World, kind: &str| {
        let conditions = world.status().conditions.into_iter();
        let found = conditions.into_iter().find(|condition| condition.type_ == kind).expect("the condition");
        (found.status, found.reason)
    };
    let mut serving = World::new("{}").pod(json!({}));
    serving.applied.failed = Some(taken());
    assert_eq!(of(&serving, "Ready").0, "True");
    assert_eq!(of(&serving, "Degraded"), ("True".to_owned(), "NameTaken".to_owned()));
    assert!(serving.status().message.is_some_and(|message| message.contains("PodDisruptionBudget x-vmcp")));

    let mut starting = World::new("{}");
    starting.applied.failed = Some(taken());
    assert_eq!(of(&starting, "Ready"), ("False".to_owned(), "NameTaken".to_owned()));
    assert_eq!(starting.status().phase, Some(Phase::Failed));
}

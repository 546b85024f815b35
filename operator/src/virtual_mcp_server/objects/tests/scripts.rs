//! Scripts as Jobs: their right, token and isolation.

use super::*;

#[test]
fn scripts_as_jobs_take_a_right_a_token_and_an_isolation() {
    let names = |objects: &[(String, Value)]| -> Vec<String> {
        objects.iter().map(|(name, _)| name.clone()).filter(|name| name.ends_with("-scripts")).collect()
    };
    let token = |objects: &[(String, Value)]| {
        let deployment = objects.iter().find(|(name, _)| name == "Deployment/x").expect("a Deployment");
        deployment.1["spec"]["template"]["spec"]["automountServiceAccountToken"].clone()
    };
    let without = built_with_jobs("{}");
    assert_eq!((names(&without).len(), token(&without)), (0, json!(false)));
    let objects = built_with_jobs("{config: {code: {engine: job}}}");
    assert_eq!(names(&objects), ["NetworkPolicy/x-vmcp-scripts", "RoleBinding/x-vmcp-scripts"]);
    assert_eq!(objects.first().expect("objects").0, "NetworkPolicy/x-vmcp-scripts", "before the pods");
    assert_eq!(token(&objects), true);
    let binding = &objects.iter().find(|(name, _)| name == "RoleBinding/x-vmcp-scripts").expect("one").1;
    assert_eq!(binding["roleRef"]["kind"], "ClusterRole");
    assert_eq!(
        binding["subjects"],
        json!([{ "kind": "ServiceAccount", "name": "x-vmcp", "namespace": "n" }])
    );
    let policy = &objects.iter().find(|(name, _)| name == "NetworkPolicy/x-vmcp-scripts").expect("one").1;
    let pods = json!({ "app.kubernetes.io/name": "vmcp-script", "app.kubernetes.io/instance": "x" });
    assert_eq!(policy["spec"]["podSelector"]["matchLabels"], pods);
    assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(policy["spec"].get("egress"), None);
    let server = &policy["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"];
    assert_eq!(
        (&server["app.kubernetes.io/name"], &server["app.kubernetes.io/instance"]),
        (&json!("vmcp"), &json!("x"))
    );
}

#[test]
fn scripts_as_jobs_take_a_word_of_the_installation() {
    let plan = plan("{config: {code: {engine: job}}}", &references());
    let refused = plan.configuration.as_ref().expect_err("refused");
    assert_eq!(refused.reason, "ScriptJobsDisabled");
    let objects = built("{config: {code: {engine: worker}}}");
    assert!(objects.iter().all(|(name, _)| !name.ends_with("-scripts")), "{objects:?}");
}

#[test]
fn an_account_of_the_resource_gets_no_right_to_make_jobs() {
    let (settings, references) = (settings_with_jobs(), references());
    let own = server("{serviceAccount: own, config: {code: {engine: job}}}");
    let plan = validate(&own, &references, PolicyCheck(&vmcp_access::policy::findings), &settings);
    let refused = plan.configuration.as_ref().expect_err("refused");
    assert_eq!(refused.reason, "ScriptJobsServiceAccount");
    let valid = plan.server.as_ref().expect("valid");
    let order = order(valid, &plan, None, Uptake::InForce, &CurrentExposure::default());
    let children = build(&order, &plan, &references, &RunningWorkload::default(), &settings).children;
    let of_scripts = children.iter().filter(|child| child.name() == "x-vmcp-scripts").map(Child::kind);
    assert_eq!(
        of_scripts.collect::<Vec<_>>(),
        [ChildKind::NetworkPolicy],
        "scripts of old pods stay isolated"
    );
}

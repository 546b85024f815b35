//! Rights of servers whose clients may add servers.

use super::*;

const TOOLS: &str = "tools: [find_tool, call_tool, add_mcp_server, remove_mcp_server]";

fn settings_with_admin() -> BuildSettings {
    BuildSettings {
        server_admin_role: Some("Role/vmcp-operator-server-admin".parse().expect("a role")),
        ..settings()
    }
}

/// Returns the plan of a server with this block `optimizer`, and its objects.
fn built_with(settings: &BuildSettings, spec: &str) -> (Plan, Vec<(String, Value)>) {
    let references = references();
    let plan = validate(&server(spec), &references, PolicyCheck(&vmcp_access::policy::findings), settings);
    let valid = plan.server.as_ref().expect("valid");
    let order = order(valid, &plan, None, Uptake::InForce, &CurrentExposure::default());
    let desired = build(&order, &plan, &references, &RunningWorkload::default(), settings);
    let named = |child: &Child| {
        let object = serde_json::to_value(child.object()).expect("JSON");
        (format!("{}/{}", child.kind().as_str(), child.name()), object)
    };
    let objects = desired.children.iter().map(named).collect();
    (plan, objects)
}

fn bindings(objects: &[(String, Value)]) -> Vec<&str> {
    let bindings = objects.iter().map(|(name, _)| name.as_str());
    bindings.filter(|name| name.starts_with("RoleBinding/")).collect()
}

/// Returns the specification of the pods.
fn pod(objects: &[(String, Value)]) -> Value {
    let deployment = objects.iter().find(|(name, _)| name == "Deployment/x").expect("a Deployment");
    deployment.1["spec"]["template"]["spec"].clone()
}

fn variable(pod: &Value, name: &str) -> Option<String> {
    let variables = pod["containers"][0]["env"].as_array().expect("variables");
    let found = variables.iter().find(|variable| variable["name"] == name)?;
    let field = found["valueFrom"]["fieldRef"]["fieldPath"].as_str();
    found["value"].as_str().or(field).map(str::to_owned)
}

#[test]
fn without_the_tools_there_is_neither_a_right_nor_a_token() {
    let (_, objects) = built_with(&settings_with_admin(), "{optimizer: {enabled: true}}");
    assert_eq!(
        (bindings(&objects).len(), &pod(&objects)["automountServiceAccountToken"]),
        (0, &json!(false))
    );
    assert_eq!(variable(&pod(&objects), "VMCP_ADDED_SERVERS_OF"), None);
    // Installing a server of a registry adds it.
    let (_, objects) = built_with(
        &settings_with_admin(),
        "{optimizer: {enabled: true, tools: [find_tool, install_server]}}",
    );
    assert_eq!(bindings(&objects), ["RoleBinding/x-vmcp-servers"]);
    // An optimizer that is off offers no tool.
    let off = format!("{{optimizer: {{enabled: false, {TOOLS}}}}}");
    let (_, objects) = built_with(&settings_with_admin(), &off);
    assert_eq!(bindings(&objects).len(), 0);
}

#[test]
fn the_tools_take_a_right_of_this_server_and_its_token() {
    let spec = format!("{{groupRef: {{name: g}}, optimizer: {{enabled: true, {TOOLS}}}}}");
    let (plan, objects) = built_with(&settings_with_admin(), &spec);
    assert!(plan.configuration.is_ok(), "{:?}", plan.configuration.err());
    assert_eq!(bindings(&objects), ["RoleBinding/x-vmcp-servers"], "programs take a rule with an image");
    let binding = &objects.iter().find(|(name, _)| name == "RoleBinding/x-vmcp-servers").expect("one").1;
    assert_eq!(binding["roleRef"]["name"], "vmcp-operator-server-admin");
    let account = json!([{ "kind": "ServiceAccount", "name": "x-vmcp", "namespace": "n" }]);
    assert_eq!(binding["subjects"], account);
    let pod = pod(&objects);
    assert_eq!(pod["automountServiceAccountToken"], true);
    for (name, value) in [
        ("VMCP_ADDED_SERVERS_OF", Some("x")),
        ("VMCP_ADDED_SERVERS_OWNER", Some("u")),
        ("VMCP_ADDED_SERVERS_API", Some("toolhive.stacklok.com/v1alpha1")),
        ("VMCP_ADDED_SERVERS_GROUP", Some("g")),
        ("VMCP_POD_NAMESPACE", Some("metadata.namespace")),
        ("VMCP_ADDED_SERVERS_PROGRAMS", None),
    ] {
        assert_eq!(variable(&pod, name).as_deref(), value, "{name}");
    }
}

#[test]
fn a_rule_with_an_image_takes_the_right_to_programs_too() {
    let rules = "admin: {allow: [{command: [npx, -y, '@acme/*'], image: 'node:22'}]}";
    let spec = format!("{{optimizer: {{enabled: true, {TOOLS}, {rules}}}}}");
    let (plan, objects) = built_with(&settings_with_admin(), &spec);
    let configuration = plan.configuration.as_ref().expect("a configuration");
    assert!(configuration.lowered.text.contains("node:22"), "{}", configuration.lowered.text);
    assert_eq!(bindings(&objects), ["RoleBinding/x-vmcp-servers", "RoleBinding/x-vmcp-programs"]);
    let role = &objects.iter().find(|(name, _)| name == "RoleBinding/x-vmcp-programs").expect("one").1;
    assert_eq!(role["roleRef"]["name"], "vmcp-operator-server-admin-programs");
    assert_eq!(variable(&pod(&objects), "VMCP_ADDED_SERVERS_PROGRAMS").as_deref(), Some("true"));
}

#[test]
fn the_tools_take_a_word_of_the_installation_and_an_account_of_the_operator() {
    let spec = format!("optimizer: {{enabled: true, {TOOLS}}}");
    let own = format!("serviceAccount: own, {spec}");
    for (settings, spec, reason) in [
        (settings(), &spec, "ServerAdminDisabled"),
        (settings_with_admin(), &own, "ServerAdminServiceAccount"),
    ] {
        let (plan, objects) = built_with(&settings, &format!("{{{spec}}}"));
        let refused = plan.configuration.as_ref().expect_err("refused");
        assert_eq!(refused.reason, reason);
        assert_eq!(bindings(&objects), Vec::<&str>::new());
    }
}

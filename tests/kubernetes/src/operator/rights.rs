//! The rights of an operator beside a test: those that the chart grants with `scope: namespace`, so that a
//! missing right fails every scenario that needs it.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::{Namespace, repository};

/// The name of the release in the chart's templates.
const RELEASE: &str = "{{ include \"vmcp-operator.name\" . }}";
/// Name of the first role of [`server_admin_roles`].
pub const SERVER_ADMIN_ROLE: &str = "vmcp-operator-server-admin";
/// Name of [`script_jobs_role`].
pub const SCRIPT_JOBS_ROLE: &str = "vmcp-operator-script-jobs";

/// Gives the user of an operator the chart's rights in `namespaces`, and those of the leader election in its
/// own; returns a kubeconfig that acts as this user. `is_on` tells which of the chart's optional rights are
/// granted, by the name of the variable.
pub(super) async fn confine(place: &Namespace, namespaces: &[&str], is_on: impl Fn(&str) -> bool) -> PathBuf {
    let user = format!("vmcp-operator:{}", place.name);
    let mut rules = chart_rules("rules", is_on("SERVE_TOOLHIVE_GROUP"));
    for (variable, block) in [
        ("ENABLE_SERVICE_MONITORS", "rules.serviceMonitors"),
        ("ENABLE_HTTP_ROUTES", "rules.httpRoutes"),
        ("SCRIPT_JOBS_ROLE", "rules.scriptJobs"),
        ("SERVER_ADMIN_ROLE", "rules.serverAdmin"),
    ] {
        if is_on(variable) {
            rules.extend(chart_rules(block, false));
        }
    }
    let leases = json!({ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "update", "create"] });
    for namespace in namespaces {
        grant(place, namespace, "vmcp-operator", &user, &json!(rules)).await;
    }
    grant(place, &place.name, "vmcp-operator-leader", &user, &json!([leases])).await;

    let admin = std::fs::read_to_string(place.cluster().kubeconfig()).expect("the kubeconfig");
    let mut config: Value = serde_saphyr::from_str(&admin).expect("a kubeconfig");
    if let Some(admin) = config.pointer_mut("/users/0/user").and_then(Value::as_object_mut) {
        admin.insert("as".to_owned(), user.into());
        // As a ServiceAccount, which may read the keys of its issuer.
        admin.insert("as-groups".to_owned(), json!(["system:serviceaccounts"]));
    }
    let file = place.cluster().kubeconfig().with_file_name(format!("{}.kubeconfig", place.name));
    std::fs::write(&file, config.to_string()).expect("the kubeconfig of the operator");
    file
}

async fn grant(place: &Namespace, namespace: &str, role: &str, user: &str, rules: &Value) {
    let api_version = "rbac.authorization.k8s.io/v1";
    let objects = [
        json!({ "apiVersion": api_version, "kind": "Role", "metadata": { "name": role }, "rules": rules }),
        json!({
            "apiVersion": api_version, "kind": "RoleBinding", "metadata": { "name": role },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
        }),
    ];
    for object in objects {
        place.cluster().apply(&object.to_string(), namespace).await.expect("the rights of the operator");
    }
}

/// Returns the role of servers whose scripts run as Jobs, as the chart has it.
pub fn script_jobs_role() -> Value {
    role(SCRIPT_JOBS_ROLE, "scriptJobs")
}

/// Returns the roles of servers whose clients add servers, and programs, as the chart has them.
pub fn server_admin_roles() -> [Value; 2] {
    let programs = format!("{SERVER_ADMIN_ROLE}-programs");
    [role(SERVER_ADMIN_ROLE, "serverAdmin"), role(&programs, "serverAdminPrograms")]
}

fn role(name: &str, block: &str) -> Value {
    let (metadata, rules) = (json!({ "name": name }), chart_rules(block, false));
    json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": rules })
}

/// Reads a block of rules from the chart's template.
fn chart_rules(block: &str, in_toolhive_group: bool) -> Vec<Value> {
    let template = repository().join("charts/vmcp-operator/templates/_rules.tpl");
    let template = std::fs::read_to_string(template).expect("the rules of the chart");
    let (_, rules) = template.split_once(&format!("\"vmcp-operator.{block}\" -}}}}")).expect("the block");
    let (rules, _) = rules.split_once("{{- end }}").expect("the end of the block");
    let group = "[toolhive.stacklok.com]";
    let groups = if in_toolhive_group { "[toolhive.stacklok.com, toolhive.stacklok.dev]" } else { group };
    let rules = rules.replace(group, groups).replace(RELEASE, "vmcp-operator");
    serde_saphyr::from_str(&rules).expect("rules")
}

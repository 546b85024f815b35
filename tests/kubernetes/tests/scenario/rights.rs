//! Rights of users, as the API server's authorizer sees them.

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use vmcp_kubernetes_tests::{Namespace, chart, skipped};

/// Installs a template of the chart with its roles, and binds roles to the account of `x`; each of `bindings`
/// has its name and the name of its role. Returns false, and says so, without helm. The policies in it are of
/// the cluster, and name their servers by a mark.
pub(super) async fn install_part(
    place: &Namespace,
    value: &str,
    template: &str,
    bindings: &[(&str, &str)],
) -> bool {
    let cluster = place.cluster();
    if let Err(missing) = cluster.helm(&["version"]).await {
        skipped(&format!("there is no helm ({missing})"));
        return false;
    }
    let (chart, namespace) = (chart(), place.name.as_str());
    let namespaces = format!("namespaces={{{namespace}}}");
    let template = format!("templates/{template}");
    let release = ["template", "vmcp", chart.as_str(), "--kube-version", "1.34", "--namespace", namespace];
    let values = ["--set", value, "--set", "scope=namespace", "--set", namespaces.as_str()];
    let arguments = [&release[..], &values[..], &["--show-only", template.as_str()][..]].concat();
    let rendered = cluster.helm(&arguments).await.expect("a rendered template");
    place.apply(&rendered).await;
    for (name, role) in bindings {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role },
            "subjects": [{ "kind": "ServiceAccount", "name": "x-vmcp", "namespace": namespace }],
        });
        place.apply(&binding.to_string()).await;
    }
    true
}

/// Waits until a user may do this, or no longer may: the authorizer learns of a binding a moment after it is
/// made.
pub(super) async fn await_right(
    place: &Namespace,
    user: &str,
    (verb, group, resource): (&str, &str, &str),
    right: bool,
) {
    let what = format!("{user} to be {} {verb} {resource}", if right { "allowed to" } else { "refused to" });
    place
        .eventually(&what, async || {
            (may(place, user, verb, group, resource, &place.name).await == right).then_some(())
        })
        .await;
}

/// Returns true if a user may do this in a namespace.
pub(super) async fn may(
    place: &Namespace,
    user: &str,
    verb: &str,
    group: &str,
    resource: &str,
    namespace: &str,
) -> bool {
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user.to_owned()),
            resource_attributes: Some(ResourceAttributes {
                verb: Some(verb.to_owned()),
                group: Some(group.to_owned()),
                resource: Some(resource.to_owned()),
                namespace: Some(namespace.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(place.client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await.expect("an answer");
    answer.status.expect("a status").allowed
}

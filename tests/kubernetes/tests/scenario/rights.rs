//! Rights of users, as the API server's authorizer sees them.

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::Api;
use kube::api::PostParams;
use vmcp_kubernetes_tests::Namespace;

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

//! Fields of ToolHive in a resource that nothing follows: a problem for each field that refuses the resource,
//! and the condition `FieldsPending` for the other fields.

use kube::core::object::HasSpec;
use serde::Serialize;
use vmcp_crds::Problem;
use vmcp_crds::fields::pending;

use super::Conditions;
use crate::runtime::watch::{CustomResource, kind_of};

/// Returns a problem for each field that refuses the resource.
pub(crate) fn unfollowed<K>(object: &K) -> Vec<Problem>
where
    K: CustomResource + HasSpec,
    K::Spec: Serialize,
{
    pending::problems(kind_of::<K>(), &spec_of(object), object.meta().annotations.as_ref())
}

/// Returns true if the resource names a guard that nothing follows: such a resource is never `Ready`.
pub(crate) fn lacks_a_guard<K>(object: &K) -> bool
where
    K: CustomResource + HasSpec,
    K::Spec: Serialize,
{
    pending::lacks_a_guard(kind_of::<K>(), &spec_of(object))
}

/// Sets `FieldsPending` if the resource has fields that are ignored, so that their authors learn of the
/// missing effect.
pub(crate) fn set_pending<K>(conditions: &mut Conditions, object: &K)
where
    K: CustomResource + HasSpec,
    K::Spec: Serialize,
{
    let ignored = pending::ignored(kind_of::<K>(), &spec_of(object), object.meta().annotations.as_ref());
    if ignored.is_empty() {
        return;
    }
    let named = ignored.iter().map(|field| format!("spec.{} ({})", field.path, field.hint()));
    let message = format!("accepted and not followed: {}", named.collect::<Vec<_>>().join(", "));
    conditions.set("FieldsPending", true, "CapabilityPending", message);
}

/// Returns the spec as JSON. A spec that was parsed from JSON always serializes.
fn spec_of<K>(object: &K) -> serde_json::Value
where
    K: HasSpec,
    K::Spec: Serialize,
{
    serde_json::to_value(object.spec()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use vmcp_crds::{MCPRemoteProxy, MCPServer};

    use super::*;

    fn server(annotations: &str, spec: &str) -> MCPServer {
        let text = format!(
            "{{apiVersion: toolhive.stacklok.com/v1alpha1, kind: MCPServer, \
             metadata: {{name: x, annotations: {annotations}}}, spec: {spec}}}"
        );
        serde_saphyr::from_str(&text).expect("a server")
    }

    fn pending_of(server: &MCPServer) -> Option<String> {
        let mut conditions = Conditions::new(&[], 1);
        set_pending(&mut conditions, server);
        let condition = conditions.finish().pop()?;
        assert_eq!((condition.type_.as_str(), condition.status.as_str()), ("FieldsPending", "True"));
        Some(condition.message)
    }

    #[test]
    fn fields_without_an_effect_are_refused_or_named() {
        let spec = "{image: i, endpointPrefix: /a, proxyMode: sse}";
        let refused = server("{}", spec);
        let paths: Vec<_> = unfollowed(&refused).into_iter().map(|problem| problem.path).collect();
        assert_eq!(paths, ["spec.endpointPrefix", "spec.proxyMode"]);
        assert_eq!(pending_of(&refused), None);

        let ignoring = server("{toolhive.stacklok.com/unfollowed-fields: ignore}", spec);
        assert!(unfollowed(&ignoring).is_empty());
        let message = pending_of(&ignoring).expect("a condition");
        assert!(message.starts_with("accepted and not followed: spec.endpointPrefix (waits for a path"));
        assert!(message.contains("spec.proxyMode (in its place: the bridge"), "{message}");
    }

    #[test]
    fn no_annotation_ignores_a_guard() {
        let proxy = |spec: &str| -> MCPRemoteProxy {
            let text = format!(
                "{{apiVersion: toolhive.stacklok.com/v1alpha1, kind: MCPRemoteProxy, metadata: {{name: x, \
                 annotations: {{toolhive.stacklok.com/unfollowed-fields: ignore}}}}, spec: {spec}}}"
            );
            serde_saphyr::from_str(&text).expect("a proxy")
        };
        let guarded = proxy("{remoteUrl: 'https://a.example/mcp', oidcConfigRef: {name: idp, audience: a}}");
        assert_eq!(unfollowed(&guarded).len(), 1);
        assert!(lacks_a_guard(&guarded));
        assert!(!lacks_a_guard(&proxy("{remoteUrl: 'https://a.example/mcp', endpointPrefix: /a}")));
    }
}

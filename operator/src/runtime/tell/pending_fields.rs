//! The condition `FieldsPending`: fields of ToolHive that a resource has and that nothing follows yet.

use kube::core::object::HasSpec;
use serde::Serialize;
use vmcp_crds::fields::pending;

use super::Conditions;
use crate::runtime::watch::{CustomResource, kind_of};

/// Sets `FieldsPending` if the resource has such fields, so that their authors learn of the missing effect.
pub(crate) fn set_pending<K>(conditions: &mut Conditions, object: &K)
where
    K: CustomResource + HasSpec,
    K::Spec: Serialize,
{
    let spec = serde_json::to_value(object.spec()).unwrap_or_default();
    let given = pending::given(kind_of::<K>(), &spec);
    if given.is_empty() {
        return;
    }
    let named = given.iter().map(|field| format!("spec.{} ({})", field.path, field.capability));
    let message = format!("accepted and not followed: {}", named.collect::<Vec<_>>().join(", "));
    conditions.set("FieldsPending", true, "CapabilityPending", message);
}

#[cfg(test)]
mod tests {
    use vmcp_crds::MCPServer;

    use super::*;

    #[test]
    fn what_is_not_followed_is_named() {
        let server: MCPServer = serde_saphyr::from_str(
            "{apiVersion: toolhive.stacklok.com/v1alpha1, kind: MCPServer, metadata: {name: x}, \
             spec: {image: i, endpointPrefix: /a, proxyMode: sse}}",
        )
        .expect("a server");
        let mut conditions = Conditions::new(&[], 1);
        set_pending(&mut conditions, &server);
        let pending = conditions.finish().pop().expect("a condition");
        assert_eq!((pending.type_.as_str(), pending.status.as_str()), ("FieldsPending", "True"));
        assert!(pending.message.starts_with("accepted and not followed: spec.endpointPrefix (a path"));
        assert!(pending.message.contains("spec.proxyMode"), "{}", pending.message);
    }
}

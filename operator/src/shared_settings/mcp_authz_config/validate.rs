//! Step 1 of a reconcile, validate: checks the policies. Pure.
//!
//! The validator of `vmcp.yaml` itself decides, on a file that holds nothing else.

use serde_json::json;
use vmcp_crds::lower::{PolicyCheck, ReferencedObjects};
use vmcp_crds::{Invalid, MCPAuthzConfig, VirtualMCPServer, VirtualMCPServerSpec};

/// Checks the policies; an error tells the place of the mistake and the remedy.
pub(super) fn validate(config: &MCPAuthzConfig, policies: PolicyCheck<'_>) -> Result<(), String> {
    let around = ReferencedObjects { authz: Some(&config.spec), policies, ..ReferencedObjects::default() };
    let mut spec = VirtualMCPServerSpec::default();
    spec.incoming_auth.insert("authzConfigRef".to_owned(), json!({ "name": "any" }));
    // An otherwise empty VirtualMCPServer: every problem that is found lies in the policies.
    let validated = VirtualMCPServer::new("any", spec).validate().and_then(|server| server.lower(&around));
    let Err(Invalid(problems)) = validated else { return Ok(()) };
    let messages = problems.into_iter().map(|problem| {
        let text = problem.to_string();
        text.strip_prefix("MCPAuthzConfig any: ").unwrap_or(&text).to_owned()
    });
    Err(messages.collect::<Vec<_>>().join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validated(kind: &str, policies: &[&str]) -> Result<(), String> {
        let config = json!({
            "apiVersion": "toolhive.stacklok.com/v1alpha1", "kind": "MCPAuthzConfig",
            "metadata": { "name": "policies", "namespace": "tools" },
            "spec": { "type": kind, "config": { "policies": policies, "entities_json": "[]" } },
        });
        let check = PolicyCheck(&vmcp_access::policy::findings);
        validate(&serde_json::from_value(config).unwrap(), check)
    }

    #[test]
    fn a_mistake_is_told_with_its_line_and_column() {
        let all = "permit(principal, action, resource);";
        assert_eq!(validated("cedarv1", &[all]), Ok(()));
        let message = validated("cedarv1", &[all, "permit(principal,\n action resource);"]).unwrap_err();
        assert!(message.starts_with("spec.config.policies[1]: line 2, column "), "{message}");
        assert!(validated("httpv1", &[all]).unwrap_err().starts_with("spec.type: "));
        assert!(validated("cedarv1", &[]).unwrap_err().contains("there are none"));
    }
}

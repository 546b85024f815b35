//! Step 3 of a reconcile, status: the status of an MCPWebhookConfig: its hash, the resources that refer to
//! it, and one condition, `Valid`.

use kube::ResourceExt as _;
use vmcp_crds::{MCPServer, MCPWebhookConfig, MCPWebhookConfigStatus, VirtualMCPServer};

use super::validate::WebhookConfigFault;
use crate::runtime::{Conditions, set_valid};

/// Most resources that the status lists: a status has to fit into an object of 1.5 MiB.
const MAX_LISTED: usize = 256;

/// Computes the status from the result of the validation; `referenced_by` is the list of
/// [`referencing_resources`].
pub(super) fn compute(
    config: &MCPWebhookConfig,
    validated: Result<(), WebhookConfigFault>,
    referenced_by: Vec<String>,
) -> MCPWebhookConfigStatus {
    let before = config.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let generation = config.metadata.generation.unwrap_or_default();
    let mut conditions = Conditions::new(before, generation);
    let mistake = validated.err().map(|fault| match fault {
        WebhookConfigFault::Forbidden(message) => ("AuthorUnchecked", message),
        WebhookConfigFault::SecretMissing(message) => ("SecretNotFound", message),
        WebhookConfigFault::Invalid(message) => ("ConfigInvalid", message),
    });
    set_valid(&mut conditions, "the webhooks are valid", mistake);
    MCPWebhookConfigStatus {
        observed_generation: Some(generation),
        config_hash: Some(config.spec.hash()),
        referenced_by,
        conditions: conditions.finish(),
    }
}

/// Returns the resources of a namespace that refer to a configuration, as `KIND/NAME`; at most
/// [`MAX_LISTED`].
pub(super) fn referencing_resources<'a>(
    config: &str,
    servers: impl IntoIterator<Item = &'a MCPServer>,
    virtual_servers: impl IntoIterator<Item = &'a VirtualMCPServer>,
) -> Vec<String> {
    let servers = servers.into_iter().filter_map(|server| {
        let reference = server.spec.webhook_config_ref.as_ref()?;
        (reference.name == config).then(|| format!("MCPServer/{}", server.name_any()))
    });
    let virtual_servers = virtual_servers.into_iter().filter_map(|server| {
        let reference = server.spec.webhook_config_ref.as_ref()?;
        (reference.name == config).then(|| format!("VirtualMCPServer/{}", server.name_any()))
    });
    let mut found: Vec<String> = servers.chain(virtual_servers).collect();
    found.sort_unstable();
    found.truncate(MAX_LISTED);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_names_the_fault_and_the_resources_that_refer_to_it() {
        let yaml = |kind: &str, name: &str, config: &str| {
            format!(
                "{{apiVersion: toolhive.stacklok.com/v1alpha1, kind: {kind}, metadata: {{name: {name}}}, \
                 spec: {{image: i, webhookConfigRef: {{name: {config}}}}}}}"
            )
        };
        let server = |name: &str, config: &str| {
            serde_saphyr::from_str::<MCPServer>(&yaml("MCPServer", name, config)).unwrap()
        };
        let servers = [server("b", "guards"), server("a", "guards"), server("c", "others")];
        let virtual_server =
            serde_saphyr::from_str::<VirtualMCPServer>(&yaml("VirtualMCPServer", "v", "guards")).unwrap();
        let referenced_by = referencing_resources("guards", &servers, [&virtual_server]);
        assert_eq!(referenced_by, ["MCPServer/a", "MCPServer/b", "VirtualMCPServer/v"]);
        let many: Vec<MCPServer> = (0..300).map(|number| server(&format!("s{number}"), "guards")).collect();
        assert_eq!(referencing_resources("guards", &many, []).len(), MAX_LISTED);

        for (fault, reason) in [
            (WebhookConfigFault::Forbidden("f".to_owned()), "AuthorUnchecked"),
            (WebhookConfigFault::SecretMissing("s".to_owned()), "SecretNotFound"),
            (WebhookConfigFault::Invalid("i".to_owned()), "ConfigInvalid"),
        ] {
            let status = compute(&MCPWebhookConfig::default(), Err(fault), referenced_by.clone());
            let valid = status.conditions.iter().find(|condition| condition.type_ == "Valid");
            let found = valid.map(|valid| (valid.status.as_str(), valid.reason.as_str()));
            assert_eq!(found, Some(("False", reason)));
            assert_eq!(status.referenced_by, referenced_by);
        }
        let status = compute(&MCPWebhookConfig::default(), Ok(()), Vec::new());
        let [valid] = &status.conditions[..] else { panic!("{status:?}") };
        assert_eq!((valid.type_.as_str(), valid.status.as_str()), ("Valid", "True"));
    }
}

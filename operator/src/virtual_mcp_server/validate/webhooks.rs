//! Webhooks of the server and of its backends, from MCPWebhookConfigs.

use std::collections::BTreeMap;

use vmcp_config::MAX_WEBHOOKS;
use vmcp_crds::lower::{Backend, ReferencedWebhooks, WebhookScope};
use vmcp_crds::{MCPWebhookConfigSpec, VirtualMCPServer};

use super::ConfigurationRefusal;
use crate::runtime::BuildSettings;
use crate::shared_settings::mcp_webhook_config::{self, WebhookConfigFault};
use crate::virtual_mcp_server::dereference::{References, webhook_configs_of};

/// The most bytes that webhooks may add to a VirtualMCPServer's configuration, 256 KiB; an MCPWebhookConfig
/// that exceeds them is not followed. One of 1 MiB would make the whole configuration too large.
const MAX_WEBHOOK_BYTES: usize = 256 << 10;
/// Bytes of an item of a list in YAML besides its text: indentation, dash, quotes and end of the line.
const LIST_ITEM_BYTES: usize = 12;

/// The webhooks that can be configured, and the references that cannot be followed.
#[derive(Debug, Default)]
pub(super) struct ResolvedWebhooks {
    /// Webhooks of the server, then of its backends by the name of the configuration.
    pub(super) webhooks: Vec<ReferencedWebhooks>,
    /// The fault of the server's own reference: its configuration is not mounted.
    pub(super) refusal: Option<ConfigurationRefusal>,
    /// The fault of each reference.
    pub(super) problems: Vec<WebhookConfigProblem>,
}

/// A reference to an MCPWebhookConfig that cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WebhookConfigProblem {
    /// The reason of the condition `WebhookConfigRefsValidated`.
    pub reason: &'static str,
    /// The cause and the remedy.
    pub message: String,
}

/// Size of the webhooks that are followed.
#[derive(Debug, Default)]
struct WebhookSums {
    /// Number of webhooks, by kind.
    counts: BTreeMap<&'static str, usize>,
    /// Bytes of their settings in the configuration, about.
    bytes: usize,
}

/// Resolves the MCPWebhookConfigs of the server and its backends. A backend whose MCPWebhookConfig is
/// missing, wrong, or one too many is not called: calls that its webhooks would deny would go on.
pub(super) fn resolve(
    server: &VirtualMCPServer,
    references: &References,
    settings: &BuildSettings,
    backends: &mut [Backend],
    unusable: &mut BTreeMap<String, String>,
) -> ResolvedWebhooks {
    let namespace = server.metadata.namespace.as_deref().unwrap_or_default();
    let mut resolved = ResolvedWebhooks::default();
    let mut sums = WebhookSums::default();
    for (name, scope) in webhook_configs_of(server, references) {
        // A backend may be left out by its own name; without a backend no call is asked about.
        let scope = match scope {
            WebhookScope::All => WebhookScope::All,
            WebhookScope::Backends(mut named) => {
                named.retain(|name| backends.iter().any(|backend| backend.name == *name));
                if named.is_empty() {
                    continue;
                }
                WebhookScope::Backends(named)
            }
        };
        let usable = usable(&name, references, namespace, settings)
            .and_then(|spec| count(&name, &spec, &scope, &mut sums).map(|()| spec));
        match (usable, scope) {
            (Ok(spec), scope) => resolved.webhooks.push(ReferencedWebhooks { name, spec, scope }),
            (Err(problem), WebhookScope::All) => {
                let WebhookConfigProblem { reason, message } = problem.clone();
                resolved.refusal = Some(ConfigurationRefusal { reason, message });
                resolved.problems.push(problem);
            }
            (Err(problem), WebhookScope::Backends(named)) => {
                for backend in backends.iter_mut().filter(|backend| named.contains(&backend.name)) {
                    backend.enabled = false;
                    unusable.entry(backend.name.clone()).or_insert_with(|| problem.message.clone());
                }
                resolved.problems.push(problem);
            }
        }
    }
    resolved
}

/// Returns the settings of an MCPWebhookConfig that exists and is valid.
fn usable(
    name: &str,
    references: &References,
    namespace: &str,
    settings: &BuildSettings,
) -> Result<MCPWebhookConfigSpec, WebhookConfigProblem> {
    let Some(config) = references.webhook_configs.get(name) else {
        return Err(WebhookConfigProblem {
            reason: "WebhookConfigRefNotFound",
            message: format!(
                "there is no MCPWebhookConfig {name} that can be read in this namespace; create it, or correct the \
                 webhookConfigRef"
            ),
        });
    };
    let checked = mcp_webhook_config::validate(&config.spec, namespace, &references.secrets, settings);
    checked.map(|()| config.spec.clone()).map_err(|fault| WebhookConfigProblem {
        reason: match fault {
            WebhookConfigFault::Forbidden(_) => "WebhookConfigRefForbidden",
            WebhookConfigFault::SecretMissing(_) | WebhookConfigFault::Invalid(_) => {
                "WebhookConfigRefNotValid"
            }
        },
        message: format!("MCPWebhookConfig {name}: {}", fault.message()),
    })
}

/// Counts the webhooks of a configuration, by kind, and their bytes. Refuses a configuration with which there
/// would be too many of a kind, or too many bytes: `vmcp.yaml` would be refused as a whole.
fn count(
    name: &str,
    spec: &MCPWebhookConfigSpec,
    scope: &WebhookScope,
    sums: &mut WebhookSums,
) -> Result<(), WebhookConfigProblem> {
    let counts = spec
        .kinds()
        .map(|(kind, webhooks)| (kind, sums.counts.get(kind).copied().unwrap_or_default() + webhooks.len()));
    if let Some((kind, sum)) = counts.into_iter().find(|(_, sum)| *sum > MAX_WEBHOOKS) {
        let message = format!(
            "MCPWebhookConfig {name}: with its webhooks there would be {sum} of the kind `{kind}`, and a VirtualMCPServer \
             asks at most {MAX_WEBHOOKS} of a kind; let one webhook mean the tools of several servers, or divide the \
             servers among several VirtualMCPServers, by spec.groupRef"
        );
        return Err(WebhookConfigProblem { reason: "TooManyWebhooks", message });
    }
    let bytes = sums.bytes + bytes_of(name, spec, scope);
    if bytes > MAX_WEBHOOK_BYTES {
        let message = format!(
            "MCPWebhookConfig {name}: with its webhooks there would be {} KiB of them, and a VirtualMCPServer takes at \
             most {} KiB; name several tools by one pattern with `*`, or divide the servers among several \
             VirtualMCPServers, by spec.groupRef",
            bytes >> 10,
            MAX_WEBHOOK_BYTES >> 10
        );
        return Err(WebhookConfigProblem { reason: "TooManyWebhooks", message });
    }
    sums.bytes = bytes;
    sums.counts.extend(counts);
    Ok(())
}

/// Returns about the bytes of a configuration's webhooks in `vmcp.yaml`. Each webhook repeats the name of the
/// configuration and those of all backends.
fn bytes_of(name: &str, spec: &MCPWebhookConfigSpec, scope: &WebhookScope) -> usize {
    let backends: usize = match scope {
        WebhookScope::All => 0,
        WebhookScope::Backends(named) => named.iter().map(|backend| backend.len() + LIST_ITEM_BYTES).sum(),
    };
    let webhooks = spec.kinds().into_iter().flat_map(|(_, webhooks)| webhooks);
    let repeated = webhooks.map(|webhook| {
        let items = webhook.tools.len() + webhook.claims.len();
        name.len() + backends + items * LIST_ITEM_BYTES
    });
    // The settings always serialize.
    let settings = serde_json::to_vec(spec).map_or(0, |json| json.len());
    settings + repeated.sum::<usize>()
}

#[cfg(test)]
mod tests;

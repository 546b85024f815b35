//! Conditions of the objects that a VirtualMCPServer refers to: its group, telemetry, embeddings, and the
//! Secret of its language model.

use kube::ResourceExt as _;
use vmcp_crds::virtual_mcp_server::{EmbeddingSource, TeiService};

use super::Degradations;
use crate::runtime::{Conditions, is_true};
use crate::virtual_mcp_server::dereference::{
    composite_tool_refs_of, embedding_server_of, group_elsewhere, group_of, tool_configs_of,
    webhook_configs_of,
};
use crate::virtual_mcp_server::status::ObservedVirtualMCPServer;

/// Sets a condition for each reference.
pub(super) fn references(
    observed: &ObservedVirtualMCPServer<'_>,
    conditions: &mut Conditions,
    degradations: &mut Degradations,
) {
    let refusal = observed.references.cross_namespace.refusal.as_ref();
    if let Some(group) = group_of(observed.server) {
        if let (true, Some(refusal)) = (observed.references.cross_namespace.is_group_refused, refusal) {
            conditions.set("GroupRefValidated", false, refusal.reason, refusal.message.clone());
        } else if observed.references.group_exists {
            conditions.set(
                "GroupRefValidated",
                true,
                "GroupRefValid",
                format!("the MCPGroup {group} exists"),
            );
        } else {
            let place = match group_elsewhere(observed.server) {
                Some((_, namespace)) => format!("the namespace {namespace}"),
                None => "this namespace".to_owned(),
            };
            let message =
                format!("there is no MCPGroup {group} in {place}; create it, or correct spec.groupRef");
            conditions.set("GroupRefValidated", false, "GroupRefNotFound", message.clone());
            degradations.push(("GroupRefNotFound", message));
        }
    }
    granted(observed, conditions, degradations);
    if let Some(reference) = &observed.server.spec.telemetry_config_ref {
        telemetry(observed, &reference.name, conditions, degradations);
    }
    tool_configs(observed, conditions);
    webhooks(observed, conditions);
    composite_tools(observed, conditions, degradations);
    authentication(observed, conditions);
    auth_server(observed, conditions);
    embedding_server(observed, conditions, degradations);
}

/// Sets `ReferencesGranted` if the server refers to other namespaces: each grants it what it refers to.
fn granted(
    observed: &ObservedVirtualMCPServer<'_>,
    conditions: &mut Conditions,
    degradations: &mut Degradations,
) {
    const KIND: &str = "ReferencesGranted";
    if let Some(refusal) = &observed.references.cross_namespace.refusal {
        conditions.set(KIND, false, refusal.reason, refusal.message.clone());
        degradations.push((refusal.reason, refusal.message.clone()));
    } else if group_elsewhere(observed.server).is_some() || !observed.server.spec.backend_refs.is_empty() {
        conditions.set(KIND, true, "ReferencesGranted", "every other namespace grants what is referred to");
    }
}

/// Sets `ToolConfigRefsValidated` if a backend has an MCPToolConfig. A reference that cannot be followed
/// degrades the server by its backend, which is not called.
fn tool_configs(observed: &ObservedVirtualMCPServer<'_>, conditions: &mut Conditions) {
    const KIND: &str = "ToolConfigRefsValidated";
    if let Some(problem) = observed.plan.tool_configs.first() {
        conditions.set(KIND, false, problem.reason, problem.message.clone());
    } else if !tool_configs_of(observed.server, observed.references).is_empty() {
        conditions.set(KIND, true, "ToolConfigRefsValid", "every MCPToolConfig exists and is valid");
    }
}

/// Sets `WebhookConfigRefsValidated` if the server or a backend has an MCPWebhookConfig. A reference that
/// cannot be followed degrades the server: by `ConfigValid` if it is the server's own, else by its backend,
/// which is not called.
fn webhooks(observed: &ObservedVirtualMCPServer<'_>, conditions: &mut Conditions) {
    const KIND: &str = "WebhookConfigRefsValidated";
    if let Some(problem) = observed.plan.webhooks.first() {
        conditions.set(KIND, false, problem.reason, problem.message.clone());
    } else if !webhook_configs_of(observed.server, observed.references).is_empty() {
        conditions.set(KIND, true, "WebhookConfigRefsValid", "every MCPWebhookConfig exists and is valid");
    }
}

/// Sets `CompositeToolRefsValidated` if the server refers to composite tools. A reference that cannot be
/// followed costs that tool alone, and degrades the server.
fn composite_tools(
    observed: &ObservedVirtualMCPServer<'_>,
    conditions: &mut Conditions,
    degradations: &mut Degradations,
) {
    const KIND: &str = "CompositeToolRefsValidated";
    let problems = &observed.plan.composite_tools;
    if let Some(problem) = problems.first() {
        let message = problems.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>().join(" | ");
        let message = format!("not served: {message}");
        conditions.set(KIND, false, problem.reason, message.clone());
        degradations.push((problem.reason, message));
    } else if composite_tool_refs_of(observed.server).next().is_some() {
        conditions.set(
            KIND,
            true,
            "CompositeToolRefsValid",
            "every VirtualMCPCompositeToolDefinition exists and is valid",
        );
    }
}

/// Sets `AuthConfigured`: clients are asked who they are, and the configuration for that is in force. The
/// reason of a refusal degrades the server by `ConfigValid`.
fn authentication(observed: &ObservedVirtualMCPServer<'_>, conditions: &mut Conditions) {
    const KIND: &str = "AuthConfigured";
    if !observed.server.spec.asks_for_credentials() {
        return;
    }
    match &observed.plan.configuration {
        Ok(_) => conditions.set(KIND, true, "AuthValid", "clients must present a token or a key"),
        Err(refusal) => conditions.set(KIND, false, refusal.reason, refusal.message.clone()),
    }
}

/// Sets `AuthServerConfigValidated` if there is an embedded authorization server: its settings and Secrets
/// are in force.
fn auth_server(observed: &ObservedVirtualMCPServer<'_>, conditions: &mut Conditions) {
    const KIND: &str = "AuthServerConfigValidated";
    if observed.server.spec.auth_server_config.is_none() {
        return;
    }
    match &observed.plan.configuration {
        Ok(_) => conditions.set(KIND, true, "AuthServerConfigValid", "people sign in through this server"),
        Err(refusal) => {
            conditions.set(KIND, false, "AuthServerConfigInvalid", refusal.message.clone());
        }
    }
}

/// Sets `TelemetryConfigRefValidated`: the settings exist and are valid themselves.
fn telemetry(
    observed: &ObservedVirtualMCPServer<'_>,
    name: &str,
    conditions: &mut Conditions,
    degradations: &mut Degradations,
) {
    const KIND: &str = "TelemetryConfigRefValidated";
    let Some(found) = &observed.references.telemetry else {
        let message = format!(
            "there is no MCPTelemetryConfig {name} in this namespace; create it, or correct spec.telemetryConfigRef"
        );
        conditions.set(KIND, false, "TelemetryConfigRefNotFound", message.clone());
        degradations.push(("TelemetryConfigRefNotFound", message));
        return;
    };
    match &observed.plan.left_out.telemetry {
        Some(refusal) => {
            let message = format!(
                "the MCPTelemetryConfig {} is not valid, so that nothing is exported: {}",
                found.name_any(),
                refusal.message
            );
            conditions.set(KIND, false, "TelemetryConfigRefNotValid", message.clone());
            degradations.push(("TelemetryConfigRefNotValid", message));
        }
        None => conditions.set(
            KIND,
            true,
            "TelemetryConfigRefValid",
            format!("the MCPTelemetryConfig {name} exists"),
        ),
    }
}

/// Sets `EmbeddingServerReady` if there is one. Kept as it was while the resource is refused as a whole.
fn embedding_server(
    observed: &ObservedVirtualMCPServer<'_>,
    conditions: &mut Conditions,
    degradations: &mut Degradations,
) {
    const KIND: &str = "EmbeddingServerReady";
    let Ok(server) = &observed.plan.server else { return conditions.keep(KIND) };
    let source = server.optimizer.as_ref().map(|optimizer| &optimizer.embeddings);
    let Some(EmbeddingSource::Tei { service: TeiService::Managed(_) | TeiService::Referenced(_), .. }) =
        source
    else {
        return;
    };
    let name = embedding_server_of(observed.server);
    let (reason, message) = match observed
        .references
        .embedding_server
        .as_ref()
        .map(|found| found.status.as_ref())
    {
        None => (
            "EmbeddingServerNotFound",
            format!(
                "there is no EmbeddingServer {name} in this namespace; create it, or correct spec.embeddingServerRef"
            ),
        ),
        Some(status) if status.is_some_and(|status| is_true(&status.conditions, "Ready")) => {
            return conditions.set(
                KIND,
                true,
                "EmbeddingServerReady",
                format!("the EmbeddingServer {name} is ready"),
            );
        }
        Some(status) => {
            let why = status
                .and_then(|status| status.message.clone())
                .unwrap_or_else(|| "it is starting".to_owned());
            ("EmbeddingServerNotReady", format!("the EmbeddingServer {name} is not ready: {why}"))
        }
    };
    conditions.set(KIND, false, reason, message.clone());
    degradations.push((reason, message));
}

/// Sets `LanguageModelConfigured` if the resource names a language model: its key is in force.
pub(super) fn language_model(
    observed: &ObservedVirtualMCPServer<'_>,
    conditions: &mut Conditions,
    degradations: &mut Degradations,
) {
    const KIND: &str = "LanguageModelConfigured";
    let Ok(server) = &observed.plan.server else { return conditions.keep(KIND) };
    if server.optimizer.as_ref().is_none_or(|optimizer| optimizer.llm.is_none()) {
        return;
    }
    match &observed.plan.left_out.language_model {
        Some(refusal) => {
            let message = format!("no language model ranks tools: {}", refusal.message);
            conditions.set(KIND, false, refusal.reason, message.clone());
            degradations.push((refusal.reason, message));
        }
        None => conditions.set(KIND, true, "LanguageModelValid", "the language model can be asked"),
    }
}

//! Step 2 of a reconcile, validate: checks the resource with everything that it refers to, and returns a
//! [`Plan`]. Pure.
//!
//! Three parts can be wrong independently of each other: the resource as a whole (then nothing is built), the
//! pod template (then the workload stays as it is), the configuration (then the last good one stays mounted
//! and serves). A backend that is wrong is left out and spoils only itself.

mod authentication;
mod composite_tools;
mod credentials;
mod cross_namespace;
mod embeddings;
mod language_model;
mod secret_values;
mod tool_configs;
mod webhooks;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::ResourceExt as _;
use vmcp_config::is_backend_name;
use vmcp_crds::lower::{
    Backend, Lowered, PolicyCheck, ReferencedCompositeTool, ReferencedObjects, ReferencedWebhooks,
};
use vmcp_crds::mcp_server_entry::InlineBackend;
use vmcp_crds::virtual_mcp_server::{EmbeddingSource, Validated};
use vmcp_crds::{Invalid, Problem, VirtualMCPServer};

use self::composite_tools::CompositeToolProblem;
use self::tool_configs::ToolConfigProblem;
use self::webhooks::WebhookConfigProblem;
use super::dereference::References;
use super::last_good::MountedConfiguration;
use crate::references::{MAX_SECRET_BYTES, provider_classes};
use crate::runtime::{BuildSettings, PodSchema, unchecked, unfollowed};
use crate::shared_settings::mcp_telemetry_config;
use crate::workload::pod_template;
use crate::{mcp_server, mcp_server_entry};

/// The longest `vmcp.yaml` in bytes: the API server takes a ConfigMap of 1 MiB, of which 4 KiB are left for
/// its keys.
const MAX_CONFIGURATION_BYTES: usize = (1 << 20) - (4 << 10);

/// The result of the validation, part by part.
#[derive(Debug)]
pub(super) struct Plan {
    /// The resource as a whole; `Err` if nothing can be built.
    pub server: Result<Validated, Invalid>,
    /// The pod template; `Err` says why it cannot be merged.
    pub template: Result<(), String>,
    /// The configuration; `Err` if the last good one stays mounted.
    pub configuration: Result<Configuration, ConfigurationRefusal>,
    /// Members of the group that cannot be called as they are, by name, with the reason.
    pub unusable: BTreeMap<String, String>,
    /// MCPServerEntries and MCPRemoteProxies that have the name of another member.
    pub duplicates: Vec<String>,
    /// References to MCPToolConfigs that cannot be followed.
    pub tool_configs: Vec<ToolConfigProblem>,
    /// References to MCPWebhookConfigs that cannot be followed.
    pub webhooks: Vec<WebhookConfigProblem>,
    /// References to VirtualMCPCompositeToolDefinitions that cannot be followed.
    pub composite_tools: Vec<CompositeToolProblem>,
    /// Features that are off because of their references.
    pub left_out: LeftOut,
}

/// Features that are left out of the configuration, each with its reason: what it refers to is missing or
/// unusable, and everything else serves on.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    /// The export of telemetry.
    pub telemetry: Option<ConfigurationRefusal>,
    /// The source of vectors.
    pub embeddings: Option<ConfigurationRefusal>,
    /// The language model that ranks tools.
    pub language_model: Option<ConfigurationRefusal>,
}

/// A configuration that can be mounted.
#[derive(Debug)]
pub(super) struct Configuration {
    /// The text of `vmcp.yaml` with warnings and secret references.
    pub lowered: Lowered,
    /// The text and the values of its secrets, as pods mount them.
    pub mounted: MountedConfiguration,
    /// The backends in the text.
    pub backends: Vec<Backend>,
}

/// Refusal of a configuration: it is not mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConfigurationRefusal {
    /// The reason of the condition `ConfigValid`.
    pub reason: &'static str,
    /// The place of the mistake, the cause, and the remedy.
    pub message: String,
}

/// Checks the resource with everything that it refers to.
pub(super) fn validate(
    server: &VirtualMCPServer,
    references: &References,
    policies: PolicyCheck<'_>,
    settings: &BuildSettings,
) -> Plan {
    let (checked, template) = check(server, &settings.pod_schema);
    let mut refused = unfollowed(server);
    refused.extend(unchecked("VirtualMCPServer", &server.spec, settings));
    let checked = if refused.is_empty() { checked } else { Err(Invalid(refused)) };
    let (mut backends, mut unusable, duplicates) = backends(server, references, settings);
    cross_namespace::add(server, references, settings, &mut backends, &mut unusable);
    credentials::add(server, references, settings, &mut backends, &mut unusable);
    let tool_configs = tool_configs::add(server, references, &mut backends, &mut unusable);
    let resolved_webhooks = webhooks::resolve(server, references, settings, &mut backends, &mut unusable);
    let (composite_tools, composite_problems) = composite_tools::resolve(server, references);
    let webhooks::ResolvedWebhooks { webhooks, refusal, problems: webhook_problems } = resolved_webhooks;
    let members = Members { backends, composite_tools, webhooks };
    let mut left_out = LeftOut::default();
    let configuration = match &checked {
        Err(invalid) => Err(ConfigurationRefusal { reason: "InvalidSpec", message: invalid.to_string() }),
        Ok(server) => match refusal {
            // Left out, the calls that they would deny would go on.
            Some(refusal) => Err(refusal),
            None => configure(server, members, references, policies, settings, &mut left_out),
        },
    };
    Plan {
        server: checked,
        template,
        configuration,
        unusable,
        duplicates,
        tool_configs,
        webhooks: webhook_problems,
        composite_tools: composite_problems,
        left_out,
    }
}

/// Checks the resource as a whole and the pod template apart: a bad template spoils only the workload.
fn check(server: &VirtualMCPServer, schema: &PodSchema) -> (Result<Validated, Invalid>, Result<(), String>) {
    let mut checked = server.validate();
    let mut template = Ok(());
    if let Err(Invalid(problems)) = &checked {
        let (of_template, others): (Vec<&Problem>, Vec<&Problem>) =
            problems.iter().partition(|problem| problem.path.starts_with("spec.podTemplateSpec"));
        if let (Some(problem), true) = (of_template.first(), others.is_empty()) {
            template = Err(problem.to_string());
            let mut without = server.clone();
            without.spec.pod_template_spec.clear();
            checked = without.validate();
        }
    }
    if template.is_ok()
        && let Err(error) =
            pod_template::merge(&PodTemplateSpec::default(), &server.spec.pod_template_spec, schema)
    {
        template = Err(error.to_string());
    }
    (checked, template)
}

/// Objects that are configured besides the resource itself, as far as they can be.
struct Members {
    backends: Vec<Backend>,
    composite_tools: Vec<ReferencedCompositeTool>,
    webhooks: Vec<ReferencedWebhooks>,
}

/// Lowers the resource to `vmcp.yaml` and collects the values that it refers to.
fn configure(
    server: &Validated,
    members: Members,
    references: &References,
    policies: PolicyCheck<'_>,
    settings: &BuildSettings,
    left_out: &mut LeftOut,
) -> Result<Configuration, ConfigurationRefusal> {
    if let Some(what) = references.malformed.first() {
        let message = format!(
            "the {what} cannot be read, so that its group is unknown; `kubectl describe` of it says why; correct or delete it"
        );
        return Err(ConfigurationRefusal { reason: "Malformed", message });
    }
    if let Some(refusal) =
        script_jobs_refusal(server, settings).or_else(|| added_servers_refusal(server, settings))
    {
        return Err(refusal);
    }
    let Members { backends, composite_tools, webhooks } = members;
    let mut server = server.clone();
    left_out.embeddings = embeddings::unusable(&server, references);
    if let (Some(_), Some(optimizer)) = (&left_out.embeddings, &mut server.optimizer) {
        optimizer.embeddings = EmbeddingSource::None;
    }
    left_out.language_model = language_model::unusable(&server, references);
    if let (Some(_), Some(optimizer)) = (&left_out.language_model, &mut server.optimizer) {
        optimizer.remove_llm();
    }
    let mut telemetry = references.telemetry.as_ref().map(|telemetry| telemetry.spec.clone());
    left_out.telemetry = references.telemetry.as_ref().and_then(|config| {
        let (secrets, certificates) = (&references.secrets, &references.telemetry_certificates);
        let refusal = mcp_telemetry_config::validate(config, secrets, certificates, settings).err()?;
        Some(ConfigurationRefusal { reason: refusal.reason, message: refusal.message })
    });
    if let (Some(_), Some(telemetry)) = (&left_out.telemetry, &mut telemetry) {
        telemetry.open_telemetry = None;
    }
    if let Some(refusal) = authentication::unusable(&server, references, settings) {
        return Err(refusal);
    }
    let embedding_service = embeddings::service(&server, references, settings);
    let around = ReferencedObjects {
        backends: &backends,
        composite_tools: &composite_tools,
        policies,
        authz: references.authz.as_ref().map(|config| &config.spec),
        authz_file: references.authz_file.as_deref(),
        telemetry: telemetry.as_ref(),
        oidc: references.oidc.as_ref().map(|config| &config.spec),
        cluster_issuer: references.cluster_issuer.known(),
        telemetry_certificates: references.telemetry_certificates.pem(),
        oidc_certificates: references.oidc_certificates.pem(),
        decision_point_certificates: references.decision_point_certificates.pem(),
        webhooks: &webhooks,
        embedding_service: embedding_service.as_ref(),
    };
    let invalid = |invalid: Invalid| ConfigurationRefusal {
        reason: "InvalidConfiguration",
        message: invalid.to_string(),
    };
    let lowered = server.lower(&around).map_err(invalid)?;
    if lowered.text.len() > MAX_CONFIGURATION_BYTES {
        let (size, backends) = (lowered.text.len().div_ceil(1 << 10), backends.len());
        let message = format!(
            "vmcp.yaml would have {size} KiB with {backends} backends, and a ConfigMap holds 1 MiB; divide the backends among \
             several VirtualMCPServers, by spec.groupRef or spec.backendSelector"
        );
        return Err(ConfigurationRefusal { reason: "ConfigurationTooLarge", message });
    }
    let wanted: Vec<_> = lowered.secrets.values().cloned().collect();
    let classes = provider_classes(&server.pods.template, &[], &[]);
    if let Some(message) = references.secrets.missing_before_pods(&server.namespace, &wanted, &classes) {
        return Err(ConfigurationRefusal { reason: "SecretNotFound", message });
    }
    lowered.check_values(|reference| references.secrets.get(reference)).map_err(invalid)?;
    let value = |reference| references.secrets.get(reference).unwrap_or_default().to_vec();
    let secrets = lowered.secrets.iter().map(|(file, reference)| (file.clone(), value(reference)));
    let certificates =
        lowered.certificates.iter().map(|(file, pem)| (file.clone(), pem.clone().into_bytes()));
    let mounted =
        MountedConfiguration { text: lowered.text.clone(), secrets: secrets.chain(certificates).collect() };
    let size = mounted.secret_bytes();
    if size > MAX_SECRET_BYTES {
        let message = format!(
            "the pods would mount {} KiB of certificates and values of Secrets, and a Secret holds 1 MiB; name smaller \
             bundles of certificates (equal ones are mounted once), or divide the backends among several \
             VirtualMCPServers",
            size.div_ceil(1 << 10)
        );
        return Err(ConfigurationRefusal { reason: "ConfigurationTooLarge", message });
    }
    Ok(Configuration { lowered, mounted, backends })
}

/// Returns why the scripts of a server may not run as Jobs.
fn script_jobs_refusal(server: &Validated, settings: &BuildSettings) -> Option<ConfigurationRefusal> {
    if !server.has_script_jobs() {
        return None;
    }
    let (reason, message) = if settings.script_jobs_role.is_none() {
        let message = "spec.config.code.engine: `job` takes rights that this installation grants no server; set \
                       `scriptJobs.enabled: true` of the operator's chart, or use `worker`";
        ("ScriptJobsDisabled", message)
    } else if server.pods.service_account.is_some() {
        let message = "spec.serviceAccount: scripts that run as Jobs take a ServiceAccount that the operator makes for \
                       this server alone; remove the field, or use `spec.config.code.engine: worker`";
        ("ScriptJobsServiceAccount", message)
    } else {
        return None;
    };
    Some(ConfigurationRefusal { reason, message: message.to_owned() })
}

/// Returns why clients of a server may not add servers.
fn added_servers_refusal(server: &Validated, settings: &BuildSettings) -> Option<ConfigurationRefusal> {
    if !server.adds_servers() {
        return None;
    }
    let (reason, message) = if settings.server_admin_role.is_none() {
        let message = "spec.optimizer.tools: tools that change servers take rights that this installation grants no \
                       server; set `serverAdmin.enabled: true` of the operator's chart, or remove add_mcp_server, \
                       install_server, remove_mcp_server, enable_mcp_server and disable_mcp_server";
        ("ServerAdminDisabled", message)
    } else if server.pods.service_account.is_some() {
        let message = "spec.serviceAccount: tools that change servers take a ServiceAccount that the operator makes \
                       for this server alone; remove the field, or the tools from `spec.optimizer.tools`";
        ("ServerAdminServiceAccount", message)
    } else {
        return None;
    };
    Some(ConfigurationRefusal { reason, message: message.to_owned() })
}

/// Returns the backends to configure, the members that cannot be called (by name, with the reason), and the
/// names that two members share.
fn backends(
    server: &VirtualMCPServer,
    references: &References,
    settings: &BuildSettings,
) -> (Vec<Backend>, BTreeMap<String, String>, Vec<String>) {
    let mut usable: Vec<Backend> = Vec::new();
    let mut unusable = BTreeMap::new();
    let mut duplicates = Vec::new();
    for member in &references.servers {
        let name = member.name_any();
        // A backend whether or not it runs: a dead backend degrades only itself.
        if is_backend_name(&name) {
            usable.push(mcp_server::backend(member, &settings.cluster_domain));
        } else {
            let reason = "its name cannot be that of a backend, or is reserved for vmcp's own tools; create it under another name";
            unusable.insert(name, reason.to_owned());
        }
    }
    let mut names: BTreeSet<String> = references.servers.iter().map(|server| server.name_any()).collect();
    for entry in &references.entries {
        let name = entry.name_any();
        if !names.insert(name.clone()) {
            duplicates.push(name);
            continue;
        }
        let bundle = references.entry_ca_bundles.get(&name).cloned().unwrap_or_default();
        let mut validated = mcp_server_entry::validate(entry, &references.secrets, &bundle);
        validated.header_problems.extend(unchecked("MCPServerEntry", &entry.spec, settings));
        validated.address_problems.extend(mcp_server_entry::problem_of_added(entry, server));
        validated.backend.addresses = mcp_server_entry::addresses_of_added(entry, server);
        let problems = [&validated.unfollowed, &validated.address_problems, &validated.header_problems];
        let problem = problems.into_iter().flatten().next();
        let lacking = validated.missing_secrets.or(validated.unusable_ca_bundle);
        if let Some(reason) = problem.map(ToString::to_string).or(lacking) {
            let reason = InlineBackend::in_server(&server.spec.backends, &name, reason);
            unusable.insert(name, reason);
        }
        if problem.is_none() {
            usable.push(validated.backend);
        }
    }
    duplicates.extend(references.cross_namespace.duplicates.iter().cloned());
    (usable, unusable, duplicates)
}

#[cfg(test)]
mod tests;

//! Guards of an MCPServer: who may call it, what is recorded of calls. The bridge in its pod follows them,
//! also before a server that speaks HTTP itself.
//!
//! Guards fail closed: a reference that leads nowhere, or a mistake, refuses the resource. Pods of an earlier
//! version serve on, and the resource is not `Ready`.

#[cfg(test)]
mod tests;
pub(super) mod valid_guards;

use std::collections::BTreeMap;

use vmcp_crds::lower::{ADMIN_PORT, CLIENT_PORT, PolicyCheck, ReferencedObjects};
use vmcp_crds::mcp_server::MCPServerTransport;
use vmcp_crds::{Invalid, MCPServer, Problem};

use self::valid_guards::ValidGuards;
use super::dereference::{References, mounted_classes};
use super::permission_profile::Egress;
use crate::references::{CaBundle, MAX_SECRET_BYTES};
use crate::runtime::{BuildSettings, unchecked};
use crate::shared_settings::{mcp_oidc_config, mcp_telemetry_config};
use crate::workload::network::TUNNEL_PORT;
use crate::workload::spec_refusal::SpecRefusal;

/// Key of the ConfigMap, and name of the mounted file.
pub(super) const GUARDS_FILE: &str = "guards.yaml";
/// Directory that the ConfigMap is mounted at.
pub(super) const GUARDS_DIR: &str = "/bridge-guards";

/// Returns the guards of a server; `None` if it has none. `egress` are the outgoing connections of its pods.
pub(super) fn validate(
    server: &MCPServer,
    references: &References,
    policies: PolicyCheck<'_>,
    settings: &BuildSettings,
) -> Result<Option<ValidGuards>, SpecRefusal> {
    let objects = &references.guards;
    let mut problems = check_references(server, references, settings);
    problems.extend(check_server(server));
    if objects.credentials.as_ref().is_some_and(|config| config.spec.auth_server().is_some()) {
        let message = "names an authorization server, which guards nothing there";
        problems.push(Problem::new("spec.externalAuthConfigRef", message, "name it in `spec.authServerRef`"));
    }
    if !problems.is_empty() {
        return Err(Invalid(problems).into());
    }
    let namespace = server.metadata.namespace.as_deref().unwrap_or_default();
    let (wanted, classes) = (objects.secret_references(server), mounted_classes(server));
    if let Some(missing) = references.secrets.missing_before_pods(namespace, &wanted, &classes) {
        return Err(SpecRefusal::SecretNotFound(missing));
    }
    let known = ReferencedObjects {
        policies,
        authz: objects.authz.as_ref().map(|config| &config.spec),
        authz_file: objects.authz_file.as_deref(),
        telemetry: objects.telemetry.as_ref().map(|config| &config.spec),
        oidc: objects.oidc.as_ref().map(|config| &config.spec),
        cluster_issuer: objects.cluster_issuer.known(),
        telemetry_certificates: objects.telemetry_certificates.pem(),
        oidc_certificates: objects.certificates.pem(),
        ..ReferencedObjects::default()
    };
    let auth_server = objects.auth_server.as_ref().and_then(|config| config.spec.auth_server());
    let Some(lowered) = server.lower_guards(&known, auth_server)? else { return Ok(None) };
    lowered.check_values(|reference| references.secrets.get(reference))?;
    let value = |reference| references.secrets.get(reference).unwrap_or_default().to_vec();
    let secrets = lowered.secrets.iter().map(|(file, reference)| (file.clone(), value(reference)));
    let public = lowered.certificates.iter().map(|(file, text)| (file.clone(), text.clone().into_bytes()));
    let files: BTreeMap<String, Vec<u8>> = secrets.chain(public).collect();
    let size: usize = files.iter().map(|(file, value)| file.len() + value.len()).sum();
    if size > MAX_SECRET_BYTES {
        let message = format!(
            "the certificates and values of its guards have {} KiB, and a Secret holds 1 MiB",
            size.div_ceil(1 << 10)
        );
        let remedy = "name smaller bundles in the `caBundleRef` of its MCPOIDCConfig and MCPTelemetryConfig";
        return Err(Invalid(vec![Problem::new("spec", message, remedy)]).into());
    }
    Ok(Some(ValidGuards { text: lowered.text, files }))
}

/// Checks the outgoing connections of a guarded server: the bridge in a closed pod reaches neither identity
/// providers nor collectors nor a Redis. Keys of the cluster are mounted, so that nothing is asked for.
pub(super) fn check_egress(
    server: &MCPServer,
    references: &References,
    egress: &Egress,
    problems: &mut Vec<Problem>,
) {
    if *egress != Egress::Closed {
        return;
    }
    let (spec, found) = (&server.spec, &references.guards);
    let has_mounted_keys = found.oidc.as_ref().is_some_and(|config| config.spec.takes_cluster_keys());
    let asks_provider =
        spec.auth_server_ref.is_some() || (spec.oidc_config_ref.is_some() && !has_mounted_keys);
    // `prometheus` alone is asked from outside.
    let exports = found
        .telemetry
        .as_ref()
        .is_some_and(|config| config.spec.open_telemetry.as_ref().is_some_and(|telemetry| telemetry.enabled));
    let counts_in_redis = spec.session_storage.as_ref().is_some_and(|storage| storage.address.is_some())
        && !spec.rate_limiting.is_empty();
    for (is_needed, purpose, host) in [
        (asks_provider, "ask for the keys that verify tokens", "the identity provider"),
        (exports, "send traces and metrics", "the collector"),
        (counts_in_redis, "count calls in Redis", "Redis"),
    ] {
        if is_needed {
            let message = format!("closes the pod, so that the bridge could not {purpose}");
            let remedy = format!("name `network`, or a profile with the host of {host}");
            problems.push(Problem::new("spec.permissionProfile", message, remedy));
        }
    }
}

/// Checks the objects that the guards refer to.
fn check_references(server: &MCPServer, references: &References, settings: &BuildSettings) -> Vec<Problem> {
    let (spec, found) = (&server.spec, &references.guards);
    let mut problems = Vec::new();
    let mut refuse = |path: &str, kind: &str, name: &str, fault: Option<String>| {
        let (message, remedy) = match fault {
            None => {
                (format!("there is no {kind} {name} in this namespace"), "create it, or correct the name")
            }
            Some(fault) => (format!("the {kind} {name} is not valid: {fault}"), "correct it"),
        };
        problems.push(Problem::new(path, message, remedy));
    };
    if let Some(reference) = &spec.oidc_config_ref {
        let (path, kind, name) = ("spec.oidcConfigRef", "MCPOIDCConfig", &reference.name);
        match &found.oidc {
            None => refuse(path, kind, name, None),
            Some(config) => {
                let lent = unchecked(kind, &config.spec, settings).map(|problem| problem.to_string());
                let certificates = match &found.certificates {
                    CaBundle::Unusable(fault) => Some(fault.clone()),
                    CaBundle::OfTheSystem | CaBundle::Found(_) => None,
                };
                let fault = lent
                    .or_else(|| mcp_oidc_config::validate(&config.spec).err())
                    .or(certificates)
                    .or_else(|| found.cluster_issuer.fault().map(str::to_owned));
                if fault.is_some() {
                    refuse(path, kind, name, fault);
                }
            }
        }
    }
    if let Some(reference) = &spec.telemetry_config_ref {
        let (path, kind, name) = ("spec.telemetryConfigRef", "MCPTelemetryConfig", &reference.name);
        match &found.telemetry {
            None => refuse(path, kind, name, None),
            Some(config) => {
                let (secrets, certificates) = (&references.secrets, &found.telemetry_certificates);
                let checked = mcp_telemetry_config::validate(config, secrets, certificates, settings);
                if let Err(refusal) = checked {
                    refuse(path, kind, name, Some(refusal.message));
                }
            }
        }
    }
    if let Some(reference) = &spec.auth_server_ref {
        let (path, kind, name) = ("spec.authServerRef", "MCPExternalAuthConfig", &reference.name);
        match &found.auth_server {
            None => refuse(path, kind, name, None),
            Some(config) => {
                let unfollowed = crate::runtime::unfollowed(config.as_ref());
                let lent = unchecked(kind, &config.spec, settings);
                let fault = match (lent, unfollowed.is_empty()) {
                    (Some(lent), _) => Some(lent.to_string()),
                    (None, false) => Some(Invalid(unfollowed).to_string()),
                    (None, true) if config.spec.auth_server().is_none() => {
                        Some("its type is not `embeddedAuthServer`".to_owned())
                    }
                    (None, true) => None,
                };
                if fault.is_some() {
                    refuse(path, kind, name, fault);
                }
            }
        }
    }
    problems
}

/// Checks the server's own fields: nothing may lead past the bridge.
fn check_server(server: &MCPServer) -> Vec<Problem> {
    let spec = &server.spec;
    let mut problems = Vec::new();
    if !spec.is_guarded() || spec.transport == MCPServerTransport::Stdio {
        return problems;
    }
    let is_open = spec.network_policy.as_ref().is_some_and(|policy| !policy.enabled);
    if is_open {
        let message = "without a NetworkPolicy, every pod could call the server's own port, past its guards";
        problems.push(Problem::new("spec.networkPolicy.enabled", message, "remove `enabled: false`"));
    }
    let port = spec.mcp_port.unwrap_or(spec.proxy_port);
    if [CLIENT_PORT, ADMIN_PORT, TUNNEL_PORT].contains(&port) {
        let path = if spec.mcp_port.is_some() { "spec.mcpPort" } else { "spec.proxyPort" };
        let message = if port == TUNNEL_PORT {
            format!("{port} is the port of a service mesh's tunnels, which the NetworkPolicy may admit")
        } else {
            format!("{port} is a port of the bridge, which runs beside a guarded server")
        };
        problems.push(Problem::new(path, message, "let the server listen on another port"));
    }
    problems
}

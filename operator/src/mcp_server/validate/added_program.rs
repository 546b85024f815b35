//! Programs that clients of a VirtualMCPServer added, held to its rules.

use vmcp_config::{Admin, ServerSource};
use vmcp_crds::fields::resource_overrides::MCPServerOverrides;
use vmcp_crds::mcp_server::MCPServerSpec;
use vmcp_crds::{MCPServer, Problem};

use crate::references::{adder, is_of_added_servers, shared_secrets};

/// Returns true if a rule names the program together with its image, and lends it the Secrets that its client
/// named.
pub(in crate::mcp_server) fn is_named(server: &MCPServer, rules: &Admin) -> bool {
    let spec = &server.spec;
    let of_secrets = spec.secrets.iter();
    let of_secrets =
        of_secrets.map(|variable| variable.target_env_name.as_ref().unwrap_or(&variable.secret.key));
    let env = spec.env.iter().map(|variable| &variable.name).chain(of_secrets).map(String::as_str).collect();
    let args = || spec.args.iter().map(String::as_str);
    // The label is the name of the Secrets' prefix.
    let shared = adder(server).map(|adder| {
        let secrets = spec.secrets.iter().map(|variable| variable.secret.name.as_str());
        shared_secrets(secrets, adder)
    });
    let shared = shared.unwrap_or_default();
    if spec.command.is_empty() {
        // The image's own program.
        return rules
            .lends(&ServerSource::Image { image: &spec.image, args: args().collect(), env }, &shared);
    }
    let words = spec.command.iter().map(String::as_str).chain(args()).collect();
    let source = ServerSource::Program { words, env };
    rules.names_in_image(&source, &spec.image) && rules.lends(&source, &shared)
}

/// Returns the first field by which the pod of an added server would have more than its image, its command
/// and the Secrets of added servers. The admission policy refuses the same, where it is installed.
fn foreign_field(spec: &MCPServerSpec, adder: &str) -> Option<&'static str> {
    let fields = [
        ("spec.serviceAccount", spec.service_account.is_some()),
        ("spec.podTemplateSpec", !spec.pod_template_spec.is_empty()),
        ("spec.resourceOverrides", spec.resource_overrides != MCPServerOverrides::default()),
        ("spec.volumes", !spec.volumes.is_empty()),
        ("spec.imagePullSecrets", !spec.image_pull_secrets.is_empty()),
        ("spec.externalAuthConfigRef", spec.external_auth_config_ref.is_some()),
        ("spec.webhookConfigRef", spec.webhook_config_ref.is_some()),
        ("spec.oidcConfigRef", spec.oidc_config_ref.is_some()),
        ("spec.authServerRef", spec.auth_server_ref.is_some()),
        ("spec.authzConfig", !spec.authz_config.is_empty()),
        ("spec.authzConfigRef", spec.authz_config_ref.is_some()),
        ("spec.networkPolicy", spec.network_policy.is_some()),
        ("spec.permissionProfile", spec.permission_profile.is_some()),
        ("spec.sessionStorage", spec.session_storage.is_some()),
        ("spec.telemetryConfigRef", spec.telemetry_config_ref.is_some()),
        (
            "spec.secrets",
            spec.secrets.iter().any(|variable| !is_of_added_servers(&variable.secret.name, adder)),
        ),
    ];
    fields.into_iter().find_map(|(field, is_foreign)| is_foreign.then_some(field))
}

/// Refuses a program that no rule names together with its image. The pods of the VirtualMCPServer check the
/// rules before they add a program; pods in the hands of an attacker would add any image. A server that is
/// switched off has no pods, and is valid: a refusal would keep its pods running.
pub(super) fn check(server: &MCPServer, rules: &Admin, problems: &mut Vec<Problem>) {
    if server.spec.enabled == Some(false) {
        return;
    }
    let adder = adder(server).unwrap_or_default();
    if let Some(field) = foreign_field(&server.spec, adder) {
        let message =
            format!("clients of the VirtualMCPServer {adder} added the server, and may not set this");
        let remedy = "remove it; a person's server goes without the label toolhive.stacklok.com/added-by";
        problems.push(Problem::new(field, message, remedy));
    }
    if is_named(server, rules) {
        return;
    }
    let message = format!(
        "clients of the VirtualMCPServer {adder} added the server, and none of its rules names this image with this \
         command and these variables"
    );
    let remedy = "add a rule to its `spec.optimizer.admin.allow`, or switch off or delete the server";
    problems.push(Problem::new("spec.image", message, remedy));
}

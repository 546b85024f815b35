//! Step 1 of a reconcile, dereference: the values of Secrets that variables refer to, whether the group
//! exists, the token of the bridge, the program of the image, and the permission profile.

mod guard_references;
pub(super) mod running_ingress;

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt as _;
use vmcp_config::Admin;
use vmcp_crds::MCPServer;
use vmcp_crds::fields::references::SecretKeyReference;
use vmcp_crds::lower::{ADMIN_TOKEN, SESSION_KEY};
use vmcp_crds::mcp_server::MCPServerTransport;
use vmcp_crds::virtual_mcp_server::Optimizer;

use super::image_program::{ImageProgramState, ImagePrograms};
use super::names::{child_name, secret_name};
use super::permission_profile::{self, ProfileText};
use super::running_bridge::RunningBridge;
use super::validate::added_program;
use crate::references::{
    DereferenceError, ReferencedSecrets, adder, granted_namespaces, group_exists, provider_classes,
};
use crate::runtime::{Context, GeneratedSecret};
use crate::workload::pod::secrets_digest;

pub(super) use self::guard_references::{GuardReferences, uses_auth_config};
pub(super) use self::running_ingress::RunningIngress;

/// Everything that a server refers to.
#[derive(Debug, Default)]
pub(super) struct References {
    /// The values of Secrets, as far as they exist.
    pub secrets: ReferencedSecrets,
    /// True if the MCPGroup exists; `None` if none is named.
    pub group_exists: Option<bool>,
    /// The bearer token of the bridge's admin port, generated once; empty without a bridge and Secrets.
    pub bridge_token: Vec<u8>,
    /// The key with which the bridge seals what clients of an authorization server carry; empty without
    /// guards.
    pub session_key: Vec<u8>,
    /// The objects that guards refer to.
    pub guards: GuardReferences,
    /// The bridge of the pods that run.
    pub running_bridge: Option<RunningBridge>,
    /// The guards of the pods that run, and the callers that they have.
    pub running_ingress: RunningIngress,
    /// The digest of Secrets in the template of the pods that run.
    pub running_digest: Option<String>,
    /// The program that the image starts by itself.
    pub image_program: ImageProgramState,
    /// The text of the permission profile.
    pub permission_profile: ProfileText,
    /// The namespaces whose VirtualMCPServers may call the server, by a ReferenceGrant.
    pub granted_namespaces: BTreeSet<String>,
    /// The rules of the VirtualMCPServer whose clients added the server; `None` if a person made it.
    pub rules_of_adder: Option<Admin>,
}

/// Reads the references of the server, looks up the program of its image if it names no command, and
/// generates a missing token.
pub(super) async fn dereference(
    server: &MCPServer,
    context: &Context,
    programs: &ImagePrograms,
) -> Result<References, DereferenceError> {
    let namespace = server.namespace().unwrap_or_default();
    let guards = GuardReferences::read(server, context).await?;
    let mut wanted = secret_references(server);
    wanted.extend(guards.secret_references(server));
    let secrets = ReferencedSecrets::read(context, &namespace, &wanted).await?;
    let (mut bridge_token, mut session_key) = (Vec::new(), Vec::new());
    if needs_token(server) {
        let kept = context.child(server, &secret_name(&server.name_any())).await?;
        let mut kept = GeneratedSecret::from_secret(kept);
        // Also the key of the digest of Secret values.
        bridge_token = kept.take(ADMIN_TOKEN).map_err(DereferenceError::Randomness)?;
        if server.spec.is_guarded() {
            session_key = kept.take(SESSION_KEY).map_err(DereferenceError::Randomness)?;
        }
    }
    let group_exists = group_exists(context, &namespace, server.spec.group_ref.as_ref());
    let uid = server.uid().unwrap_or_default();
    let deployment = context.children.typed::<Deployment>(&uid, &child_name(&server.name_any()));
    let running_bridge = deployment.as_ref().and_then(RunningBridge::from_deployment);
    let running_ingress = RunningIngress::read(context, server, deployment.as_ref());
    let template = deployment.as_ref().and_then(|deployment| Some(&deployment.spec.as_ref()?.template));
    let running_digest = template.and_then(secrets_digest);
    let rules_of_adder = rules_of_adder(server, context);
    // Clients choose the registry of an image that they add: the operator asks only a registry that a rule
    // names.
    let may_run = rules_of_adder.as_ref().is_none_or(|rules| added_program::is_named(server, rules));
    let image_program = if may_run {
        programs.state(server, context, deployment.as_ref()).await?
    } else {
        ImageProgramState::NotNeeded
    };
    let permission_profile = permission_profile::read(context, server).await?;
    Ok(References {
        secrets,
        group_exists,
        bridge_token,
        session_key,
        guards,
        running_bridge,
        running_ingress,
        running_digest,
        image_program,
        permission_profile,
        granted_namespaces: granted_namespaces(context, server),
        rules_of_adder,
    })
}

/// Returns the rules of the VirtualMCPServer whose clients added the server: none if it does not exist.
fn rules_of_adder(server: &MCPServer, context: &Context) -> Option<Admin> {
    let namespace = server.metadata.namespace.as_deref().unwrap_or_default();
    let adder = context.resources.virtual_mcp_servers.get(namespace, adder(server)?);
    let optimizer = adder.as_ref().and_then(|adder| adder.spec.optimizer.as_ref());
    Some(optimizer.map(Optimizer::added_servers).unwrap_or_default())
}

/// Returns true if the server has a Secret of the operator's: with a bridge, or with values to digest.
pub(super) fn needs_token(server: &MCPServer) -> bool {
    has_bridge(server) || !server.spec.secrets.is_empty()
}

/// Returns true if a bridge serves: for a stdio server, or before a guarded one.
pub(super) fn has_bridge(server: &MCPServer) -> bool {
    server.spec.transport == MCPServerTransport::Stdio || server.spec.is_guarded()
}

/// Returns the Secrets that variables refer to.
pub(super) fn secret_references(server: &MCPServer) -> Vec<SecretKeyReference> {
    server.spec.secrets.iter().map(|variable| variable.secret.clone()).collect()
}

/// Returns the SecretProviderClasses that the pods mount: their driver makes Secrets.
pub(super) fn mounted_classes(server: &MCPServer) -> BTreeSet<String> {
    provider_classes(&server.spec.pod_template_spec, &[], &[])
}

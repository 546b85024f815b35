//! Building blocks of pod specs, hardened as far as any image can bear: no API token, no added privileges,
//! seccomp.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, EnvVar, EnvVarSource, HTTPGetAction, LocalObjectReference, PodSecurityContext, PodSpec,
    PodTemplateSpec, Probe, ResourceRequirements, SeccompProfile, SecretKeySelector, SecurityContext,
    TCPSocketAction,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use vmcp_crds::GROUP;
use vmcp_crds::fields::references::SecretKeyReference;
use vmcp_crds::fields::workload::EnvironmentVariable;

/// Returns a pod spec without an API token, without the Services' addresses in its environment, and with the
/// runtime's default seccomp profile. The user is left to the image.
pub(crate) fn base(service_account: Option<&str>, pull_secrets: &[LocalObjectReference]) -> PodSpec {
    PodSpec {
        // A resource that names a ServiceAccount wants the account's rights, and so its token.
        automount_service_account_token: service_account.is_none().then_some(false),
        service_account_name: service_account.map(str::to_owned),
        image_pull_secrets: (!pull_secrets.is_empty()).then(|| pull_secrets.to_vec()),
        enable_service_links: Some(false),
        security_context: Some(PodSecurityContext {
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                localhost_profile: None,
            }),
            ..PodSecurityContext::default()
        }),
        ..PodSpec::default()
    }
}

/// Returns the security context of a pod that runs as `user`, which is not root; `None` leaves the user to
/// the platform. Together with [`unprivileged`] containers, the pod passes the level `restricted`.
pub(crate) fn non_root(base: PodSecurityContext, user: Option<i64>) -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: user,
        run_as_group: user,
        fs_group: user,
        ..base
    }
}

/// Returns requests and a limit of memory, as quantities.
pub(crate) fn resources(cpu: &str, memory: &str, memory_limit: &str) -> ResourceRequirements {
    let quantity = |name: &str, value: &str| (name.to_owned(), Quantity(value.to_owned()));
    ResourceRequirements {
        requests: Some(BTreeMap::from([quantity("cpu", cpu), quantity("memory", memory)])),
        limits: Some(BTreeMap::from([quantity("memory", memory_limit)])),
        ..ResourceRequirements::default()
    }
}

/// Returns the security context of a container that has no capabilities and gains no privileges.
pub(crate) fn unprivileged() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
        ..SecurityContext::default()
    }
}

/// Returns variables with a value.
pub(crate) fn variables(given: &[EnvironmentVariable]) -> impl Iterator<Item = EnvVar> {
    given.iter().map(|EnvironmentVariable { name, value }| EnvVar {
        name: name.clone(),
        value: Some(value.clone()),
        value_from: None,
    })
}

/// Returns a variable with a value of a Secret.
pub(crate) fn secret_variable(
    name: &str,
    SecretKeyReference { name: secret, key }: &SecretKeyReference,
) -> EnvVar {
    let selector = SecretKeySelector { name: secret.clone(), key: key.clone(), optional: None };
    EnvVar {
        name: name.to_owned(),
        value: None,
        value_from: Some(EnvVarSource { secret_key_ref: Some(selector), ..EnvVarSource::default() }),
    }
}

/// Returns the pod annotation that causes a rollout when a value of a Secret changes: environment variables
/// of a running process do not follow.
pub(crate) fn secrets_annotation(digest: Option<String>) -> Option<BTreeMap<String, String>> {
    digest.map(|digest| BTreeMap::from([(secrets_digest_key(), digest)]))
}

/// Returns the digest in that annotation of a pod template.
pub(crate) fn secrets_digest(template: &PodTemplateSpec) -> Option<String> {
    template.metadata.as_ref()?.annotations.as_ref()?.get(&secrets_digest_key()).cloned()
}

fn secrets_digest_key() -> String {
    format!("{GROUP}/secrets-digest")
}

/// Returns a probe by HTTP GET every `seconds`; three failures in a row count.
pub(crate) fn http_probe(path: &str, port: &str, seconds: i32) -> Probe {
    let port = IntOrString::String(port.to_owned());
    Probe {
        http_get: Some(HTTPGetAction { path: Some(path.to_owned()), port, ..HTTPGetAction::default() }),
        period_seconds: Some(seconds),
        timeout_seconds: Some(5),
        failure_threshold: Some(3),
        ..Probe::default()
    }
}

/// Returns a probe by TCP connection every `seconds`; three failures in a row count.
pub(crate) fn tcp_probe(port: &str, seconds: i32) -> Probe {
    let port = IntOrString::String(port.to_owned());
    Probe {
        tcp_socket: Some(TCPSocketAction { port, host: None }),
        period_seconds: Some(seconds),
        timeout_seconds: Some(5),
        failure_threshold: Some(3),
        ..Probe::default()
    }
}

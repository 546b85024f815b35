//! What all pods that run somebody's image have in common: as little as an image can do without.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, EnvVar, EnvVarSource, HTTPGetAction, LocalObjectReference, PodSecurityContext, PodSpec,
    Probe, SeccompProfile, SecretKeySelector, SecurityContext, TCPSocketAction,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use vmcp_crds::GROUP;
use vmcp_crds::fields::references::SecretKeyReference;
use vmcp_crds::fields::workload::EnvironmentVariable;

/// A pod without a token of the API server, without the neighbors' addresses in its environment, and with the system calls that
/// the runtime allows by default.
///
/// Whether it may run as root is left to the image: most images of MCP servers are made to run as root, and one that must not
/// cannot be told from one that can before it fails.
pub fn base(service_account: Option<&str>, pull_secrets: &[LocalObjectReference]) -> PodSpec {
    PodSpec {
        // Who names an account means its rights.
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

/// A container that gains no privileges.
pub fn unprivileged() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
        ..SecurityContext::default()
    }
}

/// Variables with a value.
pub fn variables(given: &[EnvironmentVariable]) -> impl Iterator<Item = EnvVar> {
    given.iter().map(|EnvironmentVariable { name, value }| EnvVar {
        name: name.clone(),
        value: Some(value.clone()),
        value_from: None,
    })
}

/// A variable with a value of a Secret.
pub fn secret_variable(name: &str, SecretKeyReference { name: secret, key }: &SecretKeyReference) -> EnvVar {
    let selector = SecretKeySelector { name: secret.clone(), key: key.clone(), optional: None };
    EnvVar {
        name: name.to_owned(),
        value: None,
        value_from: Some(EnvVarSource { secret_key_ref: Some(selector), ..EnvVarSource::default() }),
    }
}

/// An annotation that makes pods roll when a value of a Secret changes, which a process cannot see in its environment.
pub fn secrets_annotation(digest: Option<String>) -> Option<BTreeMap<String, String>> {
    digest.map(|digest| BTreeMap::from([(format!("{GROUP}/secrets-digest"), digest)]))
}

/// Asks by HTTP every `seconds`.
pub fn http_probe(path: &str, port: &str, seconds: i32) -> Probe {
    let port = IntOrString::String(port.to_owned());
    Probe {
        http_get: Some(HTTPGetAction { path: Some(path.to_owned()), port, ..HTTPGetAction::default() }),
        period_seconds: Some(seconds),
        timeout_seconds: Some(5),
        failure_threshold: Some(3),
        ..Probe::default()
    }
}

/// Connects every `seconds`.
pub fn tcp_probe(port: &str, seconds: i32) -> Probe {
    let port = IntOrString::String(port.to_owned());
    Probe {
        tcp_socket: Some(TCPSocketAction { port, host: None }),
        period_seconds: Some(seconds),
        timeout_seconds: Some(5),
        failure_threshold: Some(3),
        ..Probe::default()
    }
}

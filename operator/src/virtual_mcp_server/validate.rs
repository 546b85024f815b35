//! Step 2: whether it makes sense. Pure.
//!
//! Three things can be wrong independently of each other: the resource as a whole (then nothing is built), the pod template
//! (then the Deployment stays as it is), the configuration (then ConfigMap and Secret stay as they are, and what was mounted
//! last keeps serving).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::ResourceExt as _;
use vmcp_crds::{
    Invalid, MCPServer, MCPServerEntry, Problem, VirtualMCPServer,
    lower::{Backend, EmbeddingService, HeaderValue, Lowered, Surroundings},
    mcp_server::MCPServerTransport,
    mcp_server_entry::{MCPServerEntryPhase, RemoteTransport},
    references::SecretKeyReference,
    virtual_mcp_server::{EmbeddingSource, TeiService, Validated},
};

use super::{dereference::References, names};
use crate::runtime::{Settings, is_true};

/// What is to be built, as far as it makes sense.
#[derive(Debug)]
pub(super) struct Plan {
    /// The resource; `Err`: nothing can be built.
    pub server: Result<Validated, Invalid>,
    /// Whether `spec.podTemplateSpec` can be merged.
    pub template: Result<(), String>,
    /// What is mounted; `Err`: what was mounted before stays.
    pub configuration: Result<Configuration, Refusal>,
    /// Every member that is no usable backend, with the reason.
    pub unusable: BTreeMap<String, String>,
    /// Members that have the name of another.
    pub duplicates: Vec<String>,
}

/// What is mounted.
#[derive(Debug)]
pub(super) struct Configuration {
    /// `vmcp.yaml` and what it needs.
    pub lowered: Lowered,
    /// The values of its secrets, by file.
    pub secrets: BTreeMap<String, Vec<u8>>,
    /// The backends in it.
    pub backends: Vec<Backend>,
}

/// Why the configuration cannot be put in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The reason of the condition `ConfigValid`.
    pub reason: &'static str,
    /// Where, why, and what to do.
    pub message: String,
}

pub(super) fn validate(server: &VirtualMCPServer, references: &References, settings: &Settings) -> Plan {
    let (checked, template) = check(server);
    let (backends, unusable, duplicates) = backends(references);
    let configuration = match &checked {
        Err(invalid) => Err(Refusal { reason: "InvalidSpec", message: invalid.to_string() }),
        Ok(server) => configure(server, backends, references, settings),
    };
    Plan { server: checked, template, configuration, unusable, duplicates }
}

/// A bad pod template spoils nothing but the Deployment.
fn check(server: &VirtualMCPServer) -> (Result<Validated, Invalid>, Result<(), String>) {
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
            crate::runtime::pod_template::merge(&PodTemplateSpec::default(), &server.spec.pod_template_spec)
    {
        template = Err(error.to_string());
    }
    (checked, template)
}

fn configure(
    server: &Validated,
    backends: Vec<Backend>,
    references: &References,
    settings: &Settings,
) -> Result<Configuration, Refusal> {
    let embedding_service = embedding_service(server, references, settings);
    let around = Surroundings {
        backends: &backends,
        telemetry: references.telemetry.as_ref().map(|telemetry| &telemetry.spec),
        embedding_service: embedding_service.as_ref(),
    };
    let lowered = server
        .lower(&around)
        .map_err(|invalid| Refusal { reason: "InvalidConfiguration", message: invalid.to_string() })?;
    let mut secrets = BTreeMap::new();
    for (file, reference) in &lowered.secrets {
        secrets.insert(file.clone(), value(reference, references)?);
    }
    Ok(Configuration { lowered, secrets, backends })
}

fn value(reference: &SecretKeyReference, references: &References) -> Result<Vec<u8>, Refusal> {
    let SecretKeyReference { name, key } = reference;
    let found = references.secrets.get(name).map(|data| data.get(key).map(|value| value.0.clone()));
    match found {
        Some(Some(value)) => Ok(value),
        Some(None) => Err(Refusal {
            reason: "SecretKeyNotFound",
            message: format!("the Secret {name} has no key `{key}`; add it, or correct the reference"),
        }),
        None => Err(Refusal {
            reason: "SecretNotFound",
            message: format!(
                "there is no Secret {name}; create it with the key `{key}`, or correct the reference"
            ),
        }),
    }
}

/// The address of an EmbeddingServer follows from its name, whether or not it is there yet.
fn embedding_service(
    server: &Validated,
    references: &References,
    settings: &Settings,
) -> Option<EmbeddingService> {
    let EmbeddingSource::Tei { service, .. } = &server.optimizer.as_ref()?.embeddings else { return None };
    let default = vmcp_crds::EmbeddingServerSpec::default();
    let (name, spec) = match service {
        TeiService::Elsewhere => return None,
        TeiService::Managed(spec) => (&server.name, spec.as_ref()),
        TeiService::Referenced(name) => {
            (name, references.embedding_server.as_ref().map_or(&default, |found| &found.spec))
        }
    };
    Some(EmbeddingService {
        endpoint: names::embedding_url(name, &server.namespace, spec, settings),
        model: Some(spec.model.clone()),
    })
}

/// The members that can be configured, those that cannot, and the names that two of them have.
fn backends(references: &References) -> (Vec<Backend>, BTreeMap<String, String>, Vec<String>) {
    let mut usable: Vec<Backend> = Vec::new();
    let mut unusable = BTreeMap::new();
    let mut duplicates = Vec::new();
    for server in &references.servers {
        match of_server(server) {
            Ok(backend) => usable.push(backend),
            Err(reason) => drop(unusable.insert(server.name_any(), reason)),
        }
    }
    for entry in &references.entries {
        let name = entry.name_any();
        if references.servers.iter().any(|server| server.name_any() == name) {
            duplicates.push(name);
            continue;
        }
        let (backend, reason) = of_entry(entry, references);
        usable.push(backend);
        if let Some(reason) = reason {
            unusable.insert(name, reason);
        }
    }
    (usable, unusable, duplicates)
}

/// An MCPServer is a backend as soon as its address is known, running or not.
fn of_server(server: &MCPServer) -> Result<Backend, String> {
    let status = server.status.as_ref();
    let Some(url) = status.and_then(|status| status.url.clone()) else {
        let ready =
            status.and_then(|status| status.conditions.iter().find(|condition| condition.type_ == "Ready"));
        return Err(ready
            .map_or_else(|| "the MCPServer has no address yet".to_owned(), |ready| ready.message.clone()));
    };
    let transport = match server.spec.transport {
        MCPServerTransport::Stdio | MCPServerTransport::StreamableHttp => RemoteTransport::StreamableHttp,
        MCPServerTransport::Sse => RemoteTransport::Sse,
    };
    Ok(Backend { name: server.name_any(), url, transport, headers: BTreeMap::new(), enabled: true })
}

/// An MCPServerEntry that is not (yet) found to be valid is not called: it may lead where it must not.
fn of_entry(entry: &MCPServerEntry, references: &References) -> (Backend, Option<String>) {
    let mut reason =
        match entry.status.as_ref() {
            Some(status) if status.phase == Some(MCPServerEntryPhase::Valid) => None,
            Some(status) if !is_true(&status.conditions, "Valid") => {
                let condition = status.conditions.iter().find(|condition| condition.status == "False");
                Some(condition.map_or_else(
                    || "the MCPServerEntry is not valid".to_owned(),
                    |found| found.message.clone(),
                ))
            }
            _ => Some("the MCPServerEntry was not looked at yet".to_owned()),
        };
    let forward = &entry.spec.header_forward;
    let mut headers: BTreeMap<_, _> = forward
        .add_plaintext_headers
        .iter()
        .map(|(name, value)| (name.clone(), HeaderValue::Plain(value.clone())))
        .collect();
    for header in &forward.add_headers_from_secret {
        if let Err(refusal) = value(&header.value_secret_ref, references) {
            reason = Some(refusal.message);
        }
        headers.insert(header.header_name.clone(), HeaderValue::Secret(header.value_secret_ref.clone()));
    }
    let backend = Backend {
        name: entry.name_any(),
        url: entry.spec.remote_url.clone(),
        transport: entry.spec.transport,
        headers,
        enabled: reason.is_none(),
    };
    (backend, reason)
}

#[cfg(test)]
mod tests {
    use crate::virtual_mcp_server::testing::{plan, references, with_entry, with_secret, with_server};

    #[test]
    fn members_become_backends() {
        let references = with_secret(with_entry(with_server(references(), "a"), "b"));
        let plan = plan("{}", &references);
        let configuration = plan.configuration.expect("valid");
        let names: Vec<_> =
            configuration.backends.iter().map(|backend| (backend.name.as_str(), backend.enabled)).collect();
        assert_eq!(names, [("a", true), ("b", true)]);
        assert!(!configuration.lowered.text.contains("Bearer secret"), "{}", configuration.lowered.text);
        assert_eq!(configuration.secrets.into_values().collect::<Vec<_>>(), [b"Bearer secret"]);
        assert!(plan.unusable.is_empty());
    }

    #[test]
    fn a_backend_without_its_secret_spoils_only_itself() {
        let plan = plan("{}", &with_entry(with_server(references(), "a"), "b"));
        let configuration = plan.configuration.expect("valid all the same");
        assert_eq!(configuration.backends.iter().filter(|backend| backend.enabled).count(), 1);
        assert!(plan.unusable["b"].contains("no Secret s"), "{:?}", plan.unusable);
    }

    #[test]
    fn one_name_for_two_backends_is_reported() {
        let plan = plan("{}", &with_secret(with_entry(with_server(references(), "a"), "a")));
        assert_eq!(plan.duplicates, ["a"]);
        assert_eq!(plan.configuration.expect("valid").backends.len(), 1);
    }

    #[test]
    fn a_missing_secret_of_the_server_itself_is_a_refusal() {
        let plan = plan(
            "{optimizer: {enabled: true, embeddings: {provider: openai, openai: {endpoint: 'https://e.example', model: m, \
             apiKeySecretRef: {name: s, key: other}}}}}",
            &with_secret(references()),
        );
        assert_eq!(plan.configuration.expect_err("refused").reason, "SecretKeyNotFound");
    }

    #[test]
    fn mistakes_name_their_path_in_the_resource() {
        let plan = plan("{optimizer: {enabled: true, search: {maxTools: 1000}}}", &references());
        let refusal = plan.configuration.expect_err("refused");
        assert!(refusal.message.contains("spec.optimizer.search.maxTools"), "{refusal:?}");
        assert!(plan.server.is_ok(), "what is not configuration can be built");
    }

    #[test]
    fn a_bad_template_spoils_only_the_pods() {
        let plan = plan("{podTemplateSpec: {spec: {containers: [{name: vmcp, imag: x}]}}}", &references());
        assert!(plan.template.expect_err("refused").contains("spec.podTemplateSpec.spec.containers[0].imag"));
        assert!(plan.configuration.is_ok());
    }

    #[test]
    fn an_embedding_service_that_is_not_there_yet_has_an_address() {
        let plan = plan("{embeddingServerRef: {name: e}}", &references());
        let text = plan.configuration.expect("valid").lowered.text;
        assert!(text.contains("http://e-tei.n.svc.cluster.local:8080"), "{text}");
    }
}

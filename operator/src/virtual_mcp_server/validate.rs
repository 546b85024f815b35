//! Step 2: whether it makes sense. Pure.
//!
//! Three things can be wrong independently of each other: the resource as a whole (then nothing is built), the pod template
//! (then the Deployment stays as it is), the configuration (then what was mounted last stays and keeps serving).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::ResourceExt as _;
use vmcp_config::is_backend_name;
use vmcp_crds::lower::{Backend, EmbeddingService, Lowered, Surroundings};
use vmcp_crds::virtual_mcp_server::{EmbeddingSource, TeiService, Validated};
use vmcp_crds::{Invalid, Problem, VirtualMCPServer};

use super::dereference::References;
use super::last_good::Mounted;
use crate::mcp_server_entry::judge;
use crate::runtime::{Settings, pod_template};
use crate::{embedding_server, mcp_server};

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
    /// What is known of `vmcp.yaml`.
    pub lowered: Lowered,
    /// `vmcp.yaml` itself and the values of its secrets.
    pub mounted: Mounted,
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
    let (backends, unusable, duplicates) = backends(references, settings);
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
        && let Err(error) = pod_template::merge(&PodTemplateSpec::default(), &server.spec.pod_template_spec)
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
    if let Some(what) = references.unreadable.first() {
        let message = format!(
            "the {what} cannot be read, and may or may not belong; `kubectl describe` of it tells why; correct or delete it"
        );
        return Err(Refusal { reason: "Malformed", message });
    }
    let embedding_service = embedding_service(server, references, settings);
    let around = Surroundings {
        backends: &backends,
        telemetry: references.telemetry.as_ref().map(|telemetry| &telemetry.spec),
        embedding_service: embedding_service.as_ref(),
    };
    let lowered = server
        .lower(&around)
        .map_err(|invalid| Refusal { reason: "InvalidConfiguration", message: invalid.to_string() })?;
    let wanted: Vec<_> = lowered.secrets.values().cloned().collect();
    if let Some(message) = references.secrets.missing(&server.namespace, &wanted) {
        return Err(Refusal { reason: "SecretNotFound", message });
    }
    let value = |reference| references.secrets.get(reference).unwrap_or_default().to_vec();
    let secrets = lowered.secrets.iter().map(|(file, reference)| (file.clone(), value(reference))).collect();
    let mounted = Mounted { text: lowered.text.clone(), secrets };
    Ok(Configuration { lowered, mounted, backends })
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
        endpoint: embedding_server::url(name, &server.namespace, spec.port, &settings.cluster_domain),
        model: Some(spec.model.clone()),
    })
}

/// The members that can be configured, those that cannot (as they should) be called, and the names that two of them have.
fn backends(
    references: &References,
    settings: &Settings,
) -> (Vec<Backend>, BTreeMap<String, String>, Vec<String>) {
    let mut usable: Vec<Backend> = Vec::new();
    let mut unusable = BTreeMap::new();
    let mut duplicates = Vec::new();
    for server in &references.servers {
        let name = server.name_any();
        // It is a backend whether or not it runs.
        if is_backend_name(&name) {
            usable.push(mcp_server::backend(server, &settings.cluster_domain));
        } else {
            let reason = "its name cannot be that of a backend, or is that of vmcp's own tools; make another";
            unusable.insert(name, reason.to_owned());
        }
    }
    for entry in &references.entries {
        let name = entry.name_any();
        if references.servers.iter().any(|server| server.name_any() == name) {
            duplicates.push(name);
            continue;
        }
        let judged = judge(entry, &references.secrets);
        let problem = judged.address.first().or(judged.headers.first());
        if let Some(reason) = problem.map(ToString::to_string).or(judged.missing) {
            unusable.insert(name, reason);
        }
        if problem.is_none() {
            usable.push(judged.backend);
        }
    }
    (usable, unusable, duplicates)
}

#[cfg(test)]
mod tests {
    use super::*;
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
        assert_eq!(configuration.mounted.secrets.into_values().collect::<Vec<_>>(), [b"Bearer secret"]);
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
    fn a_reserved_name_spoils_only_itself() {
        let plan = plan("{}", &with_server(with_server(references(), "optim"), "1password"));
        let configuration = plan.configuration.expect("valid all the same");
        let names: Vec<_> = configuration.backends.iter().map(|backend| backend.name.as_str()).collect();
        assert_eq!(names, ["1password"]);
        assert!(plan.unusable["optim"].contains("vmcp's own tools"), "{:?}", plan.unusable);
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
        assert_eq!(plan.configuration.expect_err("refused").reason, "SecretNotFound");
    }

    #[test]
    fn mistakes_name_their_path_in_the_resource() {
        let plan = plan("{optimizer: {enabled: true, search: {maxTools: 1000}}}", &references());
        let refusal = plan.configuration.expect_err("refused");
        assert!(refusal.message.contains("spec.optimizer.search.maxTools"), "{refusal:?}");
        assert!(plan.server.is_ok(), "what is not configuration can be built");
    }

    #[test]
    fn what_cannot_be_read_any_more_changes_nothing() {
        let unreadable =
            References { unreadable: vec!["MCPServer a".to_owned()], ..with_server(references(), "b") };
        let refusal = plan("{}", &unreadable).configuration.expect_err("refused");
        assert_eq!(refusal.reason, "Malformed");
        assert!(refusal.message.contains("the MCPServer a cannot be read"), "{refusal:?}");
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

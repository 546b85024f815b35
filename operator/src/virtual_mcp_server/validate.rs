//! Step 2 of a reconcile, validate: checks the resource with everything that it refers to, and returns a
//! [`Plan`]. Pure.
//!
//! Three parts can be wrong independently of each other: the resource as a whole (then nothing is built), the
//! pod template (then the Deployment stays as it is), the configuration (then the last good one stays mounted
//! and serves). A backend that is wrong is left out and spoils only itself.

mod credentials;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::ResourceExt as _;
use vmcp_config::is_backend_name;
use vmcp_crds::lower::{Backend, EmbeddingService, Lowered, ReferencedObjects};
use vmcp_crds::virtual_mcp_server::{
    EmbeddingSource, IncomingAuth, OidcConfigReference, TeiService, Validated, YamlBlocks,
};
use vmcp_crds::{Invalid, Problem, VirtualMCPServer};

use super::dereference::References;
use super::last_good::MountedConfiguration;
use crate::runtime::BuildSettings;
use crate::shared_settings::{mcp_oidc_config, mcp_telemetry_config};
use crate::workload::pod_template;
use crate::{embedding_server, mcp_server, mcp_server_entry};

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
    /// MCPServerEntries that have the name of an MCPServer.
    pub duplicates: Vec<String>,
    /// Features that are off because of what they refer to.
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
pub(super) fn validate(server: &VirtualMCPServer, references: &References, settings: &BuildSettings) -> Plan {
    let (checked, template) = check(server);
    let (mut backends, mut unusable, duplicates) = backends(references, settings);
    credentials::add(server, references, &mut backends, &mut unusable);
    let mut left_out = LeftOut::default();
    let configuration = match &checked {
        Err(invalid) => Err(ConfigurationRefusal { reason: "InvalidSpec", message: invalid.to_string() }),
        Ok(server) => configure(server, backends, references, settings, &mut left_out),
    };
    Plan { server: checked, template, configuration, unusable, duplicates, left_out }
}

/// Checks the resource as a whole and the pod template apart: a bad template spoils only the Deployment.
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

/// Lowers the resource to `vmcp.yaml` and collects the values that it refers to.
fn configure(
    server: &Validated,
    backends: Vec<Backend>,
    references: &References,
    settings: &BuildSettings,
    left_out: &mut LeftOut,
) -> Result<Configuration, ConfigurationRefusal> {
    if let Some(what) = references.malformed.first() {
        let message = format!(
            "the {what} cannot be read, so that its group is unknown; `kubectl describe` of it says why; correct or delete it"
        );
        return Err(ConfigurationRefusal { reason: "Malformed", message });
    }
    let mut server = server.clone();
    left_out.embeddings = unusable_embeddings(&server, references);
    if let (Some(_), Some(optimizer)) = (&left_out.embeddings, &mut server.optimizer) {
        optimizer.embeddings = EmbeddingSource::None;
    }
    let mut telemetry = references.telemetry.as_ref().map(|telemetry| telemetry.spec.clone());
    left_out.telemetry = references.telemetry.as_ref().and_then(|config| {
        let refusal = mcp_telemetry_config::validate(config, &references.secrets).err()?;
        Some(ConfigurationRefusal { reason: refusal.reason, message: refusal.message })
    });
    if let (Some(_), Some(telemetry)) = (&left_out.telemetry, &mut telemetry) {
        telemetry.open_telemetry = None;
    }
    if let Some(refusal) = unusable_authentication(&server, references) {
        return Err(refusal);
    }
    let embedding_service = embedding_service(&server, references, settings);
    let around = ReferencedObjects {
        backends: &backends,
        authz: references.authz.as_ref().map(|config| &config.spec),
        telemetry: telemetry.as_ref(),
        oidc: references.oidc.as_ref().map(|config| &config.spec),
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
    if let Some(message) = references.secrets.missing(&server.namespace, &wanted) {
        return Err(ConfigurationRefusal { reason: "SecretNotFound", message });
    }
    lowered.check_values(|reference| references.secrets.get(reference)).map_err(invalid)?;
    let value = |reference| references.secrets.get(reference).unwrap_or_default().to_vec();
    let secrets = lowered.secrets.iter().map(|(file, reference)| (file.clone(), value(reference))).collect();
    let mounted = MountedConfiguration { text: lowered.text.clone(), secrets };
    Ok(Configuration { lowered, mounted, backends })
}

/// Returns why clients cannot be authenticated as the resource says. Never left out: an endpoint without its
/// authentication would be open.
fn unusable_authentication(server: &Validated, references: &References) -> Option<ConfigurationRefusal> {
    let auth = IncomingAuth::of(&server.settings.incoming_auth)?;
    if let Some(OidcConfigReference { name, .. }) = &auth.oidc_config_ref {
        let Some(config) = &references.oidc else {
            let message = format!(
                "there is no MCPOIDCConfig {name} in this namespace; create it, or correct spec.incomingAuth.oidcConfigRef"
            );
            return Some(ConfigurationRefusal { reason: "OIDCConfigRefNotFound", message });
        };
        if let Err(message) = mcp_oidc_config::validate(&config.spec) {
            let message = format!("the MCPOIDCConfig {name} is not valid: {message}");
            return Some(ConfigurationRefusal { reason: "OIDCConfigRefNotValid", message });
        }
    }
    let wanted: Vec<_> = auth.api_keys.iter().map(|key| key.secret_key_ref.clone()).collect();
    let message = references.secrets.missing(&server.namespace, &wanted)?;
    Some(ConfigurationRefusal { reason: "SecretNotFound", message })
}

/// Returns why the source of vectors cannot be used: a Secret that it refers to is missing, or holds a value
/// that would make the whole file invalid. A mistake of the resource itself is none of this.
fn unusable_embeddings(server: &Validated, references: &References) -> Option<ConfigurationRefusal> {
    let optimizer = server.optimizer.as_ref()?;
    let wanted = optimizer.embeddings.secret_references();
    if wanted.is_empty() {
        return None;
    }
    if let Some(message) = references.secrets.missing(&server.namespace, &wanted) {
        return Some(ConfigurationRefusal { reason: "SecretNotFound", message });
    }
    let alone = Validated { telemetry: None, settings: YamlBlocks::default(), ..server.clone() };
    let service = EmbeddingService { endpoint: "http://any".to_owned(), model: None };
    let around = ReferencedObjects { embedding_service: Some(&service), ..ReferencedObjects::default() };
    let lowered = alone.lower(&around).ok()?;
    let Invalid(problems) = lowered.check_values(|reference| references.secrets.get(reference)).err()?;
    let names: BTreeSet<_> = wanted.into_iter().map(|reference| reference.name).collect();
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    let why = problems.first().map(|problem| problem.message.clone()).unwrap_or_default();
    let message =
        format!("a value in the Secret {names} cannot be used: {why}; store it as one line of text");
    Some(ConfigurationRefusal { reason: "SecretInvalid", message })
}

/// Returns the address of the EmbeddingServer, which follows from its name: it need not exist yet.
fn embedding_service(
    server: &Validated,
    references: &References,
    settings: &BuildSettings,
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

/// Returns the backends to configure, the members that cannot be called (by name, with the reason), and the
/// names that two members share.
fn backends(
    references: &References,
    settings: &BuildSettings,
) -> (Vec<Backend>, BTreeMap<String, String>, Vec<String>) {
    let mut usable: Vec<Backend> = Vec::new();
    let mut unusable = BTreeMap::new();
    let mut duplicates = Vec::new();
    for server in &references.servers {
        let name = server.name_any();
        // A backend whether or not it runs: a dead backend degrades only itself.
        if is_backend_name(&name) {
            usable.push(mcp_server::backend(server, &settings.cluster_domain));
        } else {
            let reason = "its name cannot be that of a backend, or is reserved for vmcp's own tools; create it under another name";
            unusable.insert(name, reason.to_owned());
        }
    }
    for entry in &references.entries {
        let name = entry.name_any();
        if references.servers.iter().any(|server| server.name_any() == name) {
            duplicates.push(name);
            continue;
        }
        let validated = mcp_server_entry::validate(entry, &references.secrets);
        let problem = validated.address_problems.first().or(validated.header_problems.first());
        if let Some(reason) = problem.map(ToString::to_string).or(validated.missing_secrets) {
            unusable.insert(name, reason);
        }
        if problem.is_none() {
            usable.push(validated.backend);
        }
    }
    (usable, unusable, duplicates)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::references::ReferencedSecrets;
    use crate::virtual_mcp_server::testing::{plan, references, with_entry, with_secret, with_server, yaml};
    use std::sync::Arc;

    #[test]
    fn an_endpoint_is_never_opened_because_a_reference_leads_nowhere() {
        let spec = "{incomingAuth: {type: oidc, oidcConfigRef: {name: idp, audience: a}}}";
        let refused = plan(spec, &references()).configuration.unwrap_err();
        assert_eq!(refused.reason, "OIDCConfigRefNotFound");
        let with = |inline: &str| {
            let config = yaml(&format!(
                "metadata: {{name: idp, namespace: n}}\nspec: {{type: inline, inline: {inline}}}"
            ));
            References { oidc: Some(Arc::new(config)), ..references() }
        };
        let refused = plan(spec, &with("{issuer: 'http://idp.example'}")).configuration.unwrap_err();
        assert_eq!(refused.reason, "OIDCConfigRefNotValid");
        let configuration = plan(spec, &with("{issuer: 'https://idp.example'}")).configuration.unwrap();
        let auth = &configuration.lowered.config.incoming_auth;
        assert_eq!(
            (auth.issuers[0].issuer.as_str(), auth.issuers[0].audience.as_str()),
            ("https://idp.example", "a")
        );

        let keys = "{incomingAuth: {type: apiKeys, apiKeys: [{subject: ci, secretKeyRef: {name: ci, key: k}}, \
            {subject: dash, secretKeyRef: {name: dash, key: k}}]}}";
        let refused = plan(keys, &references()).configuration.unwrap_err();
        assert_eq!(refused.reason, "SecretNotFound");
        let known = |second: &str| References {
            secrets: ReferencedSecrets::of(&[("ci", "k", "0123456789abcdef"), ("dash", "k", second)]),
            ..references()
        };
        let configuration = plan(keys, &known("fedcba9876543210")).configuration.unwrap();
        assert!(!configuration.lowered.text.contains("0123456789abcdef"), "{}", configuration.lowered.text);
        assert!(plan(keys, &known("short")).configuration.is_err());
        assert!(plan(keys, &known("0123456789abcdef")).configuration.is_err(), "one key of two clients");
    }

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
    fn credentials_come_from_the_server_then_the_backend_then_the_default() {
        let config = |name: &str, kind: &str| {
            let yaml = format!("metadata: {{name: {name}, namespace: ns}}\nspec: {kind}");
            (name.to_owned(), Arc::new(serde_saphyr::from_str(&yaml).expect("a configuration")))
        };
        let secret = "{type: bearerToken, bearerToken: {tokenSecretRef: {name: s, key: k}}}";
        let references = References {
            auth_configs: [config("own", secret), config("bad", &secret.replace("s,", "none,"))].into(),
            ..with_secret(with_server(with_server(with_server(references(), "a"), "b"), "c"))
        };
        let plan = plan(
            "{outgoingAuth: {backends: {a: {type: externalAuthConfigRef, externalAuthConfigRef: {name: own}}, \
             b: {type: externalAuthConfigRef, externalAuthConfigRef: {name: bad}}, \
             c: {type: externalAuthConfigRef, externalAuthConfigRef: {name: missing}}}}}",
            &references,
        );
        let configuration = plan.configuration.expect("valid all the same");
        let enabled: Vec<_> = configuration.backends.iter().map(|backend| backend.enabled).collect();
        assert_eq!(enabled, [true, false, false]);
        let text = &configuration.lowered.text;
        assert!(text.contains("Bearer ${file:") && !text.contains("Bearer secret"), "{text}");
        assert!(plan.unusable["b"].contains("no Secret none"), "{:?}", plan.unusable);
        assert!(plan.unusable["c"].contains("no MCPExternalAuthConfig missing"), "{:?}", plan.unusable);
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

    /// A server that embeds with a key from the Secret `s`.
    const EMBEDS: &str = "{optimizer: {enabled: true, embeddings: {provider: openai, openai: {endpoint: 'https://e.example', \
                          model: m, \
                          sensitiveHeaders: [{name: X, secretKeyRef: {name: s, key: k}}]}}}}";

    #[test]
    fn a_bad_secret_of_the_embeddings_takes_away_the_embeddings_alone() {
        let bad = References {
            secrets: ReferencedSecrets::of(&[("s", "k", "hunter\u{7}2")]),
            ..with_server(references(), "a")
        };
        for (references, reason) in
            [(with_server(references(), "a"), "SecretNotFound"), (bad, "SecretInvalid")]
        {
            let plan = plan(EMBEDS, &references);
            let left_out = plan.left_out.embeddings.expect("left out");
            assert_eq!(left_out.reason, reason);
            assert!(
                left_out.message.contains("Secret s") && !left_out.message.contains("hunter"),
                "{left_out:?}"
            );
            let text = plan.configuration.expect("valid all the same").lowered.text;
            assert!(text.contains("provider: none") && text.contains("name: a"), "{text}");
        }
        let plan = plan(EMBEDS, &with_secret(references()));
        assert!(plan.left_out.embeddings.is_none());
        assert!(plan.configuration.expect("valid").lowered.text.contains("e.example"));
    }

    #[test]
    fn a_bad_secret_of_the_telemetry_takes_away_the_export_alone() {
        let telemetry = yaml(
            "metadata: {name: t, namespace: n}\nspec: {openTelemetry: {enabled: true, endpoint: 'https://collector:4318', \
             tracing: {enabled: true}, sensitiveHeaders: [{name: Authorization, secretKeyRef: {name: s, key: k}}]}}",
        );
        let with = |secrets| References {
            telemetry: Some(Arc::new(telemetry)),
            secrets,
            ..with_server(references(), "a")
        };
        let mut references = with(ReferencedSecrets::default());
        let spec = "{telemetryConfigRef: {name: t}}";
        for (secrets, reason) in [
            (ReferencedSecrets::default(), "SecretNotFound"),
            (ReferencedSecrets::of(&[("s", "k", "a\u{7}b")]), "ConfigInvalid"),
        ] {
            references.secrets = secrets;
            let plan = plan(spec, &references);
            assert_eq!(plan.left_out.telemetry.expect("left out").reason, reason);
            let text = plan.configuration.expect("valid all the same").lowered.text;
            assert!(!text.contains("collector") && text.contains("name: a"), "{text}");
        }
        references.secrets = ReferencedSecrets::of(&[("s", "k", "Bearer x")]);
        assert!(plan(spec, &references).configuration.expect("valid").lowered.text.contains("collector"));
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
        let malformed =
            References { malformed: vec!["MCPServer a".to_owned()], ..with_server(references(), "b") };
        let refusal = plan("{}", &malformed).configuration.expect_err("refused");
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
    fn a_configuration_that_no_config_map_holds_is_refused_with_its_size() {
        let name = |number: usize| format!("a-server-with-a-long-name-for-the-sake-of-it-{number}");
        let many = (0..8_000).fold(references(), |references, number| with_server(references, &name(number)));
        let refusal = plan("{}", &many).configuration.expect_err("refused");
        assert_eq!(refusal.reason, "ConfigurationTooLarge");
        assert!(refusal.message.contains("KiB with 8000 backends"), "{refusal:?}");
    }

    #[test]
    fn an_embedding_service_that_is_not_there_yet_has_an_address() {
        let plan = plan("{embeddingServerRef: {name: e}}", &references());
        let text = plan.configuration.expect("valid").lowered.text;
        assert!(text.contains("http://e-tei.n.svc.cluster.local:8080"), "{text}");
    }
}

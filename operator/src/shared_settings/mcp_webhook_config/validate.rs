//! Step 2 of a reconcile, validate: checks webhooks and the Secrets that they name. Pure.
//!
//! The validator of `vmcp.yaml` itself decides, on a file that holds nothing else: one mistake would make the
//! file of a VirtualMCPServer invalid as a whole.

use reqwest::Identity;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use vmcp_crds::lower::{ReferencedObjects, ReferencedWebhooks, WebhookScope, webhook_path};
use vmcp_crds::shared_settings::mcp_webhook_config::{Webhook, WebhookTls};
use vmcp_crds::{Invalid, MCPWebhookConfigSpec, Problem, VirtualMCPServer, VirtualMCPServerSpec};
use vmcp_egress::ca_certificates;
use vmcp_error_chain::error_chain;

use crate::references::ReferencedSecrets;
use crate::runtime::{BuildSettings, unchecked};

/// The reason why webhooks cannot be asked; each names the place and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WebhookConfigFault {
    /// Nothing checks that the author may read the Secrets.
    Forbidden(String),
    /// A Secret or a key of it is missing.
    SecretMissing(String),
    /// A setting, or the value of a Secret, is wrong.
    Invalid(String),
}

impl WebhookConfigFault {
    /// Returns the cause and the remedy.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Forbidden(message) | Self::SecretMissing(message) | Self::Invalid(message) => message,
        }
    }
}

/// Checks the settings with the values of their Secrets.
pub(crate) fn validate(
    spec: &MCPWebhookConfigSpec,
    namespace: &str,
    secrets: &ReferencedSecrets,
    settings: &BuildSettings,
) -> Result<(), WebhookConfigFault> {
    if let Some(problem) = unchecked("MCPWebhookConfig", spec, settings) {
        return Err(WebhookConfigFault::Forbidden(problem.to_string()));
    }
    let invalid = |problems: Vec<Problem>| WebhookConfigFault::Invalid(Invalid(problems).to_string());
    let problems = spec.problems();
    if !problems.is_empty() {
        return Err(invalid(problems));
    }
    if let Some(message) = secrets.missing(namespace, &spec.secret_references()) {
        return Err(WebhookConfigFault::SecretMissing(message));
    }
    let problems = tls_problems(spec, secrets);
    if !problems.is_empty() {
        return Err(invalid(problems));
    }
    let webhooks =
        [ReferencedWebhooks { name: NAME.to_owned(), spec: spec.clone(), scope: WebhookScope::All }];
    let around = ReferencedObjects { webhooks: &webhooks, ..ReferencedObjects::default() };
    // An otherwise empty VirtualMCPServer: every problem that is found lies in the webhooks.
    let server = VirtualMCPServer::new(NAME, VirtualMCPServerSpec::default());
    let lowered = server.validate().and_then(|server| server.lower(&around));
    let checked = lowered.and_then(|lowered| lowered.check_values(|reference| secrets.get(reference)));
    let Err(Invalid(problems)) = checked else { return Ok(()) };
    Err(invalid(problems.into_iter().map(in_resource).collect()))
}

/// Name of the resources that are lowered to be checked.
const NAME: &str = "any";

/// Translates the path of a problem: lowering names the resource, the check of values a path of `vmcp.yaml`.
fn in_resource(problem: Problem) -> Problem {
    let Problem { path, message, remedy, .. } = problem;
    let own = path.strip_prefix(&format!("MCPWebhookConfig {NAME}: ")).map(str::to_owned);
    Problem::new(own.or_else(|| webhook_path(&path)).unwrap_or(path), message, remedy)
}

/// Returns the certificates and keys that pods could not use. With `failurePolicy: ignore`, a webhook that
/// cannot be reached would let every call go on.
fn tls_problems(spec: &MCPWebhookConfigSpec, secrets: &ReferencedSecrets) -> Vec<Problem> {
    let each = spec.kinds().into_iter().flat_map(|(kind, webhooks)| {
        webhooks
            .iter()
            .enumerate()
            .map(move |(index, webhook)| (format!("spec.{kind}[{index}].tlsConfig"), webhook))
    });
    each.flat_map(|(path, webhook)| tls_problems_of(&path, webhook, secrets)).collect()
}

fn tls_problems_of(path: &str, webhook: &Webhook, secrets: &ReferencedSecrets) -> Vec<Problem> {
    let Some(WebhookTls { ca_secret_ref, client_cert_secret_ref, client_key_secret_ref, .. }) =
        &webhook.tls_config
    else {
        return Vec::new();
    };
    let value = |reference| secrets.get(reference).unwrap_or_default();
    let mut problems = Vec::new();
    if let Some(reference) = ca_secret_ref
        && let Err(reason) = ca_certificates(value(reference))
    {
        let message = format!("the key {} of the Secret {}: {reason}", reference.key, reference.name);
        let remedy = "store certificates of authorities as PEM";
        problems.push(Problem::new(format!("{path}.caSecretRef"), message, remedy));
    }
    if let (Some(certificate), Some(key)) = (client_cert_secret_ref, client_key_secret_ref)
        && let Err(reason) = check_identity(value(certificate), value(key))
    {
        let (of, and) = (&certificate.name, &key.name);
        let message = format!("the Secrets {of} and {and} hold no client certificate with its key: {reason}");
        let remedy = "store the certificate and its private key as PEM";
        problems.push(Problem::new(format!("{path}.clientCertSecretRef"), message, remedy));
    }
    problems
}

/// Checks a client certificate and its key as a pod does: reqwest reads them, and rustls refuses the key of
/// another certificate.
fn check_identity(certificate: &[u8], key: &[u8]) -> Result<(), String> {
    let pem = [certificate, b"\n", key].concat();
    Identity::from_pem(&pem).map_err(|error| error_chain(&error))?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let certificates = certificates.map_err(|error| error.to_string())?;
    // Of several keys reqwest takes the last, too.
    let key = PrivateKeyDer::pem_slice_iter(&pem).last().ok_or("there is no private key")?;
    let key = key.map_err(|error| error.to_string())?;
    let certified = CertifiedKey::from_der(certificates, key, &default_provider());
    certified.map(drop).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn with_secrets(
        spec: &Value,
        secrets: &ReferencedSecrets,
        settings: &BuildSettings,
    ) -> Result<(), WebhookConfigFault> {
        validate(&serde_json::from_value(spec.clone()).unwrap(), "team", secrets, settings)
    }

    fn validated(spec: &Value, settings: &BuildSettings) -> Result<(), String> {
        let fault = with_secrets(spec, &ReferencedSecrets::default(), settings);
        fault.map_err(|fault| fault.message().to_owned())
    }

    #[test]
    fn a_mistake_is_told_by_its_place_in_the_resource() {
        let settings = BuildSettings::default();
        let one = |webhook: Value| json!({ "validating": [webhook] });
        let fine = one(json!({ "name": "guard", "url": "https://guard.team.svc/ask?a=${b}" }));
        assert_eq!(validated(&fine, &settings), Ok(()));
        let plain = json!({ "name": "guard", "url": "http://guard.team.svc/" });
        let message = validated(&one(plain), &settings).unwrap_err();
        assert!(message.starts_with("spec.validating[0].url: "), "{message}");
        let insecure = json!({ "name": "guard", "url": "http://guard.team.svc/", "tlsConfig": { "insecureSkipVerify": true } });
        assert_eq!(validated(&one(insecure), &settings), Ok(()));
        let slow = json!({ "name": "guard", "url": "https://guard/", "timeout": "1h" });
        let message = validated(&one(slow), &settings).unwrap_err();
        assert!(message.starts_with("spec.validating[0].timeout: "), "{message}");
        assert!(message.contains("is not between 10ms and 30s"), "{message}");
        let joined = json!({ "name": "guard/all", "url": "https://guard/" });
        let message = validated(&one(joined), &settings).unwrap_err();
        assert!(message.starts_with("spec.validating[0].name: is no name"), "{message}");
        let half = json!({ "name": "guard", "url": "https://guard/", "tlsConfig": { "clientCertSecretRef": { "name": "s", "key": "k" } } });
        let message = validated(&one(half), &settings).unwrap_err();
        assert!(message.starts_with("spec.validating[0].tlsConfig: "), "{message}");
    }

    #[test]
    fn values_that_pods_could_not_use_are_told_by_their_field() {
        let settings = BuildSettings::default();
        let reference = |key: &str| json!({ "name": "s", "key": key });
        let webhook = |field: &str, value: Value| json!({ "post": [{ "name": "mask", "url": "https://mask/", field: value }] });
        let signed = rcgen::generate_simple_self_signed(["mask".to_owned()]).unwrap();
        let (certificate, key) = (signed.cert.pem(), signed.signing_key.serialize_pem());
        let other = rcgen::generate_simple_self_signed(["mask".to_owned()]).unwrap();
        let foreign = other.signing_key.serialize_pem();
        let values = [
            ("s", "crt", certificate.as_str()),
            ("s", "key", &key),
            ("s", "foreign", &foreign),
            ("s", "none", ""),
            ("s", "text", "hello"),
        ];
        let secrets = ReferencedSecrets::from_values(&values);
        let tls = |certificate: &str, key: &str| {
            let client = json!({ "clientCertSecretRef": reference(certificate), "clientKeySecretRef": reference(key) });
            webhook("tlsConfig", client)
        };
        for (spec, place) in [
            (webhook("hmacSecretRef", reference("none")), "spec.post[0].hmacSecretRef: is empty"),
            (
                webhook("tlsConfig", json!({ "caSecretRef": reference("text") })),
                "spec.post[0].tlsConfig.caSecretRef: ",
            ),
            (tls("crt", "text"), "spec.post[0].tlsConfig.clientCertSecretRef: "),
            (tls("text", "key"), "spec.post[0].tlsConfig.clientCertSecretRef: "),
            (tls("crt", "foreign"), "spec.post[0].tlsConfig.clientCertSecretRef: "),
        ] {
            let Err(WebhookConfigFault::Invalid(message)) = with_secrets(&spec, &secrets, &settings) else {
                panic!("{spec}")
            };
            assert!(message.starts_with(place) && !message.contains("PRIVATE KEY"), "{message}");
        }
        for fine in [tls("crt", "key"), webhook("tlsConfig", json!({ "caSecretRef": reference("crt") }))] {
            assert_eq!(with_secrets(&fine, &secrets, &settings), Ok(()), "{fine}");
        }
    }

    #[test]
    fn a_missing_secret_and_unchecked_authors_make_it_invalid() {
        let signed = json!({ "post": [{ "name": "mask", "url": "https://mask/", "hmacSecretRef": { "name": "hmac", "key": "k" } }] });
        let missing = with_secrets(&signed, &ReferencedSecrets::default(), &BuildSettings::default());
        let Err(WebhookConfigFault::SecretMissing(missing)) = missing else { panic!("{missing:?}") };
        assert!(missing.contains("hmac"), "{missing}");
        let settings = BuildSettings { authors_checked: false, ..BuildSettings::default() };
        let unchecked = with_secrets(&signed, &ReferencedSecrets::default(), &settings);
        let Err(WebhookConfigFault::Forbidden(unchecked)) = unchecked else { panic!("{unchecked:?}") };
        assert!(unchecked.contains("may get Secrets"), "{unchecked}");
        let unsigned = json!({ "post": [{ "name": "mask", "url": "https://mask/" }] });
        assert_eq!(validated(&unsigned, &settings), Ok(()));
    }
}

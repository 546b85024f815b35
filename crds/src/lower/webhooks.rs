//! Renders the block `webhooks` from MCPWebhookConfigs.

use serde_json::{Value, json};
use url::Url;

use super::secret_files::SecretFiles;
use crate::fields::yaml_block::{Block, escape};
use crate::shared_settings::mcp_webhook_config::{MCPWebhookConfigSpec, Webhook, WebhookTls};

/// An MCPWebhookConfig with the tools whose calls it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferencedWebhooks {
    /// Name of the resource.
    pub name: String,
    /// Its settings.
    pub spec: MCPWebhookConfigSpec,
    /// The tools whose calls its services are asked about.
    pub scope: WebhookScope,
}

/// The tools whose calls the services of a reference are asked about. One MCPWebhookConfig may have both
/// scopes, by two references: each is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookScope {
    /// Every tool: a VirtualMCPServer refers to it. Services are told the listed names.
    All,
    /// The tools of these backends: MCPServers refer to it. Services are told the servers' own names, as
    /// ToolHive's proxy of one server tells them.
    Backends(Vec<String>),
}

impl ReferencedWebhooks {
    /// Returns the webhooks of each kind, with the name of the kind. A scope without a backend has none,
    /// because an empty list in `vmcp.yaml` stands for every backend.
    pub(super) fn kinds(&self) -> [(&'static str, &[Webhook]); 3] {
        match &self.scope {
            WebhookScope::Backends(backends) if backends.is_empty() => {
                self.spec.kinds().map(|(kind, _)| (kind, [].as_slice()))
            }
            _ => self.spec.kinds(),
        }
    }
}

/// Suffix of the names of webhooks of a VirtualMCPServer's own reference: the same MCPWebhookConfig may be
/// that of an MCPServer too, and names are unique.
const ALL_SUFFIX: &str = "/all";

/// Fields of a webhook in `vmcp.yaml`, and the fields of the resource that they come from.
const FIELDS: [(&str, &str); 7] = [
    ("hmacSecret", "hmacSecretRef"),
    ("caBundlePath", "tlsConfig.caSecretRef"),
    ("clientCertPath", "tlsConfig.clientCertSecretRef"),
    ("clientKeyPath", "tlsConfig.clientKeySecretRef"),
    ("insecureAllowHttp", "tlsConfig.insecureSkipVerify"),
    ("insecureSkipVerify", "tlsConfig.insecureSkipVerify"),
    ("allowPrivateIp", "allowPrivateIP"),
];

/// Translates a path of `vmcp.yaml` to that of the resource, if it lies in the only MCPWebhookConfig:
/// `webhooks.post[3].hmacSecret` to `spec.post[3].hmacSecretRef`.
pub fn webhook_path(path: &str) -> Option<String> {
    let (kind, index, field) = split(path)?;
    Some(format!("spec.{kind}[{index}]{field}"))
}

/// Splits `webhooks.post[3].hmacSecret` into its kind, its index, and the field `.hmacSecretRef` of the
/// resource.
pub(super) fn split(path: &str) -> Option<(&str, usize, String)> {
    let (kind, rest) = path.strip_prefix("webhooks.")?.split_once('[')?;
    let (index, rest) = rest.split_once(']')?;
    let field = rest.strip_prefix('.').unwrap_or_default();
    let known = FIELDS.into_iter().find(|(name, _)| *name == field);
    let field = known.map_or_else(|| rest.to_owned(), |(_, field)| format!(".{field}"));
    Some((kind, index.parse().ok()?, field))
}

/// Returns the block; the configurations in their order.
pub(super) fn render(referenced: &[ReferencedWebhooks], secrets: &mut SecretFiles) -> Value {
    let mut block = Block::new();
    for config in referenced {
        for (kind, webhooks) in config.kinds() {
            let rendered = webhooks.iter().map(|webhook| entry(config, webhook, secrets));
            let rendered: Vec<Value> = rendered.collect();
            if rendered.is_empty() {
                continue;
            }
            if let Value::Array(all) = block.entry(kind).or_insert_with(|| json!([])) {
                all.extend(rendered);
            }
        }
    }
    block.into()
}

fn entry(config: &ReferencedWebhooks, webhook: &Webhook, secrets: &mut SecretFiles) -> Value {
    let Webhook {
        name,
        url,
        timeout,
        failure_policy,
        tls_config,
        hmac_secret_ref,
        tools,
        claims,
        tell_reason,
        allow_private_ip,
    } = webhook;
    let WebhookTls { ca_secret_ref, client_cert_secret_ref, client_key_secret_ref, insecure_skip_verify } =
        tls_config.clone().unwrap_or_default();
    let (suffix, backends) = match &config.scope {
        WebhookScope::All => (ALL_SUFFIX, [].as_slice()),
        WebhookScope::Backends(backends) => ("", backends.as_slice()),
    };
    let parsed = Url::parse(url).ok();
    let is_http = parsed.as_ref().is_some_and(|url| url.scheme() == "http");
    let is_service = parsed.as_ref().and_then(Url::domain).is_some_and(is_service);
    let settings = [
        ("name", json!(format!("{}/{name}{suffix}", config.name))),
        ("url", json!(url)),
        ("timeout", json!(timeout)),
        ("failurePolicy", json!(failure_policy)),
        ("tools", json!(tools)),
        ("backends", json!(backends)),
        ("originalNames", json!(config.scope != WebhookScope::All)),
        ("claims", json!(claims)),
        ("tellReason", json!(tell_reason)),
        ("insecureAllowHttp", json!(insecure_skip_verify && is_http)),
        ("insecureSkipVerify", json!(insecure_skip_verify && !is_http)),
        ("allowPrivateIp", json!(*allow_private_ip || is_service)),
    ];
    let is_given = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        _ => true,
    };
    let mut block: Block = settings
        .into_iter()
        .filter(|(_, value)| is_given(value))
        .map(|(key, value)| (key.to_owned(), escape(value)))
        .collect();
    if let Some(secret) = hmac_secret_ref {
        block.insert("hmacSecret".to_owned(), secrets.refer(secret));
    }
    for (key, secret) in [
        ("caBundlePath", ca_secret_ref),
        ("clientCertPath", client_cert_secret_ref),
        ("clientKeyPath", client_key_secret_ref),
    ] {
        if let Some(secret) = secret {
            block.insert(key.to_owned(), secrets.path(&secret).into());
        }
    }
    block.into()
}

/// Returns true for the name of a Service of the cluster, whose address is private.
fn is_service(host: &str) -> bool {
    // The dot of an absolute name.
    let host = host.trim_end_matches('.');
    [".svc", ".svc.cluster.local"].iter().any(|end| host.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_settings::mcp_webhook_config::Webhook;

    fn rendered(scope: WebhookScope, url: &str) -> Value {
        let webhook = Webhook { name: "a".to_owned(), url: url.to_owned(), ..Webhook::default() };
        let spec = MCPWebhookConfigSpec { post: vec![webhook], ..MCPWebhookConfigSpec::default() };
        let config = ReferencedWebhooks { name: "c".to_owned(), spec, scope };
        render(&[config], &mut SecretFiles::default())
    }

    #[test]
    fn the_names_of_services_are_known() {
        for (url, expected) in [
            ("https://guard.team.svc/ask", true),
            ("https://GUARD.team.svc:8443/ask", true),
            ("http://guard.team.svc.cluster.local:8080", true),
            ("https://guard.team.svc.cluster.local./ask", true),
            ("https://guard.team.svc.evil.example./", false),
            ("https://guard.team.svc.evil.example/", false),
            ("https://evil.example/.svc", false),
            ("https://evil.example?a=.svc", false),
            (r"https://evil.example\.svc", false),
            ("https://a.svc@evil.example/", false),
            ("https://10.0.0.1/", false),
        ] {
            let block = rendered(WebhookScope::All, url);
            assert_eq!(block["post"][0]["allowPrivateIp"] == json!(true), expected, "{url}");
        }
    }

    #[test]
    fn a_scope_without_a_backend_is_not_every_backend() {
        let url = "https://a.example/";
        assert_eq!(rendered(WebhookScope::Backends(Vec::new()), url), json!({}));
        assert_eq!(rendered(WebhookScope::All, url)["post"][0]["name"], "c/a/all");
        let one = &rendered(WebhookScope::Backends(vec!["b".to_owned()]), url)["post"][0];
        assert_eq!((&one["name"], &one["backends"]), (&json!("c/a"), &json!(["b"])));
    }

    #[test]
    fn fields_of_the_file_lead_to_those_of_the_resource() {
        for (path, expected) in [
            ("webhooks.post[3].hmacSecret", "spec.post[3].hmacSecretRef"),
            ("webhooks.mutating[0].clientCertPath", "spec.mutating[0].tlsConfig.clientCertSecretRef"),
            ("webhooks.validating[12].timeout", "spec.validating[12].timeout"),
        ] {
            assert_eq!(webhook_path(path).as_deref(), Some(expected));
        }
        assert_eq!(webhook_path("backends[0].name"), None);
    }
}

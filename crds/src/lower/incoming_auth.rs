//! Renders the block `incomingAuth`.

mod cluster_tokens;

use serde_json::{Value, json};

use super::referenced_objects::ReferencedObjects;
use super::secret_files::SecretFiles;
use crate::fields::yaml_block::{Block, escape};
use crate::shared_settings::mcp_oidc_config::{InlineOidcConfig, MCPOIDCConfigSpec};
use crate::virtual_mcp_server::{ApiKey, DecisionPoint, IncomingAuth, OidcConfigReference};

/// Returns the block with the referenced settings in place of the references. If its MCPOIDCConfig is
/// missing, or its form is unknown, the validator refuses the returned block: a broken reference never opens
/// an endpoint.
pub(super) fn render(
    mut block: Block,
    referenced: &ReferencedObjects<'_>,
    namespace: &str,
    secrets: &mut SecretFiles,
) -> Value {
    let Some(IncomingAuth { oidc_config_ref, api_keys, decision_point, .. }) =
        IncomingAuth::from_block(&block)
    else {
        return escape(block.into());
    };
    for key in ["oidcConfigRef", "apiKeys", "decisionPoint"] {
        block.shift_remove(key);
    }
    let Value::Object(mut rendered) = escape(block.into()) else { return Value::Null };
    if let (Some(reference), Some(config)) = (&oidc_config_ref, referenced.oidc)
        && let Some(issuer) = render_issuer(reference, config, referenced, namespace, secrets)
    {
        rendered.insert("oidc".to_owned(), issuer.into());
    }
    if !api_keys.is_empty() {
        rendered.insert("apiKeys".to_owned(), api_keys.iter().map(|key| api_key(key, secrets)).collect());
    }
    if let Some(point) = &decision_point {
        let mut point = render_decision_point(point, secrets);
        if let (Some(pem), Value::Object(point)) = (referenced.decision_point_certificates, &mut point) {
            point.insert("caBundlePath".to_owned(), secrets.certificates(pem).into());
        }
        rendered.insert("decisionPoint".to_owned(), point);
    }
    rendered.into()
}

/// Returns the block of the identity provider; `None` if its settings are missing.
fn render_issuer(
    reference: &OidcConfigReference,
    config: &MCPOIDCConfigSpec,
    referenced: &ReferencedObjects<'_>,
    namespace: &str,
    secrets: &mut SecretFiles,
) -> Option<Block> {
    let mut block = of_reference(reference);
    let mut secret = None;
    if let Some(settings) = &config.kubernetes_service_account {
        block.extend(cluster_tokens::issuer(settings, referenced.cluster_issuer, namespace, secrets));
    } else {
        let provider = config.inline.as_ref()?;
        block.extend(issuer(provider));
        let used = provider.client_secret_ref.as_ref().filter(|_| provider.introspection_url.is_some());
        secret = used.map(|secret| secrets.refer(secret));
        if let Some(pem) = referenced.oidc_certificates {
            block.insert("caBundlePath".to_owned(), secrets.certificates(pem).into());
        }
    }
    let Value::Object(mut block) = escape(block.into()) else { return None };
    if let Some(secret) = secret {
        block.insert("clientSecret".to_owned(), secret);
    }
    Some(block)
}

fn render_decision_point(point: &DecisionPoint, secrets: &mut SecretFiles) -> Value {
    let DecisionPoint {
        url,
        timeout,
        on_failure,
        bearer_token_secret_ref,
        hmac_secret_ref,
        claims,
        include_arguments,
        tell_reason,
        cache_for,
        max_concurrent,
        insecure_allow_http,
        allow_private_ip,
        ca_bundle_ref: _,
    } = point;
    let settings = [
        ("url", json!(url)),
        ("timeout", json!(timeout)),
        ("onFailure", json!(on_failure)),
        ("claims", json!(claims)),
        ("includeArguments", json!(include_arguments)),
        ("tellReason", json!(tell_reason)),
        ("cacheFor", json!(cache_for)),
        ("maxConcurrent", json!(max_concurrent)),
        ("insecureAllowHttp", json!(insecure_allow_http)),
        ("allowPrivateIp", json!(allow_private_ip)),
    ];
    let is_given = |value: &Value| !matches!(value, Value::Null | Value::Bool(false));
    let mut block: Block = settings
        .into_iter()
        .filter(|(_, value)| is_given(value))
        .map(|(key, value)| (key.to_owned(), escape(value)))
        .collect();
    for (key, secret) in [("bearerToken", bearer_token_secret_ref), ("hmacSecret", hmac_secret_ref)] {
        if let Some(secret) = secret {
            block.insert(key.to_owned(), secrets.refer(secret));
        }
    }
    block.into()
}

/// Returns the settings of the tokens that are for this server.
fn of_reference(reference: &OidcConfigReference) -> Block {
    let OidcConfigReference { name: _, audience, scopes, required_scopes, resource_url, required_binding } =
        reference;
    let mut block = Block::new();
    block.insert("audience".to_owned(), json!(audience));
    if let Some(resource) = resource_url {
        block.insert("resource".to_owned(), json!(resource));
    }
    if let Some(binding) = required_binding {
        block.insert("requiredBinding".to_owned(), json!(binding));
    }
    for (key, value) in [("scopes", scopes), ("requiredScopes", required_scopes)] {
        if !value.is_empty() {
            block.insert(key.to_owned(), json!(value));
        }
    }
    block
}

/// Returns the settings of the provider itself.
fn issuer(provider: &InlineOidcConfig) -> Block {
    let InlineOidcConfig {
        issuer,
        jwks_url,
        key_max_age,
        introspection_url,
        client_id,
        client_secret_ref: _,
        introspect,
        introspection_cache_ttl,
        insecure_allow_http,
        jwks_allow_private_ip,
        ca_bundle_ref: _,
    } = provider;
    // The client is one of that endpoint. Keys verify the tokens otherwise.
    let client_id = introspection_url.as_ref().and(client_id.clone());
    let mut block = Block::new();
    block.insert("issuer".to_owned(), json!(issuer));
    for (key, value) in [
        ("jwksUrl", jwks_url),
        ("keyMaxAge", key_max_age),
        ("introspectionUrl", introspection_url),
        ("clientId", &client_id),
        ("introspectionCacheTtl", introspection_cache_ttl),
    ] {
        if let Some(value) = value {
            block.insert(key.to_owned(), json!(value));
        }
    }
    if let Some(tokens) = introspect {
        block.insert("introspect".to_owned(), json!(tokens));
    }
    for (key, value) in
        [("insecureAllowHttp", insecure_allow_http), ("jwksAllowPrivateIp", jwks_allow_private_ip)]
    {
        if *value {
            block.insert(key.to_owned(), json!(value));
        }
    }
    block
}

fn api_key(key: &ApiKey, secrets: &mut SecretFiles) -> Value {
    let ApiKey { subject, secret_key_ref, groups, roles } = key;
    let mut block = Block::new();
    block.insert("subject".to_owned(), escape(json!(subject)));
    block.insert("key".to_owned(), secrets.refer(secret_key_ref));
    for (name, values) in [("groups", groups), ("roles", roles)] {
        if !values.is_empty() {
            block.insert(name.to_owned(), escape(json!(values)));
        }
    }
    block.into()
}

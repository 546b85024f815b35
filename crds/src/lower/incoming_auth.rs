//! Renders the block `incomingAuth`.

use serde_json::{Value, json};

use super::secret_files::SecretFiles;
use crate::fields::yaml_block::{Block, escape};
use crate::shared_settings::mcp_oidc_config::{InlineOidcConfig, MCPOIDCConfigSpec};
use crate::virtual_mcp_server::{ApiKey, IncomingAuth, OidcConfigReference};

/// Returns the block with the referenced settings in place of the references. If its MCPOIDCConfig is
/// missing, or its form is unknown, the validator refuses the returned block: a broken reference never opens
/// an endpoint.
pub(super) fn render(
    mut block: Block,
    oidc: Option<&MCPOIDCConfigSpec>,
    oidc_certificates: Option<&str>,
    secrets: &mut SecretFiles,
) -> Value {
    let Some(IncomingAuth { oidc_config_ref, api_keys, .. }) = IncomingAuth::from_block(&block) else {
        return escape(block.into());
    };
    for key in ["oidcConfigRef", "apiKeys"] {
        block.shift_remove(key);
    }
    let Value::Object(mut rendered) = escape(block.into()) else { return Value::Null };
    let provider = oidc.and_then(|config| config.inline.as_ref());
    if let (Some(reference), Some(provider)) = (&oidc_config_ref, provider) {
        let mut issuer = issuer(reference, provider);
        if let Some(pem) = oidc_certificates {
            issuer.insert("caBundlePath".to_owned(), secrets.certificates(pem).into());
        }
        rendered.insert("oidc".to_owned(), escape(issuer.into()));
    }
    if !api_keys.is_empty() {
        rendered.insert("apiKeys".to_owned(), api_keys.iter().map(|key| api_key(key, secrets)).collect());
    }
    rendered.into()
}

fn issuer(reference: &OidcConfigReference, provider: &InlineOidcConfig) -> Block {
    let InlineOidcConfig { issuer, jwks_url, insecure_allow_http, jwks_allow_private_ip, ca_bundle_ref: _ } =
        provider;
    let OidcConfigReference { name: _, audience, scopes, required_scopes, resource_url } = reference;
    let mut block = Block::new();
    block.insert("issuer".to_owned(), json!(issuer));
    block.insert("audience".to_owned(), json!(audience));
    for (key, value) in [("jwksUrl", jwks_url), ("resource", resource_url)] {
        if let Some(value) = value {
            block.insert(key.to_owned(), json!(value));
        }
    }
    for (key, value) in [("scopes", scopes), ("requiredScopes", required_scopes)] {
        if !value.is_empty() {
            block.insert(key.to_owned(), json!(value));
        }
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

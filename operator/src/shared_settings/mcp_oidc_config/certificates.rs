//! Certificates of authorities that an MCPOIDCConfig refers to.

use kube::ResourceExt as _;
use vmcp_crds::MCPOIDCConfig;
use vmcp_crds::fields::references::ConfigMapKeyReference;

use crate::runtime::{CallError, Context};

/// The certificates of a configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum OidcCertificates {
    /// It refers to none.
    #[default]
    OfTheSystem,
    /// PEM.
    Found(String),
    /// The ConfigMap is missing or holds no certificates: the fault, and the remedy.
    Unusable(String),
}

impl OidcCertificates {
    /// Returns the certificates as PEM.
    pub(crate) fn pem(&self) -> Option<&str> {
        match self {
            Self::Found(pem) => Some(pem),
            Self::OfTheSystem | Self::Unusable(_) => None,
        }
    }
}

/// Reads the certificates that a configuration refers to.
pub(crate) async fn certificates(
    context: &Context,
    config: &MCPOIDCConfig,
) -> Result<OidcCertificates, CallError> {
    let Some(ConfigMapKeyReference { name, key }) = reference(config) else {
        return Ok(OidcCertificates::OfTheSystem);
    };
    let namespace = config.namespace().unwrap_or_default();
    let data = context.config_map(&namespace, name).await?;
    let Some(value) = data.as_ref().and_then(|data| data.get(key)) else {
        let message = format!(
            "spec.inline.caBundleRef: there is no key {key} in a ConfigMap {name}; create it: kubectl create configmap \
             {name} -n {namespace} --from-file={key}=…"
        );
        return Ok(OidcCertificates::Unusable(message));
    };
    Ok(match check(&value.0) {
        Ok(pem) => OidcCertificates::Found(pem),
        Err(reason) => OidcCertificates::Unusable(format!(
            "spec.inline.caBundleRef: the key {key} of the ConfigMap {name} holds no certificates: {reason}; store them as PEM"
        )),
    })
}

/// Returns the name of the ConfigMap that it refers to.
pub(crate) fn config_map_of(config: &MCPOIDCConfig) -> Option<&str> {
    Some(reference(config)?.name.as_str())
}

fn reference(config: &MCPOIDCConfig) -> Option<&ConfigMapKeyReference> {
    Some(&config.spec.inline.as_ref()?.ca_bundle_ref.as_ref()?.config_map_ref)
}

/// Reads the certificates as `vmcp` will.
fn check(pem: &[u8]) -> Result<String, String> {
    let certificates = reqwest::Certificate::from_pem_bundle(pem).map_err(|error| error.to_string())?;
    if certificates.is_empty() {
        return Err("no block `BEGIN CERTIFICATE`".to_owned());
    }
    String::from_utf8(pem.to_vec()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_certificate_is_refused() {
        assert!(check(b"hello").is_err());
        assert!(check(b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n").is_err());
    }
}

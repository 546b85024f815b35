//! Metadata of an identity provider: the place of its keys.

use serde::Deserialize;
use url::Url;

use super::guarded_http::{FetchError, GuardedClient};

/// Metadata that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MetadataError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("the metadata at {url} is not readable: {reason}")]
    Malformed { url: String, reason: String },
    #[error(
        "the metadata at {url} is of the issuer `{found}`, not of `{wanted}`; both must be equal as text"
    )]
    OtherIssuer { url: String, found: String, wanted: String },
}

/// The keys of the metadata that are read.
#[derive(Debug, Deserialize)]
struct Metadata {
    issuer: String,
    jwks_uri: Url,
}

/// The endpoints of a provider at which people sign in.
#[derive(Debug, Deserialize)]
pub(crate) struct ProviderMetadata {
    issuer: String,
    pub(crate) authorization_endpoint: Url,
    pub(crate) token_endpoint: Url,
    /// True if answers to authorization requests name the issuer (RFC 9207).
    #[serde(default, rename = "authorization_response_iss_parameter_supported")]
    pub(crate) names_itself: bool,
}

/// Returns the endpoints of a provider, from OpenID Connect Discovery.
pub(crate) async fn of_provider(
    client: &GuardedClient,
    issuer: &Url,
    text: &str,
) -> Result<ProviderMetadata, MetadataError> {
    let url = discovery_url(issuer);
    let document = client.get(&url).await?;
    let url = String::from(url);
    match serde_json::from_slice::<ProviderMetadata>(&document) {
        Ok(metadata) if metadata.issuer == text => Ok(metadata),
        Ok(metadata) => {
            Err(MetadataError::OtherIssuer { url, found: metadata.issuer, wanted: text.to_owned() })
        }
        Err(error) => Err(MetadataError::Malformed { url, reason: error.to_string() }),
    }
}

/// Returns the URL of an issuer's key set: from OpenID Connect Discovery or, where the provider answers that
/// with an error, from the metadata of RFC 8414.
pub(crate) async fn jwks_url(client: &GuardedClient, issuer: &Url, text: &str) -> Result<Url, MetadataError> {
    let url = discovery_url(issuer);
    let failure = match client.get(&url).await {
        Ok(document) => return read(&document, url.into(), text),
        Err(error @ FetchError::Status { .. }) => error,
        Err(error) => return Err(error.into()),
    };
    let url = authorization_server_url(issuer);
    match client.get(&url).await {
        Ok(document) => read(&document, url.into(), text),
        // The first failure is of the place that nearly all providers use.
        Err(_) => Err(failure.into()),
    }
}

/// Returns the place of OpenID Connect Discovery, below the issuer.
fn discovery_url(issuer: &Url) -> Url {
    let mut url = issuer.clone();
    url.set_path(&format!("{}/.well-known/openid-configuration", issuer.path().trim_end_matches('/')));
    url
}

/// Returns the place of RFC 8414, between host and path of the issuer.
fn authorization_server_url(issuer: &Url) -> Url {
    let mut url = issuer.clone();
    let path = issuer.path().trim_end_matches('/');
    url.set_path(&format!("/.well-known/oauth-authorization-server{path}"));
    url
}

/// Reads a document; its issuer must be the configured one, so that no provider speaks for another.
fn read(document: &[u8], url: String, issuer: &str) -> Result<Url, MetadataError> {
    match serde_json::from_slice::<Metadata>(document) {
        Ok(metadata) if metadata.issuer == issuer => Ok(metadata.jwks_uri),
        Ok(metadata) => {
            Err(MetadataError::OtherIssuer { url, found: metadata.issuer, wanted: issuer.to_owned() })
        }
        Err(error) => Err(MetadataError::Malformed { url, reason: error.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_below_the_issuer_or_between_host_and_path() {
        for issuer in ["https://idp.example/realms/team", "https://idp.example/realms/team/"] {
            let issuer = Url::parse(issuer).unwrap();
            let expected = "https://idp.example/realms/team/.well-known/openid-configuration";
            assert_eq!(discovery_url(&issuer).as_str(), expected);
            let expected = "https://idp.example/.well-known/oauth-authorization-server/realms/team";
            assert_eq!(authorization_server_url(&issuer).as_str(), expected);
        }
    }

    #[test]
    fn no_issuer_speaks_for_another() {
        let url = "https://idp.example".to_owned();
        let document = br#"{"issuer":"https://idp.example","jwks_uri":"https://idp.example/keys"}"#;
        assert!(read(document, url.clone(), "https://idp.example").is_ok());
        let other = read(document, url, "https://idp.example/");
        assert!(matches!(other, Err(MetadataError::OtherIssuer { .. })), "{other:?}");
    }
}

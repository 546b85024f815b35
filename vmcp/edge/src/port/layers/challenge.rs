//! [`Challenge`]: tells a client which credentials a request needs, in `WWW-Authenticate` (RFC 6750,
//! RFC 9449, RFC 9728).

use std::borrow::Cow;
use std::fmt::Write as _;

use http::header::WWW_AUTHENTICATE;
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use vmcp_access::authentication::Authentication;
use vmcp_access::identity::credential::Scheme;

use super::resource_metadata;
use crate::transport::http::proof;

/// Challenges to one request.
pub(super) struct Challenge {
    /// URL of the metadata of the protected resource.
    metadata: Option<String>,
    /// The schemes that are taken.
    schemes: Schemes,
    /// True if the credential of the request came with a proof.
    is_proved: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Schemes {
    Bearer,
    BearerAndProof,
    Proof,
}

/// The error of a credential.
pub(super) struct CredentialError<'a> {
    /// Code of the RFCs, such as `invalid_token`.
    pub(super) code: &'a str,
    /// Text for people.
    pub(super) description: &'a str,
    /// True if the credential lacks a proof, or its proof was refused.
    pub(super) is_about_proofs: bool,
}

impl Challenge {
    /// Reads the head of a request.
    pub(super) fn new(head: &Parts, authentication: &Authentication) -> Challenge {
        let schemes = if !resource_metadata::proves(authentication) {
            Schemes::Bearer
        } else if resource_metadata::requires_proofs(authentication) {
            Schemes::Proof
        } else {
            Schemes::BearerAndProof
        };
        Challenge {
            metadata: resource_metadata::metadata_url(head, authentication).map(String::from),
            schemes,
            is_proved: proof::scheme(&head.headers) == Some(Scheme::Dpop),
        }
    }

    /// Adds the challenges. `scopes` are the scopes that the client should ask for, separated by spaces.
    pub(super) fn add(&self, headers: &mut HeaderMap, error: Option<&CredentialError<'_>>, scopes: &str) {
        let mut parameters: Vec<(&str, &str)> = Vec::new();
        if let Some(CredentialError { code, description, .. }) = error {
            parameters.extend([("error", *code), ("error_description", *description)]);
        }
        if !scopes.is_empty() {
            parameters.push(("scope", scopes));
        }
        parameters.extend(self.metadata.iter().map(|url| ("resource_metadata", url.as_str())));
        if self.schemes == Schemes::Bearer {
            add(headers, "Bearer", &parameters);
            return;
        }
        let algorithms = resource_metadata::proof_algorithms().join(" ");
        let algorithms = ("algs", algorithms.as_str());
        // RFC 9449, 7.1: a client that uses, or must use, proofs is told in their scheme.
        let is_about_proofs = self.is_proved || error.is_some_and(|error| error.is_about_proofs);
        if is_about_proofs || self.schemes == Schemes::Proof {
            parameters.insert(0, algorithms);
            add(headers, "DPoP", &parameters);
        } else {
            add(headers, "Bearer", &parameters);
            add(headers, "DPoP", &[algorithms]);
        }
    }
}

/// Adds a challenge. Values that no header can hold leave it out.
fn add(headers: &mut HeaderMap, scheme: &str, parameters: &[(&str, &str)]) {
    let mut challenge = scheme.to_owned();
    for (position, (name, value)) in parameters.iter().enumerate() {
        let separator = if position == 0 { ' ' } else { ',' };
        // Writing to a string does not fail.
        let _ = write!(challenge, "{separator}{name}=\"{}\"", quoted(value));
    }
    if let Ok(challenge) = HeaderValue::try_from(challenge) {
        headers.append(WWW_AUTHENTICATE, challenge);
    }
}

/// Escapes a value for a quoted string (RFC 9110, 5.6.4).
fn quoted(value: &str) -> Cow<'_, str> {
    if value.contains(['"', '\\']) {
        value.replace('\\', "\\\\").replace('"', "\\\"").into()
    } else {
        value.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn challenges(schemes: Schemes, is_proved: bool) -> Vec<String> {
        let metadata = "https://vmcp.example/.well-known/oauth-protected-resource/mcp".to_owned();
        let challenge = Challenge { metadata: Some(metadata), schemes, is_proved };
        let description = "the token lacks the scope \"write\"";
        let error = CredentialError { code: "insufficient_scope", description, is_about_proofs: false };
        let mut headers = HeaderMap::new();
        challenge.add(&mut headers, Some(&error), "read write");
        let values = headers.get_all(WWW_AUTHENTICATE).iter();
        values.map(|value| value.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_client_is_told_in_its_own_scheme() {
        let told = concat!(
            r#"error="insufficient_scope",error_description="the token lacks the scope \"write\"","#,
            r#"scope="read write","#,
            r#"resource_metadata="https://vmcp.example/.well-known/oauth-protected-resource/mcp""#
        );
        let algorithms = format!("algs=\"{}\"", resource_metadata::proof_algorithms().join(" "));
        let (bearer, proof) = (format!("Bearer {told}"), format!("DPoP {algorithms},{told}"));
        assert_eq!(challenges(Schemes::Bearer, false), [bearer.as_str()]);
        let both = [bearer, format!("DPoP {algorithms}")];
        assert_eq!(challenges(Schemes::BearerAndProof, false), both);
        assert_eq!(challenges(Schemes::BearerAndProof, true), [proof.as_str()]);
        assert_eq!(challenges(Schemes::Proof, false), [proof.as_str()]);
    }
}

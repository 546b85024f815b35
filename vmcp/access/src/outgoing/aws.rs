//! AWS: keys of a role from STS (AssumeRoleWithWebIdentity), and signatures of requests (Signature Version
//! 4).

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials as Keys;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use reqwest::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use url::Url;
use url::form_urlencoded::Serializer;
use vmcp_config::{AwsKeys, AwsRoles, AwsSts, Secret};

use super::cache::FetchedToken;
use super::provider::{self, HttpClient};
use super::subject_token::SubjectToken;
use super::{OutgoingError, Subject};

/// Life of constant keys in the cache; they do not expire.
const CONSTANT_LIFE: Duration = Duration::from_hours(1);
/// Characters of a session's name; AWS takes 2 to 64.
const SESSION_NAME: std::ops::RangeInclusive<usize> = 2..=64;

/// A request to a backend, as it will be sent.
#[derive(Clone, Copy, Debug)]
pub struct OutgoingRequest<'a> {
    /// Its method.
    pub method: &'a str,
    /// Its URL.
    pub url: &'a Url,
    /// All headers but those of credentials.
    pub headers: &'a HeaderMap,
    /// Its body.
    pub body: &'a [u8],
}

/// The identity that keys are asked for.
#[derive(Clone, Copy)]
pub(super) enum KeysFor<'a> {
    /// vmcp itself, and all clients where they have no keys of their own.
    Vmcp,
    Client {
        token: &'a str,
        role: &'a str,
        session: &'a str,
    },
}

/// Keys of one backend, and its region and service.
#[derive(Debug)]
pub(super) struct AwsSigner {
    settings: AwsSts,
    http: HttpClient,
}

impl AwsSigner {
    pub(super) fn new(settings: AwsSts, http: HttpClient) -> Self {
        Self { settings, http }
    }

    pub(super) fn is_per_client(&self) -> bool {
        self.settings.is_per_client()
    }

    /// Returns the identity of a subject; `None` if its requests are not signed.
    pub(super) fn keys_for<'a>(&'a self, subject: Subject<'a>) -> Result<Option<KeysFor<'a>>, OutgoingError> {
        let AwsKeys::Role(roles) = &self.settings.keys else { return Ok(Some(KeysFor::Vmcp)) };
        if !self.is_per_client() {
            return Ok(Some(KeysFor::Vmcp));
        }
        let Subject::Client(identity) = subject else {
            return Ok(roles.token_file.is_some().then_some(KeysFor::Vmcp));
        };
        let known = identity.as_known().ok_or_else(no_token)?;
        let from = SubjectToken::new(roles.subject_provider.as_ref(), "");
        let token = from.token_for(known).ok_or_else(no_token)?;
        let role = role_of(roles, known.claims()).ok_or_else(|| OutgoingError {
            reason: "no role of AWS is for this client".to_owned(),
            detail: format!("no entry of `roleMappings` has a value of the claim `{}`", roles.role_claim),
        })?;
        let session = known.claims().get(&roles.session_name_claim).and_then(Value::as_str);
        Ok(Some(KeysFor::Client { token, role, session: session.unwrap_or(known.subject()) }))
    }

    /// Fetches keys, as one secret for the cache.
    pub(super) async fn fetch(&self, subject: KeysFor<'_>) -> Result<FetchedToken, OutgoingError> {
        match (&self.settings.keys, subject) {
            (AwsKeys::Constant { access_key_id, secret_access_key, session_token }, _) => Ok(FetchedToken {
                token: packed(
                    access_key_id.expose(),
                    secret_access_key.expose(),
                    session_token.as_ref().map_or("", Secret::expose),
                ),
                life: Some(CONSTANT_LIFE),
            }),
            (AwsKeys::Role(roles), KeysFor::Client { token, role, session }) => {
                self.assume(roles, token, role, session).await
            }
            (AwsKeys::Role(roles), KeysFor::Vmcp) => {
                let path = roles.token_file.clone().unwrap_or_default();
                let token = tokio::fs::read_to_string(&path).await.map_err(|error| OutgoingError {
                    reason: "vmcp has no token to show to AWS".to_owned(),
                    detail: format!("{}: {error}", path.display()),
                })?;
                let role = roles.fallback.as_deref().unwrap_or_default();
                self.assume(roles, token.trim(), role, "vmcp").await
            }
        }
    }

    async fn assume(
        &self,
        roles: &AwsRoles,
        token: &str,
        role: &str,
        session: &str,
    ) -> Result<FetchedToken, OutgoingError> {
        let form = Serializer::new(String::new())
            .append_pair("Action", "AssumeRoleWithWebIdentity")
            .append_pair("Version", "2011-06-15")
            .append_pair("RoleArn", role)
            .append_pair("RoleSessionName", &session_name(session))
            .append_pair("WebIdentityToken", token)
            .append_pair("DurationSeconds", &roles.session_duration.as_secs().to_string())
            .finish();
        let failed = |reason: &str, detail: &str| OutgoingError {
            reason: format!("AWS gives no keys: {reason}"),
            detail: format!("STS at {}: {detail}", roles.endpoint.host_str().unwrap_or_default()),
        };
        let request = self.http.get()?.post(roles.endpoint.clone()).body(form);
        let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let unreachable = |error: &reqwest::Error| {
            failed("STS cannot be reached; try again later", &provider::plain(error))
        };
        let response = request.send().await.map_err(|error| unreachable(&error))?;
        let is_success = response.status().is_success();
        let answer = provider::read(response).await.map_err(|error| unreachable(&error))?;
        let answer = String::from_utf8_lossy(&answer);
        if !is_success {
            let code = provider::quoted(element(&answer, "Code").unwrap_or("no reason"));
            let message = provider::quoted(element(&answer, "Message").unwrap_or_default());
            return Err(failed(&format!("STS refused with {code}"), &message));
        }
        let keys = ["AccessKeyId", "SecretAccessKey", "SessionToken"].map(|name| element(&answer, name));
        let [Some(id), Some(key), Some(session)] = keys else {
            return Err(failed("the answer of STS holds no keys", ""));
        };
        Ok(FetchedToken { token: packed(id, key, session), life: Some(roles.session_duration) })
    }

    /// Returns the headers that prove a request.
    pub(super) fn sign(
        &self,
        keys: &Secret,
        request: &OutgoingRequest<'_>,
        now: SystemTime,
    ) -> Result<HeaderMap, OutgoingError> {
        let failed = |detail: String| OutgoingError {
            reason: "the request cannot be signed for AWS".to_owned(),
            detail,
        };
        let mut parts = keys.expose().split('\n');
        let [id, key, session] = [(); 3].map(|()| parts.next().unwrap_or_default());
        let session = Some(session.to_owned()).filter(|session| !session.is_empty());
        let identity = Keys::new(id, key, session, None, "vmcp").into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.settings.region)
            .name(&self.settings.service)
            .time(now)
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| failed(error.to_string()))?
            .into();
        // Proxies may change other headers on the way, so they are not signed.
        let signed_headers = [HOST, CONTENT_TYPE];
        let signed_headers = signed_headers
            .iter()
            .filter_map(|name| Some((name.as_str(), request.headers.get(name)?.to_str().ok()?)));
        let body = SignableBody::Bytes(request.body);
        let signable = SignableRequest::new(request.method, request.url.as_str(), signed_headers, body)
            .map_err(|error| failed(error.to_string()))?;
        let (instructions, _) =
            sign(signable, &params).map_err(|error| failed(error.to_string()))?.into_parts();
        let mut headers = HeaderMap::new();
        for (name, value) in instructions.headers() {
            let name = HeaderName::try_from(name).map_err(|error| failed(error.to_string()))?;
            let mut value = HeaderValue::from_str(value).map_err(|error| failed(error.to_string()))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(headers)
    }
}

fn no_token() -> OutgoingError {
    OutgoingError {
        reason: "it wants keys of AWS for the client's token; sign in to vmcp with a token".to_owned(),
        detail: String::new(),
    }
}

/// The three parts as one secret: none of them has a line end.
fn packed(id: &str, key: &str, session: &str) -> Secret {
    format!("{id}\n{key}\n{session}").as_str().into()
}

/// Returns the role of the first mapping with a value of the claim, else the fallback.
fn role_of<'a>(roles: &'a AwsRoles, claims: &serde_json::Map<String, Value>) -> Option<&'a str> {
    let has = |value: &str| match claims.get(&roles.role_claim) {
        Some(Value::String(one)) => one == value,
        Some(Value::Array(all)) => all.iter().any(|one| one.as_str() == Some(value)),
        _ => false,
    };
    let mapped = roles.mappings.iter().find(|(value, _)| has(value)).map(|(_, role)| role.as_str());
    mapped.or(roles.fallback.as_deref())
}

/// A name that AWS takes: other characters become `-`.
fn session_name(text: &str) -> String {
    let taken = |c: char| if c.is_ascii_alphanumeric() || "_+=,.@-".contains(c) { c } else { '-' };
    let mut name: String = text.chars().take(*SESSION_NAME.end()).map(taken).collect();
    while name.len() < *SESSION_NAME.start() {
        name.push('-');
    }
    name
}

/// Returns the text of an element of STS's answer; the values that are read have no escapes.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(text, _)| text.trim())
}

#[cfg(test)]
mod tests;

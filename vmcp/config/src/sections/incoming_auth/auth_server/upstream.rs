//! An upstream identity provider: validates its block.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use super::raw::{
    RawFieldMapping, RawOAuth2Upstream, RawOidcUpstream, RawUpstreamProvider, RawUpstreamType, RawUserInfo,
};
use crate::problems::{self, Report, required};
use crate::sections::incoming_auth::oidc::OidcIssuer;
use crate::values::headers::{self, Headers};
use crate::values::http_url;
use crate::values::secret::Secret;

/// Longest name: that of a DNS label.
const MAX_NAME_CHARS: usize = 63;
/// Parameters of authorization requests that vmcp sets itself.
const OWN_PARAMETERS: [&str; 8] = [
    "response_type",
    "client_id",
    "redirect_uri",
    "scope",
    "state",
    "code_challenge",
    "code_challenge_method",
    "nonce",
];
/// Tolerance of the times in ID tokens.
const CLOCK_SKEW: Duration = Duration::from_mins(1);

/// An upstream identity provider, with vmcp as its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// Its name, unique.
    pub name: String,
    /// Client identifier.
    pub client_id: String,
    /// Client secret; `None`: a public client.
    pub client_secret: Option<Secret>,
    /// Redirect URI; `None`: below the issuer.
    pub redirect_uri: Option<Url>,
    /// Scopes to ask for.
    pub scopes: Vec<String>,
    /// Further parameters of authorization requests.
    pub parameters: BTreeMap<String, String>,
    /// True if it may be reached without TLS.
    pub allow_http: bool,
    /// True if it may have a private or loopback address.
    pub allow_private_addresses: bool,
    /// Its kind.
    pub kind: UpstreamKind,
}

/// Kinds of providers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpstreamKind {
    /// OpenID Connect.
    Oidc {
        /// The issuer of ID tokens, whose audience is the client.
        issuer: Arc<OidcIssuer>,
        /// Claim that identifies the person.
        subject_claim: String,
    },
    /// OAuth 2.0.
    OAuth2 {
        /// Authorization endpoint.
        authorization_endpoint: Url,
        /// Token endpoint.
        token_endpoint: Url,
        /// Userinfo endpoint.
        user_info: Option<Box<UserInfo>>,
    },
}

/// A userinfo endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserInfo {
    /// The URL.
    pub url: Url,
    /// True if it takes a POST.
    pub post: bool,
    /// Further headers.
    pub headers: Headers,
    /// Keys of the person's identifier, name and mail address; the first that is there counts.
    pub subject_fields: Vec<String>,
    /// Keys of the name.
    pub name_fields: Vec<String>,
    /// Keys of the mail address.
    pub email_fields: Vec<String>,
}

/// Settings that both kinds have.
struct Common<'a> {
    client_id: Option<&'a String>,
    client_secret: Option<&'a Secret>,
    redirect_uri: Option<&'a String>,
    parameters: &'a BTreeMap<String, String>,
    scopes: Vec<String>,
    allow_http: bool,
    allow_private_addresses: bool,
}

/// `first`: the provider tells who the person is.
pub(super) fn validate(
    raw: &RawUpstreamProvider,
    first: bool,
    path: &str,
    report: &mut Report,
) -> Option<Upstream> {
    let name = required(raw.name.as_ref(), path, "name", report).cloned();
    if let Some(name) = name.as_deref().filter(|name| !is_label(name)) {
        let at = problems::key(path, "name");
        let shown = report.shown(&at, name);
        report.problem(&at, format!("{shown} is no name"), "use lower-case letters, digits and hyphens");
    }
    let kind = required(raw.kind.as_ref(), path, "type", report)?;
    let (oidc, oauth2) = (raw.oidc_config.as_ref(), raw.oauth2_config.as_ref());
    for (block, of, given) in [
        ("oidcConfig", RawUpstreamType::Oidc, oidc.is_some()),
        ("oauth2Config", RawUpstreamType::Oauth2, oauth2.is_some()),
    ] {
        if (of == *kind) != given {
            let message = if given { "this block belongs to another `type`" } else { "missing" };
            report.problem(
                &problems::key(path, block),
                message,
                "give the block of the `type`, and no other",
            );
        }
    }
    let (at, common) = match kind {
        RawUpstreamType::Oidc => (problems::key(path, "oidcConfig"), oidc_common(oidc?)),
        RawUpstreamType::Oauth2 => (problems::key(path, "oauth2Config"), oauth2_common(oauth2?)),
    };
    let client_id = required(common.client_id, &at, "clientId", report).cloned();
    let redirect_at = problems::key(&at, "redirectUri");
    let redirect_uri = common.redirect_uri.map(|text| http_url::validate(text, &redirect_at, report));
    check_parameters(common.parameters, &problems::key(&at, "additionalAuthorizationParams"), report);
    let kind = match kind {
        RawUpstreamType::Oidc => self::oidc(oidc?, client_id.as_deref(), &at, report)?,
        RawUpstreamType::Oauth2 => self::oauth2(oauth2?, first, &at, report)?,
    };
    Some(Upstream {
        name: name?,
        client_id: client_id?,
        client_secret: common.client_secret.cloned(),
        redirect_uri: redirect_uri.flatten(),
        scopes: common.scopes,
        parameters: common.parameters.clone(),
        allow_http: common.allow_http,
        allow_private_addresses: common.allow_private_addresses,
        kind,
    })
}

/// Validates a provider of OpenID Connect that is called `name`, for a section of its own.
pub(crate) fn oidc_upstream(
    name: &str,
    raw: &RawOidcUpstream,
    path: &str,
    report: &mut Report,
) -> Option<Upstream> {
    let client_id = required(raw.client_id.as_ref(), path, "clientId", report).cloned();
    let kind = oidc(raw, client_id.as_deref(), path, report);
    let common = oidc_common(raw);
    Some(Upstream {
        name: name.to_owned(),
        client_id: client_id?,
        client_secret: common.client_secret.cloned(),
        redirect_uri: None,
        scopes: common.scopes,
        parameters: BTreeMap::new(),
        allow_http: common.allow_http,
        allow_private_addresses: common.allow_private_addresses,
        kind: kind?,
    })
}

fn oidc_common(raw: &RawOidcUpstream) -> Common<'_> {
    let default = || vec!["openid".to_owned(), "offline_access".to_owned()];
    Common {
        client_id: raw.client_id.as_ref(),
        client_secret: raw.client_secret.as_ref(),
        redirect_uri: raw.redirect_uri.as_ref(),
        parameters: &raw.additional_authorization_params,
        scopes: if raw.scopes.is_empty() { default() } else { raw.scopes.clone() },
        allow_http: raw.insecure_allow_http,
        allow_private_addresses: raw.allow_private_ips,
    }
}

fn oauth2_common(raw: &RawOAuth2Upstream) -> Common<'_> {
    Common {
        client_id: raw.client_id.as_ref(),
        client_secret: raw.client_secret.as_ref(),
        redirect_uri: raw.redirect_uri.as_ref(),
        parameters: &raw.additional_authorization_params,
        scopes: raw.scopes.clone(),
        allow_http: raw.insecure_allow_http,
        allow_private_addresses: raw.allow_private_ips,
    }
}

fn oidc(
    raw: &RawOidcUpstream,
    client_id: Option<&str>,
    path: &str,
    report: &mut Report,
) -> Option<UpstreamKind> {
    let text = required(raw.issuer_url.as_ref(), path, "issuerUrl", report)?;
    let issuer_url = url(text, raw.insecure_allow_http, &problems::key(path, "issuerUrl"), report)?;
    if !raw.scopes.is_empty() && !raw.scopes.iter().any(|scope| scope == "openid") {
        let at = problems::key(path, "scopes");
        report.problem(&at, "without `openid` there is no ID token", "add `openid`, or use `type: oauth2`");
    }
    let issuer = OidcIssuer {
        insecure_allow_http: raw.insecure_allow_http,
        allow_private_addresses: raw.allow_private_ips,
        ..OidcIssuer::new(text.clone(), issuer_url, client_id?.to_owned(), CLOCK_SKEW)
    };
    let subject_claim = raw.subject_claim.clone().filter(|claim| !claim.is_empty());
    Some(UpstreamKind::Oidc {
        issuer: Arc::new(issuer),
        subject_claim: subject_claim.unwrap_or_else(|| "sub".to_owned()),
    })
}

fn oauth2(raw: &RawOAuth2Upstream, first: bool, path: &str, report: &mut Report) -> Option<UpstreamKind> {
    let mut endpoint = |text: Option<&String>, key: &str| {
        let text = required(text, path, key, report)?;
        url(text, raw.insecure_allow_http, &problems::key(path, key), report)
    };
    let authorization = endpoint(raw.authorization_endpoint.as_ref(), "authorizationEndpoint");
    let token = endpoint(raw.token_endpoint.as_ref(), "tokenEndpoint");
    let at = problems::key(path, "userInfo");
    if first && raw.user_info.is_none() {
        report.problem(
            &at,
            "missing: the first provider tells who the person is",
            "add `userInfo: { endpointUrl: … }`, or put a provider of `type: oidc` first",
        );
    }
    let info = raw.user_info.as_ref().map(|info| user_info(info, raw.insecure_allow_http, &at, report));
    Some(UpstreamKind::OAuth2 {
        authorization_endpoint: authorization?,
        token_endpoint: token?,
        user_info: info.flatten().map(Box::new),
    })
}

fn user_info(raw: &RawUserInfo, allow_http: bool, path: &str, report: &mut Report) -> Option<UserInfo> {
    let text = required(raw.endpoint_url.as_ref(), path, "endpointUrl", report)?;
    let url = url(text, allow_http, &problems::key(path, "endpointUrl"), report)?;
    let post = match raw.http_method.as_deref() {
        None | Some("" | "GET") => false,
        Some("POST") => true,
        Some(_) => {
            report.problem(&problems::key(path, "httpMethod"), "not a method", "write `GET` or `POST`");
            false
        }
    };
    let headers =
        headers::validate(&raw.additional_headers, &problems::key(path, "additionalHeaders"), report);
    let default = RawFieldMapping::default();
    let mapping = raw.field_mapping.as_ref().unwrap_or(&default);
    let fields = |given: &[String], default: &str| {
        if given.is_empty() { vec![default.to_owned()] } else { given.to_vec() }
    };
    Some(UserInfo {
        url,
        post,
        headers,
        subject_fields: fields(&mapping.subject_fields, "sub"),
        name_fields: fields(&mapping.name_fields, "name"),
        email_fields: fields(&mapping.email_fields, "email"),
    })
}

/// Validates a URL to which a browser or a secret goes.
fn url(text: &str, allow_http: bool, path: &str, report: &mut Report) -> Option<Url> {
    let url = http_url::validate(text, path, report)?;
    if url.scheme() == "http" && !allow_http {
        report.problem(
            path,
            "secrets and tokens would travel unencrypted",
            "use https; for development, set `insecureAllowHttp: true`",
        );
    }
    Some(url)
}

fn check_parameters(parameters: &BTreeMap<String, String>, path: &str, report: &mut Report) {
    for name in parameters.keys().filter(|name| OWN_PARAMETERS.contains(&name.as_str())) {
        report.problem(&problems::key(path, name), "vmcp sets this itself", "remove it");
    }
}

/// True for a DNS label.
fn is_label(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=MAX_NAME_CHARS).contains(&name.len())
        && name.bytes().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

//! Validates `outgoingAuth` and `passthroughHeaders`, and gives each backend its part.

use std::collections::{BTreeMap, BTreeSet};

use super::raw::{
    RawClientCredentials, RawCredentials, RawCredentialsType as Kind, RawHeaderInjection, RawOAuth,
    RawOnBehalfOf, RawOutgoingAuth, RawTokenExchange, RawXaa,
};
use super::token_url::{check_scheme, token_url};
use super::{
    ClientCredentials, Credentials, OAuthClient, OnBehalfOf, TokenEndpoint, TokenExchange, Xaa, aws,
    upstream_inject,
};
use crate::problems::{self, Problem, Report, required};
use crate::sections::aggregation;
use crate::sections::backend::{RawBackend, Transport};
use crate::sections::incoming_auth::auth_server::AuthServer;
use crate::values::headers::{self, Headers};
use crate::values::http_url;
use crate::values::secret::Secret;

/// The section, and its path.
const SECTION: &str = "outgoingAuth";
/// Host of Microsoft Entra's login.
const ENTRA: &str = "https://login.microsoftonline.com";
/// Prefix of the URNs of token types (RFC 8693, 3).
const TOKEN_TYPE: &str = "urn:ietf:params:oauth:token-type:";
/// Headers that a client may not hand on, besides those that are reserved: they say who the client is to
/// vmcp, or which way it came.
const PRIVATE: [&str; 7] = ["cookie", "dpop", "forwarded", "origin", "referer", "via", "x-real-ip"];
/// Beginnings of such headers.
const PRIVATE_PREFIXES: [&str; 3] = ["sec-", "vmcp-", "x-forwarded-"];

/// The credentials of one backend.
#[derive(Debug, Clone, Default)]
pub(crate) struct BackendAuth {
    pub(crate) credentials: Credentials,
    /// Names of the client's headers that the backend gets, in lower case.
    pub(crate) passthrough: BTreeSet<String>,
    /// Constant headers.
    headers: Headers,
}

/// The validated section: resolves the credentials of each backend.
#[derive(Debug)]
pub(crate) struct OutgoingRules {
    default: Option<BackendAuth>,
    backends: BTreeMap<String, BackendAuth>,
    /// `passthroughHeaders`.
    passthrough: BTreeSet<String>,
    /// False: logins are used only where `type: oauth` says so.
    automatic: bool,
}

impl OutgoingRules {
    /// Validates the section. `names` are those of the backends; `automatic` is true if all clients are one
    /// person as far as vmcp knows.
    pub(crate) fn new(
        raw: &RawOutgoingAuth,
        passthrough: &[String],
        names: &BTreeSet<&str>,
        automatic: bool,
        report: &mut Report,
    ) -> Self {
        let default =
            raw.default.as_ref().map(|raw| validate(raw, &problems::key(SECTION, "default"), report));
        let at_backends = problems::key(SECTION, "backends");
        let backends = raw.backends.iter().map(|(name, raw)| {
            let path = problems::key(&at_backends, name);
            aggregation::check_backend(name, &path, names, report);
            (name.clone(), validate(raw, &path, report))
        });
        let backends = backends.collect();
        let mut common = validate_passthrough(passthrough, "passthroughHeaders", report);
        if common.remove("authorization") {
            report.problem(
                "passthroughHeaders",
                "`Authorization` would go to every backend",
                "name it in `outgoingAuth.backends.NAME: { type: passthrough, passthrough: { headers: [Authorization] } }`",
            );
        }
        Self { default, backends, passthrough: common, automatic }
    }

    /// Checks the providers that credentials name against those of `authServer`.
    pub(crate) fn with_upstreams(
        self,
        server: Option<&AuthServer>,
        is_configured: bool,
        report: &mut Report,
    ) -> Self {
        // A server with a problem of its own has been reported.
        if server.is_none() && is_configured {
            return self;
        }
        if let Some(default) = &self.default {
            default.credentials.check_upstream(&problems::key(SECTION, "default"), server, report);
        }
        let at_backends = problems::key(SECTION, "backends");
        for (name, auth) in &self.backends {
            auth.credentials.check_upstream(&problems::key(&at_backends, name), server, report);
        }
        self
    }

    /// Returns the unresolved reference among the credentials of a backend.
    pub(crate) fn absent<'a>(
        &self,
        backend: &RawBackend,
        name: &str,
        report: &'a Report,
    ) -> Option<&'a Problem> {
        let is_own = self.backends.contains_key(name);
        let has_constant = backend.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
        if !is_own && (backend.url.is_none() || has_constant) {
            return None;
        }
        let path = if is_own {
            problems::key(&problems::key(SECTION, "backends"), name)
        } else {
            problems::key(SECTION, "default")
        };
        report.absent_below(&path)
    }

    /// Returns the credentials of a backend, whose constant headers are added to its transport. `path` is
    /// that of the backend.
    pub(crate) fn apply(
        &self,
        name: &str,
        transport: &mut Transport,
        path: &str,
        report: &mut Report,
    ) -> BackendAuth {
        let own = self.backends.get(name);
        let configured = match transport {
            Transport::Http { headers, .. }
            | Transport::Sse { headers, .. }
            | Transport::WebSocket { headers, .. } => headers,
            Transport::Stdio { .. } => {
                if own.is_some_and(BackendAuth::sends_anything) {
                    report.problem(
                        &problems::key(&problems::key(SECTION, "backends"), name),
                        "only a backend with `url` has this",
                        "remove it, or pass the secret to the program through `env`",
                    );
                }
                return BackendAuth::default();
            }
        };
        let has_constant = configured.contains_key("authorization");
        let default = self.default.as_ref().filter(|_| !has_constant);
        let mut auth = own.or(default).cloned().unwrap_or_default();
        if own.is_some() && has_constant && auth.sets_authorization() {
            report.problem(
                &problems::key(&problems::key(path, "headers"), "Authorization"),
                format!("`outgoingAuth.backends.{name}` sets it too"),
                "keep one of the two",
            );
        }
        if auth.credentials == Credentials::Automatic && (has_constant || !self.automatic) {
            auth.credentials = Credentials::None;
        }
        for (name, value) in std::mem::take(&mut auth.headers) {
            configured.entry(name).or_insert(value);
        }
        auth.passthrough.extend(self.passthrough.iter().cloned());
        // Constant headers win: a client cannot replace the operator's.
        auth.passthrough.retain(|name| !configured.contains_key(name));
        auth
    }
}

impl BackendAuth {
    fn sends_anything(&self) -> bool {
        self.credentials != Credentials::None || !self.headers.is_empty() || !self.passthrough.is_empty()
    }

    fn sets_authorization(&self) -> bool {
        let fetched = !matches!(self.credentials, Credentials::Automatic | Credentials::None);
        fetched || self.headers.contains_key("authorization") || self.passthrough.contains("authorization")
    }
}

fn validate(raw: &RawCredentials, path: &str, report: &mut Report) -> BackendAuth {
    let Some(kind) = raw.kind else {
        let at = problems::key(path, "type");
        if !report.is_dropped(&at) {
            report.problem(&at, "missing", "name the kind of credentials, such as `type: clientCredentials`");
        }
        return BackendAuth::default();
    };
    check_blocks(raw, kind, path, report);
    let mut auth = BackendAuth { credentials: Credentials::None, ..BackendAuth::default() };
    match kind {
        Kind::Unauthenticated => {}
        Kind::HeaderInjection => {
            if let Some(block) = &raw.header_injection {
                auth.headers = constant_header(block, &problems::key(path, "headerInjection"), report);
            }
        }
        Kind::Passthrough => {
            if let Some(block) = &raw.passthrough {
                let at = problems::key(&problems::key(path, "passthrough"), "headers");
                auth.passthrough = validate_passthrough(&block.headers, &at, report);
                if auth.passthrough.is_empty() && !report.is_dropped(&at) {
                    report.problem(&at, "empty", "name the headers, such as `[Authorization]`");
                }
            }
        }
        Kind::Oauth => {
            auth.credentials = Credentials::OAuth(oauth(raw.oauth.as_ref()));
        }
        Kind::ClientCredentials => {
            let block = raw.client_credentials.as_ref();
            let at = problems::key(path, "clientCredentials");
            set(&mut auth, block.and_then(|block| client_credentials(block, &at, report)));
        }
        Kind::TokenExchange => {
            let block = raw.token_exchange.as_ref();
            let at = problems::key(path, "tokenExchange");
            set(&mut auth, block.and_then(|block| token_exchange(block, &at, report)));
        }
        Kind::Xaa => {
            let at = problems::key(path, "xaa");
            set(&mut auth, raw.xaa.as_ref().and_then(|block| xaa(block, &at, report)));
        }
        Kind::Obo => {
            let at = problems::key(path, "obo");
            set(&mut auth, raw.obo.as_ref().and_then(|block| on_behalf_of(block, &at, report)));
        }
        Kind::AwsSts => {
            let at = problems::key(path, "awsSts");
            let settings = raw.aws_sts.as_ref().and_then(|block| aws::validate(block, &at, report));
            set(&mut auth, settings.map(Credentials::AwsSts));
        }
        Kind::UpstreamInject => {
            let at = problems::key(path, "upstreamInject");
            let block = raw.upstream_inject.as_ref();
            let settings = block.and_then(|block| upstream_inject::validate(block, &at, report));
            set(&mut auth, settings.map(Credentials::UpstreamInject));
        }
    }
    auth
}

fn set(auth: &mut BackendAuth, credentials: Option<Credentials>) {
    // Without, a problem was reported.
    if let Some(credentials) = credentials {
        auth.credentials = credentials;
    }
}

/// Reports blocks of other kinds than `kind`, and the absence of the one that it needs.
fn check_blocks(raw: &RawCredentials, kind: Kind, path: &str, report: &mut Report) {
    let blocks = [
        ("headerInjection", Kind::HeaderInjection, raw.header_injection.is_some()),
        ("passthrough", Kind::Passthrough, raw.passthrough.is_some()),
        ("oauth", Kind::Oauth, raw.oauth.is_some()),
        ("clientCredentials", Kind::ClientCredentials, raw.client_credentials.is_some()),
        ("tokenExchange", Kind::TokenExchange, raw.token_exchange.is_some()),
        ("xaa", Kind::Xaa, raw.xaa.is_some()),
        ("obo", Kind::Obo, raw.obo.is_some()),
        ("awsSts", Kind::AwsSts, raw.aws_sts.is_some()),
        ("upstreamInject", Kind::UpstreamInject, raw.upstream_inject.is_some()),
    ];
    for (name, of, given) in blocks {
        let at = problems::key(path, name);
        if of == kind && !given && kind != Kind::Oauth {
            report.problem(&at, "missing", format!("`type: {name}` needs the block `{name}`"));
        } else if of != kind && given {
            report.problem(
                &at,
                "this block belongs to another `type`",
                format!("remove it, or write `type: {name}`"),
            );
        }
    }
}

fn constant_header(raw: &RawHeaderInjection, path: &str, report: &mut Report) -> Headers {
    let name = required(raw.header_name.as_ref(), path, "headerName", report);
    let value = required(raw.header_value.as_ref(), path, "headerValue", report);
    let (Some(name), Some(value)) = (name, value) else { return Headers::new() };
    let places = [problems::key(path, "headerName"), problems::key(path, "headerValue")];
    Headers::from([headers::header(name, value, [&places[0], &places[1]], report)])
}

fn validate_passthrough(names: &[String], path: &str, report: &mut Report) -> BTreeSet<String> {
    let mut validated = BTreeSet::new();
    for (index, name) in names.iter().enumerate() {
        let at = problems::item(path, index);
        let lower = name.to_ascii_lowercase();
        if name.is_empty() || !name.chars().all(headers::is_token_char) {
            if !report.is_dropped(&at) {
                report.problem(&at, "not a header name", "use letters, digits and any of !#$%&'*+-.^_`|~");
            }
        } else if headers::is_reserved_header(&lower)
            || PRIVATE.contains(&lower.as_str())
            || PRIVATE_PREFIXES.iter().any(|prefix| lower.starts_with(prefix))
        {
            report.problem(&at, format!("`{lower}` is not passed on"), "remove it");
        } else {
            validated.insert(lower);
        }
    }
    validated
}

fn oauth(raw: Option<&RawOAuth>) -> OAuthClient {
    let Some(raw) = raw else { return OAuthClient::default() };
    OAuthClient {
        client_id: raw.client_id.clone(),
        client_secret: raw.client_secret.clone(),
        scopes: raw.scopes.clone(),
        signed_in_at: None,
    }
}

fn client_credentials(raw: &RawClientCredentials, path: &str, report: &mut Report) -> Option<Credentials> {
    let client_id = required(raw.client_id.as_ref(), path, "clientId", report).cloned();
    let client_secret = required(raw.client_secret.as_ref(), path, "clientSecret", report).cloned();
    let url = token_url(raw.token_url.as_ref(), path, "tokenUrl", raw.insecure_allow_http, report)?;
    Some(Credentials::ClientCredentials(ClientCredentials {
        endpoint: TokenEndpoint { url, client_id, client_secret },
        audience: raw.audience.clone(),
        resource: raw.resource.clone(),
        scopes: raw.scopes.clone(),
    }))
}

fn token_exchange(raw: &RawTokenExchange, path: &str, report: &mut Report) -> Option<Credentials> {
    let subject_token_type = token_type(raw.subject_token_type.as_deref(), "access_token", path, report);
    secret_without_client(raw.client_id.as_ref(), raw.client_secret.as_ref(), path, "clientId", report);
    let url = token_url(raw.token_url.as_ref(), path, "tokenUrl", raw.insecure_allow_http, report)?;
    Some(Credentials::TokenExchange(TokenExchange {
        endpoint: TokenEndpoint {
            url,
            client_id: raw.client_id.clone(),
            client_secret: raw.client_secret.clone(),
        },
        audience: raw.audience.clone(),
        resource: raw.resource.clone(),
        scopes: raw.scopes.clone(),
        subject_token_type,
        subject_provider: raw.subject_provider_name.clone(),
    }))
}

fn xaa(raw: &RawXaa, path: &str, report: &mut Report) -> Option<Credentials> {
    let subject_token_type = token_type(raw.subject_token_type.as_deref(), "id_token", path, report);
    secret_without_client(
        raw.idp_client_id.as_ref(),
        raw.idp_client_secret.as_ref(),
        path,
        "idpClientId",
        report,
    );
    secret_without_client(
        raw.target_client_id.as_ref(),
        raw.target_client_secret.as_ref(),
        path,
        "targetClientId",
        report,
    );
    let audience = required(raw.target_audience.as_ref(), path, "targetAudience", report).cloned();
    let idp = token_url(raw.idp_token_url.as_ref(), path, "idpTokenUrl", false, report);
    let insecure = raw.insecure_target_token_url;
    let target = token_url(raw.target_token_url.as_ref(), path, "targetTokenUrl", insecure, report);
    Some(Credentials::Xaa(Xaa {
        idp: TokenEndpoint {
            url: idp?,
            client_id: raw.idp_client_id.clone(),
            client_secret: raw.idp_client_secret.clone(),
        },
        target: TokenEndpoint {
            url: target?,
            client_id: raw.target_client_id.clone(),
            client_secret: raw.target_client_secret.clone(),
        },
        audience: audience?,
        resource: raw.target_resource.clone(),
        scopes: raw.scopes.clone(),
        subject_token_type,
        subject_provider: raw.subject_provider_name.clone(),
    }))
}

fn on_behalf_of(raw: &RawOnBehalfOf, path: &str, report: &mut Report) -> Option<Credentials> {
    let tenant = required(raw.tenant_id.as_ref(), path, "tenantId", report);
    let client_id = required(raw.client_id.as_ref(), path, "clientId", report).cloned();
    let client_secret = required(raw.client_secret.as_ref(), path, "clientSecret", report).cloned();
    let at = problems::key(path, "authority");
    let authority = raw.authority.as_deref().unwrap_or(ENTRA);
    let mut url = http_url::validate(authority, &at, report)?;
    check_scheme(&url, &at, false, report);
    let scopes = match (&raw.audience, raw.scopes.is_empty()) {
        (Some(audience), true) => vec![format!("{audience}/.default")],
        (None, true) => {
            report.problem(&problems::key(path, "audience"), "missing", "give `audience` or `scopes`");
            return None;
        }
        (_, false) => raw.scopes.clone(),
    };
    // An http URL can be a base, and has segments.
    url.path_segments_mut().ok()?.pop_if_empty().extend([tenant?, "oauth2", "v2.0", "token"]);
    Some(Credentials::OnBehalfOf(OnBehalfOf {
        endpoint: TokenEndpoint { url, client_id, client_secret },
        scopes,
        subject_provider: raw.subject_token_provider_name.clone(),
    }))
}

fn secret_without_client(
    id: Option<&String>,
    secret: Option<&Secret>,
    path: &str,
    key: &str,
    report: &mut Report,
) {
    if secret.is_some() && id.is_none() {
        required(id, path, key, report);
    }
}

/// Returns the URN of a token type.
fn token_type(written: Option<&str>, default: &str, path: &str, report: &mut Report) -> String {
    let name = written.filter(|written| !written.is_empty()).unwrap_or(default);
    let short = name.strip_prefix(TOKEN_TYPE).unwrap_or(name);
    if !matches!(short, "access_token" | "id_token" | "jwt") {
        report.problem(
            &problems::key(path, "subjectTokenType"),
            "not a type of token",
            "write `access_token`, `id_token` or `jwt`",
        );
    }
    format!("{TOKEN_TYPE}{short}")
}

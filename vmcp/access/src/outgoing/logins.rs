//! Logins of `vmcp login`: the tokens of a person for one backend, in a file that only its owner can read.
//!
//! Two kinds of files lie in the configuration folder: `logins.json` names the backends with a login, and
//! changes only with `vmcp login` and `vmcp logout`; `logins/NAME.json` has the tokens, and changes with each
//! renewal. Processes that renew at the same time take turns by a lock file, because a provider may take a
//! refresh token once only.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::Url;
use vmcp_config::addresses::ReachableAddresses;
use vmcp_config::{Secret, TokenEndpoint};

use super::OutgoingError;
use super::cache::FetchedToken;
use super::provider::{HttpClient, Provider};
use crate::clock::now;
use crate::oidc::guarded_http::{FetchError, GuardRules, GuardedClient};

/// Name of the file that names the logins.
pub const INDEX: &str = "logins.json";
/// Folder of the tokens, beside the index.
const FOLDER: &str = "logins";
/// A stored token is used while it lives at least this long.
const MIN_LIFE: Duration = Duration::from_secs(30);

/// Logins by name of the backend.
pub type LoginIndex = BTreeMap<String, LoginEntry>;

/// A login, without its tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoginEntry {
    /// URL of the backend: the tokens go nowhere else.
    pub url: Url,
    /// Time of the login, in seconds since 1970.
    pub at: u64,
}

/// The tokens of a login.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Login {
    /// Token endpoint of the authorization server.
    pub token_url: Url,
    /// The client that vmcp is there.
    pub client_id: String,
    /// Its secret, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// The `resource` parameter (RFC 8707).
    pub resource: String,
    /// The access token.
    pub access_token: String,
    /// The refresh token, if the server gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
    /// Expiry of the access token, in seconds since 1970; `None`: not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// Addresses that the host of the token endpoint may have: those of the backend at the time of the login.
    #[serde(default)]
    pub addresses: ReachableAddresses,
}

/// The folder of the logins.
#[derive(Debug, Clone)]
pub struct Logins(PathBuf);

impl Logins {
    /// The logins in a configuration folder.
    pub fn in_folder(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// Returns the path of the index.
    pub fn index_path(&self) -> PathBuf {
        self.0.join(INDEX)
    }

    fn token_path(&self, backend: &str) -> PathBuf {
        self.0.join(FOLDER).join(format!("{backend}.json"))
    }

    /// Parses the text of the index; an empty text holds no logins.
    pub fn parse_index(text: &str) -> LoginIndex {
        serde_json::from_str(text).unwrap_or_default()
    }

    /// Reads the index; a missing file is an empty index.
    pub fn index(&self) -> LoginIndex {
        Self::parse_index(&std::fs::read_to_string(self.index_path()).unwrap_or_default())
    }

    /// Stores a login. The index is written last: who reads it finds the tokens.
    pub fn store(&self, backend: &str, url: &Url, login: &Login) -> io::Result<()> {
        self.write_tokens(backend, login)?;
        let mut index = self.index();
        // Later than the one before, also within the same second: a running server looks for a change.
        let after = index.get(backend).map_or(0, |former| former.at.saturating_add(1));
        index.insert(backend.to_owned(), LoginEntry { url: url.clone(), at: now().max(after) });
        write_private(&self.index_path(), &serde_json::to_string_pretty(&index)?)
    }

    /// Removes a login; false if it is unknown.
    pub fn remove(&self, backend: &str) -> io::Result<bool> {
        let mut index = self.index();
        let was = index.remove(backend).is_some();
        if was {
            write_private(&self.index_path(), &serde_json::to_string_pretty(&index)?)?;
        }
        match std::fs::remove_file(self.token_path(backend)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(was),
        }
    }

    /// Reads the tokens of a login.
    pub fn read(&self, backend: &str) -> io::Result<Login> {
        let text = std::fs::read_to_string(self.token_path(backend))?;
        // The parser's own words could quote a token.
        serde_json::from_str(&text).map_err(|_| io::Error::other("it is damaged"))
    }

    fn write_tokens(&self, backend: &str, login: &Login) -> io::Result<()> {
        write_private(&self.token_path(backend), &serde_json::to_string_pretty(login)?)
    }

    /// Waits for the turn to renew; the file is locked until it is dropped.
    fn lock(&self, backend: &str) -> io::Result<File> {
        let path = self.token_path(backend).with_extension("lock");
        let file = private(OpenOptions::new().write(true).create(true).truncate(false)).open(path)?;
        file.lock()?;
        Ok(file)
    }
}

/// An authorization code to be exchanged for tokens (RFC 6749, 4.1.3; RFC 7636).
pub struct CodeGrant {
    /// Token endpoint of the authorization server.
    pub token_url: Url,
    /// The client that vmcp is there.
    pub client_id: String,
    /// Its secret, if it has one.
    pub client_secret: Option<String>,
    /// True if the server takes the secret in the body only.
    pub secret_in_body: bool,
    /// The code.
    pub code: String,
    /// The verifier of the PKCE challenge that the code was asked with.
    pub verifier: String,
    /// The address that the code came to.
    pub redirect: String,
    /// The `resource` parameter (RFC 8707).
    pub resource: String,
    /// Addresses that the host of the token endpoint may have, and never link-local ones.
    pub addresses: ReachableAddresses,
}

/// Returns an HTTP client for URLs that a server named, behind an SSRF guard. The client follows no redirect.
/// It connects to public addresses, to private and loopback ones unless `addresses` is `public`, and never to
/// link-local ones.
pub async fn guarded_client(
    urls: &[&Url],
    addresses: ReachableAddresses,
) -> Result<reqwest::Client, OutgoingError> {
    let refused = |error: FetchError| OutgoingError {
        reason: "an address that the server names may not be asked".to_owned(),
        detail: error.to_string(),
    };
    let rules = GuardRules {
        allow_http: true,
        allow_private: addresses != ReachableAddresses::Public,
        private_setting: "`addresses: local` of the backend",
    };
    let guarded = GuardedClient::with_rules(rules, None).map_err(refused)?;
    for url in urls {
        guarded.check(url).await.map_err(refused)?;
    }
    Ok(guarded.client().clone())
}

impl Login {
    /// Exchanges a code for tokens. Reads the answer as leniently as that of a renewal: servers send
    /// `expires_in` as a text, `scope` as a list, and no `token_type`.
    pub async fn exchange(grant: CodeGrant) -> Result<Login, OutgoingError> {
        let CodeGrant { token_url, client_id, client_secret, secret_in_body, addresses, .. } = grant;
        let http = guarded_client(&[&token_url], addresses).await?;
        let endpoint = TokenEndpoint {
            url: token_url.clone(),
            client_id: Some(client_id.clone()),
            client_secret: client_secret.clone().map(Secret::from),
        };
        let provider = Provider::new(endpoint, HttpClient::from_client(http));
        let provider = if secret_in_body { provider.with_secret_in_body() } else { provider };
        let form = [
            ("grant_type", "authorization_code"),
            ("code", &*grant.code),
            ("code_verifier", &*grant.verifier),
            ("redirect_uri", &*grant.redirect),
            ("resource", &*grant.resource),
        ];
        let answer = provider.access_token(&form).await?;
        Ok(Login {
            token_url,
            client_id,
            client_secret,
            resource: grant.resource,
            access_token: answer.access_token.expose().to_owned(),
            refresh_token: answer.refresh_token.as_ref().map(|token| token.expose().to_owned()),
            expires_at: answer.life().map(|life| now().saturating_add(life.as_secs())),
            addresses,
        })
    }

    /// The rest of the access token's life; `None`: not told.
    fn life(&self) -> Option<Duration> {
        self.expires_at.map(|expires| Duration::from_secs(expires.saturating_sub(now())))
    }

    fn is_fresh(&self) -> bool {
        self.life().is_none_or(|life| life >= MIN_LIFE)
    }
}

/// The tokens of one backend's login.
#[derive(Debug)]
pub(super) struct LoginTokens {
    backend: String,
    logins: Option<Logins>,
    http: HttpClient,
}

impl LoginTokens {
    pub(super) fn new(backend: &str, folder: Option<PathBuf>, http: HttpClient) -> Self {
        Self { backend: backend.to_owned(), logins: folder.map(Logins::in_folder), http }
    }

    /// Returns the stored token, or a renewed one if it expires, or is the `refused` one.
    pub(super) async fn fetch(&self, refused: Option<&str>) -> Result<FetchedToken, OutgoingError> {
        let login = self.read().await?;
        let is_usable = |login: &Login| login.is_fresh() && Some(&*login.access_token) != refused;
        if is_usable(&login) {
            return Ok(fetched(&login));
        }
        let logins = self.logins.clone().ok_or_else(|| self.sign_in("there is no home folder"))?;
        let backend = self.backend.clone();
        let lock = blocking(move || logins.lock(&backend)).await;
        let _turn = lock.map_err(|error| self.sign_in(&error.to_string()))?;
        // Another process may have renewed it meanwhile.
        let login = self.read().await?;
        if is_usable(&login) {
            return Ok(fetched(&login));
        }
        self.renew(login).await
    }

    async fn renew(&self, mut login: Login) -> Result<FetchedToken, OutgoingError> {
        let Some(refresh) = login.refresh_token.clone() else {
            return Err(self.sign_in("the token expired, and the provider gave none to renew it with"));
        };
        let endpoint = TokenEndpoint {
            url: login.token_url.clone(),
            client_id: Some(login.client_id.clone()),
            client_secret: login.client_secret.clone().map(Secret::from),
        };
        let form =
            [("grant_type", "refresh_token"), ("refresh_token", &*refresh), ("resource", &*login.resource)];
        let failed = |error: OutgoingError| self.sign_in(&format!("{}; {}", error.reason, error.detail));
        let http = match login.addresses {
            ReachableAddresses::Any => self.http.clone(),
            addresses => {
                let client = guarded_client(&[&login.token_url], addresses).await;
                HttpClient::from_client(client.map_err(failed)?)
            }
        };
        let answer = Provider::new(endpoint, http).access_token(&form).await.map_err(failed)?;
        login.expires_at = answer.life().map(|life| now().saturating_add(life.as_secs()));
        login.access_token = answer.access_token.expose().to_owned();
        if let Some(rotated) = &answer.refresh_token {
            login.refresh_token = Some(rotated.expose().to_owned());
        }
        let renewed = fetched(&login);
        if let Some(logins) = self.logins.clone() {
            let backend = self.backend.clone();
            if let Err(error) = blocking(move || logins.write_tokens(&backend, &login)).await {
                tracing::error!(backend = self.backend, %error, "the renewed login could not be stored");
            }
        }
        Ok(renewed)
    }

    async fn read(&self) -> Result<Login, OutgoingError> {
        let Some(logins) = self.logins.clone() else {
            return Err(self.sign_in("there is no home folder"));
        };
        let backend = self.backend.clone();
        blocking(move || logins.read(&backend)).await.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => self.sign_in(""),
            _ => self.sign_in(&error.to_string()),
        })
    }

    fn sign_in(&self, detail: &str) -> OutgoingError {
        OutgoingError {
            reason: format!("nobody is signed in to it; run `vmcp login {}`", self.backend),
            detail: detail.to_owned(),
        }
    }
}

fn fetched(login: &Login) -> FetchedToken {
    FetchedToken { token: login.access_token.as_str().into(), life: login.life() }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// Replaces a file by a rename; the new one is readable by its owner only.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let next = path.with_extension("new");
    let _ = std::fs::remove_file(&next);
    let mut file = private(OpenOptions::new().write(true).create_new(true)).open(&next)?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(&next, path)
}

fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

#[cfg(test)]
mod tests {
    use axum::extract::Form;
    use axum::routing::post;
    use axum::{Json, Router};
    use serde_json::{Value, json};

    use super::*;

    #[tokio::test]
    async fn tokens_are_read_however_a_server_writes_their_facts() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let answers = [
            (json!({"access_token": "a", "token_type": "Bearer", "expires_in": "3600"}), Some(3600)),
            (json!({"access_token": "a", "token_type": "bearer", "expires_in": 3599.5}), Some(3599)),
            (json!({"access_token": "a", "expires_in": 3600, "scope": ["a", "b"]}), Some(3600)),
            (json!({"access_token": "a", "refresh_token": null, "scope": null}), None),
        ];
        for (answer, life) in answers {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let token_url = format!("http://{}/token", listener.local_addr().unwrap()).parse().unwrap();
            let said = answer.clone();
            let token = move |Form(form): Form<BTreeMap<String, String>>| async move {
                let is_whole = form["grant_type"] == "authorization_code"
                    && (&*form["code"], &*form["code_verifier"]) == ("c", "v")
                    && form["redirect_uri"] == "http://127.0.0.1/callback"
                    && form["client_secret"] == "secret";
                Json(if is_whole { said } else { Value::Null })
            };
            let app = Router::new().route("/token", post(token));
            tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
            let grant = CodeGrant {
                token_url,
                client_id: "vmcp".to_owned(),
                client_secret: Some("secret".to_owned()),
                secret_in_body: true,
                code: "c".to_owned(),
                verifier: "v".to_owned(),
                redirect: "http://127.0.0.1/callback".to_owned(),
                resource: "https://tracker.example/mcp".to_owned(),
                addresses: ReachableAddresses::Local,
            };
            let login = Login::exchange(grant).await.unwrap();
            let rest = login.expires_at.map(|at| at.saturating_sub(now()));
            assert_eq!((login.access_token.as_str(), login.refresh_token), ("a", None), "{answer}");
            assert!(
                rest.is_some() == life.is_some()
                    && rest.unwrap_or_default().abs_diff(life.unwrap_or_default()) < 5
            );
        }
    }

    #[tokio::test]
    async fn the_code_and_each_renewal_go_to_addresses_of_the_backend_alone() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let token = || async { Json(json!({"access_token": "new", "expires_in": 3600})) };
        let app = Router::new().route("/token", post(token));
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        let folder = tempfile::tempdir().unwrap();
        let logins = Logins::in_folder(folder.path().to_owned());
        let url: Url = "https://tracker.example/mcp".parse().unwrap();
        for host in ["127.0.0.1", "localhost"] {
            for (addresses, is_reached) in [
                (ReachableAddresses::Public, false),
                (ReachableAddresses::Local, true),
                (ReachableAddresses::Any, true),
            ] {
                let token_url: Url = format!("http://{host}:{port}/token").parse().unwrap();
                let grant = CodeGrant {
                    token_url: token_url.clone(),
                    client_id: "vmcp".to_owned(),
                    client_secret: None,
                    secret_in_body: false,
                    code: "c".to_owned(),
                    verifier: "v".to_owned(),
                    redirect: "http://127.0.0.1/callback".to_owned(),
                    resource: url.to_string(),
                    addresses,
                };
                let exchanged = Login::exchange(grant).await;
                assert_eq!(exchanged.is_ok(), is_reached, "{host} {addresses:?}");
                let expired = Login {
                    token_url,
                    client_id: "vmcp".to_owned(),
                    client_secret: None,
                    resource: url.to_string(),
                    access_token: "old".to_owned(),
                    refresh_token: Some("refresh".to_owned()),
                    expires_at: Some(0),
                    addresses,
                };
                logins.store("tracker", &url, &expired).unwrap();
                let tokens =
                    LoginTokens::new("tracker", Some(folder.path().to_owned()), HttpClient::default());
                match tokens.fetch(None).await {
                    Ok(_) => assert!(is_reached, "{host} {addresses:?}"),
                    Err(error) => {
                        assert!(!is_reached, "{host} {addresses:?}: {}", error.detail);
                        assert!(error.detail.contains("`addresses: local`"), "{host}: {}", error.detail);
                    }
                }
            }
        }
    }

    #[test]
    fn every_login_changes_the_index() {
        let folder = tempfile::tempdir().unwrap();
        let logins = Logins::in_folder(folder.path().to_owned());
        let url: Url = "https://tracker.example/mcp".parse().unwrap();
        let login = Login {
            token_url: url.clone(),
            client_id: "vmcp".to_owned(),
            client_secret: None,
            resource: url.to_string(),
            access_token: "first".to_owned(),
            refresh_token: None,
            expires_at: None,
            addresses: ReachableAddresses::Any,
        };
        logins.store("tracker", &url, &login).unwrap();
        let first = logins.index();
        logins.store("tracker", &url, &Login { access_token: "second".to_owned(), ..login }).unwrap();
        assert_ne!(logins.index(), first, "within one second too: a running server looks for a change");
        assert_eq!(logins.read("tracker").unwrap().access_token, "second");
        assert!(logins.remove("tracker").unwrap() && logins.index().is_empty());
    }
}

//! A real identity provider: `oidc-provider`, a certified implementation of OpenID Connect.

use std::collections::BTreeMap;

use reqwest::Url;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{Process, free_port, http_client, installed, node};

/// Redirects between the start of a login and its end: five, as it is.
const MAX_REDIRECTS: usize = 10;
const SCRIPT: &str = include_str!("identity_provider/provider.mjs");
/// The audience of tokens for vmcp, and the URL that clients are told.
const AUDIENCE: &str = "https://tools.example.com/mcp";

/// A running identity provider with a person, `carol`, and with the clients `alice`, `bob` and `brief`, whose
/// tokens last for a second.
pub struct IdentityProvider {
    /// The issuer.
    pub issuer: String,
    port: u16,
    process: Option<Process>,
}

impl IdentityProvider {
    /// Starts it and waits until it listens.
    pub async fn start() -> Self {
        let port = free_port();
        let process = Some(run(port).await);
        Self { issuer: format!("http://127.0.0.1:{port}"), port, process }
    }

    /// Ends it, keys and all.
    pub fn stop(&mut self) {
        self.process = None;
    }

    /// Starts it again, with new keys.
    pub async fn restart(&mut self) {
        self.process = Some(run(self.port).await);
    }

    /// Returns the configuration of a vmcp that trusts this provider; `more` is laid over the block `oidc`.
    pub fn config(&self, more: &Value) -> Value {
        let mut oidc = json!({
            "issuer": self.issuer, "resource": AUDIENCE,
            "insecureAllowHttp": true, "jwksAllowPrivateIp": true, "clockSkew": "0s",
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            oidc[key] = value.clone();
        }
        json!({"incomingAuth": {"type": "oidc", "oidc": oidc}})
    }

    /// Returns a token of a client for vmcp, with the scope `tools:read`.
    pub async fn token(&self, client: &str) -> String {
        self.token_for(client, AUDIENCE, "tools:read").await
    }

    /// Returns a token of a client for any audience.
    pub async fn token_for(&self, client: &str, audience: &str, scope: &str) -> String {
        // Of the characters that a form escapes, the values have only such as every server takes unescaped.
        let form = format!("grant_type=client_credentials&resource={audience}&scope={scope}");
        let ask = http_client().post(format!("{}/token", self.issuer)).body(form);
        let ask = ask.header("content-type", "application/x-www-form-urlencoded");
        let answer = ask.basic_auth(client, Some(format!("{client}-secret"))).send().await;
        let answer: Value = answer.expect("the provider").json().await.expect("JSON");
        answer["access_token"].as_str().unwrap_or_else(|| panic!("no token: {answer}")).to_owned()
    }

    /// Replaces the keys that sign tokens.
    pub async fn rotate(&self) {
        self.control("rotate").await;
    }

    /// Returns the claims of a token under another signature: `none`, or `hs256` with the public key as
    /// secret.
    pub async fn forge(&self, kind: &str, token: &str) -> String {
        self.control(&format!("forge?kind={kind}&token={token}")).await
    }

    /// Enters the code of a device, as `carol`; returns `accepted`.
    pub async fn accept_device(&self, code: &str) -> String {
        self.control(&format!("device?code={code}")).await
    }

    async fn control(&self, action: &str) -> String {
        let ask = http_client().get(format!("{}/control/{action}", self.issuer));
        ask.send().await.expect("the provider").text().await.expect("text")
    }
}

/// Opens an address as a browser does: with cookies, and on along redirects to other addresses. Returns the
/// page at which it ends.
pub async fn browse(address: &str) -> String {
    let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy().build();
    let (http, mut cookies) = (http.expect("an HTTP client"), BTreeMap::new());
    let mut address = Url::parse(address).expect("an address");
    for _ in 0..MAX_REDIRECTS {
        let sent: Vec<_> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let answer = http.get(address.clone()).header("cookie", sent.join("; ")).send().await;
        let answer = answer.expect("an answer");
        for cookie in answer.headers().get_all("set-cookie") {
            let cookie = cookie.to_str().expect("a plain cookie");
            let pair = cookie.split(';').next().unwrap_or_default().split_once('=').expect("a cookie");
            cookies.insert(pair.0.to_owned(), pair.1.to_owned());
        }
        let Some(location) = answer.headers().get("location") else {
            return answer.text().await.expect("a page");
        };
        address = address.join(location.to_str().expect("a plain address")).expect("an address");
    }
    panic!("more than {MAX_REDIRECTS} redirects, the last to {address}");
}

async fn run(port: u16) -> Process {
    let mut command = Command::new(node("node"));
    command.current_dir(installed("node")).args(["--input-type=module", "-e", SCRIPT]);
    let process = Process::start("identity provider", command.arg(port.to_string()));
    process.line_after("identity provider at").await;
    process
}

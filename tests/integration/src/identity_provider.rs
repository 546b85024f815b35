//! A real identity provider: `oidc-provider`, a certified implementation of OpenID Connect.

use serde_json::{Value, json};
use tokio::process::Command;

use crate::{Process, free_port, http_client, installed, node};

const SCRIPT: &str = include_str!("identity_provider/provider.mjs");
/// The audience of tokens for vmcp, and the URL that clients are told.
const AUDIENCE: &str = "https://tools.example.com/mcp";

/// A running identity provider with the clients `alice`, `bob` and `brief`, whose tokens last for a second.
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
        // The values have no character that a form escapes but those that every server takes as they are.
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

    async fn control(&self, action: &str) -> String {
        let ask = http_client().get(format!("{}/control/{action}", self.issuer));
        ask.send().await.expect("the provider").text().await.expect("text")
    }
}

async fn run(port: u16) -> Process {
    let mut command = Command::new(node("node"));
    command.current_dir(installed("node")).args(["--input-type=module", "-e", SCRIPT]);
    let process = Process::start("identity provider", command.arg(port.to_string()));
    process.line_after("identity provider at").await;
    process
}

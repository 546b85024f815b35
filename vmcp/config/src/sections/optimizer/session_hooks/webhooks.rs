//! `optimizer.sessionHooks.webhooks`: services that are told of hooks of coding agents.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::problems::{self, Report};
use crate::sections::incoming_auth::service_url;
use crate::values::duration::{self, RawDuration};
use crate::values::secret::{self, Secret};

/// Path of the list.
const PATH: &str = "optimizer.sessionHooks.webhooks";
/// Range of `timeout`.
const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(30);
/// Most webhooks: each hook is sent to all of them.
const MAX_WEBHOOKS: usize = 16;
/// Most characters of a name.
const MAX_NAME_CHARS: usize = 63;
/// Fewest characters of `hmacSecret`.
const MIN_SECRET_CHARS: usize = 16;
/// Types of hooks, as `events` names them.
pub const SESSION_EVENTS: [&str; 15] = [
    "session-start",
    "session-end",
    "user-prompt-submit",
    "stop",
    "stop-failure",
    "interrupt",
    "notification",
    "pre-compact",
    "post-compact",
    "pre-tool-use",
    "post-tool-use",
    "post-tool-use-failure",
    "permission-request",
    "subagent-start",
    "subagent-stop",
];

/// A service that is told of hooks. Two that are equal are told alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionWebhook {
    /// Name in metrics and logs; unique.
    pub name: Arc<str>,
    /// URL that notices are posted to.
    pub url: Url,
    /// The types of hooks that it is told of; empty: all.
    pub events: BTreeSet<String>,
    /// Key of the HMAC-SHA256 over each notice.
    pub hmac_secret: Option<Secret>,
    /// Time limit of one attempt.
    pub timeout: Duration,
    /// True if notices may go out without TLS.
    pub insecure_allow_http: bool,
    /// True if the service may have a private or loopback address.
    pub allow_private_addresses: bool,
    /// PEM file of certificate authorities that are trusted besides those of the system.
    pub ca_bundle_path: Option<PathBuf>,
}

impl SessionWebhook {
    /// True if the service is told of a type of hooks.
    pub fn means(&self, event: &str) -> bool {
        self.events.is_empty() || self.events.contains(event)
    }
}

/// An HTTP service that is told of hooks of coding agents, in their order. It decides nothing, and no agent
/// waits for it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "SessionWebhook")]
pub struct RawSessionWebhook {
    /// Required. Name in metrics and logs: at most 63 letters, digits, `-`, `_` and `.`, unique.
    pub name: String,
    /// Required. URL that notices are posted to, as JSON. Redirects are not followed.
    pub url: Option<String>,
    /// Types of hooks that the service is told of, such as `session-start`. Default: all.
    pub events: Vec<String>,
    /// Key of at least 16 characters that signs each notice: `vmcp-signature` is the HMAC-SHA256 of
    /// `vmcp-timestamp`, a dot and the body. Write `${file:/path}` or `${secret:NAME}`.
    pub hmac_secret: Option<Secret>,
    /// Time limit of one attempt; there are five.
    #[schemars(extend("x-range" = duration::words(&TIMEOUT)))]
    pub timeout: RawDuration,
    /// Allow an http `url`: anyone on the way reads the notices.
    pub insecure_allow_http: bool,
    /// Tell a service at a private or loopback address too.
    pub allow_private_ip: bool,
    /// PEM file of certificate authorities that are trusted for the service besides those of the system.
    pub ca_bundle_path: Option<String>,
}

impl Default for RawSessionWebhook {
    fn default() -> Self {
        Self {
            name: String::new(),
            url: None,
            events: Vec::new(),
            hmac_secret: None,
            timeout: "10s".into(),
            insecure_allow_http: false,
            allow_private_ip: false,
            ca_bundle_path: None,
        }
    }
}

/// Checks the list.
pub(super) fn validate(raw: &[RawSessionWebhook], report: &mut Report) -> Vec<Arc<SessionWebhook>> {
    if raw.len() > MAX_WEBHOOKS {
        let message = format!("{} webhooks, the limit is {MAX_WEBHOOKS}", raw.len());
        report.problem(PATH, message, "let one service hand the notices on");
    }
    let mut names = BTreeSet::new();
    let mut valid = Vec::new();
    for (index, webhook) in raw.iter().enumerate() {
        let path = problems::item(PATH, index);
        if !webhook.name.is_empty() && !names.insert(webhook.name.as_str()) {
            let message = format!("`{}` is the name of another webhook", webhook.name);
            report.problem(&problems::key(&path, "name"), message, "choose another name");
        }
        valid.extend(webhook.validate(&path, report).map(Arc::new));
    }
    valid
}

impl RawSessionWebhook {
    fn validate(&self, path: &str, report: &mut Report) -> Option<SessionWebhook> {
        let at = |key: &str| problems::key(path, key);
        let is_named = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
        if self.name.is_empty() {
            report.problem(&at("name"), "missing", "add a name, by which metrics and logs tell the webhook");
        } else if self.name.len() > MAX_NAME_CHARS || !self.name.chars().all(is_named) {
            let message = "is no name: at most 63 letters, digits, `-`, `_` and `.`";
            report.problem(&at("name"), message, "shorten it, or replace the other characters by `-`");
        }
        for (index, event) in self.events.iter().enumerate() {
            if !SESSION_EVENTS.contains(&event.as_str()) {
                let path = problems::item(&at("events"), index);
                let shown = report.shown(&path, event);
                let remedy = format!("use {}", SESSION_EVENTS.join(", "));
                report.problem(&path, format!("{shown} is no type of hook"), remedy);
            }
        }
        self.check_secret(&at("hmacSecret"), report);
        let about = ("https://sessions.example/notices", "notices");
        let allow_http = self.insecure_allow_http;
        let url = service_url::validate(self.url.as_deref(), &at("url"), about, allow_http, report);
        let timeout = self.timeout.validate(&at("timeout"), &TIMEOUT, report);
        Some(SessionWebhook {
            name: self.name.as_str().into(),
            // An invalid URL has been reported.
            url: url?,
            events: self.events.iter().cloned().collect(),
            hmac_secret: self.hmac_secret.clone(),
            timeout,
            insecure_allow_http: self.insecure_allow_http,
            allow_private_addresses: self.allow_private_ip,
            ca_bundle_path: self.ca_bundle_path.as_ref().map(PathBuf::from),
        })
    }

    fn check_secret(&self, path: &str, report: &mut Report) {
        let Some(secret) = &self.hmac_secret else { return };
        let remedy = "make one by `openssl rand -base64 32`";
        if secret.expose().chars().count() < MIN_SECRET_CHARS {
            report.problem(path, "shorter than 16 characters", remedy);
        } else if let Some(weakness) = secret::weakness(secret) {
            report.problem(path, format!("can be guessed: {weakness}"), remedy);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::load;

    fn with(webhooks: &str) -> String {
        format!("optimizer: {{ sessionHooks: {{ webhooks: {webhooks} }} }}\n")
    }

    #[test]
    fn a_webhook_has_a_name_a_url_and_known_events() {
        let text = with("[{ name: chat, url: 'https://chat.example/in', events: [session-start] }]");
        let config = load(&text, "f", &|_| None).unwrap().config;
        let webhook = &config.optimizer.session_hooks.webhooks[0];
        assert!(webhook.means("session-start") && !webhook.means("stop"));
        assert_eq!(webhook.timeout.as_secs(), 10);
        for (webhooks, path) in [
            ("[{ url: 'https://a.example/' }]", "webhooks[0].name"),
            ("[{ name: 'a b', url: 'https://a.example/' }]", "webhooks[0].name"),
            ("[{ name: a }]", "webhooks[0].url"),
            ("[{ name: a, url: 'http://a.example/' }]", "webhooks[0].url"),
            ("[{ name: a, url: 'https://a.example/', events: [start] }]", "webhooks[0].events[0]"),
            ("[{ name: a, url: 'https://a.example/', hmacSecret: short }]", "webhooks[0].hmacSecret"),
            ("[{ name: a, url: 'https://a.example/', timeout: 1h }]", "webhooks[0].timeout"),
            (
                "[{ name: a, url: 'https://a.example/' }, { name: a, url: 'https://b.example/' }]",
                "webhooks[1].name",
            ),
        ] {
            let problems = load(&with(webhooks), "f", &|_| None).unwrap_err().to_string();
            assert!(problems.contains(&format!("optimizer.sessionHooks.{path}")), "{webhooks}: {problems}");
        }
        let many: Vec<_> = (0..17).map(|n| format!("{{ name: w{n}, url: 'https://a.example/' }}")).collect();
        let problems =
            load(&with(&format!("[{}]", many.join(", "))), "f", &|_| None).unwrap_err().to_string();
        assert!(problems.contains("17 webhooks, the limit is 16"), "{problems}");
    }
}

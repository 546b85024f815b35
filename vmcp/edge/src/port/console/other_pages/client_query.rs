//! [`ClientQuery`]: the client that a question of a page is about, as its form sends it.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value};
use vmcp_config::{API_KEYS, Config};
use vmcp_console::pages::clients::question::{ClientQuestion, MAX_CHARS};

use crate::port::admin::diagnosis::explain_tool::ExplainRequest;
use crate::port::console::forms;

/// Most subjects that a form proposes.
const MAX_SUBJECTS: usize = 200;
/// Message where clients sign in and the question names none.
pub(in crate::port::console) const WANTS_SUBJECT: &str =
    "who: clients prove who they are here (incomingAuth): type the subject of the client's identity";

/// The query `?who=SUBJECT&claims=JSON&issuer=URL&profile=NAME`.
#[derive(Debug, Clone, Default, Deserialize)]
pub(in crate::port::console) struct ClientQuery {
    #[serde(default)]
    who: String,
    #[serde(default)]
    claims: String,
    #[serde(default)]
    issuer: String,
    #[serde(default)]
    profile: String,
}

impl ClientQuery {
    /// Reads the fields of a form.
    pub(in crate::port::console) fn of_form(pairs: &[(String, String)]) -> ClientQuery {
        let value = |name: &str| forms::value(pairs, name).to_owned();
        ClientQuery {
            who: value("who"),
            claims: value("claims"),
            issuer: value("issuer"),
            profile: value("profile"),
        }
    }

    /// Returns the question about a tool. Fails with the field and the reason.
    pub(in crate::port::console) fn request(
        &self,
        config: &Config,
        tool: &str,
    ) -> Result<ExplainRequest, String> {
        for (name, text) in [("who", &self.who), ("claims", &self.claims), ("issuer", &self.issuer)] {
            if text.chars().count() > MAX_CHARS {
                return Err(format!("{name}: longer than {MAX_CHARS} characters"));
            }
        }
        let profile = Some(self.profile.clone()).filter(|profile| !profile.is_empty());
        Ok(ExplainRequest { tool: tool.to_owned(), claims: self.claims(config)?, profile, query: None })
    }

    /// Returns true for the question about a client without credentials. An object of no claims names no
    /// client either.
    pub(in crate::port::console) fn is_anonymous(&self) -> bool {
        let claims = self.claims.trim();
        let is_empty_object =
            || serde_json::from_str::<Map<String, Value>>(claims).is_ok_and(|claims| claims.is_empty());
        self.who.is_empty() && (claims.is_empty() || is_empty_object())
    }

    /// Returns true if the client uses the path of a profile.
    pub(in crate::port::console) fn has_profile(&self) -> bool {
        !self.profile.is_empty()
    }

    /// Returns the form as it was sent, with the choices of the configuration.
    pub(in crate::port::console) fn question(
        &self,
        config: &Config,
        mistake: Option<String>,
    ) -> ClientQuestion {
        ClientQuestion {
            who: self.who.clone(),
            claims: self.claims.clone(),
            issuer: self.issuer.clone(),
            profile: self.profile.clone(),
            issuers: issuers(config),
            subjects: subjects(config),
            profiles: config.profiles.keys().map(ToString::to_string).collect(),
            mistake,
        }
    }

    /// Returns the claims; `None`: a client without credentials.
    fn claims(&self, config: &Config) -> Result<Option<Map<String, Value>>, String> {
        let mut claims: Map<String, Value> = match self.claims.trim() {
            "" => Map::new(),
            text => serde_json::from_str(text).map_err(|error| format!("claims: no JSON object: {error}"))?,
        };
        if self.who.is_empty() {
            // A token without a subject is refused where the question is answered.
            return Ok((!claims.is_empty()).then_some(claims));
        }
        claims.insert("sub".to_owned(), self.who.as_str().into());
        if !claims.contains_key("iss") {
            let issuer =
                if self.issuer.is_empty() { default_issuer(config, &self.who) } else { self.issuer.clone() };
            claims.insert("iss".to_owned(), issuer.into());
        }
        // A client of a key has the claims of the key; typed ones win.
        if claims.get("iss").is_some_and(|issuer| issuer == API_KEYS) {
            let key = config.incoming_auth.api_keys.iter().find(|key| key.subject == self.who);
            for (name, value) in key.into_iter().flat_map(|key| &key.claims) {
                claims.entry(name.as_str()).or_insert_with(|| value.clone());
            }
        }
        Ok(Some(claims))
    }
}

/// Returns the subjects of keys, each once.
fn subjects(config: &Config) -> Vec<String> {
    let known: BTreeSet<_> = config.incoming_auth.api_keys.iter().map(|key| &key.subject).collect();
    known.into_iter().take(MAX_SUBJECTS).cloned().collect()
}

/// Returns the sources of identities that policies know.
fn issuers(config: &Config) -> Vec<String> {
    let Some(sources) = config.authz.as_ref().map(|authz| &authz.sources) else { return Vec::new() };
    let keys = (!sources.key_subjects.is_empty()).then(|| API_KEYS.to_owned());
    sources.sources.iter().map(|source| source.issuer.clone()).chain(keys).collect()
}

/// Returns the source of a subject for which none was chosen: the API keys if one of them has it, else the
/// first source.
fn default_issuer(config: &Config, subject: &str) -> String {
    if config.incoming_auth.api_keys.iter().any(|key| key.subject == subject) {
        return API_KEYS.to_owned();
    }
    issuers(config).into_iter().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use vmcp_engine::testing::config;

    use super::*;

    fn query(who: &str, claims: &str) -> ClientQuery {
        ClientQuery { who: who.to_owned(), claims: claims.to_owned(), ..ClientQuery::default() }
    }

    #[test]
    fn a_subject_becomes_claims_and_nothing_becomes_a_client_without_credentials() {
        let config = config("{}");
        let claims =
            |who: &str, claims: &str| query(who, claims).request(&config, "x").map(|asked| asked.claims);
        assert_eq!(claims("", " "), Ok(None));
        let bob = claims("bob", r#"{"groups": ["staff"], "sub": "eve"}"#).unwrap().unwrap();
        assert_eq!(Value::Object(bob), serde_json::json!({"groups": ["staff"], "sub": "bob", "iss": ""}));
        assert!(claims("bob", "[1]").unwrap_err().starts_with("claims: "));
        assert!(claims(&"b".repeat(MAX_CHARS + 1), "").unwrap_err().starts_with("who: "));
        for (who, claims, is_anonymous) in [
            ("", " ", true),
            ("", " { } ", true),
            ("", "[]", false),
            ("", "{\"sub\": \"x\"}", false),
            ("bob", "{}", false),
        ] {
            assert_eq!(query(who, claims).is_anonymous(), is_anonymous, "{who:?} {claims}");
        }
    }

    #[test]
    fn a_client_of_a_key_has_the_claims_of_its_key() {
        let config = config(
            "incomingAuth: { type: apiKeys, apiKeys: [{ subject: ci, key: 0123456789abcdef0123456789abcdef, groups: [builders] }] }",
        );
        let claims = |who: &str, claims: &str| {
            let claims = query(who, claims).request(&config, "x").map(|asked| asked.claims);
            Value::Object(claims.unwrap().unwrap())
        };
        let ci = claims("ci", "");
        assert_eq!(ci["groups"], serde_json::json!(["builders"]));
        assert_eq!(ci["iss"], API_KEYS);
        assert_eq!(claims("ci", r#"{"groups": []}"#)["groups"], serde_json::json!([]));
        for other in [claims("bob", ""), claims("ci", r#"{"iss": "https://idp.example"}"#)] {
            assert!(other.get("groups").is_none(), "{other}");
        }
        assert_eq!(query("", "").question(&config, None).subjects, ["ci"]);
    }
}

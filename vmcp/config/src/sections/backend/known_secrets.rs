//! [`KnownSecrets`]: the secrets in one backend's entry, masked in text that its server writes. A program
//! repeats its arguments when it does not understand them, and a server repeats a key that it refuses.

use std::borrow::Cow;
use std::sync::Arc;

use crate::references::secret_signs::{is_secret_name, looks_secret};
use crate::sections::backend::Transport;
use crate::values::masked::hidden_in_arguments;
use crate::values::secret::{MASK, Secret};

/// Fewest bytes of a secret that is masked: a shorter one would mask parts of ordinary words.
const MIN_BYTES: usize = 6;

/// Secrets to mask in logs, status and errors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownSecrets(Arc<[Secret]>);

impl KnownSecrets {
    /// Collects `resolved`, the values of references, and what is secret in a transport by its name or its
    /// look: headers, variables, parameters of the URL, arguments.
    pub fn of(transport: &Transport, resolved: impl IntoIterator<Item = String>) -> Self {
        let mut found: Vec<String> = resolved.into_iter().collect();
        match transport {
            Transport::Http { url, headers }
            | Transport::Sse { url, headers }
            | Transport::WebSocket { url, headers } => {
                for (name, value) in headers {
                    // Behind a scheme such as `Bearer`.
                    let token = value.expose().rsplit(' ').next().unwrap_or_default();
                    add_named(&mut found, name, token);
                }
                // As they are written, and as a server reads them.
                let written = url.query().unwrap_or_default().split('&');
                for (name, value) in written.filter_map(|parameter| parameter.split_once('=')) {
                    add_named(&mut found, name, value);
                }
                for (name, value) in url.query_pairs() {
                    add_named(&mut found, &name, &value);
                }
            }
            Transport::Stdio { args, env, .. } => {
                for (name, value) in env {
                    add_named(&mut found, name, value.expose());
                }
                let mut option = "";
                for argument in args {
                    let (name, value) = argument.split_once('=').unwrap_or((option, argument));
                    add_named(&mut found, name, value);
                    option = if argument.starts_with('-') { argument } else { "" };
                }
                found.extend(hidden_in_arguments(args));
            }
        }
        Self::of_values(&found)
    }

    /// Collects secrets without white space around them, also as JSON writes them. A secret of fewer than 6
    /// bytes is left out.
    pub fn of_values(found: &[String]) -> Self {
        let mut found: Vec<String> = found.iter().map(|secret| secret.trim().to_owned()).collect();
        let escaped = |secret: &String| {
            let quoted = serde_json::to_string(secret).ok()?;
            let escaped = quoted.strip_prefix('"')?.strip_suffix('"')?;
            (escaped != secret).then(|| escaped.to_owned())
        };
        let escaped: Vec<String> = found.iter().filter_map(escaped).collect();
        found.extend(escaped);
        found.retain(|secret| secret.len() >= MIN_BYTES);
        found.sort_unstable();
        found.dedup();
        // The longest first: one secret may contain another.
        found.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(found.into_iter().map(Secret::from).collect())
    }

    /// Returns the secrets in the environment of this process, for a program that gets all of it.
    pub fn of_environment() -> Vec<String> {
        let mut found = Vec::new();
        for (name, value) in std::env::vars_os() {
            if let (Some(name), Some(value)) = (name.to_str(), value.to_str()) {
                add_named(&mut found, name, value);
            }
        }
        found
    }

    /// Returns the text with each secret masked.
    ///
    /// # Examples
    ///
    /// ```
    /// let text = "backends: [{ name: a, url: 'https://a.example/mcp?api_key=t0psecret' }]";
    /// let loaded = vmcp_config::load(text, "vmcp.yaml", &|_| None)?;
    /// let secrets = &loaded.config.backends[0].known_secrets;
    /// assert_eq!(secrets.mask("no such key: t0psecret"), "no such key: ***");
    /// # Ok::<(), vmcp_config::Problems>(())
    /// ```
    pub fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut masked = Cow::Borrowed(text);
        for secret in &*self.0 {
            if masked.contains(secret.expose()) {
                masked = masked.replace(secret.expose(), MASK).into();
            }
        }
        masked
    }
}

/// Adds a value that its name or its look shows to be a secret. A path leads to a secret and is none.
fn add_named(found: &mut Vec<String>, name: &str, value: &str) {
    let is_path = value.starts_with(['/', '.', '~']);
    if !is_path && !value.starts_with('-') && (is_secret_name(name) || looks_secret(value)) {
        found.push(value.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use crate::load;

    fn masked(entry: &str, text: &str) -> String {
        let variables = |name: &str| match name {
            "TEAM_TOKEN" => Some("t34m-w0rd".to_owned()),
            "PLACE" => Some("/srv/data".to_owned()),
            _ => None,
        };
        let loaded = load(&format!("backends: [{{ name: a, {entry} }}]"), "vmcp.yaml", &variables).unwrap();
        loaded.config.backends[0].known_secrets.mask(text).into_owned()
    }

    #[test]
    fn secrets_of_a_url_and_its_headers_are_masked() {
        let entry = "url: 'https://a.example/mcp?access_token=s3%2Fcret&debug=verbose', \
                     headers: { Authorization: 'Bearer k3y-value', X-Team: platform }";
        let said = "s3/cret s3%2Fcret k3y-value of platform, verbose";
        assert_eq!(masked(entry, said), "*** *** *** of platform, verbose");
    }

    #[test]
    fn secrets_of_a_program_are_masked_and_its_paths_are_not() {
        let entry = "command: [server, --api-key, 'fir5t-key', '--token=sec0nd-key', --key-file, /etc/key, \
                     'glpat-abcdefghijkl', --verbose], env: { DB_PASSWORD: hunter22, LOG_LEVEL: debugging }";
        let said = "fir5t-key sec0nd-key /etc/key glpat-abcdefghijkl hunter22 debugging --verbose";
        assert_eq!(masked(entry, said), "*** *** /etc/key *** *** debugging --verbose");
    }

    #[test]
    fn headers_and_urls_in_arguments_have_secrets_too() {
        let entry = "command: [npx, mcp-remote, 'https://u:p4ssword@a.example', --header, \
                     'Authorization: Bearer k3y-value', '--header=X-Api-Key: s3c0nd-key']";
        let said = "refused k3y-value, s3c0nd-key and p4ssword of https://u:p4ssword@a.example";
        assert_eq!(masked(entry, said), "refused ***, *** and *** of https://u:***@a.example");
    }

    #[test]
    fn the_value_of_a_reference_is_masked_wherever_it_stands() {
        let entry = "command: ['server', 'https://u:${TEAM_TOKEN}@db', '${PLACE}']";
        let said = "cannot log in at u:t34m-w0rd@db, see /srv/data";
        assert_eq!(masked(entry, said), "cannot log in at u:***@db, see /srv/data");
    }
}

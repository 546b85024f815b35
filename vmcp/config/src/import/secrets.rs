//! Detection of secrets in an imported file, by the name of the setting or the look of the value, and the
//! environment variables that replace them.

use std::collections::BTreeMap;

use url::Url;

use crate::references::is_name;
use crate::values::secret::Secret;

/// Words in the name of a setting whose value is a secret.
const SECRET_WORDS: [&str; 10] = [
    "token",
    "secret",
    "password",
    "passwd",
    "apikey",
    "credential",
    "auth",
    "cookie",
    "privatekey",
    "accesskey",
];
/// Prefixes of well-known tokens.
const SECRET_PREFIXES: [&str; 10] =
    ["sk-", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "AKIA", "eyJ"];
/// Schemes of the `Authorization` header, which stay in the text.
const SCHEMES: [&str; 3] = ["Bearer ", "Basic ", "Token "];

/// Secrets found so far, by the variable that each was moved to.
#[derive(Default)]
pub(super) struct Secrets {
    pub variables: BTreeMap<String, Secret>,
}

impl Secrets {
    /// Returns the value of the setting `key`, with a secret replaced by a reference to a variable named like
    /// `wanted`.
    pub(crate) fn value(
        &mut self,
        backend: &str,
        wanted: &str,
        key: &str,
        value: &str,
        notes: &mut Vec<String>,
    ) -> String {
        let translated = translate(value, notes);
        if translated.referred {
            return translated.text;
        }
        let (scheme, secret) = SCHEMES
            .iter()
            .find_map(|scheme| value.strip_prefix(scheme).map(|secret| (*scheme, secret)))
            .unwrap_or(("", value));
        if secret.is_empty() || !(is_secret_name(key) || looks_secret(secret)) {
            return translated.text;
        }
        let variable = self.variable(backend, wanted, secret);
        notes.push(format!("{key}: the secret is expected in the environment variable {variable}"));
        format!("{scheme}${{{variable}}}")
    }

    /// Returns the arguments with the values of `--token x` and `--token=x` replaced if they are secrets.
    pub(crate) fn arguments(
        &mut self,
        backend: &str,
        args: &[String],
        notes: &mut Vec<String>,
    ) -> Vec<String> {
        let mut flag = "";
        let mut replaced = Vec::with_capacity(args.len());
        for arg in args {
            replaced.push(match arg.split_once('=') {
                Some((name, value)) if name.starts_with('-') => {
                    format!("{}={}", plain(name), self.argument(backend, name, value, notes))
                }
                _ => self.argument(backend, flag, arg, notes),
            });
            flag = if arg.starts_with('-') && !arg.contains('=') { arg } else { "" };
        }
        replaced
    }

    fn argument(&mut self, backend: &str, flag: &str, value: &str, notes: &mut Vec<String>) -> String {
        let flag = flag.trim_start_matches('-');
        let wanted = format!("{backend}_{}", if flag.is_empty() { "secret" } else { flag });
        // A flag after a flag is not its value.
        let key = if value.starts_with('-') { "" } else { flag };
        self.value(backend, &wanted, key, value, notes)
    }

    /// Returns the URL with secret query parameters replaced and credentials removed.
    pub(crate) fn url(&mut self, backend: &str, text: &str, notes: &mut Vec<String>) -> String {
        let mut text = text.to_owned();
        if let Ok(mut url) = Url::parse(&text)
            && (!url.username().is_empty() || url.password().is_some())
            && url.set_username("").is_ok()
            && url.set_password(None).is_ok()
        {
            notes.push("credentials removed from the URL: set the header `Authorization` instead".to_owned());
            text = url.to_string();
        }
        let Some((address, query)) = text.split_once('?') else { return translate(&text, notes).text };
        let parameters: Vec<String> = query
            .split('&')
            .map(|parameter| match parameter.split_once('=') {
                Some((name, value)) => {
                    let wanted = format!("{backend}_{name}");
                    format!("{}={}", plain(name), self.value(backend, &wanted, name, value, notes))
                }
                None => plain(parameter),
            })
            .collect();
        format!("{}?{}", translate(address, notes).text, parameters.join("&"))
    }

    /// Returns a variable for `secret` named like `wanted`; with the backend's name, or a number, if that is
    /// taken.
    fn variable(&mut self, backend: &str, wanted: &str, secret: &str) -> String {
        let plain = upper_snake(wanted);
        let own = upper_snake(&format!("{backend}_{wanted}"));
        let numbered = (2..).map(|n| format!("{own}_{n}"));
        let mut candidates = [plain, own.clone()].into_iter().chain(numbered);
        let free = |name: &String| self.variables.get(name).is_none_or(|other| other.expose() == secret);
        let name = candidates.find(free).unwrap_or(own);
        self.variables.insert(name.clone(), secret.into());
        name
    }
}

/// Text in the syntax of vmcp, made from text of the other client.
struct Translated {
    text: String,
    /// True if it refers to a variable already, so that it is no secret itself.
    referred: bool,
}

/// `${env:X}` and `${input:x}` → `${X}`; `${X}` and `${X:-y}` stay; any other `${…}` and `$$` are kept as
/// they are read.
fn translate(theirs: &str, notes: &mut Vec<String>) -> Translated {
    let mut text = String::with_capacity(theirs.len());
    let mut referred = false;
    let mut rest = theirs;
    while let Some((before, after)) = rest.split_once('$') {
        text.push_str(before);
        rest = after;
        let reference = after.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let variable = reference.and_then(|(inner, _)| variable_of(inner));
        match (reference, variable) {
            (Some((_, after)), Some(variable)) => {
                text.extend(["${", &variable, "}"]);
                referred = true;
                rest = after;
            }
            (Some((inner, _)), None) => {
                notes.push(format!("`${{{inner}}}` means something to the other client only: replace it"));
                text.push_str("$$");
            }
            (None, _) if after.starts_with(['$', '{']) => text.push_str("$$"),
            (None, _) => text.push('$'),
        }
    }
    text.push_str(rest);
    Translated { text, referred }
}

/// Returns the content of the braces of a vmcp reference to the variable that the other client's reference
/// means.
fn variable_of(inner: &str) -> Option<String> {
    if let Some(name) = inner.strip_prefix("env:") {
        return is_name(name).then(|| name.to_owned());
    }
    if let Some(id) = inner.strip_prefix("input:") {
        return Some(upper_snake(id));
    }
    let name = inner.split_once(":-").map_or(inner, |(name, _)| name);
    // `${workspaceFolder}` and its like are no environment variables; those are upper case.
    (is_name(name) && !name.contains(|c: char| c.is_ascii_lowercase())).then(|| inner.to_owned())
}

/// Returns a text that is no secret, with the other client's references translated.
pub(super) fn plain(text: &str) -> String {
    translate(text, &mut Vec::new()).text
}

fn is_secret_name(key: &str) -> bool {
    let lower = key.to_ascii_lowercase();
    let joined = lower.replace(['-', '_', '.'], "");
    SECRET_WORDS.iter().any(|word| joined.contains(word))
        || lower.split(['-', '_', '.']).any(|word| matches!(word, "key" | "pat" | "pass" | "pwd"))
}

/// Returns true for a known prefix, or for 24 and more letters and digits in one piece, with at least four
/// digits and a letter.
fn looks_secret(value: &str) -> bool {
    SECRET_PREFIXES.iter().any(|prefix| value.starts_with(prefix) && value.len() >= 12)
        || (value.len() >= 24
            && value.chars().all(|c| c.is_ascii_alphanumeric() || "_-+=".contains(c))
            && value.chars().filter(char::is_ascii_digit).count() >= 4
            && value.chars().any(|c| c.is_ascii_alphabetic()))
}

fn upper_snake(name: &str) -> String {
    let mut upper: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    if !is_name(&upper) {
        upper.insert(0, '_');
    }
    upper
}

//! Detection of secrets in an imported file, by the name of the setting or the look of the value, and the
//! environment variables that replace them.

use std::collections::{BTreeMap, BTreeSet};

use url::Url;

use super::IsTaken;

use vmcp_config::Secret;
use vmcp_config::is_variable_name;
use vmcp_config::secret_signs::{is_option, is_secret_name, looks_secret, password_of_url};

/// Schemes of the `Authorization` header, which stay in the text.
const SCHEMES: [&str; 3] = ["Bearer ", "Basic ", "Token "];

/// Most names of one secret that are tried before its own name is taken after all.
const MAX_NUMBERED_NAMES: u32 = 1_000;

/// Secrets found so far, by the variable that each was moved to.
#[derive(Default)]
pub(super) struct Secrets<'a> {
    /// Variables outside of the import; `None`: all names are free.
    pub is_taken: Option<IsTaken<'a>>,
    pub variables: BTreeMap<String, Secret>,
    /// Variables to which the imported files refer themselves: one of them with the secret of another server
    /// would send it to the server that refers to it.
    pub referred: BTreeSet<String>,
    /// True if `${file:/path}` in the texts at hand is a reference.
    pub may_refer_to_files: bool,
    /// Variables for values that the other client asks its user for.
    pub asked: BTreeSet<String>,
    /// Variables that the server at hand sets in its `env`, which it expands in its arguments itself.
    pub own: BTreeSet<String>,
}

impl Secrets<'_> {
    /// Records the variables to which a text of the other client refers.
    pub(super) fn note_references(&mut self, text: &str) {
        let references = text.split("${").skip(1).filter_map(|rest| rest.split_once('}'));
        for variable in references.filter_map(|(inner, _)| variable_of(inner)) {
            let name = variable.split_once(":-").map_or(variable.as_str(), |(name, _)| name);
            self.referred.insert(name.to_owned());
        }
        let last = text.rsplit(['=', ' ']).next().unwrap_or_default();
        self.referred.extend(shell_variable(last).map(str::to_owned));
    }

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
        let translated = self.translate(value, notes);
        if translated.referred {
            return translated.text;
        }
        if let Some((before, password, after)) = password_of_url(value) {
            let variable = self.variable(backend, &format!("{wanted}_PASSWORD"), password);
            notes.push(format!(
                "{}: the password is expected in the environment variable {variable}",
                shown(key)
            ));
            return format!("{}${{{variable}}}{}", plain(before), plain(after));
        }
        let (scheme, secret) = SCHEMES
            .iter()
            .find_map(|scheme| value.strip_prefix(scheme).map(|secret| (*scheme, secret)))
            .unwrap_or(("", value));
        let is_secret = !scheme.is_empty() || is_secret_name(key) || looks_secret(secret);
        if secret.is_empty() || !is_secret {
            return translated.text;
        }
        if let Some(name) = shell_variable(secret).filter(|name| !self.own.contains(*name)) {
            notes.push(format!("{}: `{secret}` is taken for the environment variable {name}", shown(key)));
            return format!("{scheme}${{{name}}}");
        }
        // The scheme stays in the file, so that the variable is the token and not the header.
        let wanted = if scheme.is_empty() { wanted.to_owned() } else { token_name(wanted) };
        let variable = self.variable(backend, &wanted, secret);
        notes.push(format!("{}: the secret is expected in the environment variable {variable}", shown(key)));
        format!("{scheme}${{{variable}}}")
    }

    /// Returns the arguments with secrets replaced: `--token x`, `--token=x`, `-e TOKEN=x`, `TOKEN=x`,
    /// `--header "Authorization: Bearer x"`.
    pub(crate) fn arguments(
        &mut self,
        backend: &str,
        args: &[String],
        notes: &mut Vec<String>,
    ) -> Vec<String> {
        let mut flag = "";
        let mut replaced = Vec::with_capacity(args.len());
        for arg in args {
            replaced.push(self.argument(backend, flag, arg, notes));
            flag = if arg.starts_with('-') && !arg.contains('=') { arg } else { "" };
        }
        replaced
    }

    fn argument(&mut self, backend: &str, flag: &str, arg: &str, notes: &mut Vec<String>) -> String {
        let bare = flag.trim_start_matches('-');
        if let Some((name, value)) = arg.split_once(':').filter(|_| matches!(bare, "header" | "H")) {
            let name = name.trim();
            let blank = if value.starts_with(' ') { " " } else { "" };
            let value = self.value(backend, &wanted(backend, name), name, value.trim_start(), notes);
            return format!("{}:{blank}{value}", plain(name));
        }
        if let Some((name, value)) = arg.split_once('=').filter(|(name, _)| is_option(name)) {
            let bare = name.trim_start_matches('-');
            // `--env=TOKEN=x`
            let (name, value) = match value.split_once('=').filter(|_| matches!(bare, "e" | "env")) {
                Some((variable, value)) => (format!("{name}={variable}"), value),
                None => (name.to_owned(), value),
            };
            let key = name.rsplit('=').next().unwrap_or(&name).trim_start_matches('-').to_owned();
            return format!(
                "{}={}",
                self.plain(&name),
                self.value(backend, &wanted(backend, &key), &key, value, notes)
            );
        }
        // A flag after a flag is not its value.
        let key = if arg.starts_with('-') { "" } else { bare };
        let name = if key.is_empty() { "secret" } else { key };
        self.value(backend, &wanted(backend, name), key, arg, notes)
    }

    /// Returns a text that is no secret, with the other client's references translated.
    fn plain(&mut self, text: &str) -> String {
        self.translate(text, &mut Vec::new()).text
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
        let Some((address, query)) = text.split_once('?') else { return self.translate(&text, notes).text };
        let parameters: Vec<String> = query
            .split('&')
            .map(|parameter| match parameter.split_once('=') {
                Some((name, value)) => {
                    let wanted = wanted(backend, name);
                    format!("{}={}", plain(name), self.value(backend, &wanted, name, value, notes))
                }
                None => plain(parameter),
            })
            .collect();
        format!("{}?{}", self.translate(address, notes).text, parameters.join("&"))
    }

    /// Returns a variable for `secret` named like `wanted`; with the backend's name, or a number, if that is
    /// taken.
    fn variable(&mut self, backend: &str, wanted: &str, secret: &str) -> String {
        let plain = upper_snake(wanted);
        let own = upper_snake(&format!("{backend}_{wanted}"));
        let numbered = (2..MAX_NUMBERED_NAMES).map(|n| format!("{own}_{n}"));
        let mut candidates = [plain, own.clone()].into_iter().chain(numbered);
        let free = |name: &String| {
            self.variables.get(name).is_none_or(|other| other.expose() == secret)
                && !self.referred.contains(name)
                && !self.is_taken.is_some_and(|is_taken| is_taken(name, secret))
        };
        let name = candidates.find(free).unwrap_or(own);
        self.variables.insert(name.clone(), secret.into());
        name
    }
}

impl Secrets<'_> {
    /// `${env:X}` and `${input:x}` → `${X}`; `${X}`, `${X:-y}` and `${file:/x}` stay, unless the server sets
    /// X itself; any other `${…}` and `$$` are kept as they are read.
    fn translate(&mut self, theirs: &str, notes: &mut Vec<String>) -> Translated {
        let mut text = String::with_capacity(theirs.len());
        let mut referred = false;
        let mut rest = theirs;
        while let Some((before, after)) = rest.split_once('$') {
            text.push_str(before);
            rest = after;
            let reference = after.strip_prefix('{').and_then(|inner| inner.split_once('}'));
            let variable = reference.and_then(|(inner, _)| {
                let file = (self.may_refer_to_files && inner.starts_with("file:/")).then(|| inner.to_owned());
                file.or_else(|| variable_of(inner))
            });
            match (reference, variable) {
                (Some((inner, _)), Some(_)) if self.own.contains(inner) => {
                    text.push_str("$$");
                    referred = true;
                }
                (Some((inner, after)), Some(variable)) => {
                    text.extend(["${", &variable, "}"]);
                    if inner.starts_with("input:") {
                        self.asked.insert(variable);
                    }
                    referred = true;
                    rest = after;
                }
                (Some((inner, _)), None) => {
                    notes
                        .push(format!("`${{{inner}}}` means something to the other client only: replace it"));
                    text.push_str("$$");
                }
                (None, _) if after.starts_with(['$', '{']) => text.push_str("$$"),
                (None, _) => text.push('$'),
            }
        }
        text.push_str(rest);
        Translated { text, referred }
    }
}

/// Text in the syntax of vmcp, made from text of the other client.
struct Translated {
    text: String,
    /// True if it refers to a variable already, so that it is no secret itself.
    referred: bool,
}

/// Returns the variable to which a whole value refers as a shell does: `$NAME`, or `%NAME%` of Windows.
fn shell_variable(value: &str) -> Option<&str> {
    let of_windows = || value.strip_prefix('%')?.strip_suffix('%');
    let name = value.strip_prefix('$').or_else(of_windows)?;
    (is_variable_name(name) && !name.contains(|c: char| c.is_ascii_lowercase())).then_some(name)
}

/// Returns the content of the braces of a vmcp reference to the variable that the other client's reference
/// means.
fn variable_of(inner: &str) -> Option<String> {
    if let Some(name) = inner.strip_prefix("env:") {
        return is_variable_name(name).then(|| name.to_owned());
    }
    if let Some(id) = inner.strip_prefix("input:") {
        return Some(upper_snake(id));
    }
    if inner == "userHome" {
        // VS Code's and Cursor's word for it.
        return Some("HOME".to_owned());
    }
    let name = inner.split_once(":-").map_or(inner, |(name, _)| name);
    // `${workspaceFolder}` and its like are no environment variables; those are upper case.
    (is_variable_name(name) && !name.contains(|c: char| c.is_ascii_lowercase())).then(|| inner.to_owned())
}

/// Returns a text that is no secret, with the other client's references translated.
pub(super) fn plain(text: &str) -> String {
    Secrets::default().plain(text)
}

/// Returns the name of a variable for the setting `key`, with the backend's name unless the key begins with
/// it.
pub(super) fn wanted(backend: &str, key: &str) -> String {
    let (backend, key) = (upper_snake(backend), upper_snake(key));
    if key.starts_with(&backend) { key } else { format!("{backend}_{key}") }
}

/// Returns the name for the token of an `Authorization` header.
fn token_name(wanted: &str) -> String {
    let upper = upper_snake(wanted);
    format!("{}_TOKEN", upper.strip_suffix("_AUTHORIZATION").unwrap_or(&upper))
}

/// Returns a setting's name for a note.
fn shown(key: &str) -> &str {
    if key.is_empty() { "argument" } else { key }
}

fn upper_snake(name: &str) -> String {
    let mut upper: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    if !is_variable_name(&upper) {
        upper.insert(0, '_');
    }
    upper
}

//! Entries of `backends` for servers that clients add, and the variables of `.env` that they refer to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use vmcp_config::addresses::ReachableAddresses;
use vmcp_config::{Secret, sanitize};
use vmcp_engine::server_registrar::{NewServer, RegisteredServer, ServerPlace};

/// Prefix of the variables that hold values given by clients: no other variable begins so by accident.
const PREFIX: &str = "VMCP_ADDED_";

/// The entry of a server, with the variables that it refers to.
#[derive(Debug, Default)]
pub(super) struct WrittenEntry {
    /// The lines of the entry.
    pub(super) lines: String,
    /// Variables to be added to `.env`.
    pub(super) variables: BTreeMap<String, Secret>,
    /// Variables that the user has to set, by the name of their input.
    pub(super) needed: BTreeMap<String, String>,
}

/// Writes the entry of a server. `is_free` tells whether a name is unused: a client must not get the value of
/// a variable that exists, or that another entry refers to.
pub(super) fn write(server: &NewServer, is_free: impl Fn(&str) -> bool) -> WrittenEntry {
    let mut entry = match &server.registered {
        Some(registered) => write_registered(&server.name, registered, is_free),
        None => write_described(server, is_free),
    };
    if server.addresses != ReachableAddresses::Any {
        // Behind the lines of the entry's last key.
        let _ = writeln!(entry.lines, "  addresses: {}", server.addresses.word());
    }
    entry
}

/// Writes the entry of a server of a registry, which refers to variables that the user sets.
fn write_registered(
    name: &str,
    registered: &RegisteredServer,
    is_free: impl Fn(&str) -> bool,
) -> WrittenEntry {
    let RegisteredServer { draft, origin } = registered;
    let mut needed: BTreeMap<String, String> = BTreeMap::new();
    for label in draft.secrets().into_keys() {
        let variable =
            free_name(name, label, |wanted| is_free(wanted) && needed.values().all(|taken| taken != wanted));
        needed.insert(label.to_owned(), variable);
    }
    let variable = |label: &str| needed.get(label).cloned().unwrap_or_default();
    let comment = sanitize::text(&format!("{origin} (optim.install_server)"));
    let lines = format!("# {comment}\n{}", draft.yaml(name, &variable));
    WrittenEntry { lines, variables: BTreeMap::new(), needed }
}

fn write_described(server: &NewServer, is_free: impl Fn(&str) -> bool) -> WrittenEntry {
    let NewServer { name, place, enabled, .. } = server;
    let mut lines = format!("# added by a client (optim.add_mcp_server)\n- name: {}\n", quoted(name));
    let (field, values) = match place {
        // Refused before: only a cluster runs an image by itself.
        ServerPlace::Image { env, .. } => ("env", env),
        ServerPlace::Program { words, env } => {
            let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
            // Writing to a string cannot fail.
            let _ = writeln!(lines, "  command: [{}]", words.join(", "));
            ("env", env)
        }
        ServerPlace::Remote { url, headers } => {
            let _ = writeln!(lines, "  url: {}", quoted(url.as_str()));
            ("headers", headers)
        }
    };
    if !enabled {
        lines.push_str("  enabled: false\n");
    }
    let mut variables: BTreeMap<String, Secret> = BTreeMap::new();
    if !values.is_empty() {
        let _ = writeln!(lines, "  {field}:");
    }
    for (key, value) in values {
        if let Some(reference) = server.secret_refs.get(key) {
            let _ = writeln!(lines, "    {}: \"${{secret:{}}}\"", quoted(key), reference.name);
            continue;
        }
        if value.expose().is_empty() {
            let _ = writeln!(lines, "    {}: \"\"", quoted(key));
            continue;
        }
        let variable = free_name(name, key, |wanted| is_free(wanted) && !variables.contains_key(wanted));
        let _ = writeln!(lines, "    {}: \"${{{variable}}}\"", quoted(key));
        variables.insert(variable, value.clone());
    }
    WrittenEntry { lines, variables, needed: BTreeMap::new() }
}

/// Returns an unused name for the variable of a server's value.
fn free_name(server: &str, key: &str, is_free: impl Fn(&str) -> bool) -> String {
    let wanted = format!("{PREFIX}{}_{}", upper_snake(server), upper_snake(key));
    let numbered = (2..).map(|number| format!("{wanted}_{number}"));
    let mut names = std::iter::once(wanted.clone()).chain(numbered);
    names.find(|name| is_free(name)).unwrap_or(wanted)
}

/// Returns the variables with values of clients that a configuration refers to.
pub(super) fn variables_of(config: &str) -> BTreeSet<String> {
    let references = config.split("${").skip(1).filter_map(|rest| rest.split_once('}'));
    references.map(|(name, _)| name.to_owned()).filter(|name| name.starts_with(PREFIX)).collect()
}

/// Returns the text of a `.env` file without the lines of these variables, each of which has one.
pub(super) fn without_lines(env_file: &str, variables: &[String]) -> String {
    let is_of =
        |line: &str| line.split_once('=').is_some_and(|(name, _)| variables.iter().any(|v| v == name));
    env_file.split_inclusive('\n').filter(|line| !is_of(line)).collect()
}

/// Returns a text as a double-quoted scalar of YAML, without references.
fn quoted(value: &str) -> String {
    serde_json::Value::from(value.replace('$', "$$")).to_string()
}

fn upper_snake(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}

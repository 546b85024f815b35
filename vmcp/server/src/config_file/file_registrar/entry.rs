//! Entries of `backends` for servers that clients add, and the variables of `.env` that they refer to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use vmcp_config::Secret;
use vmcp_engine::server_registrar::{NewServer, ServerPlace};

/// Prefix of the variables that hold values given by clients: no other variable begins so by accident.
const PREFIX: &str = "VMCP_ADDED_";

/// Returns the lines of a server's entry, and the variables that they refer to. `is_free` tells whether a
/// name is unused: a client must not get the value of a variable that exists.
pub(super) fn write(
    server: &NewServer,
    is_free: impl Fn(&str) -> bool,
) -> (String, BTreeMap<String, Secret>) {
    let NewServer { name, place, enabled } = server;
    let mut lines = format!("# added by a client (optim.add_mcp_server)\n- name: {}\n", quoted(name));
    let (field, values) = match place {
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
    let mut variables = BTreeMap::new();
    if !values.is_empty() {
        let _ = writeln!(lines, "  {field}:");
    }
    for (key, value) in values {
        if value.expose().is_empty() {
            let _ = writeln!(lines, "    {}: \"\"", quoted(key));
            continue;
        }
        let wanted = format!("{PREFIX}{}_{}", upper_snake(name), upper_snake(key));
        let numbered = (2..).map(|number| format!("{wanted}_{number}"));
        let mut names = std::iter::once(wanted.clone()).chain(numbered);
        let variable = names.find(|name| is_free(name) && !variables.contains_key(name));
        let variable = variable.unwrap_or(wanted);
        let _ = writeln!(lines, "    {}: \"${{{variable}}}\"", quoted(key));
        variables.insert(variable, value.clone());
    }
    (lines, variables)
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

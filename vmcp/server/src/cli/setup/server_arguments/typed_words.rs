//! Command lines as people type them: a server's program stands behind `--`, or behind nothing.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use vmcp_config::is_variable_name;

/// Programs that start servers.
const PROGRAMS: [&str; 19] = [
    "npx", "npm", "pnpm", "pnpx", "pn", "pnx", "yarn", "bun", "bunx", "deno", "node", "uvx", "uv", "pipx",
    "python", "python3", "docker", "podman", "cmd",
];
/// Options of `vmcp`, `vmcp add` and `vmcp try` that take the next word.
const VALUE_OPTIONS: [&str; 18] = [
    "-c",
    "--config",
    "--env-file",
    "--log-level",
    "--log-format",
    "-e",
    "--env",
    "-H",
    "--header",
    "-t",
    "--transport",
    "-o",
    "--output",
    "--wait",
    "--namespace",
    "--context",
    "--image",
    "--group",
];
/// Options of these commands that take no word.
const SWITCHES: [&str; 4] = ["--kubernetes", "--dry-run", "-h", "--help"];

/// Words of a shell between two commands, or between a command and a file.
const OPERATORS: [&str; 6] = ["&&", "||", "|", ";", ">", "<"];

/// Returns the words of a command line with `--` in front of the program of a server, if it was left out:
/// `add memory npx -y server-memory`. Other command lines stay.
pub(in crate::cli) fn with_separator(mut words: Vec<OsString>) -> Vec<OsString> {
    if let Some(at) = program_without_separator(&words) {
        words.insert(at, "--".into());
    }
    words
}

/// True for an address, or for an entry in JSON.
pub(super) fn is_address(word: &str) -> bool {
    let is_of_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let has_scheme = word.split_once("://").is_some_and(|(scheme, _)| scheme.chars().all(is_of_scheme));
    has_scheme || word.trim_start().starts_with(['{', '"'])
}

/// True for a command in one text that a shell would not split at its blanks alone.
pub(super) fn is_for_shell(text: &str) -> bool {
    text.contains(['"', '\'']) || text.split_whitespace().any(|word| OPERATORS.contains(&word))
}

/// True for a program that starts servers, by the name of its file.
pub(super) fn is_program(word: &str) -> bool {
    let file = Path::new(word).file_name().and_then(OsStr::to_str).unwrap_or_default();
    let name = [".cmd", ".exe"].iter().find_map(|suffix| file.strip_suffix(suffix)).unwrap_or(file);
    PROGRAMS.contains(&name)
}

/// Returns the place of the program that lacks `--`.
fn program_without_separator(words: &[OsString]) -> Option<usize> {
    let words: Vec<&str> = words.iter().map(|word| word.to_str()).collect::<Option<_>>()?;
    let plain = plain_words(&words);
    let (command, typed) = plain.split_first()?;
    let has_name = match *words.get(*command)? {
        "add" => true,
        "try" => false,
        _ => return None,
    };
    let behind = |at: usize| words.get(at + 1..).unwrap_or_default();
    let starts_here = |at: &usize| words.get(*at).is_some_and(|word| is_program(word));
    let first = typed.first().copied().filter(starts_here).filter(|at| begins_command(behind(*at)));
    let program = match first {
        None if has_name => {
            let at = *typed.get(1)?;
            let word = words.get(at)?;
            let is_path = word.starts_with(['/', '.', '~']);
            let has_more = behind(at).first().is_some_and(|next| !is_own_option(next));
            let is_command = is_program(word) || is_path || has_more;
            (is_command && !is_address(word) && !word.contains(char::is_whitespace)).then_some(at)?
        }
        other => other?,
    };
    // Behind `--`, an option of vmcp would be one of the program: the person decides.
    let is_of_docker = words.get(program).is_some_and(|word| matches!(*word, "docker" | "podman"));
    let has_own = || has_own_option(behind(program));
    (!words.contains(&"--") && (is_of_docker || !has_own())).then_some(program)
}

/// True for words among which an option of vmcp stands: a long one, or a short one with a value of its kind.
fn has_own_option(words: &[&str]) -> bool {
    let is_long = |word: &str| word.starts_with("--") && is_own_option(word);
    let values = words.iter().skip(1);
    words.iter().any(|word| is_long(word))
        || words.iter().zip(values).any(|(word, value)| is_short_with_value(word, value))
}

/// True for a short option of vmcp with a variable, a header or a format behind it. Programs have options of
/// the same letters, with other values.
fn is_short_with_value(word: &str, value: &str) -> bool {
    match word {
        "-e" => is_assignment(value),
        "-H" => value.contains(':'),
        "-o" => matches!(value, "json" | "yaml" | "table" | "text"),
        _ => false,
    }
}

/// True for `NAME=VALUE`.
pub(super) fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| is_variable_name(name))
}

/// True for words that are the rest of a command whose program stands where a name could stand.
fn begins_command(rest: &[&str]) -> bool {
    let Some(next) = rest.first() else { return false };
    let is_other = is_address(next) || is_program(next) || next.contains(char::is_whitespace);
    !is_other && !is_own_option(next)
}

fn is_own_option(word: &str) -> bool {
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    VALUE_OPTIONS.contains(&name) || SWITCHES.contains(&name)
}

/// Returns the places of the words that are neither options nor their values, without the name of `vmcp`.
fn plain_words(words: &[&str]) -> Vec<usize> {
    let mut plain = Vec::new();
    let mut is_value = true;
    for (at, word) in words.iter().enumerate() {
        if is_value {
            is_value = false;
        } else if word.starts_with('-') {
            is_value = VALUE_OPTIONS.contains(word);
        } else {
            plain.push(at);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_its_sign_gets_it_and_other_lines_stay() {
        for (line, expected) in [
            ("vmcp add memory npx -y x", "vmcp add memory -- npx -y x"),
            ("vmcp -c f.yaml add -e A=1 memory npx -y x", "vmcp -c f.yaml add -e A=1 memory -- npx -y x"),
            ("vmcp add uvx mcp-server-time", "vmcp add -- uvx mcp-server-time"),
            ("vmcp add pn dlx kb-mcp", "vmcp add -- pn dlx kb-mcp"),
            ("vmcp add docker run -i --rm -e T=1 x", "vmcp add -- docker run -i --rm -e T=1 x"),
            ("vmcp add f docker run --env T=1 x", "vmcp add f -- docker run --env T=1 x"),
            ("vmcp add own ./server.py", "vmcp add own -- ./server.py"),
            ("vmcp add own server --port 1", "vmcp add own -- server --port 1"),
            ("vmcp try npx -y x", "vmcp try -- npx -y x"),
            ("vmcp add memory -- npx -y x", ""),
            ("vmcp add npx -- npx -y x", ""),
            ("vmcp add docker https://a.example/mcp", ""),
            ("vmcp add docker --header X:y https://a.example/mcp", ""),
            ("vmcp add a https://a.example/mcp --header X:y", ""),
            ("vmcp add a notes", ""),
            ("vmcp add a npx -y x --env T=1", ""),
            ("vmcp add a npx -y x -e T=1", ""),
            ("vmcp add a npx -y x -H X:y", ""),
            ("vmcp add a npx -y x -o json", ""),
            ("vmcp add a npx -y x -e prod", "vmcp add a -- npx -y x -e prod"),
            ("vmcp add npx", ""),
            ("vmcp call x npx -y", ""),
        ] {
            let words = line.split(' ').map(OsString::from).collect();
            let expected = if expected.is_empty() { line } else { expected };
            let found = with_separator(words);
            let found: Vec<_> = found.iter().map(|word| word.to_str().unwrap()).collect();
            assert_eq!(found.join(" "), expected, "{line}");
        }
    }
}

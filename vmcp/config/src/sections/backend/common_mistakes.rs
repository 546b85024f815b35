//! Warnings about values that are legal and probably not meant: shell syntax where no shell reads it, tokens
//! written into the file, a command line in one string, vmcp behind itself.

use url::{Host, Url};

use super::{RawBackend, RawCommand};
use crate::problems::{self, Report};
use crate::references::secret_signs::has_token_prefix;
use crate::sections::server::Server;

/// Words that a shell would interpret.
const OPERATORS: [&str; 8] = ["|", "||", "&&", ";", "&", ">", ">>", "<"];

/// Warns about a backend's settings at `path`.
pub(crate) fn check(raw: &RawBackend, path: &str, report: &mut Report) {
    let at_command = problems::key(path, "command");
    let mut words: Vec<(String, &str)> = match &raw.command {
        Some(RawCommand::Program(program)) => vec![(at_command, program)],
        Some(RawCommand::Line(line)) => {
            let numbered = line.iter().enumerate();
            numbered.map(|(index, word)| (problems::item(&at_command, index), word.as_str())).collect()
        }
        None => Vec::new(),
    };
    let has_shell = words.iter().any(|(_, word)| matches!(*word, "-c" | "/c" | "-lc" | "-Command"));
    if let Some((at, program)) = words.first()
        && program.trim().contains(char::is_whitespace)
        && !program.contains(['/', '\\'])
    {
        let list = program.split_whitespace().collect::<Vec<_>>().join(", ");
        warn(
            report,
            at,
            "several words in one string are one program",
            format!("write them as a list: `[{list}]`"),
        );
    }
    let at_args = problems::key(path, "args");
    words.extend(
        raw.args.iter().enumerate().map(|(index, arg)| (problems::item(&at_args, index), arg.as_str())),
    );
    if let Some(cwd) = &raw.cwd {
        words.push((problems::key(path, "cwd"), cwd));
    }
    for (at, word) in words {
        shell_syntax(&at, word, has_shell, report);
        literal_secret(&at, word, report);
    }
    for (section, values) in [("env", &raw.env), ("headers", &raw.headers)] {
        for (key, value) in values {
            let at = problems::key(&problems::key(path, section), key);
            literal_secret(&at, value.expose(), report);
        }
    }
}

/// Warns about a backend whose address is that of the server itself.
pub(crate) fn check_own_address(url: &Url, server: &Server, path: &str, report: &mut Report) {
    let here = match url.host() {
        Some(Host::Domain(host)) => host == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback() || server.listen.ip() == ip,
        Some(Host::Ipv6(ip)) => ip.is_loopback() || server.listen.ip() == ip,
        None => false,
    };
    if here && url.port_or_known_default() == Some(server.listen.port()) && server.listen.port() != 0 {
        let message = "the address of this server itself (server.listen)";
        let remedy = "remove the backend: vmcp would list its own tools again and again";
        report.problem(&problems::key(path, "url"), message, remedy);
    }
}

fn shell_syntax(at: &str, word: &str, has_shell: bool, report: &mut Report) {
    let remedy = |of: &str| format!("{of}, or start a shell: `[sh, -c, '…']`");
    if word == "~" || word.starts_with("~/") {
        warn(report, at, "no shell reads this, so `~` is not your home", remedy("write `${HOME}/…`"));
    } else if has_shell {
        // The shell reads all the rest.
    } else if let Some((_, name)) = word.split_once('$').filter(|(_, name)| is_variable(name)) {
        let name: String = name.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let message = format!("no shell reads this, so `${name}` stays as it is");
        warn(report, at, &message, remedy(&format!("write `${{{name}}}`")));
    } else if OPERATORS.contains(&word) {
        let message = format!("no shell reads this, so `{word}` is an argument");
        warn(report, at, &message, remedy("start one program"));
    } else if word.contains('*') && word.contains('/') && !word.contains("://") && !word.contains("**") {
        warn(report, at, "no shell reads this, so `*` matches nothing", remedy("name the files"));
    }
}

/// Returns true if the text after a `$` begins like the name of a variable in capitals.
fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
}

fn literal_secret(at: &str, value: &str, report: &mut Report) {
    let token = value.rsplit([' ', '=']).next().unwrap_or_default();
    if has_token_prefix(token) && !report.references.contains_key(at) {
        let remedy = "store it by `vmcp secret set NAME` and write `${secret:NAME}`, or set a variable and write `${NAME}`";
        warn(report, at, "a token in clear", remedy.to_owned());
    }
}

fn warn(report: &mut Report, at: &str, message: &str, remedy: String) {
    if !report.is_dropped(at) {
        report.warn(at, message, remedy);
    }
}

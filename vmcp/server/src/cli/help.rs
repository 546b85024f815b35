//! `vmcp --help`: lists the commands under headings, as people use them. clap knows one heading for all
//! commands, so the list is part of the help template.

use std::fmt::Write as _;

use clap::Command;

/// Headings, each with its commands in the order of use.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Run servers", &["serve", "mcp-server", "bridge", "try", "service"]),
    ("Set up", &["init", "add", "registry", "remove", "enable", "disable", "validate", "secret", "model"]),
    ("Find and call tools", &["tools", "find", "call", "backends", "explain-tool"]),
    (
        "Operate a running server",
        &[
            "start",
            "status",
            "top",
            "console",
            "doctor",
            "support-bundle",
            "logs",
            "log-level",
            "calls",
            "trace",
            "runs",
            "metrics",
            "sessions",
            "audit",
            "restart",
            "update",
            "stop",
        ],
    ),
    ("Clients and sign-in", &["connect", "hooks", "login", "logout"]),
    ("Policies, measures, editors and shells", &["authz", "eval", "schema", "completions", "help"]),
];
/// Description of `help`, which clap adds.
const HELP: &str = "Print this message or the help of a command";

/// Returns the command line whose help lists the commands in groups, in place of clap's own list.
pub(super) fn grouped(command: Command) -> Command {
    let template = format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{}\n{{all-args}}{{after-help}}",
        listed(&command)
    );
    // Hidden commands are parsed and suggested like others; only clap's list and usage leave them out.
    let command = command.mut_subcommands(|each| each.hide(true));
    command.help_template(template).override_usage("vmcp [OPTIONS] <COMMAND>")
}

/// Writes the groups.
fn listed(command: &Command) -> String {
    let styles = command.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let about = |name: &str| {
        let known = command.get_subcommands().find(|each| each.get_name() == name);
        known.and_then(Command::get_about).map_or_else(|| HELP.to_owned(), ToString::to_string)
    };
    let width = GROUPS.iter().flat_map(|(_, names)| *names).map(|name| name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for (heading, names) in GROUPS {
        let _ = writeln!(text, "\n{header}{heading}:{header:#}");
        for name in names {
            let _ = writeln!(text, "  {literal}{name:width$}{literal:#}  {}", about(name));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn each_command_is_in_one_group() {
        let command = crate::cli::Cli::command();
        let shown = command.get_subcommands().filter(|each| !each.is_hide_set()).map(Command::get_name);
        let mut expected: Vec<_> = shown.chain(["help"]).collect();
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        expected.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, expected);
    }
}

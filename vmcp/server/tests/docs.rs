//! Checks that the documentation covers the code: metrics, events, errors, arguments of vmcp's own tools, the
//! command line.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use vmcp_config::OptimTool;
use vmcp_engine::optim::definitions::definitions;
use vmcp_engine::optim::names::NameStyle;
use vmcp_engine::telemetry::metrics::Metrics;
use vmcp_engine::telemetry::server_events::EventArea;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(name: &str) -> String {
    fs::read_to_string(root().join("docs").join(name)).unwrap()
}

#[test]
fn every_metric_is_in_operations() {
    let operations = page("operator/operations.md");
    for name in Metrics::FAMILIES {
        assert!(
            operations.contains(&format!("| `{name}` |")),
            "docs/operator/operations.md does not explain {name}"
        );
    }
}

#[test]
fn the_runbook_has_the_troubles_of_searches_and_of_rights() {
    let operations = page("operator/operations.md");
    let runbook = operations.split_once("\n## Runbook\n").unwrap().1.split("\n## ").next().unwrap();
    // Each with words that the program writes, by which an operator finds the entry.
    for (title, words) in [
        ("The embedding service is down", "embeddings degraded"),
        ("A cold start", "vmcp_embedding_cold_start_seconds"),
        ("A call is denied", "call denied"),
    ] {
        let entry = runbook.split_once(&format!("\n### {title}\n")).map(|(_, rest)| rest);
        let entry = entry.unwrap_or_else(|| panic!("the runbook has no entry `{title}`"));
        assert!(entry.split("\n### ").next().unwrap().contains(words), "{title}: no {words}");
    }
}

#[test]
fn every_argument_of_our_tools_is_in_the_guide() {
    let guide = page("user/guide.md");
    let all = OptimTool::ALL.map(OptimTool::bare).join(", ");
    let yaml = format!("optimizer: {{ tools: [{all}], largeResults: {{ enabled: true }} }}");
    let config = vmcp_config::load(&yaml, "vmcp.yaml", &|_| None).unwrap().config;
    let definitions = definitions(NameStyle::Underscore, &config, true);
    assert_eq!(definitions.len(), OptimTool::ALL.len());
    for definition in definitions {
        let bare = definition.name.trim_start_matches("optim_");
        // find_tool and call_tool have a section with a row for each argument, each other tool has one row.
        let section = guide.split_once(&format!("\n## {bare}\n")).map(|(_, rest)| rest);
        let section = section.map(|rest| rest.split("\n## ").next().unwrap_or_default());
        let row = guide.lines().find(|line| line.starts_with(&format!("| `{bare}` | ")));
        assert!(section.or(row).is_some(), "docs/user/guide.md does not explain {bare}");
        let value: Value = serde_json::from_str(definition.raw.get()).unwrap();
        for argument in value["inputSchema"]["properties"].as_object().unwrap().keys() {
            let has_row = section.is_some_and(|text| text.contains(&format!("\n| `{argument}` |")));
            let arguments = row.and_then(|row| row.split(" | ").nth(1)).unwrap_or_default();
            let is_listed = arguments.split(", ").any(|listed| listed == format!("`{argument}`"));
            assert!(has_row || is_listed, "docs/user/guide.md does not explain {argument} of {bare}");
        }
    }
}

/// Returns the part of a source file from `begin` to the next line that is `end`.
fn source(path: &str, begin: &str, end: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(path)).unwrap();
    let rest = text.split_once(begin).ok_or_else(|| format!("{path} has no `{begin}`")).unwrap().1;
    let lines = rest.lines().skip(1).take_while(|line| *line != end);
    lines.map(|line| line.trim().to_owned()).collect()
}

#[test]
fn every_error_is_in_the_reference() {
    let page = page("reference/errors.md");
    let categories = source("vmcp/backend/src/request/call_error.rs", "pub fn category(", "    }");
    let categories =
        categories.iter().filter_map(|line| Some(line.split_once("=> \"")?.1.split_once('"')?.0));
    let types = source("vmcp/route/src/answer/tool_result.rs", "enum ErrorType {", "}");
    let types = types.iter().filter_map(|line| line.strip_suffix(',').filter(|name| !name.contains(' ')));
    let codes = fs::read_to_string(root().join("vmcp/wire/src/message/codes.rs")).unwrap();
    let codes = codes.lines().filter_map(|line| line.split_once(": i64 = ")?.1.strip_suffix(';'));
    let words: Vec<_> = categories.chain(types).chain(codes).collect();
    // Thirteen categories, ten types and ten codes: fewer mean that the sources are not read any more.
    assert!(words.len() >= 33, "{words:?}");
    let exits = source("vmcp/server/src/cli/console/failure.rs", "enum Exit {", "}");
    let exits: Vec<_> = exits.iter().filter_map(|line| line.split_once(" = ")?.1.strip_suffix(',')).collect();
    assert!(exits.len() >= 5, "{exits:?}");
    let rows = words.iter().map(|word| format!("\n| `{word}` |"));
    let rows = rows.chain(exits.iter().map(|exit| format!("\n| {exit} |")));
    let missing: Vec<_> = rows.filter(|row| !page.contains(row.as_str())).collect();
    assert!(missing.is_empty(), "docs/reference/errors.md does not explain {missing:?}");
}

#[test]
fn every_value_of_a_label_is_explained() {
    let metrics = fs::read_to_string(root().join("vmcp/engine/src/metrics.rs")).unwrap();
    let structs = metrics.split("\npub struct ").skip(1).filter_map(|part| part.split_once("\n}"));
    let labels =
        structs.filter(|(body, _)| body.split(' ').next().is_some_and(|name| name.ends_with("Labels")));
    let comments = labels.flat_map(|(body, _)| body.lines()).filter(|line| line.trim().starts_with("///"));
    let values = comments.flat_map(|line| line.split('`').skip(1).step_by(2));
    let values: Vec<_> = values.filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase())).collect();
    // Fewer mean that the comments are not read any more.
    assert!(values.len() > 60, "{values:?}");
    let arms = [
        source("vmcp/backend/src/request/call_error.rs", "pub fn category(", "    }"),
        source("vmcp/backend/src/transport/link_error.rs", "fn connect_reason(", "    }"),
    ];
    let words = arms.iter().flatten().filter_map(|line| line.split_once("=> \"")?.1.split('"').next());
    let words: Vec<_> = words.collect();
    assert!(words.len() > 20, "{words:?}");
    let pages = ["operator/operations.md", "user/policy.md", "user/webhooks.md"].map(page).concat();
    let missing: Vec<_> =
        values.into_iter().chain(words).filter(|word| !pages.contains(&format!("`{word}`"))).collect();
    assert!(missing.is_empty(), "docs/operator/operations.md does not explain {missing:?}");
}

#[test]
fn every_event_is_explained() {
    let page = page("operator/events.md");
    for area in EventArea::ALL {
        assert!(page.contains(&format!("\n| `{}` |", area.as_str())), "docs/operator/events.md: {area:?}");
    }
    let written = fs::read_to_string(root().join("vmcp/engine/src/telemetry/server_events.rs")).unwrap();
    let written = written.split("#[cfg(test)]\nmod ").next().unwrap();
    let types: Vec<_> =
        ["-changed\"", "-state\""].iter().flat_map(|end| words_before(written, end)).collect();
    assert!(types.len() >= 4, "{types:?}");
    for event in types {
        assert!(page.contains(&format!("`{event}`")), "docs/operator/events.md does not explain {event}");
    }
}

#[test]
fn every_audited_action_is_explained() {
    const AREAS: [&str; 5] = ["admin", "configuration", "console", "oauth", "session"];
    let crates = ["access", "edge", "engine", "route", "server"];
    let mut folders = crates.map(|name| root().join("vmcp").join(name).join("src")).to_vec();
    let mut actions = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_test = path.file_stem().is_some_and(|name| name == "tests");
            if path.is_dir() && !is_test {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !is_test {
                let text = fs::read_to_string(&path).unwrap();
                let product = text.split("#[cfg(test)]\nmod ").next().unwrap();
                actions.extend(AREAS.iter().flat_map(|area| actions_of(product, area)));
            }
        }
    }
    // Fewer mean that the sources are not read any more.
    assert!(actions.len() > 10, "{actions:?}");
    let page = page("operator/audit.md");
    let missing: Vec<_> = actions.iter().filter(|action| !page.contains(&format!("`{action}`"))).collect();
    assert!(missing.is_empty(), "docs/operator/audit.md does not explain {missing:?}");
}

/// Returns the string literals `AREA.word` of a source.
fn actions_of(source: &str, area: &str) -> Vec<String> {
    let begins = source.match_indices(&format!("\"{area}.")).map(|(at, _)| at + 1).collect::<Vec<_>>();
    let literals = begins.into_iter().filter_map(|at| source.get(at..)?.split('"').next());
    let is_word = |text: &str| text.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let actions = literals.filter(|literal| literal.split_once('.').is_some_and(|(_, word)| is_word(word)));
    actions.map(str::to_owned).collect()
}

/// Returns the string literals of a text that end with `end`, a quotation mark included.
fn words_before<'a>(text: &'a str, end: &str) -> Vec<&'a str> {
    let ends = text.match_indices(end).map(|(at, _)| at + end.len() - 1);
    ends.filter_map(|end| text.get(..end)?.rsplit('"').next()).collect()
}

/// Returns the help of a command, at a width of 100 columns.
fn help(words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmcp"));
    command.args(words).arg("--help").env("COLUMNS", "100").stdin(Stdio::null());
    // Help shows the value of a variable that is set.
    for name in
        ["CONFIG", "REGISTRY", "LOG_LEVEL", "LOG_FORMAT", "LISTEN", "ADMIN_LISTEN", "URL", "ADMIN_URL"]
    {
        command.env_remove(format!("VMCP_{name}"));
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{words:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    // The global options are shown once, with `vmcp` itself.
    let own = if words.is_empty() { text } else { without_global_options(&text) };
    own.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

/// Removes the block of global options. It ends at a line without indentation, such as the examples, or with
/// the text.
fn without_global_options(help: &str) -> String {
    let Some((own, rest)) = help.split_once("Global options:\n") else { return help.to_owned() };
    let after = rest.lines().skip_while(|line| line.is_empty() || line.starts_with(' '));
    own.to_owned() + &after.collect::<Vec<_>>().join("\n")
}

/// Returns the names in the lists of commands of a help, between its usage and its options.
fn commands(help: &str) -> Vec<&str> {
    let after_usage = help.lines().skip_while(|line| !line.starts_with("Usage:"));
    let lists = after_usage.take_while(|line| !["Options:", "Arguments:"].contains(line));
    let entries = lists.filter_map(|line| line.strip_prefix("  "));
    let entries = entries.filter(|entry| entry.starts_with(|first: char| first.is_ascii_lowercase()));
    let names = entries.filter_map(|entry| entry.split_whitespace().next());
    names.filter(|name| *name != "help").collect()
}

#[test]
fn the_command_line_is_documented() {
    let main = help(&[]);
    let mut page = "\
# Command line

Generated from `vmcp --help`; do not edit: `make schema` writes it. What to do with the commands: [user guide](../user/guide.md), [operations](../operator/operations.md).
"
    .to_owned();
    let mut section = |title: &str, help: &str| {
        write!(page, "\n## `{title}`\n\n```text\n{help}\n```\n").unwrap();
    };
    section("vmcp", &main);
    for name in commands(&main) {
        let text = help(&[name]);
        section(&format!("vmcp {name}"), &text);
        for inner in commands(&text) {
            section(&format!("vmcp {name} {inner}"), &help(&[name, inner]));
        }
    }
    let path = root().join("docs/reference/cli.md");
    if std::env::var_os("VMCP_UPDATE_SCHEMA").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == page, "docs/reference/cli.md is out of date; regenerate it: make schema");
}

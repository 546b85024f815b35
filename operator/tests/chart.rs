//! Tests that the chart and the documentation keep up with the operator.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use clap::CommandFactory as _;
use serde_json::Value;
use vmcp_crds::ApiGroup;
use vmcp_operator::cli::Cli;
use vmcp_operator::runtime::{author_rights_page, author_rights_policy, rights};

fn chart(file: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/vmcp-operator")).join(file)
}

/// Adds a table row for each value of the chart, in the order of the schema.
fn rows(path: &str, schema: &Value, defaults: &Value, table: &mut String) {
    for (key, property) in schema["properties"].as_object().unwrap() {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let default = defaults.get(key).unwrap_or(&Value::Null);
        if property.get("properties").is_some() {
            rows(&path, property, default, table);
        } else if !default.is_null() {
            let meaning = property["description"].as_str().unwrap();
            writeln!(table, "| `{path}` | `{default}` | {meaning}{} |", choices(property)).unwrap();
        } else {
            assert_eq!(path, "global", "values.yaml has no default of {path}");
        }
    }
}

fn choices(property: &Value) -> String {
    let Some(choices) = property["enum"].as_array() else { return String::new() };
    let choices: Vec<_> = choices.iter().map(|choice| format!("`{}`", choice.as_str().unwrap())).collect();
    format!(": {}", choices.join(", "))
}

#[test]
fn every_value_of_the_chart_is_in_its_readme() {
    let schema: Value =
        serde_json::from_str(&fs::read_to_string(chart("values.schema.json")).unwrap()).unwrap();
    let defaults: Value = serde_saphyr::from_str(&fs::read_to_string(chart("values.yaml")).unwrap()).unwrap();
    let mut table = "| value | default | meaning |\n|---|---|---|\n".to_owned();
    rows("", &schema, &defaults, &mut table);

    let committed = fs::read_to_string(chart("README.md")).unwrap();
    let (before, rest) = committed.split_once("values.schema.json -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- /values -->").unwrap();
    let page = format!("{before}values.schema.json -->\n{table}<!-- /values -->{after}");
    if std::env::var_os("VMCP_UPDATE_SCHEMA").is_some() {
        fs::write(chart("README.md"), &page).unwrap();
    }
    let committed = fs::read_to_string(chart("README.md")).unwrap();
    assert!(committed == page, "charts/vmcp-operator/README.md is out of date; regenerate it: make schema");
}

/// Returns `values.yaml` with the description of the schema above each value; its first line stays.
fn commented(values: &str, schema: &Value) -> String {
    const WIDTH: usize = 110;
    let mut text = String::new();
    let mut path: Vec<(usize, &str)> = Vec::new();
    for (number, line) in values.lines().enumerate() {
        let entry = line.trim_start();
        let indent = line.len() - entry.len();
        if number > 0 && entry.starts_with('#') {
            continue;
        }
        let key = entry.split_once(':').map(|(key, _)| key);
        if let Some(key) = key.filter(|key| key.chars().all(|c| c.is_ascii_alphabetic())) {
            path.retain(|(outer, _)| *outer < indent);
            path.push((indent, key));
            let found = path.iter().try_fold(schema, |schema, (_, key)| schema.get("properties")?.get(key));
            let description = found.and_then(|found| found["description"].as_str()).unwrap_or_default();
            let start = format!("{}#", " ".repeat(indent));
            let mut comment = start.clone();
            for word in description.split_whitespace() {
                if comment.chars().count() + 1 + word.chars().count() > WIDTH {
                    writeln!(text, "{comment}").unwrap();
                    comment.clone_from(&start);
                }
                write!(comment, " {word}").unwrap();
            }
            if comment != start {
                writeln!(text, "{comment}").unwrap();
            }
        }
        writeln!(text, "{line}").unwrap();
    }
    text
}

#[test]
fn every_value_is_explained_where_helm_shows_it() {
    let schema: Value =
        serde_json::from_str(&fs::read_to_string(chart("values.schema.json")).unwrap()).unwrap();
    let committed = fs::read_to_string(chart("values.yaml")).unwrap();
    let page = commented(&committed, &schema);
    if std::env::var_os("VMCP_UPDATE_SCHEMA").is_some() {
        fs::write(chart("values.yaml"), &page).unwrap();
    }
    let committed = fs::read_to_string(chart("values.yaml")).unwrap();
    assert!(committed == page, "charts/vmcp-operator/values.yaml is out of date; regenerate it: make schema");
    let comments = page.lines().filter(|line| line.trim_start().starts_with('#')).count();
    assert!(comments > 60, "{comments}");
}

#[test]
fn the_operator_may_do_what_it_does_and_no_more() {
    let template = fs::read_to_string(chart("templates/_rules.tpl")).unwrap();
    // Rules that are always granted, and rules that the values may ask for.
    let blocks =
        ["rules", "rules.serviceMonitors", "rules.httpRoutes", "rules.scriptJobs", "rules.serverAdmin"];
    let rules = blocks.iter().flat_map(|block| {
        let (_, rules) = template.split_once(&format!("\"vmcp-operator.{block}\" -}}}}")).unwrap();
        let (rules, _) = rules.split_once("{{- end }}").unwrap();
        serde_saphyr::from_str::<Vec<Value>>(rules).unwrap()
    });
    let rules: Vec<Value> = rules.collect();
    let words =
        |rule: &Value, key: &str| -> Vec<String> { serde_json::from_value(rule[key].clone()).unwrap() };
    let mut granted = BTreeMap::<(String, String), BTreeSet<String>>::new();
    for rule in &rules {
        for group in words(rule, "apiGroups") {
            for resource in words(rule, "resources") {
                granted.entry((group.clone(), resource)).or_default().extend(words(rule, "verbs"));
            }
        }
    }
    let owned = |verbs: BTreeSet<&str>| verbs.into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
    let needed: BTreeMap<_, _> =
        rights().into_iter().map(|(resource, verbs)| (resource, owned(verbs))).collect();
    assert_eq!(granted, needed);
}

#[test]
fn the_rights_of_authors_are_those_of_the_table() {
    for (file, text) in [
        ("templates/_author_rights.tpl", author_rights_policy()),
        ("../../docs/reference/author-rights.md", author_rights_page()),
    ] {
        if std::env::var_os("VMCP_UPDATE_SCHEMA").is_some() {
            fs::write(chart(file), &text).unwrap();
        }
        let committed = fs::read_to_string(chart(file)).unwrap();
        assert!(committed == text, "charts/vmcp-operator/{file} is out of date; regenerate it: make schema");
    }
    let definitions = chart("files/crds");
    let policy = author_rights_policy();
    let (_, plurals) = policy.split_once(" -}}\n[").unwrap();
    let (plurals, _) = plurals.split_once(']').unwrap();
    for plural in plurals.split(", ") {
        let file = definitions.join(format!("{plural}.toolhive.stacklok.com.yaml"));
        assert!(file.exists(), "the policy names the unknown kind {plural}");
    }
}

/// Of a version that the API server does not serve, it would find no parameters, and the policies would
/// refuse nothing.
#[test]
fn policies_read_their_parameters_in_the_stored_version() {
    let template = fs::read_to_string(chart("templates/admission.yaml")).unwrap();
    for group in [ApiGroup::Vmcp, ApiGroup::ToolHive] {
        let parameters = format!("(dict \"name\" \"{}\" \"version\" \"{}\"", group.name(), group.version());
        assert!(template.contains(&parameters), "{parameters}");
    }
}

#[test]
fn kustomize_applies_every_manifest() {
    let list = fs::read_to_string(chart("../../deploy/Kustomization")).unwrap();
    let list: Value = serde_saphyr::from_str(&list).unwrap();
    let listed: BTreeSet<_> =
        list["resources"].as_array().unwrap().iter().map(|file| file.as_str().unwrap()).collect();
    for entry in fs::read_dir(chart("../../deploy")).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let is_manifest = PathBuf::from(&file).extension().is_some_and(|extension| extension == "yaml");
        assert!(!is_manifest || listed.contains(file.as_str()), "deploy/Kustomization has no {file}");
    }
}

#[test]
fn the_operator_knows_the_variables_that_the_chart_sets() {
    let deployment = fs::read_to_string(chart("templates/deployment.yaml")).unwrap();
    let set = deployment.lines().filter_map(|line| line.trim().strip_prefix("- name: "));
    let set: Vec<_> = set.filter(|name| name.chars().all(|c| c.is_ascii_uppercase() || c == '_')).collect();
    assert!(set.len() > 5, "{set:?}");
    let command = Cli::command();
    let known: BTreeSet<_> = command.get_arguments().filter_map(|argument| argument.get_env()).collect();
    for name in set {
        assert!(name == "RUST_LOG" || known.contains(std::ffi::OsStr::new(name)), "{name}");
    }
}

#[test]
fn every_metric_of_the_operator_is_in_operations() {
    let operations = fs::read_to_string(chart("../../docs/operator/operations.md")).unwrap();
    let source = include_str!("../src/runtime/metrics.rs");
    let names: Vec<_> = source
        .split("registry.register(")
        .skip(1)
        .filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next())
        .collect();
    assert!(names.len() > 5, "{names:?}");
    for name in names {
        let name = format!("| `vmcp_operator_{name}` |");
        assert!(operations.contains(&name), "docs/operator/operations.md does not explain {name}");
    }
}

/// Returns the names under which the metrics of a generated page are scraped.
fn scraped(page: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(chart("../../docs/reference").join(page)).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    rows.flat_map(|(name, rest)| {
        let suffixes: &[&str] = match rest.split(' ').next() {
            Some("counter") => &["_total"],
            Some("histogram") => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        suffixes.iter().map(move |suffix| format!("{name}{suffix}"))
    })
    .collect()
}

#[test]
fn alerts_and_dashboards_ask_for_metrics_that_exist() {
    let known: BTreeSet<_> = scraped("metrics.md").union(&scraped("operator-metrics.md")).cloned().collect();
    assert!(known.len() > 40, "{known:?}");
    let dashboards = fs::read_dir(chart("dashboards")).unwrap().map(|file| file.unwrap().path());
    let files: Vec<_> = dashboards.chain([chart("alerts/vmcp.yaml")]).collect();
    assert_eq!(files.len(), 5, "{files:?}");
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let families = ["vmcp_", "mcp_client_", "mcp_server_"];
        let is_metric = |word: &str| families.iter().any(|family| word.starts_with(family));
        let asked: BTreeSet<_> = words.filter(|word| is_metric(word)).map(str::to_owned).collect();
        assert!(asked.len() > 5, "{}: {asked:?}", file.display());
        let unknown: Vec<_> = asked.difference(&known).collect();
        assert!(unknown.is_empty(), "{} asks for metrics that nobody has: {unknown:?}", file.display());
    }
}

/// Returns the labels of every metric of a generated page, by the name under which Prometheus knows it.
fn labels(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let text = fs::read_to_string(chart("../../docs/reference").join(page)).unwrap();
    let mut known = BTreeMap::new();
    for row in text.lines().filter_map(|line| line.strip_prefix("| `")) {
        let cells: Vec<_> = row.splitn(4, " | ").collect();
        let [name, kind, labels, ..] = cells.as_slice() else { continue };
        let labels: BTreeSet<_> = labels.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        let suffixes: &[&str] = match *kind {
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        for suffix in suffixes {
            known.insert(format!("{}{suffix}", name.trim_end_matches('`')), labels.clone());
        }
    }
    known
}

/// Collects the texts of all fields `expr`.
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(entries) => {
            for (key, entry) in entries {
                match entry {
                    Value::String(text) if key == "expr" => found.push(text.clone()),
                    entry => expressions(entry, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| expressions(item, found)),
        _ => {}
    }
}

/// Returns the labels that an expression groups by or selects.
fn named_labels(expression: &str) -> BTreeSet<&str> {
    let is_name = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let groups = ["by (", "on (", "without ("].into_iter().flat_map(|word| expression.split(word).skip(1));
    let grouped = groups.filter_map(|rest| rest.split(')').next()).flat_map(|names| names.split(','));
    let selectors = expression.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let matchers = selectors.flat_map(|matchers| matchers.split(','));
    let selected = matchers.filter(|it| it.contains('=') || it.contains("!~"));
    let selected = selected.filter_map(|it| it.split(['=', '!']).next());
    grouped.chain(selected).map(str::trim).filter(|name| is_name(name)).collect()
}

#[test]
fn alerts_and_dashboards_name_labels_that_their_metrics_have() {
    // Of the scrape, and of the buckets.
    const OF_ALL: [&str; 6] = ["namespace", "job", "pod", "instance", "container", "le"];
    let mut known = labels("metrics.md");
    known.extend(labels("operator-metrics.md"));
    assert!(known["vmcp_backend_calls_total"].contains("outcome"), "{known:?}");
    let mut asked = Vec::new();
    for file in fs::read_dir(chart("dashboards")).unwrap() {
        let board = fs::read_to_string(file.unwrap().path()).unwrap();
        expressions(&serde_json::from_str(&board).unwrap(), &mut asked);
    }
    let rules = fs::read_to_string(chart("alerts/vmcp.yaml")).unwrap();
    expressions(&serde_saphyr::from_str(&rules).unwrap(), &mut asked);
    assert!(asked.len() > 60, "{}", asked.len());
    let mut checked = 0;
    for expression in &asked {
        let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let have: BTreeSet<_> = words.filter_map(|word| known.get(word)).flatten().collect();
        for label in named_labels(expression).into_iter().filter(|label| !OF_ALL.contains(label)) {
            assert!(have.iter().any(|known| *known == label), "no metric has `{label}`: {expression}");
            checked += 1;
        }
    }
    assert!(checked > 30, "{checked}");
}

/// Returns the anchor of a heading, as code hosts make it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[test]
fn every_alert_leads_to_its_runbook() {
    let rules: Value =
        serde_saphyr::from_str(&fs::read_to_string(chart("alerts/vmcp.yaml")).unwrap()).unwrap();
    let groups = rules["groups"].as_array().unwrap();
    let alerts: Vec<_> = groups.iter().flat_map(|group| group["rules"].as_array().unwrap()).collect();
    assert!(alerts.len() > 15, "{}", alerts.len());
    for alert in alerts {
        let link = alert["annotations"]["runbook_url"].as_str().unwrap_or_else(|| panic!("{alert}"));
        let (page, heading) = link.split_once('#').unwrap_or((link, ""));
        let text = fs::read_to_string(chart("../..").join(page)).unwrap_or_else(|_| panic!("{link}"));
        let mut headings = text.lines().filter(|line| line.starts_with('#'));
        let found = headings.any(|line| anchor(line.trim_start_matches('#').trim()) == heading);
        assert!(heading.is_empty() || found, "{link}: no such heading");
    }
}

/// Collects the text of every source file of the operator, without its tests.
fn sources(folder: &std::path::Path, texts: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, texts);
        } else if path.file_name().is_some_and(|name| name != "tests.rs") {
            let text = fs::read_to_string(&path).unwrap();
            texts.push(text.split("#[cfg(test)]").next().unwrap_or_default().to_owned());
        }
    }
}

/// Reasons are found by the places in which the sources write them.
#[test]
fn every_reason_is_explained() {
    let mut texts = Vec::new();
    sources(&PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut texts);
    let mut reasons = BTreeSet::new();
    for text in &texts {
        let mut places = vec!["false, \"", "unknown(KIND, \"", "push((\"", "reason: \""];
        if text.contains("impl Failure for") || text.contains("fn reason(") {
            places.push("=> \"");
        }
        for place in places {
            let found = text.split(place).skip(1).filter_map(|rest| rest.split('"').next());
            reasons.extend(found.filter(|word| word.starts_with(char::is_uppercase) && !word.contains(' ')));
        }
    }
    assert!(reasons.len() > 25, "{reasons:?}");
    let page = fs::read_to_string(chart("../../docs/operator/troubleshooting-kubernetes.md")).unwrap();
    // `AllWell` needs no remedy.
    let missing: Vec<_> = reasons
        .into_iter()
        .filter(|reason| *reason != "AllWell" && !page.contains(&format!("`{reason}`")))
        .collect();
    assert!(missing.is_empty(), "docs/operator/troubleshooting-kubernetes.md does not explain {missing:?}");
}

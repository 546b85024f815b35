//! Compares the fields of ToolHive's resources with ours, and writes the verdict on each into the docs.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests fail like tests")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use vmcp_crds::definitions;
use vmcp_crds::fields::pending::{self, PendingField, Treatment};

/// `resources/toolhive.yaml`.
#[derive(Deserialize)]
struct ToolHive {
    kinds: BTreeMap<String, ServedKind>,
    /// Kinds that are not served, with their replacements.
    absent: BTreeMap<String, String>,
}

/// The fields of one kind.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServedKind {
    fields: Vec<String>,
    /// Notes about fields that mean something else here.
    #[serde(default)]
    differs: BTreeMap<String, String>,
    /// Notes about fields that the API server refuses.
    #[serde(default)]
    refused: BTreeMap<String, String>,
}

/// Verdict on a field.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Works,
    Differs(String),
    Pending(PendingField),
    Refused(String),
}

fn toolhive() -> ToolHive {
    serde_saphyr::from_str(include_str!("resources/toolhive.yaml")).unwrap()
}

/// Returns the schema of `spec` of a kind.
fn spec_of(kind: &str) -> Value {
    let definition = definitions::all().into_iter().find(|one| one.spec.names.kind == kind);
    let schema = json!(definition.unwrap().spec.versions[0].schema);
    schema["openAPIV3Schema"]["properties"]["spec"].clone()
}

/// Returns true if a schema has the field, or takes anything where it stands.
fn has(schema: &Value, path: &str) -> bool {
    let mut schema = schema;
    for segment in path.split('.') {
        if schema["x-kubernetes-preserve-unknown-fields"] == true {
            return true;
        }
        let name = segment.trim_end_matches("[]").trim_end_matches("{}");
        // A quantity such as `resources.limits.cpu` is a value of a map.
        schema = match schema.pointer(&format!("/properties/{name}")) {
            Some(property) => property,
            None if schema["additionalProperties"].is_object() => &schema["additionalProperties"],
            None => return false,
        };
        if segment.ends_with("[]") {
            schema = &schema["items"];
        } else if segment.ends_with("{}") {
            schema = &schema["additionalProperties"];
        }
    }
    true
}

fn verdicts(kind: &str, fields: &ServedKind) -> Vec<(String, Verdict)> {
    let schema = spec_of(kind);
    let pending = pending::fields_of(kind);
    for path in fields.differs.keys().chain(fields.refused.keys()) {
        assert!(fields.fields.contains(path), "{kind}.{path} is no field of ToolHive");
        assert!(pending.iter().all(|field| field.path != path), "{kind}.{path} has two verdicts");
    }
    let verdict = |path: &String| {
        let waits = pending.iter().find(|field| field.path == path);
        let served = has(&schema, path);
        let verdict = match (waits, fields.differs.get(path), fields.refused.get(path)) {
            (Some(field), ..) => Verdict::Pending(*field),
            (None, Some(note), _) => Verdict::Differs(note.clone()),
            (None, None, Some(note)) => Verdict::Refused(note.clone()),
            (None, None, None) => Verdict::Works,
        };
        assert_eq!(
            served,
            !matches!(verdict, Verdict::Refused(_)),
            "{kind}.{path}: {verdict:?}, by the schema"
        );
        (path.clone(), verdict)
    };
    fields.fields.iter().map(verdict).collect()
}

/// Writes the table of one verdict, if there is any field of it.
fn section(page: &mut String, title: &str, head: &str, rows: &[(String, String)]) {
    if rows.is_empty() {
        return;
    }
    writeln!(page, "\n{title}\n\n| field | {head} |\n|---|---|").unwrap();
    for (path, note) in rows {
        writeln!(page, "| `spec.{path}` | {note} |").unwrap();
    }
}

fn page() -> String {
    let toolhive = toolhive();
    let mut page = "# ToolHive's fields\n\n\
        Generated from the definitions and the list of ToolHive's fields; do not edit: `make crds` writes it. The way over:\n\
        [how to come from ToolHive](../operator/how-to/from-toolhive.md). Fields below a block that is not followed as a whole\n\
        are not counted, and a value that asks for what vmcp does anyway (`false`, `enabled: false`) asks for nothing.\n\n\
        The operator refuses a resource with a field that nothing follows, and its conditions name it. The annotation\n\
        `toolhive.stacklok.com/unfollowed-fields: ignore` of the resource ignores such fields, but for those that guard something.\n\n\
        | kind | work | differ | accepted | refused, ignorable | refused, guards | refused by the API server |\n\
        |---|---|---|---|---|---|---|\n"
        .to_owned();
    let mut details = String::new();
    for (kind, fields) in &toolhive.kinds {
        let verdicts = verdicts(kind, fields);
        let of = |select: fn(&Verdict) -> Option<String>| -> Vec<(String, String)> {
            verdicts.iter().filter_map(|(path, verdict)| Some((path.clone(), select(verdict)?))).collect()
        };
        let works = of(|verdict| (*verdict == Verdict::Works).then(String::new));
        let differs = of(|verdict| match verdict {
            Verdict::Differs(note) => Some(note.clone()),
            _ => None,
        });
        let unfollowed = |treatment: Treatment| -> Vec<(String, String)> {
            let of = |verdict: &Verdict| match verdict {
                Verdict::Pending(field) if field.treatment == treatment => Some(field.hint()),
                _ => None,
            };
            verdicts.iter().filter_map(|(path, verdict)| Some((path.clone(), of(verdict)?))).collect()
        };
        let (accepted, ignorable, guards) =
            (unfollowed(Treatment::Accepted), unfollowed(Treatment::Refused), unfollowed(Treatment::Guard));
        let refused = of(|verdict| match verdict {
            Verdict::Refused(note) => Some(note.clone()),
            _ => None,
        });
        let counts = [&works, &differs, &accepted, &ignorable, &guards, &refused]
            .map(|fields| fields.len().to_string());
        writeln!(page, "| {kind} | {} |", counts.join(" | ")).unwrap();
        writeln!(details, "\n## {kind}").unwrap();
        section(&mut details, "Work, and differ:", "difference", &differs);
        for (title, rows) in [
            ("Accepted, and not followed (`FieldsPending` names them):", &accepted),
            ("Refused by the operator, unless the annotation ignores them:", &ignorable),
            ("Refused by the operator, for they guard something:", &guards),
        ] {
            section(&mut details, title, "in its place, or missing", rows);
        }
        section(&mut details, "Refused by the API server:", "reason", &refused);
        let works: Vec<_> = works.iter().map(|(path, _)| format!("`{path}`")).collect();
        writeln!(details, "\nWork as there: {}.", works.join(", ")).unwrap();
    }
    page.push_str(&details);
    if toolhive.absent.is_empty() {
        return page;
    }
    page.push_str("\n## Kinds that are not served\n\n| kind | in its place |\n|---|---|\n");
    for (kind, note) in &toolhive.absent {
        writeln!(page, "| {kind} | {note} |").unwrap();
    }
    page
}

#[test]
fn every_field_of_toolhive_has_a_verdict_in_the_docs() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/toolhive-fields.md");
    let page = page();
    if std::env::var_os("VMCP_UPDATE_CRDS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == page, "docs/reference/toolhive-fields.md is out of date; regenerate it: make crds");
}

#[test]
fn kinds_that_are_not_served_are_none_of_ours() {
    for kind in toolhive().absent.keys() {
        assert!(definitions::all().iter().all(|one| one.spec.names.kind != *kind), "{kind} is served");
    }
}

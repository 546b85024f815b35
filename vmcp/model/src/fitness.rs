//! Fitness of a tool's definition for lists. Some faults of one definition make a client or a model API
//! refuse the whole list, and with it the tools of all servers. [`Fitness::of`] finds them once, when the
//! definition is read; it computes in time linear in the definition.
//!
//! - A fault that a change mends without changing the meaning is mended in lists: `required: null` goes, a
//!   missing `type: object` is added.
//! - An output schema that does not compile is left out of the listed definition.
//! - A tool with any other fault is left out of lists. It can still be found and called.
//!
//! Clients and model APIs state these rules in their errors: the MCP SDKs parse lists strictly
//! and compile output schemas (Ajv); model APIs want an object schema by JSON Schema 2020-12, without a
//! combination at its top, and property names of 1 to 64 of `[A-Za-z0-9_.-]`.

mod keywords;
mod pattern;
mod references;
mod schema;

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use vmcp_json::object::Object;
use vmcp_wire::letter_case::first_misspelled;

use schema::{Role, Schema};

/// Most findings of one kind that are kept; further ones are counted.
const MAX_FINDINGS: usize = 4;
/// Values of `execution.taskSupport` that clients know.
const TASK_SUPPORT: [&str; 3] = ["required", "optional", "forbidden"];
/// Annotations that are true or false.
const HINTS: [&str; 4] = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
/// Address of an icon.
const SOURCE: &str = "src";
/// Keys that lists may leave out; clients refuse `null` for them.
const OPTIONAL_KEYS: [&str; 7] =
    ["title", "description", "outputSchema", "annotations", "icons", "execution", "_meta"];

/// Findings about a definition that does not fit into lists as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fitness {
    /// Changes of top-level keys for lists: the new JSON, or `None` to leave the key out.
    pub(crate) edits: Vec<(&'static str, Option<String>)>,
    /// Descriptions of these changes.
    pub mended: Findings,
    /// Faults that are not mended; with any, the tool is left out of lists.
    pub refused: Findings,
}

/// Descriptions of findings, each as one clause.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    kept: Vec<String>,
    /// Number of further findings.
    more: usize,
}

impl Findings {
    /// Adds a finding.
    fn add(&mut self, finding: String) {
        if self.kept.len() < MAX_FINDINGS {
            self.kept.push(finding);
        } else {
            self.more += 1;
        }
    }

    /// True without findings.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Returns the findings as one text.
    pub fn text(&self) -> String {
        let text = self.kept.join("; ");
        match self.more {
            0 => text,
            more => format!("{text}; and {more} more"),
        }
    }
}

impl Fitness {
    /// Classifies a tool's definition. `input` is its parsed input schema; `None` counts as a schema that
    /// takes everything. Returns `None` for a definition that is fit as it is.
    pub(crate) fn of(
        definition: &RawValue,
        input: Option<Value>,
        output: Option<&RawValue>,
    ) -> Option<Box<Fitness>> {
        let mut fitness = Fitness::default();
        fitness.check_keys(definition);
        if let Some(Value::Object(keywords)) = input {
            fitness.check_input(keywords);
        }
        if let Some(Value::Object(keywords)) =
            output.and_then(|schema| serde_json::from_str(schema.get()).ok())
        {
            fitness.check_output(keywords);
        }
        let is_fit = fitness.mended.is_empty() && fitness.refused.is_empty();
        (!is_fit).then(|| Box::new(fitness))
    }

    fn check_input(&mut self, keywords: Map<String, Value>) {
        let checked = Schema::check(keywords, Role::Input);
        if !checked.mended.is_empty() {
            self.edits.push(("inputSchema", serde_json::to_string(&checked.keywords).ok()));
        }
        self.mended.extend(checked.mended);
        self.refused.extend(checked.refused);
    }

    fn check_output(&mut self, keywords: Map<String, Value>) {
        let checked = Schema::check(keywords, Role::Output);
        if !checked.refused.is_empty() {
            self.edits.push(("outputSchema", None));
            self.mended.add(format!(
                "it is listed without its output schema, which clients cannot compile: {}",
                checked.refused.text()
            ));
        } else if !checked.mended.is_empty() {
            self.edits.push(("outputSchema", serde_json::to_string(&checked.keywords).ok()));
            self.mended.extend(checked.mended);
        }
    }

    /// Checks the keys beside the schemas: a decoration that clients refuse is left out.
    fn check_keys(&mut self, definition: &RawValue) {
        let Ok(object) = Object::parse(definition) else { return };
        for key in OPTIONAL_KEYS {
            let Some(json) = object.text(key) else { continue };
            let fits = json != "null"
                && match key {
                    "icons" => are_icons(json),
                    "execution" => is_execution(json),
                    "title" | "description" => json.starts_with('"'),
                    "_meta" | "outputSchema" | "annotations" => json.starts_with('{'),
                    _ => true,
                };
            if !fits {
                self.edits.push((key, None));
                self.mended.add(format!("{key}, which is not of the form that clients accept, is left out"));
            } else if key == "annotations"
                && let Some(rest) = mended_annotations(json)
            {
                self.edits.push((key, Some(rest)));
                self.mended.add("annotations that clients refuse are left out".to_owned());
            }
        }
    }
}

impl Findings {
    fn extend(&mut self, other: Findings) {
        self.more += other.more;
        other.kept.into_iter().for_each(|finding| self.add(finding));
    }
}

/// True for a list of icons that clients may fetch and draw.
pub(crate) fn are_icons(json: &str) -> bool {
    let icons = serde_json::from_str::<Vec<Map<String, Value>>>(json);
    let is_icon = |icon: &Map<String, Value>| {
        // Clients in Go and .NET would draw the picture of `Src`.
        first_misspelled(icon.keys().map(String::as_str), &[SOURCE]).is_none()
            && icon.get(SOURCE).and_then(Value::as_str).is_some_and(is_picture)
    };
    icons.is_ok_and(|icons| icons.iter().all(is_icon))
}

/// True for the address of a picture. A URL of another scheme than `http` and `https` runs a script, opens a
/// file or starts a program (`javascript:`, `file:`, `ms-settings:`); data of another type are a document.
fn is_picture(source: &str) -> bool {
    // Parsers of URLs drop these characters, and spaces in front (WHATWG).
    let bare: String = source.chars().filter(|char| !matches!(char, '\t' | '\n' | '\r')).collect();
    let bare = bare.trim_start_matches(|char: char| char.is_whitespace() || char.is_control());
    let Some((scheme, rest)) = bare.split_once(':').filter(|(scheme, _)| is_scheme(scheme)) else {
        return true;
    };
    let rest = rest.trim_start();
    match &*scheme.to_ascii_lowercase() {
        "http" | "https" => true,
        // The type is absent, or that of a picture.
        "data" => {
            rest.starts_with([',', ';'])
                || rest.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("image/"))
        }
        _ => false,
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|char: char| char.is_ascii_alphabetic())
        && text.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '+' | '-' | '.'))
}

fn is_execution(json: &str) -> bool {
    let execution = Object::parse_str(json);
    execution.is_ok_and(|execution| match execution.text("taskSupport") {
        None => true,
        Some(_) => execution.get_str("taskSupport").is_some_and(|support| TASK_SUPPORT.contains(&&*support)),
    })
}

/// Returns annotations without `null`, members of the wrong type and hints in another letter case; `None` if
/// all members fit. A hint that is `true` or `false` as text becomes the value.
fn mended_annotations(json: &str) -> Option<String> {
    let object = Object::parse_valid(json).ok()?;
    let misfits = |key: &&str| match object.text(key) {
        None | Some("null") => true,
        // Clients in Go and .NET would take it for the hint, which policies have not seen.
        Some(_) if first_misspelled([*key], &HINTS).is_some() => true,
        Some(json) if HINTS.contains(key) => !matches!(json, "true" | "false"),
        Some(json) => *key == "title" && !json.starts_with('"'),
    };
    let misfits: Vec<_> = object.keys().filter(misfits).collect();
    if misfits.is_empty() {
        return None;
    }
    let mut edit = object.edit();
    for key in misfits {
        match object.text(key).filter(|_| HINTS.contains(&key)) {
            Some("\"true\"") => edit.set(key, "true"),
            Some("\"false\"") => edit.set(key, "false"),
            _ => edit.remove(key),
        };
    }
    Some(edit.finish().into_raw().ok()?.get().to_owned())
}

#[cfg(test)]
mod tests;

//! Checks one schema of a tool and mends what can be mended.

use serde_json::{Map, Value, json};

use super::Findings;
use super::keywords::{Shape, shape};
use super::{pattern, references};

/// Longest property name that model APIs take, in bytes.
const MAX_PROPERTY_NAME: usize = 64;
/// Keywords that model APIs refuse at the top of an input schema.
const COMBINATIONS: [&str; 5] = ["allOf", "anyOf", "oneOf", "not", "enum"];
/// Longest part of a name that a finding quotes, in characters.
const MAX_QUOTED: usize = 80;
/// Deepest schema that is looked at; definitions are bounded to 64 levels.
const MAX_DEPTH: usize = 128;

/// Role of a schema in its tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Model APIs read it.
    Input,
    /// Clients compile it.
    Output,
}

impl Role {
    fn key(self) -> &'static str {
        match self {
            Role::Input => "inputSchema",
            Role::Output => "outputSchema",
        }
    }
}

/// A checked schema.
pub(super) struct Schema {
    /// The schema, mended.
    pub(super) keywords: Map<String, Value>,
    /// Changes that were made.
    pub(super) mended: Findings,
    /// Faults that are left.
    pub(super) refused: Findings,
}

impl Schema {
    /// Checks and mends a schema.
    pub(super) fn check(schema: Map<String, Value>, role: Role) -> Schema {
        let root = Value::Object(schema);
        let mut check = Check { role, mended: Findings::default(), refused: Findings::default() };
        for reference in references::unresolved(&root) {
            check.refused.add(format!(
                "{} refers to {}, which does not exist",
                role.key(),
                quoted(&reference)
            ));
        }
        let Value::Object(mut schema) = root else { return Schema::empty() };
        check.keywords(&mut schema, role.key(), 0);
        check.top(&mut schema);
        Schema { keywords: schema, mended: check.mended, refused: check.refused }
    }

    fn empty() -> Schema {
        Schema { keywords: Map::new(), mended: Findings::default(), refused: Findings::default() }
    }
}

struct Check {
    role: Role,
    mended: Findings,
    refused: Findings,
}

impl Check {
    /// Checks the keywords of one schema and of those within. `at` is its place, for findings.
    fn keywords(&mut self, schema: &mut Map<String, Value>, at: &str, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        self.earlier_drafts(schema, at);
        let mut gone = Vec::new();
        for (keyword, value) in schema.iter_mut() {
            let Some(shape) = shape(keyword) else { continue };
            let is_draft_7 = self.role == Role::Input && shape == Shape::SchemaOrList && value.is_array();
            if !shape.fits(value) || is_draft_7 {
                if shape == Shape::Names && drop_repeated(value) {
                    self.mended.add(format!("{at}/{keyword}: repeated names were removed"));
                } else if shape.can_go(value) {
                    gone.push(keyword.clone());
                } else {
                    self.refused.add(format!("{at}/{keyword}: a value of this form is not JSON Schema"));
                }
                continue;
            }
            if keyword == "pattern" {
                let text = value.as_str().unwrap_or_default();
                match self.role {
                    Role::Output if !pattern::compiles(text) => {
                        let problem = "is no regular expression of JavaScript";
                        self.refused.add(format!("{at}/pattern: {} {problem}", quoted(text)));
                    }
                    Role::Input if !pattern::is_balanced(text) => gone.push(keyword.clone()),
                    _ => {}
                }
            }
            if shape.holds_schemas() {
                self.below(shape, value, &format!("{at}/{keyword}"), depth);
            }
        }
        for keyword in gone {
            schema.shift_remove(&keyword);
            self.mended.add(format!("{at}/{keyword}, whose value says nothing or is none, is left out"));
        }
        // Model APIs refuse lists whose items are unknown.
        let is_list = schema.get("type").is_some_and(|kind| kind == "array");
        if self.role == Role::Input && is_list && !schema.contains_key("items") {
            schema.insert("items".to_owned(), json!({}));
            self.mended.add(format!("{at}: `items` of any type was added"));
        }
        let nullable = schema.get("nullable").filter(|_| self.role == Role::Output);
        let takes_null = |kind: &Value| {
            kind == "null" || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "null"))
        };
        match (nullable, schema.get("type")) {
            (Some(_), None) => self.refused.add(format!("{at}: `nullable` stands without `type`")),
            (Some(Value::Bool(false)), Some(kind)) if takes_null(kind) => {
                self.refused.add(format!("{at}: `nullable: false` contradicts the type"));
            }
            _ => {}
        }
    }

    /// Checks the schemas in a keyword's value.
    fn below(&mut self, shape: Shape, value: &mut Value, at: &str, depth: usize) {
        match (shape, value) {
            (Shape::Schema | Shape::SchemaOrList, Value::Object(schema)) => {
                self.keywords(schema, at, depth + 1);
            }
            (Shape::SchemaOrList | Shape::SchemaList, Value::Array(schemas)) => {
                for (number, schema) in schemas.iter_mut().enumerate() {
                    self.member(schema, &format!("{at}/{number}"), depth);
                }
            }
            (Shape::SchemaMap, Value::Object(schemas)) => {
                for (name, schema) in schemas.iter_mut() {
                    self.member(schema, &format!("{at}/{}", quoted(name)), depth);
                }
            }
            (Shape::DependencyMap, Value::Object(dependencies)) => {
                for (name, dependency) in
                    dependencies.iter_mut().filter(|(_, dependency)| !dependency.is_array())
                {
                    self.member(dependency, &format!("{at}/{}", quoted(name)), depth);
                }
            }
            _ => {}
        }
    }

    /// Checks a value that must be a schema.
    fn member(&mut self, value: &mut Value, at: &str, depth: usize) {
        let says_nothing = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        match value {
            Value::Object(schema) => self.keywords(schema, at, depth + 1),
            Value::Bool(_) => {}
            value if says_nothing => {
                *value = json!({});
                self.mended.add(format!("{at}: a schema that takes everything was written as one"));
            }
            _ => self.refused.add(format!("{at}: it is not a schema")),
        }
    }

    /// Writes keywords of drafts before 2020-12 as the latest one has them.
    fn earlier_drafts(&mut self, schema: &mut Map<String, Value>, at: &str) {
        // Draft 4: `exclusiveMinimum: true` beside `minimum`.
        for (exclusive, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
            let Some(Value::Bool(is_exclusive)) = schema.get(exclusive).cloned() else { continue };
            schema.shift_remove(exclusive);
            let limit = if is_exclusive { schema.shift_remove(bound) } else { None };
            if let Some(limit) = limit {
                schema.insert(exclusive.to_owned(), limit);
            }
            self.mended.add(format!("{at}/{exclusive} is written as draft 2020-12 has it"));
        }
        // Until 2019-09, `items` with a list was a tuple. Clients that compile know both.
        let is_tuple = schema.get("items").and_then(Value::as_array).is_some_and(|items| !items.is_empty());
        if self.role == Role::Input && is_tuple && !schema.contains_key("prefixItems") {
            let items = schema.shift_remove("items").unwrap_or_default();
            let rest = schema.shift_remove("additionalItems").unwrap_or_else(|| json!({}));
            schema.insert("prefixItems".to_owned(), items);
            schema.insert("items".to_owned(), rest);
            self.mended.add(format!("{at}/items is written as draft 2020-12 has it"));
        }
    }

    /// Checks rules for the top of a schema.
    fn top(&mut self, schema: &mut Map<String, Value>) {
        let key = self.role.key();
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            for (name, property) in properties.iter_mut() {
                if let Value::Bool(takes) = *property {
                    *property = if takes { json!({}) } else { json!({"not": {}}) };
                    self.mended.add(format!(
                        "{key}/properties/{}: a truth value was written as a schema",
                        quoted(name)
                    ));
                }
                if self.role == Role::Input && !is_property_name(name) {
                    let problem = "is not of 1 to 64 letters, digits, `_`, `.` and `-`";
                    self.refused.add(format!("the name of the property {} {problem}", quoted(name)));
                }
            }
        }
        if self.role == Role::Output {
            return;
        }
        for keyword in COMBINATIONS.iter().filter(|keyword| schema.contains_key(**keyword)) {
            self.refused.add(format!("inputSchema has `{keyword}` at its top"));
        }
        let takes_objects =
            |kind: &Value| kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "object"));
        match schema.get("type") {
            Some(kind) if kind == "object" => {}
            Some(kind) if !takes_objects(kind) => {
                self.refused.add(format!("inputSchema is of type {}", quoted(&kind.to_string())));
            }
            _ => {
                schema.insert("type".to_owned(), json!("object"));
                self.mended.add("inputSchema: `type: object` was added".to_owned());
            }
        }
    }
}

/// Removes repeated names; false if the value is something else than a list of names.
fn drop_repeated(names: &mut Value) -> bool {
    let Some(names) = names.as_array_mut().filter(|names| names.iter().all(Value::is_string)) else {
        return false;
    };
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.as_str().unwrap_or_default().to_owned()));
    true
}

fn is_property_name(name: &str) -> bool {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    (1..=MAX_PROPERTY_NAME).contains(&name.len()) && name.bytes().all(is_legal)
}

/// Returns the beginning of a text, for a finding.
fn quoted(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

//! Synthetic tools that resemble real ones, the same on every machine (seeded), and an embedder that takes no
//! time.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use async_trait::async_trait;
use fastrand::Rng;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use vmcp_embed::{EmbedError, Embedder};

/// Tools of one synthetic server.
pub(crate) const TOOLS_PER_SERVER: usize = 100;
/// Dimensions of a vector: as many as the local model has.
pub(crate) const DIMENSIONS: usize = 384;

const SYSTEMS: [&str; 24] = [
    "tracker",
    "billing",
    "calendar",
    "warehouse",
    "mail",
    "wiki",
    "repository",
    "pipeline",
    "monitoring",
    "payroll",
    "crm",
    "helpdesk",
    "storage",
    "database",
    "maps",
    "travel",
    "banking",
    "library",
    "fleet",
    "clinic",
    "campaign",
    "survey",
    "forum",
    "registry",
];
const VERBS: [&str; 20] = [
    "get",
    "list",
    "create",
    "update",
    "delete",
    "search",
    "export",
    "import",
    "approve",
    "archive",
    "compare",
    "schedule",
    "assign",
    "cancel",
    "restore",
    "validate",
    "summarize",
    "subscribe",
    "merge",
    "publish",
];
const NOUNS: [&str; 40] = [
    "invoice",
    "customer",
    "shipment",
    "ticket",
    "deployment",
    "build",
    "dataset",
    "contract",
    "employee",
    "meeting",
    "branch",
    "certificate",
    "campaign",
    "payment",
    "parcel",
    "sensor",
    "booking",
    "playlist",
    "recipe",
    "backup",
    "document",
    "comment",
    "label",
    "milestone",
    "alert",
    "dashboard",
    "query",
    "table",
    "snapshot",
    "webhook",
    "release",
    "pull_request",
    "account",
    "address",
    "route",
    "vehicle",
    "patient",
    "survey_answer",
    "thread",
    "package",
];
const DETAILS: [&str; 16] = [
    "with all of its fields and the people who follow it",
    "that match a filter, newest first, page by page",
    "in the given workspace and returns its new identifier",
    "of the last quarter, grouped by region and owner",
    "without changing anything that belongs to others",
    "and tells everybody who is subscribed to it",
    "from a file in CSV or JSON, row by row",
    "before the given date, including archived ones",
    "as a link that expires after one day",
    "by its key, number or full address",
    "for review by the team that is responsible",
    "together with its history of changes",
    "whose status is open, blocked or overdue",
    "and waits until the operation has finished",
    "using the permissions of the calling user",
    "with a short text that says why",
];
const ADVICE: [&str; 8] = [
    "Use it when the user asks for one particular entry and gives its identifier.",
    "Returns at most one hundred entries; pass the cursor of the answer to go on.",
    "Fails when the caller may not write; nothing is changed in that case.",
    "Prefer the search when only a part of the title is known.",
    "The answer has the same form as the one of the list operation.",
    "Dates are in ISO 8601; times without an offset are in the time zone of the workspace.",
    "Repeating the call with the same arguments does no harm.",
    "Large results are cut; narrow the filter instead of asking for more.",
];
const PARAMETERS: [(&str, &str, &str); 16] = [
    ("workspace", "string", "Name of the workspace; the default one when absent"),
    ("cursor", "string", "Where to go on, as returned by the call before"),
    ("limit", "integer", "How many entries to return, from 1 to 100"),
    ("assignee", "string", "Account name of the person who is responsible"),
    ("since", "string", "Only what changed after this date"),
    ("dry_run", "boolean", "Only tell what would happen"),
    ("title", "string", "One line that people will see in lists"),
    ("body", "string", "Text in Markdown"),
    ("priority", "string", "How urgent it is: low, normal, high or blocking"),
    ("include_archived", "boolean", "Whether archived entries are returned too"),
    ("region", "string", "Two letters of the country, or a region of ours"),
    ("amount", "number", "Amount in the currency of the account"),
    ("notify", "boolean", "Whether subscribers get a message"),
    ("format", "string", "Form of the answer: json, csv or markdown"),
    ("parent", "string", "Identifier of the entry that this one belongs to"),
    ("locale", "string", "Language of messages, such as de or en-GB"),
];

/// Queries as people write them: description and keywords.
pub(crate) const QUERIES: [(&str, &str); 8] = [
    ("find the overdue invoices of a customer", "invoice customer"),
    ("schedule a meeting with the team next week", "meeting calendar"),
    ("export the alerts of the monitoring dashboard as csv", "alert dashboard export"),
    ("who follows this ticket and who is responsible for it", "ticket"),
    ("restore yesterday's backup of the database", "backup restore"),
    ("approve the pull request and tell its subscribers", "pull_request approve"),
    ("cancel the booking of a vehicle", "booking vehicle"),
    ("compare two snapshots of a table in the last quarter", "snapshot table compare"),
];

/// A compound query of three clauses.
pub(crate) const COMPOUND_QUERY: &str = "find the open tickets of a customer; then create an invoice for the payment; and send a message to the employee who is responsible";

/// A synthetic tool.
pub(crate) struct SyntheticTool {
    /// Name of its server.
    pub(crate) server: String,
    /// Name that its server gives it.
    pub(crate) name: String,
    /// Description for people and models.
    pub(crate) description: String,
    /// Entry in `tools/list` of its server.
    pub(crate) raw: Box<RawValue>,
}

/// Generates `count` tools, [`TOOLS_PER_SERVER`] to a server.
pub(crate) fn generate(count: usize) -> Vec<SyntheticTool> {
    let mut random = Rng::with_seed(42);
    (0..count).map(|number| generate_one(number, &mut random)).collect()
}

fn generate_one(number: usize, random: &mut Rng) -> SyntheticTool {
    let mut one_of = |words: &[&'static str]| random.choice(words.iter().copied()).unwrap_or_default();
    let (verb, noun, detail, advice) = (one_of(&VERBS), one_of(&NOUNS), one_of(&DETAILS), one_of(&ADVICE));
    let at = number / TOOLS_PER_SERVER;
    let system = SYSTEMS.iter().cycle().nth(at).copied().unwrap_or_default();
    let name = format!("{verb}_{noun}_{}", number % TOOLS_PER_SERVER);
    let words = noun.replace('_', " ");
    let description = format!("{verb} a {words} {detail}. {advice} Works on the {system} system.");
    let id = format!("{noun}_id");
    let mut properties = Map::new();
    properties
        .insert(id.clone(), json!({"type": "string", "description": format!("Identifier of the {words}")}));
    for (name, kind, description) in random.choose_multiple(PARAMETERS.iter(), 5) {
        properties.insert((*name).to_owned(), json!({"type": kind, "description": description}));
    }
    let entry = json!({
        "name": name,
        "title": format!("{verb} {words}"),
        "description": description,
        "inputSchema": {"type": "object", "properties": properties, "required": [id], "additionalProperties": false},
        "annotations": {"readOnlyHint": matches!(verb, "get" | "list" | "search" | "compare")},
    });
    SyntheticTool {
        server: format!("{system}-{at}"),
        name,
        description,
        raw: to_raw_value(&entry).unwrap_or_default(),
    }
}

/// Returns a count in words, such as `15,000 tools`.
pub(crate) fn count_in_words(count: usize) -> String {
    match (count / 1000, count % 1000) {
        (0, rest) => format!("{rest} tools"),
        (thousands, rest) => format!("{thousands},{rest:03} tools"),
    }
}

/// Returns the arguments of find_tool for the query of repetition `run`.
pub(crate) fn find_arguments(run: usize) -> Value {
    let (description, keywords) = query(run);
    json!({"tool_description": description, "tool_keywords": keywords})
}

/// Returns the query of repetition `run`.
pub(crate) fn query(run: usize) -> (&'static str, &'static str) {
    QUERIES.iter().cycle().nth(run % QUERIES.len()).copied().unwrap_or_default()
}

/// Returns a unit vector that depends on the text alone.
pub(crate) fn unit_vector(text: &str) -> Vec<f32> {
    let mut hash = DefaultHasher::new();
    text.hash(&mut hash);
    let mut random = Rng::with_seed(hash.finish());
    let vector: Vec<f32> = (0..DIMENSIONS).map(|_| random.f32() - 0.5).collect();
    let norm = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    vector.into_iter().map(|value| value / norm).collect()
}

/// An embedder that takes about a microsecond a text, so that everything else is what is measured.
pub(crate) struct InstantEmbedder;

#[async_trait]
impl Embedder for InstantEmbedder {
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        Ok(texts.iter().map(|text| unit_vector(text)).collect())
    }

    async fn model_id(&self) -> Result<String, EmbedError> {
        Ok("instant".to_owned())
    }

    fn batch_size(&self) -> usize {
        1000
    }
}

//! What servers declare, and the declaration of one that stands before several of them.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::era::{Era, Revision};
use crate::json;
use crate::object::Object;

/// The extension that makes a modern call a task.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// A `ClientCapabilities` with just that, as JSON.
pub const TASKS_REQUIRED: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

const EXTENSIONS: &str = "extensions";
const EXPERIMENTAL: &str = "experimental";
/// Extensions of one server that are looked at.
const MOST_EXTENSIONS: usize = 64;
/// The longest settings of an extension that are repeated, in bytes; longer ones are declared without them.
const LONGEST_SETTINGS: usize = 4 * 1024;

/// What one server declares, as far as a gateway relays it.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "a set of capabilities")]
pub struct Offer {
    era: Era,
    prompts: bool,
    resources: bool,
    subscriptions: bool,
    completions: bool,
    logging: bool,
    tasks: Option<CoreTasks>,
    extensions: Extensions,
    experimental: Extensions,
}

/// Settings by the extension's id.
type Extensions = BTreeMap<String, Box<RawValue>>;

/// `tasks` of a server of 2025-11-25.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct CoreTasks {
    list: bool,
    cancel: bool,
    tool_calls: bool,
}

impl Offer {
    /// Reads `ServerCapabilities`; what cannot be read is not declared.
    #[must_use]
    pub fn read(era: Era, capabilities: &RawValue) -> Self {
        let object = Object::parse(capabilities).unwrap_or_default();
        let part = |key| inner(&object, key);
        let resources = part("resources");
        let extensions = |key| part(key).map(|entries| read_extensions(&entries)).unwrap_or_default();
        Self {
            era,
            prompts: part("prompts").is_some(),
            subscriptions: resources.as_ref().is_some_and(|r| r.text("subscribe") == Some("true")),
            resources: resources.is_some(),
            completions: part("completions").is_some(),
            logging: part("logging").is_some(),
            tasks: part("tasks").filter(|_| era == Era::Legacy).map(|tasks| CoreTasks::read(&tasks)),
            extensions: extensions(EXTENSIONS),
            experimental: extensions(EXPERIMENTAL),
        }
    }

    /// What is expected of a server that nobody has talked to yet: what most have. It is relayed as soon as it is there.
    #[must_use]
    pub fn unknown() -> Self {
        Self {
            prompts: true,
            resources: true,
            subscriptions: true,
            completions: true,
            logging: true,
            ..Self::default()
        }
    }

    /// Whether it has resources.
    #[must_use]
    pub fn has_resources(&self) -> bool {
        self.resources
    }

    /// Whether clients of an era can have tasks there. The two kinds of tasks are not translated into each other.
    #[must_use]
    pub fn has_tasks(&self, client: Era) -> bool {
        match client {
            Era::Legacy => self.tasks.is_some(),
            Era::Modern => self.era == Era::Modern && self.extensions.contains_key(TASKS_EXTENSION),
        }
    }

    /// Whether clients before 2026-07-28 can ask for a tool call as a task.
    #[must_use]
    pub fn takes_task_calls(&self) -> bool {
        self.tasks.is_some_and(|tasks| tasks.tool_calls)
    }

    /// Whether clients before 2026-07-28 can list its tasks.
    #[must_use]
    pub fn lists_tasks(&self) -> bool {
        self.tasks.is_some_and(|tasks| tasks.list)
    }

    /// The extensions that a client declares too, in order of their ids. Tasks are not among them: they are ours to relay.
    pub fn shared<'a>(&'a self, client: &'a ClientExtensions<'a>) -> impl Iterator<Item = &'a str> {
        let of = |own: &'a Extensions, theirs: &'a Object<'a>| {
            own.keys().map(String::as_str).filter(|id| theirs.text(id).is_some())
        };
        let shared = of(&self.extensions, &client.extensions).filter(|id| *id != TASKS_EXTENSION);
        shared.chain(of(&self.experimental, &client.experimental))
    }
}

impl CoreTasks {
    fn read(tasks: &Object<'_>) -> Self {
        let call = inner(tasks, "requests")
            .and_then(|requests| inner(&requests, "tools"))
            .and_then(|tools| inner(&tools, "call"));
        Self {
            list: inner(tasks, "list").is_some(),
            cancel: inner(tasks, "cancel").is_some(),
            tool_calls: call.is_some(),
        }
    }
}

fn inner<'a>(object: &Object<'a>, key: &str) -> Option<Object<'a>> {
    Object::parse(object.get(key)?).ok()
}

fn read_extensions(entries: &Object<'_>) -> Extensions {
    let known = entries.iter().filter(|(_, settings)| json::is_object(settings.get()));
    let entry = |(id, settings): (&str, &RawValue)| {
        let kept = settings.get().len() <= LONGEST_SETTINGS;
        let settings = if kept { settings.to_owned() } else { RawValue::from_string("{}".into()).ok()? };
        Some((id.to_owned(), settings))
    };
    known.take(MOST_EXTENSIONS).filter_map(entry).collect()
}

/// `ServerCapabilities` for clients of a revision, as JSON: tools, and whatever one of the servers has.
pub fn declaration<'a>(offers: impl IntoIterator<Item = &'a Offer>, client: Revision) -> String {
    let mut any = Offer::default();
    for offer in offers {
        any.prompts |= offer.prompts;
        any.resources |= offer.resources;
        any.subscriptions |= offer.subscriptions;
        any.completions |= offer.completions;
        any.logging |= offer.logging;
        if let Some(tasks) = offer.tasks {
            let any = any.tasks.get_or_insert_default();
            any.list |= tasks.list;
            any.cancel |= tasks.cancel;
            any.tool_calls |= tasks.tool_calls;
        }
        let modern_tasks = client.era() == Era::Modern && offer.has_tasks(Era::Modern);
        let relayed = offer.extensions.iter().filter(|(id, _)| *id != TASKS_EXTENSION || modern_tasks);
        add(&mut any.extensions, relayed);
        add(&mut any.experimental, offer.experimental.iter());
    }
    any.tasks = any.tasks.filter(|_| client == Revision::V2025_11_25);
    write(&any)
}

/// Where servers differ in the settings of an extension, the first one's count.
fn add<'a>(any: &mut Extensions, more: impl Iterator<Item = (&'a String, &'a Box<RawValue>)>) {
    for (id, settings) in more {
        if !any.contains_key(id) {
            any.insert(id.clone(), settings.clone());
        }
    }
}

fn write(any: &Offer) -> String {
    let mut parts = vec![r#""tools":{"listChanged":true}"#.to_owned()];
    let mut part = |declared: bool, text: &str| parts.extend(declared.then(|| text.to_owned()));
    let subscribe = if any.subscriptions { r#","subscribe":true"# } else { "" };
    part(any.resources, &format!(r#""resources":{{"listChanged":true{subscribe}}}"#));
    part(any.prompts, r#""prompts":{"listChanged":true}"#);
    part(any.completions, r#""completions":{}"#);
    part(any.logging, r#""logging":{}"#);
    if let Some(CoreTasks { list, cancel, tool_calls }) = any.tasks {
        let entries = [
            (list, r#""list":{}"#),
            (cancel, r#""cancel":{}"#),
            (tool_calls, r#""requests":{"tools":{"call":{}}}"#),
        ];
        let entries: Vec<_> = entries.iter().filter(|(has, _)| *has).map(|(_, text)| *text).collect();
        parts.push(format!(r#""tasks":{{{}}}"#, entries.join(",")));
    }
    for (key, extensions) in [(EXTENSIONS, &any.extensions), (EXPERIMENTAL, &any.experimental)] {
        if !extensions.is_empty() {
            let entries = extensions.iter().map(|(id, settings)| format!("{}:{settings}", json::quoted(id)));
            parts.push(format!(r#""{key}":{{{}}}"#, entries.collect::<Vec<_>>().join(",")));
        }
    }
    format!("{{{}}}", parts.join(","))
}

/// The extensions that a client declares.
#[derive(Debug, Clone, Default)]
pub struct ClientExtensions<'a> {
    extensions: Object<'a>,
    experimental: Object<'a>,
}

impl<'a> ClientExtensions<'a> {
    /// Reads `ClientCapabilities`; what cannot be read is not declared.
    #[must_use]
    pub fn read(capabilities: Option<&'a RawValue>) -> Self {
        let object = capabilities.and_then(|raw| Object::parse(raw).ok()).unwrap_or_default();
        let part = |key| inner(&object, key).unwrap_or_default();
        Self { extensions: part(EXTENSIONS), experimental: part(EXPERIMENTAL) }
    }

    /// Whether it takes a task instead of a result.
    #[must_use]
    pub fn has_tasks(&self) -> bool {
        self.extensions.text(TASKS_EXTENSION).is_some_and(json::is_object)
    }
}

/// The capabilities of a client that cannot have the modern kind of tasks, whatever it says. `None` if it says nothing of
/// them.
#[must_use]
pub fn without_tasks_extension(capabilities: &RawValue) -> Option<String> {
    let object = Object::parse(capabilities).ok()?;
    let extensions = inner(&object, EXTENSIONS)?;
    extensions.text(TASKS_EXTENSION)?;
    let mut inner = extensions.edit();
    inner.remove(TASKS_EXTENSION);
    let mut edit = object.edit();
    edit.set(EXTENSIONS, inner.finish());
    Some(edit.finish().into_cow().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    fn offer(era: Era, capabilities: &str) -> Offer {
        Offer::read(era, &raw(capabilities))
    }

    #[test]
    fn what_any_server_has_is_declared_to_whom_it_reaches() {
        let modern = offer(
            Era::Modern,
            r#"{"prompts":{},"extensions":{"io.modelcontextprotocol/tasks":{},"a/b":{"x":1}}}"#,
        );
        let legacy = offer(
            Era::Legacy,
            r#"{"resources":{"subscribe":true},"logging":{},"tasks":{"list":{},"requests":{"tools":{"call":{}}}},
               "experimental":{"e":{}},"extensions":{"io.modelcontextprotocol/tasks":{},"a/b":{"x":2},"c":7}}"#,
        );
        let declared = |revision| declaration([&modern, &legacy], revision);
        let start = r#"{"tools":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"prompts":{"listChanged":true},"logging":{}"#;
        let tasks = r#","tasks":{"list":{},"requests":{"tools":{"call":{}}}}"#;
        let end = r#","extensions":{"a/b":{"x":1}},"experimental":{"e":{}}}"#;
        assert_eq!(declared(Revision::V2025_06_18), format!("{start}{end}"));
        assert_eq!(declared(Revision::V2025_11_25), format!("{start}{tasks}{end}"));
        let with_tasks = end.replace(r#"}},"exp"#, r#"},"io.modelcontextprotocol/tasks":{}},"exp"#);
        assert_eq!(declared(Revision::MODERN), format!("{start}{with_tasks}"));
        assert!(modern.has_tasks(Era::Modern) && !modern.has_tasks(Era::Legacy));
        assert!(legacy.has_tasks(Era::Legacy) && !legacy.has_tasks(Era::Modern));
    }

    #[test]
    fn nothing_is_declared_that_cannot_be_read() {
        let nothing = r#"{"tools":{"listChanged":true}}"#;
        for capabilities in ["null", "{}", r#"{"prompts":null,"tasks":[],"extensions":7}"#] {
            assert_eq!(declaration([&offer(Era::Legacy, capabilities)], Revision::V2025_11_25), nothing);
        }
        assert_eq!(declaration([], Revision::MODERN), nothing);
        assert!(declaration([&Offer::unknown()], Revision::MODERN).contains("prompts"));
        let many: Vec<_> = (0..1000).map(|n| format!(r#""e{n}":{{"s":"{}"}}"#, "x".repeat(9999))).collect();
        let many = format!(r#"{{"extensions":{{{}}}}}"#, many.join(","));
        assert!(declaration([&offer(Era::Modern, &many)], Revision::MODERN).len() < 2000);
    }

    #[test]
    fn an_extension_is_shared_when_both_declare_it() {
        let server = offer(
            Era::Modern,
            r#"{"extensions":{"a/b":{},"io.modelcontextprotocol/tasks":{}},"experimental":{"e":{}}}"#,
        );
        let shared = |capabilities: &str| {
            let raw = raw(capabilities);
            let client = ClientExtensions::read(Some(&raw));
            server.shared(&client).map(ToOwned::to_owned).collect::<Vec<_>>()
        };
        let all =
            r#"{"extensions":{"a/b":{},"io.modelcontextprotocol/tasks":{},"c":{}},"experimental":{"e":{}}}"#;
        assert_eq!(shared(all), ["a/b", "e"]);
        assert!(shared(r#"{"extensions":{"e":{}},"experimental":{"a/b":{}}}"#).is_empty());
        assert!(ClientExtensions::read(Some(&raw(all))).has_tasks());
        assert!(!ClientExtensions::read(None).has_tasks());
        let without = without_tasks_extension(&raw(all)).unwrap();
        assert!(!ClientExtensions::read(Some(&raw(&without))).has_tasks());
        assert!(without.contains("a/b") && without_tasks_extension(&raw("{}")).is_none());
    }
}

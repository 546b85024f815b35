//! [`ServerCapabilities`]: the capabilities that a backend declares; and [`declaration`], which joins the
//! declarations of all backends into the one that clients see.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use vmcp_json::object::Object;
use vmcp_json::text;

use super::client_capabilities::{ClientExtensions, EXPERIMENTAL, EXTENSIONS, TASKS_EXTENSION, inner};
use crate::message::{era::Era, era::Revision};

/// Extensions of one server that are read; further ones are ignored.
const MAX_EXTENSIONS: usize = 64;
/// The longest settings of an extension, in bytes of JSON; longer ones are replaced by `{}`.
const MAX_SETTINGS_BYTES: usize = 4 * 1024;

/// The capabilities that one backend declares, as far as a gateway relays them.
///
/// ```
/// use vmcp_wire::era::{Era, Revision};
/// use vmcp_wire::handshake::server_capabilities::{ServerCapabilities, declaration};
///
/// let raw: Box<serde_json::value::RawValue> = serde_json::from_str(r#"{"prompts":{}}"#)?;
/// let backend = ServerCapabilities::read(Era::Legacy, &raw);
/// assert_eq!(
///     declaration([&backend], Revision::MODERN),
///     r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true}}"#
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "a set of capabilities")]
pub struct ServerCapabilities {
    era: Era,
    prompts: bool,
    resources: bool,
    subscriptions: bool,
    completions: bool,
    logging: bool,
    /// Subscriptions, completions and logging for legacy clients, of a server of both eras.
    legacy: Option<[bool; 3]>,
    tasks: Option<CoreTasks>,
    extensions: Extensions,
    experimental: Extensions,
}

/// The settings of extensions, by the extension's id.
type Extensions = BTreeMap<String, Box<RawValue>>;

/// The capability `tasks` of a server of 2025-11-25.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct CoreTasks {
    list: bool,
    cancel: bool,
    tool_calls: bool,
}

impl ServerCapabilities {
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
            legacy: None,
            tasks: part("tasks").filter(|_| era == Era::Legacy).map(|tasks| CoreTasks::read(&tasks)),
            extensions: extensions(EXTENSIONS),
            experimental: extensions(EXPERIMENTAL),
        }
    }

    /// Adds the capabilities that a modern server declares to legacy clients, which it serves in their era.
    #[must_use]
    pub fn with_legacy(self, capabilities: Option<&RawValue>) -> Self {
        let legacy = capabilities.filter(|_| self.era == Era::Modern).map(|capabilities| {
            let Self { subscriptions, completions, logging, .. } = Self::read(Era::Legacy, capabilities);
            [subscriptions, completions, logging]
        });
        Self { legacy, ..self }
    }

    /// Subscriptions, completions and logging, as clients of an era have them.
    fn for_clients(&self, era: Era) -> [bool; 3] {
        let own = [self.subscriptions, self.completions, self.logging];
        self.legacy.filter(|_| era == Era::Legacy).unwrap_or(own)
    }

    /// Returns the assumed capabilities of a backend that was never connected: the usual ones of servers.
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

    /// Returns the capability to read resources and, if `subscriptions` is true, to subscribe to them; no
    /// other.
    #[must_use]
    pub fn of_resources(subscriptions: bool) -> Self {
        Self { resources: true, subscriptions, ..Self::default() }
    }

    /// True if the backend has resources.
    #[must_use]
    pub fn has_resources(&self) -> bool {
        self.resources
    }

    /// True if clients of an era can have tasks there. The tasks of the two eras are not translated into each
    /// other.
    #[must_use]
    pub fn has_tasks(&self, client: Era) -> bool {
        match client {
            Era::Legacy => self.tasks.is_some(),
            Era::Modern => self.era == Era::Modern && self.extensions.contains_key(TASKS_EXTENSION),
        }
    }

    /// True if legacy clients can ask for a tool call as a task.
    #[must_use]
    pub fn takes_task_calls(&self) -> bool {
        self.tasks.is_some_and(|tasks| tasks.tool_calls)
    }

    /// True if legacy clients can list the tasks.
    #[must_use]
    pub fn lists_tasks(&self) -> bool {
        self.tasks.is_some_and(|tasks| tasks.list)
    }

    /// Returns the extensions that the client declares, too, in order of their ids. Tasks are not among them:
    /// vmcp relays them itself.
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

fn read_extensions(entries: &Object<'_>) -> Extensions {
    let known = entries.iter().filter(|(_, settings)| text::is_object(settings.get()));
    let entry = |(id, settings): (&str, &RawValue)| {
        let kept = settings.get().len() <= MAX_SETTINGS_BYTES;
        let settings = if kept { settings.to_owned() } else { RawValue::from_string("{}".into()).ok()? };
        Some((id.to_owned(), settings))
    };
    known.take(MAX_EXTENSIONS).filter_map(entry).collect()
}

/// Writes the `ServerCapabilities` for clients of a revision, as JSON: tools, and every capability of any
/// backend.
pub fn declaration<'a>(
    servers: impl IntoIterator<Item = &'a ServerCapabilities>,
    client: Revision,
) -> String {
    let mut any = ServerCapabilities::default();
    for server in servers {
        any.prompts |= server.prompts;
        any.resources |= server.resources;
        let [subscriptions, completions, logging] = server.for_clients(client.era());
        any.subscriptions |= subscriptions;
        any.completions |= completions;
        any.logging |= logging;
        if let Some(tasks) = server.tasks {
            let any = any.tasks.get_or_insert_default();
            any.list |= tasks.list;
            any.cancel |= tasks.cancel;
            any.tool_calls |= tasks.tool_calls;
        }
        let modern_tasks = client.era() == Era::Modern && server.has_tasks(Era::Modern);
        let relayed = server.extensions.iter().filter(|(id, _)| *id != TASKS_EXTENSION || modern_tasks);
        add(&mut any.extensions, relayed);
        add(&mut any.experimental, server.experimental.iter());
    }
    any.tasks = any.tasks.filter(|_| client == Revision::V2025_11_25);
    write(&any)
}

/// Adds extensions. Where servers differ in the settings of one, those of the first server count.
fn add<'a>(any: &mut Extensions, more: impl Iterator<Item = (&'a String, &'a Box<RawValue>)>) {
    for (id, settings) in more {
        if !any.contains_key(id) {
            any.insert(id.clone(), settings.clone());
        }
    }
}

fn write(any: &ServerCapabilities) -> String {
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
            let entries = extensions.iter().map(|(id, settings)| format!("{}:{settings}", text::quoted(id)));
            parts.push(format!(r#""{key}":{{{}}}"#, entries.collect::<Vec<_>>().join(",")));
        }
    }
    format!("{{{}}}", parts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    fn declared(era: Era, capabilities: &str) -> ServerCapabilities {
        ServerCapabilities::read(era, &raw(capabilities))
    }

    #[test]
    fn what_any_server_has_is_declared_to_whom_it_reaches() {
        let modern = declared(
            Era::Modern,
            r#"{"prompts":{},"extensions":{"io.modelcontextprotocol/tasks":{},"a/b":{"x":1}}}"#,
        );
        let legacy = declared(
            Era::Legacy,
            r#"{"resources":{"subscribe":true},"logging":{},"tasks":{"list":{},"requests":{"tools":{"call":{}}}},
               "experimental":{"e":{}},"extensions":{"io.modelcontextprotocol/tasks":{},"a/b":{"x":2},"c":7}}"#,
        );
        let declaration_for = |revision| declaration([&modern, &legacy], revision);
        let start = r#"{"tools":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"prompts":{"listChanged":true},"logging":{}"#;
        let tasks = r#","tasks":{"list":{},"requests":{"tools":{"call":{}}}}"#;
        let end = r#","extensions":{"a/b":{"x":1}},"experimental":{"e":{}}}"#;
        assert_eq!(declaration_for(Revision::V2025_06_18), format!("{start}{end}"));
        assert_eq!(declaration_for(Revision::V2025_11_25), format!("{start}{tasks}{end}"));
        let with_tasks = end.replace(r#"}},"exp"#, r#"},"io.modelcontextprotocol/tasks":{}},"exp"#);
        assert_eq!(declaration_for(Revision::MODERN), format!("{start}{with_tasks}"));
        assert!(modern.has_tasks(Era::Modern) && !modern.has_tasks(Era::Legacy));
        assert!(legacy.has_tasks(Era::Legacy) && !legacy.has_tasks(Era::Modern));
    }

    #[test]
    fn legacy_clients_are_told_what_the_server_offers_in_their_era() {
        let legacy = raw(r#"{"resources":{"subscribe":true},"logging":{},"completions":{}}"#);
        let server = declared(Era::Modern, r#"{"resources":{}}"#).with_legacy(Some(&legacy));
        let of = |revision| declaration([&server], revision);
        let told = of(Revision::V2025_06_18);
        assert!(["subscribe", "logging", "completions"].iter().all(|part| told.contains(part)), "{told}");
        assert_eq!(
            of(Revision::MODERN),
            r#"{"tools":{"listChanged":true},"resources":{"listChanged":true}}"#
        );
        let unknown = declared(Era::Modern, r#"{"logging":{}}"#).with_legacy(None);
        assert!(declaration([&unknown], Revision::V2025_06_18).contains("logging"));
    }

    #[test]
    fn nothing_is_declared_that_cannot_be_read() {
        let nothing = r#"{"tools":{"listChanged":true}}"#;
        for capabilities in ["null", "{}", r#"{"prompts":null,"tasks":[],"extensions":7}"#] {
            assert_eq!(declaration([&declared(Era::Legacy, capabilities)], Revision::V2025_11_25), nothing);
        }
        assert_eq!(declaration([], Revision::MODERN), nothing);
        assert!(declaration([&ServerCapabilities::unknown()], Revision::MODERN).contains("prompts"));
        let many: Vec<_> = (0..1000).map(|n| format!(r#""e{n}":{{"s":"{}"}}"#, "x".repeat(9999))).collect();
        let many = format!(r#"{{"extensions":{{{}}}}}"#, many.join(","));
        assert!(declaration([&declared(Era::Modern, &many)], Revision::MODERN).len() < 2000);
    }

    #[test]
    fn an_extension_is_shared_when_both_declare_it() {
        let server = declared(
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
    }
}

//! Strategies for the messages of revisions 2025-06-18, 2025-11-25 and 2026-07-28, key by key, with unknown
//! keys among them.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::json::{self, ObjectText};

/// The part of the message that has the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Params,
    Result,
    Error,
}

/// One message type: the method (of the request, for a result) and the keys that its schema defines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) part: Part,
    pub(crate) method: &'static str,
    pub(crate) keys: &'static [(&'static str, Kind)],
}

/// The kind of value that a schema asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Text,
    Number,
    Bool,
    Object,
    Array,
    Any,
    /// `resultType`
    Complete,
}

use Kind::{Any, Array, Bool, Complete, Number, Object, Text};

const fn params(method: &'static str, keys: &'static [(&'static str, Kind)]) -> Shape {
    Shape { part: Part::Params, method, keys }
}

const fn result(method: &'static str, keys: &'static [(&'static str, Kind)]) -> Shape {
    Shape { part: Part::Result, method, keys }
}

/// Message types of the revisions up to 2025-11-25; the modern revision has many of them, too.
pub(crate) const LEGACY: &[Shape] = &[
    params("initialize", &[("protocolVersion", Text), ("capabilities", Object), ("clientInfo", Object)]),
    params("ping", &[]),
    params("resources/list", &[("cursor", Text)]),
    params("resources/templates/list", &[("cursor", Text)]),
    params("resources/read", &[("uri", Text)]),
    params("resources/subscribe", &[("uri", Text)]),
    params("resources/unsubscribe", &[("uri", Text)]),
    params("prompts/list", &[("cursor", Text)]),
    params("prompts/get", &[("name", Text), ("arguments", Object)]),
    params("tools/list", &[("cursor", Text)]),
    params("tools/call", &[("name", Text), ("arguments", Object)]),
    params("logging/setLevel", &[("level", Text)]),
    params("completion/complete", &[("ref", Object), ("argument", Object), ("context", Object)]),
    params(
        "sampling/createMessage",
        &[
            ("messages", Array),
            ("modelPreferences", Object),
            ("systemPrompt", Text),
            ("includeContext", Text),
            ("temperature", Number),
            ("maxTokens", Number),
            ("stopSequences", Array),
            ("metadata", Object),
            ("tools", Array),
            ("toolChoice", Object),
        ],
    ),
    params("roots/list", &[]),
    params(
        "elicitation/create",
        &[
            ("mode", Text),
            ("message", Text),
            ("requestedSchema", Object),
            ("url", Text),
            ("elicitationId", Text),
        ],
    ),
    params("tasks/get", &[("taskId", Text)]),
    params("tasks/result", &[("taskId", Text)]),
    params("tasks/cancel", &[("taskId", Text)]),
    params("tasks/list", &[("cursor", Text)]),
    params("notifications/initialized", &[]),
    params("notifications/cancelled", &[("requestId", Any), ("reason", Text)]),
    params(
        "notifications/progress",
        &[("progressToken", Any), ("progress", Number), ("total", Number), ("message", Text)],
    ),
    params("notifications/message", &[("level", Text), ("logger", Text), ("data", Any)]),
    params("notifications/resources/updated", &[("uri", Text)]),
    params("notifications/resources/list_changed", &[]),
    params("notifications/prompts/list_changed", &[]),
    params("notifications/tools/list_changed", &[]),
    params("notifications/roots/list_changed", &[]),
    params("notifications/elicitation/complete", &[("elicitationId", Text)]),
    params("notifications/tasks/status", &[("taskId", Text), ("status", Text), ("ttl", Number)]),
    result(
        "initialize",
        &[
            ("protocolVersion", Text),
            ("capabilities", Object),
            ("serverInfo", Object),
            ("instructions", Text),
        ],
    ),
    result("ping", &[]),
    result("resources/list", &[("resources", Array), ("nextCursor", Text)]),
    result("resources/templates/list", &[("resourceTemplates", Array), ("nextCursor", Text)]),
    result("resources/read", &[("contents", Array)]),
    result("prompts/list", &[("prompts", Array), ("nextCursor", Text)]),
    result("prompts/get", &[("description", Text), ("messages", Array)]),
    result("tools/list", &[("tools", Array), ("nextCursor", Text)]),
    result("tools/call", &[("content", Array), ("structuredContent", Object), ("isError", Bool)]),
    result("completion/complete", &[("completion", Object)]),
    result(
        "sampling/createMessage",
        &[("role", Text), ("content", Any), ("model", Text), ("stopReason", Text)],
    ),
    result("roots/list", &[("roots", Array)]),
    result("elicitation/create", &[("action", Text), ("content", Object)]),
    result("tasks/get", &[("taskId", Text), ("status", Text), ("ttl", Number), ("pollInterval", Number)]),
    Shape {
        part: Part::Error,
        method: "tools/call",
        keys: &[("code", Number), ("message", Text), ("data", Any)],
    },
];

/// Message types of 2026-07-28 that have keys of their own.
pub(crate) const MODERN: &[Shape] = &[
    params("server/discover", &[]),
    params("subscriptions/listen", &[("notifications", Object)]),
    params(
        "tools/call",
        &[("name", Text), ("arguments", Object), ("inputResponses", Object), ("requestState", Text)],
    ),
    params(
        "prompts/get",
        &[("name", Text), ("arguments", Object), ("inputResponses", Object), ("requestState", Text)],
    ),
    params("resources/read", &[("uri", Text), ("inputResponses", Object), ("requestState", Text)]),
    params("tasks/update", &[("taskId", Text), ("inputResponses", Object)]),
    params("notifications/subscriptions/acknowledged", &[("notifications", Object)]),
    result(
        "server/discover",
        &[
            ("resultType", Complete),
            ("supportedVersions", Array),
            ("capabilities", Object),
            ("instructions", Text),
            ("ttlMs", Number),
            ("cacheScope", Text),
        ],
    ),
    result(
        "tools/list",
        &[
            ("resultType", Complete),
            ("tools", Array),
            ("nextCursor", Text),
            ("ttlMs", Number),
            ("cacheScope", Text),
        ],
    ),
    result(
        "resources/read",
        &[("resultType", Complete), ("contents", Array), ("ttlMs", Number), ("cacheScope", Text)],
    ),
    result(
        "tools/call",
        &[("resultType", Complete), ("content", Array), ("structuredContent", Any), ("isError", Bool)],
    ),
    result("completion/complete", &[("resultType", Complete), ("completion", Object)]),
    result("subscriptions/listen", &[("resultType", Complete)]),
];

pub(crate) fn all() -> impl Strategy<Value = Shape> {
    select([LEGACY, MODERN].concat())
}

pub(crate) fn select_part(shapes: &[Shape], part: Part) -> impl Strategy<Value = Shape> + use<> {
    select(shapes.iter().copied().filter(|shape| shape.part == part).collect::<Vec<_>>())
}

fn of_kind(kind: Kind) -> BoxedStrategy<String> {
    match kind {
        Text => json::string().boxed(),
        Number => json::number().boxed(),
        Bool => select(vec!["true", "false"]).prop_map(str::to_owned).boxed(),
        Object => json::object().prop_map(|object| object.render()).boxed(),
        Array => vec(json::value(), 0..4).prop_map(|items| format!("[{}]", items.join(" , "))).boxed(),
        Any => json::value(),
        Complete => Just("\"complete\"".to_owned()).boxed(),
    }
}

/// Generates a body of this shape: any of its keys, unknown ones, and perhaps metadata that is not empty.
pub(crate) fn body(shape: Shape) -> impl Strategy<Value = ObjectText> {
    let known: Vec<_> =
        shape.keys.iter().map(|(key, kind)| (Just((*key).to_owned()), of_kind(*kind))).collect();
    let unknown = vec((json::key().prop_map(|key| format!("x{key}")), json::value()), 0..4);
    let meta = option::of(vec((json::key(), json::value()), 1..4).prop_map(|mut entries| {
        entries.dedup_by(|a, b| a.0 == b.0);
        entries
    }));
    let meta = meta.prop_flat_map(|entries| match entries {
        None => Just(None).boxed(),
        Some(entries) => json::object_of(Just(entries)).prop_map(|meta| Some(meta.render())).boxed(),
    });
    let entries = (known, unknown, meta).prop_map(|(mut entries, unknown, meta)| {
        entries.extend(unknown);
        entries.extend(meta.map(|meta| ("_meta".to_owned(), meta)));
        entries
    });
    json::object_of(entries)
}

/// Generates any message of any revision: its shape, its body, and the whole text.
pub(crate) fn message() -> impl Strategy<Value = (Shape, String, String)> {
    let id = prop_oneof![json::string(), "-?[1-9][0-9]{0,30}"];
    (all().prop_flat_map(|shape| (Just(shape), body(shape))), id, json::object()).prop_flat_map(
        |((shape, body), id, other)| {
            let body = body.render();
            let method = serde_json::Value::from(shape.method).to_string();
            let mut entries =
                vec![("jsonrpc".to_owned(), "\"2.0\"".to_owned()), ("xother".to_owned(), other.render())];
            let notification = shape.method.starts_with("notifications/");
            match shape.part {
                Part::Params => {
                    entries.extend([("method".to_owned(), method), ("params".to_owned(), body.clone())]);
                }
                Part::Result => entries.push(("result".to_owned(), body.clone())),
                Part::Error => entries.push(("error".to_owned(), body.clone())),
            }
            if !notification {
                entries.push(("id".to_owned(), id));
            }
            (json::object_of(Just(entries)), json::space()).prop_map(move |(text, space)| {
                (shape, body.clone(), format!("{space}{}{space}", text.render()))
            })
        },
    )
}

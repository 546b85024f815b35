//! [`Question`]: an item that a client wants to use, as a Cedar entity.

use std::borrow::Cow;
use std::collections::HashSet;

use cedar_policy::{Entity, EntityId, EntityTypeName, EntityUid, ResourceConstraint, RestrictedExpression};
use vmcp_config::OptimTool;

use super::Unevaluated;
use super::values::Attributes;
use crate::exact_json::{self, Entries};

/// Characters of a URI that ToolHive writes as `_` in the id of the resource.
const REPLACED: [char; 9] = [':', '/', '\\', '?', '&', '=', '#', ' ', '.'];

/// One question to a policy.
#[derive(Debug, Clone, Default)]
pub struct Question<'a> {
    /// Kind of the item.
    pub kind: Kind,
    /// Listed name of a tool or prompt, URI of a resource, name of a backend.
    pub name: &'a str,
    /// The backend of the item; `None` for an own tool of this server.
    pub backend: Option<&'a str>,
    /// Further attributes of the item.
    pub attributes: Vec<(&'static str, Attribute<'a>)>,
    /// Arguments of the call as JSON text.
    pub arguments: Option<&'a str>,
}

/// Value of an attribute.
#[derive(Debug, Clone)]
pub enum Attribute<'a> {
    /// A text.
    Text(Cow<'a, str>),
    /// True or false.
    Flag(bool),
}

/// Kinds of items, each with an entity type and an action of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `Tool`, `call_tool`.
    #[default]
    Tool,
    /// `Prompt`, `get_prompt`.
    Prompt,
    /// `Resource`, `read_resource`.
    Resource,
    /// `Backend`, `use_backend`: methods of extensions.
    Backend,
    /// `Tool`, `admin`: an own tool of this server that changes its backends. Denied unless a policy permits.
    Admin,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 5] = [Kind::Tool, Kind::Prompt, Kind::Resource, Kind::Backend, Kind::Admin];

    /// Returns the kind of an own tool of this server, by its dotted name.
    pub fn of_own_tool(name: &str) -> Kind {
        if OptimTool::names_admin(name) { Kind::Admin } else { Kind::Tool }
    }

    /// Entity type, name of the action, attributes `operation` and `feature`.
    fn words(self) -> [&'static str; 4] {
        match self {
            Kind::Tool => ["Tool", "call_tool", "call", "tool"],
            Kind::Prompt => ["Prompt", "get_prompt", "get", "prompt"],
            Kind::Resource => ["Resource", "read_resource", "read", "resource"],
            Kind::Backend => ["Backend", "use_backend", "use", "backend"],
            Kind::Admin => ["Tool", "admin", "admin", "tool"],
        }
    }

    /// Returns the name of the action, such as `call_tool`.
    pub(super) fn action_name(self) -> &'static str {
        let [_, action, ..] = self.words();
        action
    }

    /// Returns the word for the kind, such as `tool`.
    pub(super) fn feature(self) -> &'static str {
        let [.., feature] = self.words();
        feature
    }

    /// Returns the action, `Action::"call_tool"`.
    pub(super) fn action(self) -> Result<EntityUid, Unevaluated> {
        uid("Action", self.action_name())
    }
}

/// Returns the uid `kind::"id"`.
pub(super) fn uid(kind: &str, id: &str) -> Result<EntityUid, Unevaluated> {
    let kind: EntityTypeName = kind.parse()?;
    Ok(EntityUid::from_type_name_and_id(kind, EntityId::new(id)))
}

impl Question<'_> {
    /// True for a tool of this server itself that all clients may call unless a policy forbids it.
    pub(super) fn is_own_tool(&self) -> bool {
        self.kind == Kind::Tool && self.backend.is_none()
    }

    /// True for any tool of this server itself.
    fn is_of_server(&self) -> bool {
        self.is_own_tool() || self.kind == Kind::Admin
    }

    /// Returns the arguments; `None` unless they are an object without repeated keys.
    pub(super) fn parsed_arguments(&self) -> Option<Entries> {
        match self.arguments.map(str::trim) {
            None | Some("" | "null") => Some(Entries::new()),
            Some(text) => exact_json::object(text),
        }
    }

    /// Returns the question about another spelling of the item.
    pub(super) fn spelled<'b>(&'b self, name: &'b str) -> Question<'b> {
        Question { name, ..self.clone() }
    }

    /// True if the item may be in the scope of a policy with this constraint. `entities`: there are
    /// configured entities, whose parents may put any item into any other.
    pub(super) fn may_be(&self, constraint: &ResourceConstraint, server: &str, entities: bool) -> bool {
        let [kind, ..] = self.kind.words();
        let is_kind = |other: &EntityTypeName| other.to_string() == kind;
        let is_in = |other: &EntityUid| {
            let id = other.id().unescaped();
            let other = other.type_name().to_string();
            entities
                || other == kind
                || (other == "MCP" && id == server)
                || (other == "Backend" && self.backend == Some(id))
        };
        match constraint {
            ResourceConstraint::Any => true,
            // A resource has further spellings.
            ResourceConstraint::Eq(other) => {
                is_kind(other.type_name())
                    && (self.kind == Kind::Resource
                        || self.ids().iter().any(|id| **id == *other.id().unescaped()))
            }
            ResourceConstraint::In(other) => is_in(other),
            ResourceConstraint::Is(other) => is_kind(other),
            ResourceConstraint::IsIn(of_kind, other) => is_kind(of_kind) && is_in(other),
        }
    }

    /// Returns the ids under which policies may speak of the item: an own tool has three spellings, a
    /// resource its URI and ToolHive's form of it.
    pub(super) fn ids(&self) -> Vec<Cow<'_, str>> {
        let name = Cow::Borrowed(self.name);
        match self.kind {
            Kind::Tool | Kind::Admin if self.is_of_server() => {
                let bare = self.name.split_once(['.', '_']).map_or(self.name, |(_, bare)| bare);
                vec![name, self.name.replacen('.', "_", 1).into(), bare.into()]
            }
            Kind::Resource if self.name.contains(REPLACED) => {
                vec![name, self.name.replace(REPLACED, "_").into()]
            }
            Kind::Tool | Kind::Prompt | Kind::Resource | Kind::Backend | Kind::Admin => vec![name],
        }
    }

    /// Makes the entity of the item.
    pub(super) fn entity(
        &self,
        server: &str,
        id: &str,
        arguments: &Attributes,
    ) -> Result<Entity, Unevaluated> {
        let [kind, _, operation, feature] = self.kind.words();
        let text = |text: &str| RestrictedExpression::new_string(text.to_owned());
        // Last wins: no argument and no hint can stand for an attribute of vmcp.
        let mut attributes: Attributes = arguments.clone();
        for (name, attribute) in &self.attributes {
            let value = match attribute {
                Attribute::Text(value) => text(value),
                Attribute::Flag(flag) => RestrictedExpression::new_bool(*flag),
            };
            attributes.insert((*name).to_owned(), value);
        }
        let name = if self.is_of_server() { id } else { self.name };
        let fixed = [("name", name), ("operation", operation), ("feature", feature)];
        let uri = (self.kind == Kind::Resource).then_some(("uri", self.name));
        let backend = self.backend.map(|backend| ("backend", backend));
        for (key, value) in fixed.into_iter().chain(uri).chain(backend) {
            attributes.insert(key.to_owned(), text(value));
        }
        let mut parents = HashSet::from([uid("MCP", server)?]);
        if let Some(backend) = self.backend.filter(|_| self.kind != Kind::Backend) {
            parents.insert(uid("Backend", backend)?);
        }
        Ok(Entity::new(uid(kind, id)?, attributes.into_iter().collect(), parents)?)
    }
}

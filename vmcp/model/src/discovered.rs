//! Everything that one backend offers, as of one listing, within limits on number and size.

pub mod list_fault;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use self::list_fault::{ListExtent, ListFault};
use crate::definition::{DefinitionError, DefinitionKind, Prompt, Resource, ResourceTemplate, Tool};
use crate::definition_diff::is_same_json;
use vmcp_config::sanitize;

/// Most tools, resources or prompts of one backend; the rest is left out with a note.
pub const MAX_PER_KIND: usize = 20_000;
/// Most resource templates of one backend, because each read of an unlisted URI tries them all; the rest is
/// left out with a note.
pub const MAX_TEMPLATES: usize = 1_000;
/// Most bytes of definitions of one backend, all kinds together; the rest is left out with a note.
pub const MAX_TOTAL_BYTES: usize = 64 * 1024 * 1024;

/// Answers of a backend, all pages together, before any definition is parsed; also the form of the cache on
/// disk.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Listing {
    /// Entries of `tools/list`.
    pub tools: Vec<Box<RawValue>>,
    /// Entries of `resources/list`.
    pub resources: Vec<Box<RawValue>>,
    /// Entries of `resources/templates/list`.
    pub resource_templates: Vec<Box<RawValue>>,
    /// Entries of `prompts/list`.
    pub prompts: Vec<Box<RawValue>>,
    /// The server's `capabilities`.
    pub capabilities: Box<RawValue>,
    /// The server's `serverInfo`.
    pub server_info: Option<Box<RawValue>>,
    /// The server's `instructions`.
    pub instructions: Option<String>,
    /// Protocol revision that the backend spoke; unknown for listings that earlier versions cached.
    pub revision: Option<String>,
    /// Definitions that an earlier reading of this listing rejected; empty for a listing that comes from a
    /// backend.
    pub rejected: Vec<RejectedDefinition>,
    /// Lists that could not be read whole.
    pub faults: Vec<ListFault>,
    /// The `capabilities` that a server of both eras declares to legacy clients, if the listing is of the
    /// modern era and they are known.
    pub legacy_capabilities: Option<Box<RawValue>>,
}

/// Definition that was left out, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectedDefinition {
    /// Kind of the definition.
    pub kind: DefinitionKind,
    /// Its name or URI if it has one, else its position such as `#17`.
    pub name: String,
    /// Reason, as one clause.
    pub reason: String,
}

/// Accepted definitions of one backend, and notes on rejected ones.
#[derive(Debug, Clone, Default)]
pub struct Discovered {
    /// Tools, in the backend's order.
    pub tools: Vec<Arc<Tool>>,
    /// Resources, in the backend's order.
    pub resources: Vec<Arc<Resource>>,
    /// Resource templates, in the backend's order.
    pub templates: Vec<Arc<ResourceTemplate>>,
    /// Prompts, in the backend's order.
    pub prompts: Vec<Arc<Prompt>>,
    /// The server's `capabilities`; JSON `null` if it sent none.
    pub capabilities: Box<RawValue>,
    /// The server's `serverInfo`.
    pub server_info: Option<Box<RawValue>>,
    /// The server's `instructions`.
    pub instructions: Option<String>,
    /// Protocol revision that the backend spoke; unknown for listings that earlier versions cached.
    pub revision: Option<String>,
    /// Definitions that were left out.
    pub rejected: Vec<RejectedDefinition>,
    /// Lists that could not be read whole.
    pub faults: Vec<ListFault>,
    /// The `capabilities` that a server of both eras declares to legacy clients, if this is a listing of the
    /// modern era and they are known.
    pub legacy_capabilities: Option<Box<RawValue>>,
}

impl Discovered {
    /// Parses a listing. A bad definition costs only itself; of too many, the first are kept.
    pub fn read(listing: Listing) -> Discovered {
        let Listing {
            tools,
            resources,
            resource_templates,
            prompts,
            capabilities,
            server_info,
            instructions,
            revision,
            rejected,
            faults,
            legacy_capabilities,
        } = listing;
        let mut reader = Reader { bytes_left: MAX_TOTAL_BYTES, rejected };
        Discovered {
            tools: reader.read(DefinitionKind::Tool, tools, Tool::parse),
            resources: reader.read(DefinitionKind::Resource, resources, Resource::parse),
            templates: reader.read(
                DefinitionKind::ResourceTemplate,
                resource_templates,
                ResourceTemplate::parse,
            ),
            prompts: reader.read(DefinitionKind::Prompt, prompts, Prompt::parse),
            capabilities,
            server_info,
            instructions,
            revision,
            rejected: reader.rejected,
            faults,
            legacy_capabilities,
        }
    }

    /// Returns the fault of a list.
    pub fn fault(&self, kind: DefinitionKind) -> Option<&ListFault> {
        self.faults.iter().find(|fault| fault.kind == kind)
    }

    /// False if the tools could never be listed: unknown tools are not none.
    pub fn knows_tools(&self) -> bool {
        self.fault(DefinitionKind::Tool).is_none_or(|fault| fault.extent != ListExtent::Missing)
    }

    /// True if the other one says the same: the order of keys and white space in a definition say nothing.
    pub fn is_same(&self, other: &Discovered) -> bool {
        let (one, other) = (self.to_json(), other.to_json());
        one == other || is_same_json(&one, &other)
    }

    /// Returns the JSON text from which [`Discovered::from_json`] makes the same again.
    pub fn to_json(&self) -> String {
        let listing = Listing {
            tools: self.tools.iter().map(|tool| tool.raw.clone()).collect(),
            resources: self.resources.iter().map(|resource| resource.raw.clone()).collect(),
            resource_templates: self.templates.iter().map(|template| template.raw.clone()).collect(),
            prompts: self.prompts.iter().map(|prompt| prompt.raw.clone()).collect(),
            capabilities: self.capabilities.clone(),
            server_info: self.server_info.clone(),
            instructions: self.instructions.clone(),
            revision: self.revision.clone(),
            rejected: self.rejected.clone(),
            faults: self.faults.clone(),
            legacy_capabilities: self.legacy_capabilities.clone(),
        };
        // Strings, raw JSON and lists of them: serializing cannot fail. An empty text would be a cache miss.
        serde_json::to_string(&listing).unwrap_or_default()
    }

    /// Parses the text of [`Discovered::to_json`]; fails for any other text.
    pub fn from_json(json: &str) -> Result<Discovered, serde_json::Error> {
        serde_json::from_str(json).map(Discovered::read)
    }
}

struct Reader {
    bytes_left: usize,
    rejected: Vec<RejectedDefinition>,
}

impl Reader {
    fn read<T>(
        &mut self,
        kind: DefinitionKind,
        raws: Vec<Box<RawValue>>,
        parse: fn(Box<RawValue>) -> Result<T, DefinitionError>,
    ) -> Vec<Arc<T>> {
        let total = raws.len();
        let most = if kind == DefinitionKind::ResourceTemplate { MAX_TEMPLATES } else { MAX_PER_KIND };
        let mut accepted = Vec::with_capacity(total.min(most));
        for (position, raw) in raws.into_iter().enumerate() {
            let exhausted = if position >= most {
                Some(format!("a backend may offer at most {most} definitions of kind {kind}"))
            } else if raw.get().len() > self.bytes_left {
                Some(format!(
                    "the definitions of a backend may have at most {MAX_TOTAL_BYTES} bytes together"
                ))
            } else {
                None
            };
            if let Some(limit) = exhausted {
                let name = format!("#{} to #{total}", position + 1);
                self.rejected.push(RejectedDefinition {
                    kind,
                    name,
                    reason: format!("{limit}; these are left out"),
                });
                // One note for all that follow: a note per definition could be as long as the listing.
                break;
            }
            self.bytes_left -= raw.get().len();
            // Parsing consumes its input; the original is kept for the name of a rejected definition.
            match parse(raw.clone()) {
                Ok(definition) => accepted.push(Arc::new(definition)),
                Err(error) => {
                    let name = best_name(&raw).unwrap_or_else(|| format!("#{}", position + 1));
                    self.rejected.push(RejectedDefinition { kind, name, reason: error.to_string() });
                }
            }
        }
        accepted
    }
}

/// Returns the name or URI of a definition that could not be parsed, if that much can be read.
fn best_name(raw: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Names {
        uri: Option<String>,
        uri_template: Option<String>,
        name: Option<String>,
    }
    let names: Names = serde_json::from_str(raw.get()).ok()?;
    let name = names.uri.or(names.uri_template).or(names.name)?;
    Some(sanitize::text(&name).chars().take(128).collect::<String>()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raws(jsons: &[&str]) -> Vec<Box<RawValue>> {
        jsons.iter().map(|json| RawValue::from_string((*json).to_owned()).unwrap()).collect()
    }

    #[test]
    fn one_bad_definition_does_not_cost_the_others() {
        let listing = Listing {
            tools: raws(&[r#"{"name":"good"}"#, r#"{"name":"bad","inputSchema":1}"#, "7"]),
            prompts: raws(&[r#"{"name":"p"}"#]),
            ..Listing::default()
        };
        let discovered = Discovered::read(listing);
        assert_eq!((discovered.tools.len(), discovered.prompts.len()), (1, 1));
        let notes: Vec<_> =
            discovered.rejected.iter().map(|r| (r.name.as_str(), r.reason.as_str())).collect();
        assert_eq!(
            notes,
            [("bad", "inputSchema is not a JSON object"), ("#3", "the definition is not a JSON object")]
        );
    }

    #[test]
    fn json_and_back() {
        let listing = Listing {
            tools: raws(&[r#"{ "name":"t", "x": 1.0 }"#, "{}"]),
            resources: raws(&[r#"{"uri":"a:b","name":"r"}"#]),
            resource_templates: raws(&[r#"{"uriTemplate":"a:{b}","name":"r"}"#]),
            capabilities: RawValue::from_string(r#"{"tools":{}}"#.to_owned()).unwrap(),
            instructions: Some("Do.".to_owned()),
            ..Listing::default()
        };
        let before = Discovered::read(listing);
        let after = Discovered::from_json(&before.to_json()).unwrap();
        assert_eq!(after.to_json(), before.to_json());
        assert_eq!(after.tools.first().unwrap().raw.get(), r#"{ "name":"t", "x": 1.0 }"#);
        assert_eq!((after.rejected.len(), after.templates.len()), (1, 1));
        assert!(Discovered::from_json("null").is_err() && Discovered::from_json("").is_err());
    }

    #[test]
    fn the_order_of_keys_is_no_difference() {
        let of = |tool: &str| Discovered::read(Listing { tools: raws(&[tool]), ..Listing::default() });
        let one = of(r#"{"name":"t","inputSchema":{"type":"object","required":["a","b"]},"x":1}"#);
        let shuffled = of(r#"{"x":1, "inputSchema":{"required":["a","b"],"type":"object"},"name":"t"}"#);
        assert!(one.is_same(&one.clone()) && one.is_same(&shuffled));
        let another = of(r#"{"name":"t","inputSchema":{"type":"object","required":["b","a"]},"x":1}"#);
        assert!(!one.is_same(&another), "the order of a list may mean something");
        let fault = ListFault { kind: DefinitionKind::Tool, reason: "r".into(), extent: ListExtent::Missing };
        let unknown = Discovered { faults: vec![fault], ..one.clone() };
        assert!(!one.is_same(&unknown) && one.knows_tools() && !unknown.knows_tools());
    }

    #[test]
    fn too_many_tools() {
        let tools: Vec<_> = (0..50_000).map(|n| format!(r#"{{"name":"t{n}"}}"#)).collect();
        let tools = raws(&tools.iter().map(String::as_str).collect::<Vec<_>>());
        let discovered = Discovered::read(Listing { tools, ..Listing::default() });
        assert_eq!(discovered.tools.len(), MAX_PER_KIND);
        let [note] = discovered.rejected.as_slice() else { panic!("one note, not 30,000") };
        assert_eq!(note.name, "#20001 to #50000");
        assert!(note.reason.contains("at most 20000"));
    }
}

//! Own resources of vmcp: its configuration, its state, its servers and tools, as a client may see them. Each
//! is read by the right to the own tool that tells the same.

use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use vmcp_config::{Config, OptimTool};

/// Tools by whose rights own resources are read.
pub(crate) const RIGHTS: [OptimTool; 2] = [OptimTool::ListMcpServers, OptimTool::GetToolSchema];
const CONFIG: &str = "vmcp://config";
const STATUS: &str = "vmcp://status";
const GOBBY_CONFIG: &str = "gobby://config";
const GOBBY_STATUS: &str = "gobby://daemon/status";
const SERVERS: &str = "vmcp://servers/";
const TOOLS: &str = "vmcp://tools/";

/// An own resource, as its URI names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnResource<'a> {
    /// The port and the servers, without secrets.
    Config,
    /// The state of the servers.
    Status,
    /// A server with its tools.
    Server(&'a str),
    /// The definition of a tool.
    Tool(&'a str),
}

impl<'a> OwnResource<'a> {
    /// Reads a URI; `None` if it is that of a backend.
    pub fn parse(uri: &'a str) -> Option<OwnResource<'a>> {
        match uri {
            CONFIG | GOBBY_CONFIG => Some(OwnResource::Config),
            STATUS | GOBBY_STATUS => Some(OwnResource::Status),
            _ => uri
                .strip_prefix(SERVERS)
                .map(OwnResource::Server)
                .or_else(|| uri.strip_prefix(TOOLS).map(OwnResource::Tool)),
        }
    }

    /// Returns the tool by whose right the resource is read.
    pub fn right(self) -> OptimTool {
        match self {
            OwnResource::Config | OwnResource::Status | OwnResource::Server(_) => OptimTool::ListMcpServers,
            OwnResource::Tool(_) => OptimTool::GetToolSchema,
        }
    }
}

/// True if own resources are served.
pub fn are_served(config: &Config) -> bool {
    config.optimizer.enabled && config.optimizer.own_resources
}

/// Returns the entries of `resources/list` by URI, for a client with these rights.
pub(crate) fn resources(
    config: &Config,
    has_right: impl Fn(OptimTool) -> bool,
) -> Vec<(String, Box<RawValue>)> {
    let all = [
        (CONFIG, "configuration", "Port and servers of vmcp, without secrets."),
        (STATUS, "status", "State of the servers behind vmcp."),
        (GOBBY_CONFIG, "gobby configuration", "The same as vmcp://config."),
        (GOBBY_STATUS, "gobby daemon status", "The same as vmcp://status."),
    ];
    let is_shown = |uri: &str| OwnResource::parse(uri).is_some_and(|one| has_right(one.right()));
    let shown = all.into_iter().filter(|(uri, ..)| are_served(config) && is_shown(uri));
    shown.map(|(uri, name, description)| entry("uri", uri, name, description)).collect()
}

/// Returns the entries of `resources/templates/list` by URI template, for a client with these rights.
pub(crate) fn templates(
    config: &Config,
    has_right: impl Fn(OptimTool) -> bool,
) -> Vec<(String, Box<RawValue>)> {
    let all = [
        ("vmcp://servers/{name}", "server", "A server behind vmcp: its state and its tools."),
        ("vmcp://tools/{name}", "tool", "The definition of a tool."),
    ];
    let is_shown = |uri: &str| OwnResource::parse(uri).is_some_and(|one| has_right(one.right()));
    let shown = all.into_iter().filter(|(uri, ..)| are_served(config) && is_shown(uri));
    shown.map(|(uri, name, description)| entry("uriTemplate", uri, name, description)).collect()
}

fn entry(key: &str, uri: &str, name: &str, description: &str) -> (String, Box<RawValue>) {
    let entry = json!({ key: uri, "name": name, "description": description, "mimeType": "application/json" });
    // A `Value` cannot fail to serialize.
    (uri.to_owned(), to_raw_value(&entry).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_names_a_resource_and_the_right_to_it() {
        assert_eq!(OwnResource::parse("gobby://daemon/status"), Some(OwnResource::Status));
        assert_eq!(OwnResource::parse("vmcp://servers/github"), Some(OwnResource::Server("github")));
        assert_eq!(
            OwnResource::parse("vmcp://tools/a_b").map(OwnResource::right),
            Some(OptimTool::GetToolSchema)
        );
        for other in ["vmcp://results/res_1", "vmcp://configs", "gobby://x", "file:///vmcp://config", ""] {
            assert_eq!(OwnResource::parse(other), None, "{other}");
        }
    }
}

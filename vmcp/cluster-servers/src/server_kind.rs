//! Kinds of resources that describe added servers.

/// A kind of resource for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerKind {
    /// A server at a URL.
    Entry,
    /// A program in a pod.
    Program,
}

impl ServerKind {
    /// Returns the kind as the API server spells it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ServerKind::Entry => "MCPServerEntry",
            ServerKind::Program => "MCPServer",
        }
    }

    /// Returns the name of the kind in the paths of the API server.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            ServerKind::Entry => "mcpserverentries",
            ServerKind::Program => "mcpservers",
        }
    }
}

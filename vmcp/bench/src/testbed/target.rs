//! Targets of the load generator: the backend itself, bare proxies, vmcp, and gateways of others.

use vmcp_wire::era::Era;

use crate::client::replay_client::{Endpoint, Exactness};

/// Name of the target that is the backend itself.
pub(crate) const DIRECT: &str = "direct";
/// Name of the pooled proxy against which the cost of vmcp is held; the first floor.
pub(crate) const BARE_PROXY: &str = "bare hyper proxy";
/// Name of the proxy that shows what one thread a core would cost; the second floor.
pub(crate) const PER_CORE_PROXY: &str = "bare proxy, one thread a core";

/// Name of the slower of the two pooled proxies.
pub(crate) const AXUM_PROXY: &str = "bare axum + reqwest proxy";

/// An MCP endpoint that the load generator asks.
pub(crate) struct Target {
    /// Name in the table.
    pub(crate) name: String,
    /// Address of the endpoint.
    pub(crate) endpoint: Endpoint,
    /// Process whose CPU time and memory are measured; none for the backend itself.
    pub(crate) pid: Option<u32>,
    /// Era in which the target asks the backend; `None`: the era of the client.
    pub(super) upstream: Option<Era>,
    /// `true` for a gateway of others, which may add members to a result.
    pub(super) foreign: bool,
    /// `true` if the backend answers calls of this target with event streams.
    pub(crate) event_streams: bool,
    /// Position in the table.
    pub(crate) rank: usize,
    /// Names that the backend's tools have at this target.
    pub(super) tools: Vec<String>,
    /// Eras of clients that the target serves.
    pub(crate) eras: Vec<Era>,
}

impl Target {
    /// Returns the name that a tool of the backend has at this target.
    pub(crate) fn tool(&self, tool: &str) -> String {
        self.tools.iter().find(|name| name.ends_with(tool)).map_or(tool, |name| name).to_owned()
    }

    /// Returns how exactly an answer to a client of this era must match the backend's.
    pub(crate) fn exactness(&self, era: Era) -> Exactness {
        match self.upstream {
            _ if self.foreign => Exactness::Content,
            Some(upstream) if upstream != era => Exactness::Translated,
            _ => Exactness::Same,
        }
    }

    /// Returns true for vmcp, whose figures have targets.
    pub(crate) fn is_vmcp(&self) -> bool {
        self.name.starts_with("vmcp")
    }
}

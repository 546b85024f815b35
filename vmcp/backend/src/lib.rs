//! Connections to MCP backends: transports, protocol era, pooling, breaker, deadlines.
//!
//! A [`Backend`] is one configured server. Two tasks stand behind it: the connector makes and replaces the connection,
//! the refresher keeps the definitions. Calls go straight to the connection; they wait for the connector only while
//! there is none.

mod backend;
mod connection;
mod http_client;
mod inbound;
mod policy;
mod request;
mod sharing;
mod transport;
mod upkeep;

pub use backend::Backend;
pub use http_client::HttpClient;
pub use policy::settings::BackendSettings;
pub use policy::{backoff, breaker};
pub use request::{
    CallError, ClientFacts, DEFAULT_DEADLINE, Downstream, Event, Question, Request, Response, RpcOutcome,
    SessionId,
};
pub use vmcp_config::status::{BackendState, BackendStatus};

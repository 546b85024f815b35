//! Connections to MCP backends: transports, protocol era, session pool, circuit breaker, deadlines.
//!
//! A [`Backend`] is one configured server. Two tasks stand behind it: the connector makes and replaces the
//! connection, the refresher keeps the definitions. Calls go straight to the connection; they wait for the
//! connector only while there is none.
//!
//! | room | holds |
//! |---|---|
//! | `request` | requests, answers, questions, errors: the vocabulary of all others |
//! | `http_client` | the pool of HTTP connections |
//! | `server_log` | log messages and standard error of servers, within bounds |
//! | `program` | child processes: environment, last words, activity, guard; programs of package runners |
//! | `policy` | settings, circuit breaker, exponential backoff, byte budget; no I/O |
//! | `inbound` | routing of messages that a backend sends besides answers |
//! | `transport` | streamable HTTP, HTTP+SSE, websocket, stdio; requests written for the backend's era |
//! | `connection` | the handshake in either era, and what the server told in it |
//! | `sharing` | the state that calls share: connection, upstream sessions, subscriptions |
//! | `call` | the way of a call: the stack of layers from circuit breaker to exchange |
//! | `upkeep` | the background tasks: connector, refresher, notification stream |
//!
//! Each room imports only rooms above it in this table.

mod backend;
mod call;
mod connection;
mod http_client;
mod inbound;
mod policy;
mod program;
mod request;
mod server_log;
mod sharing;
mod transport;
mod upkeep;

pub use backend::Backend;
pub use http_client::{HttpClient, write_joined};
pub use policy::byte_budget::{ByteBudget, ByteBudgetExhausted, HeldBytes};
pub use policy::session_listing_count::SessionListingCount;
pub use policy::settings::{BackendSettings, SERVED_VARIABLE};
pub use policy::{backoff, breaker};
pub use program::orphan_guard::{OrphanGuard, WatchedGroup};
pub use program::package_runner::{PackageRun, PinnedProgram, PinnedPrograms};
pub use request::{
    ArrivingRest, ArrivingResult, CallError, ClientFacts, ClientInstance, ConnectionObserver,
    CredentialError, CredentialSource, DEFAULT_DEADLINE, Denier, Detail, Downstream, EndedSession, Event,
    EventMap, EventReceiver, EventSender, NotQueued, Principal, Question, Request, Response, RpcOutcome,
    ServerNetwork, SessionId, SharedCredentials, Subscriber, Transmission, UnprovedRequest, event_queue,
    uncollected,
};
pub use sharing::session_listings::SessionListing;
pub use transport::observe_request_ids;
pub use vmcp_config::status::{BackendState, BackendStatus};

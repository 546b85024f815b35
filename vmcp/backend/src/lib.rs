//! Connections to MCP backends: transports, protocol era, pooling, breaker, deadlines.
//!
//! A [`Backend`] is one configured server. Two tasks stand behind it: the connector makes and replaces the connection,
//! the refresher keeps the definitions. Calls go straight to the connection; they wait for the connector only while
//! there is none.

mod abilities;
mod backend;
mod backoff;
pub mod breaker;
mod call;
mod connection;
mod connector;
mod era;
mod error;
mod event;
mod inbound;
mod level;
mod list;
mod listen;
mod listener;
mod questions;
mod refresher;
mod request;
mod sessions;
mod settings;
mod shared;
mod status;
mod subscriptions;
mod transport;

pub use backend::Backend;
pub use event::{Downstream, Event, Question, SessionId};
pub use request::{CallError, ClientFacts, DEFAULT_DEADLINE, Outcome, Request, Response};
pub use settings::Settings;
pub use status::{State, Status};
pub use transport::client::HttpClient;

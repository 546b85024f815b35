//! The client port's stack: every layer a request passes, in order, in one place.
//!
//! ```text
//! connection limits     connections: how many, how slow, how idle
//!   │
//! RecordRefusals        audit events of refusals further down
//! HostRules             Host, :authority, Origin: DNS rebinding, foreign pages      400, 403
//! Cors                  preflights; headers that let allowed pages read the answer
//! Endpoint              the path, the methods, a bridge that is not up yet          404, 405, 503
//! Authenticate          the principal: identity and address                         400, 401, 403, 503
//! PrincipalLimits       requests and bytes of one principal                         429
//! AuthServerRoute       sign-in and tokens, where `authServer` is configured         200, 201, 303, 400, 401
//! PlainApiRoute         profiles as servers of a registry, for IDEs                 200, 400, 404, 405
//! PlainApiRoute         tools by topic, for programs that are not MCP clients       200, 400, 403, 405
//! PlainApiRoute         hooks of coding agents, and their sessions                  200, 400, 404, 405, 503
//! PlainApiRoute         servers, tools and calls, for programs that do not speak MCP 200, 400, 404, 405
//! ReadBody              media types, size, time, the byte budget of the process     406, 408, 413, 415, 503
//! StepUp                the challenge of a call whose token lacks scopes            403
//!   │
//! McpService            message, era, session, and the conversation                 400, 404
//! ```
//!
//! A layer is a struct that holds the service inside it and implements [`Service`]. It answers a request
//! itself or hands it on, with one more fact in its type. All calls are dispatched statically.
//!
//! To add a layer: write it in `layers`, and wrap it around the service that it precedes here. Whatever costs
//! memory or time goes below [`PrincipalLimits`]; nothing above [`ReadBody`] may read the body.

use std::net::SocketAddr;
use std::sync::Arc;

use vmcp_config::Server;

use super::layers::auth_server_route::AuthServerRoute;
use super::layers::authenticate::Authenticate;
use super::layers::authenticate::configured::ConfiguredAuthenticator;
use super::layers::cors::Cors;
use super::layers::endpoint::Endpoint;
use super::layers::host_rules::{HostGuard, HostRules};
use super::layers::plain_api_route::PlainApiRoute;
use super::layers::principal_limits::PrincipalLimits;
use super::layers::read_body::ReadBody;
use super::layers::record_refusals::RecordRefusals;
use super::layers::step_up::StepUp;
use crate::hooks_api::HooksApi;
use crate::registry_api::RegistryApi;
use crate::request::Edge;
use crate::rest_api::RestApi;
use crate::tools_api::ToolsApi;
use crate::transport::http::McpService;
use crate::transport::http::exchange::{Arrival, Service};

/// Assembles the service of a client port that listens at `address`.
pub(super) fn client_stack(
    edge: &Arc<Edge>,
    server: &Server,
    address: SocketAddr,
) -> impl Service<Arrival> + use<> {
    let guard = HostGuard::new(address, &server.allowed_hosts, &server.allowed_origins);
    let metrics = Arc::clone(edge.engine.metrics());
    let budget = edge.engine.byte_budget().clone();

    let mcp = McpService::new(Arc::clone(edge));
    let read_body = ReadBody::new(budget, Arc::clone(&metrics), StepUp::new(mcp));
    let rest = PlainApiRoute::new(RestApi::new(edge.engine.clone()), &edge.engine, read_body);
    let hooks = PlainApiRoute::new(HooksApi::new(edge.engine.clone()), &edge.engine, rest);
    let tools = PlainApiRoute::new(ToolsApi::new(edge.engine.clone()), &edge.engine, hooks);
    let registry = PlainApiRoute::new(RegistryApi::new(edge.engine.clone()), &edge.engine, tools);
    let sign_in = AuthServerRoute::new(Arc::clone(edge), edge.engine.byte_budget().clone(), registry);
    let limits = PrincipalLimits::new(Arc::clone(&metrics), sign_in);
    let authenticate = Authenticate::new(ConfiguredAuthenticator::new(Arc::clone(&metrics)), limits);
    let endpoint = Endpoint::new(authenticate);
    let cors = Cors::new(endpoint);
    let host_rules = HostRules::new(guard, metrics, cors);
    RecordRefusals::new(Arc::clone(edge.engine.call_observers()), host_rules)
}

//! The web console on the admin port: server-rendered pages over what the admin API reports.
//!
//! The crate `vmcp-console` has the pages, as pure functions. This room gathers their data, decides who reads
//! them, and carries out the orders of their forms. The host rules of the admin port hold here too.
//!
//! ```text
//! access    who may read: `server.console`, tokens, the provider, the cookie of a person who signed in;
//!   │       form_check compares the CSRF token of each form before its order is carried out
//! actions   orders ── overview, catalog, playground, call_pages, trying, other_pages: data of pages
//! ```
//!
//! [`routes`](super::admin::routes) of the admin port mounts these routes, and they stand behind its guard.

mod access;
mod actions;
mod answer;
mod call_pages;
mod catalog;
mod forms;
mod other_pages;
mod overview;
mod playground;
mod session_key;
pub mod sources;
mod trying;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{any, get, post};

pub(super) use access::is_served;
pub(super) use answer::add_security_headers;
pub(super) use answer::path_prefix::put_before as put_prefix_before;
pub(super) use vmcp_console::links::ROOT;

use self::access::{ConsoleDoor, form_check};
use super::admin::Admin;
use super::admin::guard::{AdminGuard, audit};
use super::admin_routes::CONSOLE_CALLBACK;

/// Returns the routes of the console.
pub(super) fn routes(guard: &AdminGuard) -> Router {
    let door = ConsoleDoor::new(guard.clone());
    let pages = Router::new()
        .route("/console/", get(overview::show))
        .route("/console/tools", get(catalog::tools))
        .route("/console/server", get(catalog::server))
        .route("/console/tool", get(catalog::tool))
        .route("/console/offer", get(catalog::offer::show))
        .route("/console/search", get(playground::show))
        .route("/console/wanted", get(other_pages::wanted::show))
        .route("/console/calls", get(call_pages::list))
        .route("/console/calls/rows", get(call_pages::rows))
        .route("/console/call", get(call_pages::one))
        .route("/console/usage", get(other_pages::usage::show))
        .route("/console/logins", get(other_pages::logins::show))
        .route("/console/clients", get(other_pages::clients::show))
        .route("/console/sent", get(other_pages::sent::show))
        .route("/console/connect", get(other_pages::connect))
        .route("/console/configuration", get(other_pages::configuration))
        .route("/console/logs", get(other_pages::logs::show))
        .route("/console/try", get(trying::show))
        .route("/console/{*unknown}", any(answer::no_page));
    // The layer that is added last runs first: each order is recorded, also one whose form is refused.
    // Orders about the person who gives them, for every role.
    let own = Router::new()
        .route("/console/sign-out", post(access::token::sign_out))
        .route("/console/logins/forget", post(other_pages::logins::forget))
        .route_layer(from_fn_with_state(door.clone(), form_check::check))
        .route_layer(from_fn_with_state(guard.admin.clone(), audit::record));
    let orders = Router::new()
        .route("/console/refresh", post(actions::refresh))
        .route("/console/restart", post(actions::restart))
        .route("/console/approve", post(actions::approve))
        .route("/console/forget", post(actions::forget))
        .route("/console/enable", post(actions::enable))
        .route("/console/disable", post(actions::disable))
        .route("/console/try", post(trying::call))
        .route("/console/try/answer", post(trying::answer))
        .route("/console/logins/sign-in", post(other_pages::logins::sign_in))
        .route("/console/logins/sign-out", post(other_pages::logins::sign_out))
        .route_layer(from_fn_with_state(door.clone(), form_check::check))
        .route_layer(from_fn(access::only_operators))
        .route_layer(from_fn_with_state(guard.admin.clone(), audit::record));
    let inside = pages.merge(orders).merge(own);
    let inside = inside
        .route_layer(from_fn_with_state(door.clone(), answer::refusals_as_pages))
        .route_layer(from_fn_with_state(door.clone(), access::admit));
    let outside = Router::new()
        .route("/console", get(access::to_root))
        .route("/console/sign-in", get(access::to_root).post(access::token::sign_in))
        .route("/console/oidc/start", get(access::oidc::start))
        .route(CONSOLE_CALLBACK, get(access::oidc::callback))
        .route("/console/console.css", get(answer::style))
        .route("/console/console.js", get(answer::script));
    inside
        .merge(outside)
        .route_layer(from_fn_with_state(door.clone(), access::only_if_served))
        .route_layer(from_fn(answer::path_prefix::put_before))
        .with_state(door)
}

/// Returns the routes at which other replicas ask for their pages; they belong behind the guard of reports.
pub(super) fn replica_routes() -> Router<Admin> {
    Router::new()
        .route("/admin/replica/activity", get(overview::replica_activity::serve))
        .route("/admin/replica/call", get(call_pages::replica_calls::serve_call))
        .route("/admin/replica/calls", get(call_pages::replica_calls::serve_calls))
        .route("/admin/replica/logs", get(other_pages::logs::serve))
        .route("/admin/replica/wanted", get(other_pages::wanted::serve))
}

#[cfg(test)]
mod tests;

//! The data of the pages about clients, logins, configuration, logs, usage over days, and searches that led
//! nowhere.

pub(super) mod client_query;
pub(super) mod clients;
pub(super) mod logins;
pub(super) mod logs;
pub(super) mod sent;
pub(super) mod usage;
pub(super) mod wanted;

use axum::Extension;
use axum::extract::State;
use axum::response::{Html, Response};
use vmcp_console::pages::configuration::configuration as configuration_page;
use vmcp_console::pages::connect::connect as connect_page;

use super::access::{ConsoleDoor, Visitor};
use crate::port::off_thread;

/// Answers `GET /console/connect`.
pub(super) async fn connect(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
) -> Html<String> {
    let is_tls = door.engine().snapshot().config.server.tls.is_some();
    let scheme = if is_tls { "https" } else { "http" };
    let url = door.admin().clients_at().map(|mut address| {
        // A server that listens everywhere is reached on this machine's own address too.
        if address.ip().is_unspecified() {
            let loopback =
                if address.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() };
            address.set_ip(loopback);
        }
        format!("{scheme}://{address}/mcp")
    });
    let snippets = door.admin().0.console.snippets.as_ref();
    let snippets = snippets.map(|snippets| snippets(url.as_deref())).unwrap_or_default();
    Html(connect_page(&door.frame(&visitor), url.as_deref(), &snippets))
}

/// Answers `GET /console/configuration`.
pub(super) async fn configuration(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
) -> Response {
    let config = door.engine().snapshot().config.clone();
    let status = door.admin().0.configuration.as_ref().map(|it| it.borrow().clone()).unwrap_or_default();
    let frame = door.frame(&visitor);
    // Thousands of backends take a while.
    off_thread(move || {
        Html(configuration_page(&frame, &status, &config.effective_settings(), config.effective_yaml()))
    })
    .await
}

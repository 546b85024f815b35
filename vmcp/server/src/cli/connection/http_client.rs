//! HTTP clients of commands that talk to a vmcp anywhere.

use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, StatusCode};
use vmcp_egress::Proxies;

/// Redirects that are followed; a further one is the answer.
const MAX_REDIRECTS: usize = 5;

/// Returns the builder of a client that takes the proxies of the environment, except to this machine and to
/// hosts of `NO_PROXY`.
pub(in crate::cli) fn builder() -> ClientBuilder {
    Client::builder().proxy(Proxies::of_environment().for_reqwest())
}

/// Makes a client for an MCP endpoint. As rmcp's own client, it keeps no idle connections, whose reuse stalls
/// on Linux, and follows redirects of the same origin that keep the body.
pub(super) fn for_mcp() -> reqwest::Result<Client> {
    let redirects = Policy::custom(|attempt| {
        let keeps_body =
            matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        let is_same =
            attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
        if keeps_body && is_same && attempt.previous().len() <= MAX_REDIRECTS {
            attempt.follow()
        } else {
            attempt.stop()
        }
    });
    builder().pool_max_idle_per_host(0).redirect(redirects).build()
}

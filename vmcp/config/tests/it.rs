//! The configuration as its readers see it: valid texts, mistakes, credentials.

mod auth_server;
mod config;
mod config_mistakes;
mod outgoing_auth;

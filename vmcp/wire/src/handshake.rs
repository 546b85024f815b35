//! The handshake of either era, `initialize` and `server/discover`, and the capabilities that it exchanges.

pub mod client_capabilities;
mod introduction;
pub mod server_capabilities;

pub use introduction::{
    ClientHello, HandshakeError, Introduction, OwnIntroduction, hints, initialize_params, offers_modern,
};

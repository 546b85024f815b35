//! The handshake of either era, `initialize` (legacy) and `server/discover` (modern), and the capabilities
//! that servers and clients exchange in it.

pub mod client_capabilities;
mod introduction;
pub mod server_capabilities;

pub use introduction::{
    ClientHello, HandshakeError, Introduction, OwnIntroduction, hints, initialize_params, offers_modern,
};

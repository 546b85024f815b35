//! Mark of this vmcp in the definitions of its own tools, by which it recognizes itself behind one of its
//! backends.

use std::sync::OnceLock;

use vmcp_config::Config;
use vmcp_config::status::digest;

/// Key of the mark in `_meta`. Gateways in between pass it on with the tool.
pub(crate) const META_KEY: &str = "vmcp/instance";
/// Hexadecimal digits of the mark: 128 bits.
const DIGITS: usize = 32;

/// Returns the mark: the same for all replicas that share session keys, else one of this process.
pub(crate) fn mark(config: &Config) -> String {
    static OF_PROCESS: OnceLock<String> = OnceLock::new();
    let mut mark = match config.server.session_keys.first() {
        Some(key) => digest(&format!("vmcp instance {}", key.expose())),
        None => OF_PROCESS.get_or_init(random).clone(),
    };
    mark.truncate(DIGITS);
    mark
}

fn random() -> String {
    let mut bytes = [0; DIGITS / 2];
    match getrandom::fill(&mut bytes) {
        Ok(()) => hex::encode(bytes),
        // The process id tells at least the servers of one machine apart.
        Err(_) => digest(&std::process::id().to_string()),
    }
}

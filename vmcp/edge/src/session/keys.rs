//! Sealed addresses of processes: they lead a request to the process that holds its session, call or stream.

use std::net::SocketAddr;
use std::time::Duration;

use vmcp_config::Config;
use vmcp_wire::sealed::KeyRing;

use super::sessions::LIFETIME_SECS;
use vmcp_engine::random::random;

/// Purpose of sealed addresses of processes.
const HOME_CONTEXT: &[u8] = b"process address";
/// Interval at which the address in new ids of questions is sealed again.
pub(crate) const HOME_RENEWAL: Duration = Duration::from_hours(1);
/// Seconds for which a sealed address is good: an id names something of a session, and may be made from an
/// address that was sealed [`HOME_RENEWAL`] before. An old id leads nowhere: the address may be reused.
const HOME_LIFETIME_SECS: u64 = LIFETIME_SECS + HOME_RENEWAL.as_secs();

/// Seals the address at which other replicas reach this process, for ids of what lives here only; empty
/// without an address, or without a configured key that they could open it with.
pub(crate) fn seal_home(ring: &KeyRing, config: &Config, now: u64) -> String {
    match config.server.peer_address.filter(|_| !config.server.session_keys.is_empty()) {
        Some(address) => {
            let expires = now.saturating_add(HOME_LIFETIME_SECS);
            ring.seal(&random(), address.to_string().as_bytes(), HOME_CONTEXT, expires)
        }
        None => String::new(),
    }
}

/// Opens the address of another process. Only vmcp itself can have sealed it, so that no client chooses where
/// a request goes (SSRF guard).
pub(crate) fn open_home(ring: &KeyRing, sealed: &str, now: u64) -> Option<SocketAddr> {
    let opened = ring.open(sealed, HOME_CONTEXT, now).ok()?;
    std::str::from_utf8(&opened.content).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use vmcp_engine::access::sealing_keys::SealingKeys;
    use vmcp_engine::testing::keyed;

    const OLD: &str = "an old key of enough characters";
    const NEW: &str = "a newer key of enough characters";

    #[test]
    fn the_address_of_a_process_expires_and_goes_with_its_key() {
        let addressed = |keys: &[&str]| {
            let mut config = Config::clone(&keyed(keys));
            config.server.peer_address = Some("10.0.0.5:4483".parse().unwrap());
            Arc::new(config)
        };
        let config = addressed(&[OLD]);
        let keys = SealingKeys::new(&config).unwrap();
        let sealed = seal_home(&keys.ring(&config), &config, 1000);
        let last = 1000 + HOME_LIFETIME_SECS;
        let open = |config: &Arc<Config>, now| open_home(&keys.ring(config), &sealed, now);
        assert_eq!(open(&config, last - 1), config.server.peer_address);
        assert_eq!(open(&config, last + 1), None);
        assert!(open(&addressed(&[NEW, OLD]), 1000).is_some());
        assert_eq!(open(&addressed(&[NEW]), 1000), None);
        let unkeyed = addressed(&[]);
        assert_eq!(seal_home(&keys.ring(&unkeyed), &unkeyed, 1000), "", "no other process could open it");
    }
}

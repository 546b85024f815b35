//! A digest of the settings that `vmcp` reads at its start only. It stands in the pod template, so that a
//! change of one of them replaces the pods; every other change is hot.

use vmcp_crds::{GROUP, lower};

use super::last_good::MountedConfiguration;
use crate::runtime::PartsDigest;

/// Returns the name of the pod annotation that holds the digest.
pub(super) fn annotation() -> String {
    format!("{GROUP}/start-settings")
}

/// Returns the digest of these settings and of the Secret values among them, in hex. `key` keeps the digest
/// from confirming a guess of a value.
pub(super) fn digest(mounted: &MountedConfiguration, key: &[u8]) -> String {
    let mut digest = PartsDigest::keyed(key);
    for (path, setting) in lower::settings_at_start(&mounted.text) {
        let setting = setting.to_string();
        digest.add(path.as_bytes());
        digest.add(setting.as_bytes());
        for (_, value) in mounted.secrets.iter().filter(|(file, _)| setting.contains(&format!("/{file}}}"))) {
            digest.add(value);
        }
    }
    digest.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn digest_of(text: &str, value: &str, key: &[u8]) -> String {
        let secrets = BTreeMap::from([("otel_header".to_owned(), value.as_bytes().to_vec())]);
        digest(&MountedConfiguration { text: text.to_owned(), secrets }, key)
    }

    #[test]
    fn only_what_is_read_at_start_counts() {
        let text = |hosts: &str, pinned: &str| {
            format!(
                "server: {{allowedHosts: [{hosts}]}}\noptimizer: {{pinnedTools: [{pinned}]}}\n\
                 telemetry: {{headers: {{a: '${{file:/etc/vmcp/secrets/otel_header}}'}}}}"
            )
        };
        let before = digest_of(&text("a.example", "x"), "v", b"k");
        assert_eq!(digest_of(&text("a.example", "y"), "v", b"k"), before, "hot");
        assert_ne!(digest_of(&text("b.example", "x"), "v", b"k"), before);
        assert_ne!(digest_of(&text("a.example", "x"), "w", b"k"), before, "a rotated token of the collector");
        assert_ne!(digest_of(&text("a.example", "x"), "v", b"l"), before, "keyed");
        assert_eq!(digest_of("{}", "v", b"k"), digest_of("backends: []", "w", b"k"));
    }
}

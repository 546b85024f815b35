//! [`ValidGuards`]: the guards of a server as the bridge reads them, and the marks of pods that have them.

use std::collections::BTreeMap;

use vmcp_crds::GROUP;

use crate::runtime::PartsDigest;

/// The guards as the bridge reads them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::mcp_server) struct ValidGuards {
    /// The text of the file.
    pub text: String,
    /// The files that the text refers to, by name.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl ValidGuards {
    /// Returns the name of the pod annotation with the digest of the guards: a change replaces the pods, so
    /// that a finished rollout means that the guards are in force.
    pub(in crate::mcp_server) fn annotation() -> String {
        format!("{GROUP}/guards")
    }

    /// Returns the name of the label of guarded pods, by which the Service selects them: pods from before the
    /// first guard get no more calls.
    pub(in crate::mcp_server) fn label() -> String {
        format!("{GROUP}/guarded")
    }

    /// Returns the digest, in hex. `key` keeps it from confirming a guess of a secret value.
    pub(in crate::mcp_server) fn digest(&self, key: &[u8]) -> String {
        let mut digest = PartsDigest::keyed(key);
        digest.add(self.text.as_bytes());
        for (file, value) in &self.files {
            digest.add(file.as_bytes());
            digest.add(value);
        }
        digest.finish()
    }
}

//! [`TrustedTools`]: trusted definitions of tools by their hashes, as `GET /admin/tools/trusted` reports them
//! and the file of `server.trustedToolsPath` holds them.
//!
//! Replicas without a lasting disk keep their trust in this document: the operator joins the reports of the
//! pods into one file, and each pod trusts the file before the definitions that it lists.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest as _, Sha256};

/// Most bytes of the document, 1 MiB less 64 KiB for the other values of a Secret; some 15,000 tools.
pub const MAX_TRUSTED_TOOLS_BYTES: usize = (1 << 20) - (64 << 10);
/// Bytes of the hash that are kept: 192 bits, so that a collision takes 2⁹⁶ attempts.
const FINGERPRINT_BYTES: usize = 24;

/// Trusted definitions, and changed ones in need of an approval, by backend and by the tool's own name there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrustedTools {
    /// Trusted definitions.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub trusted: BTreeMap<String, ToolsOfBackend<TrustedTool>>,
    /// Changed definitions that wait for an approval. Empty in a file.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pending: BTreeMap<String, ToolsOfBackend<Fingerprint>>,
}

/// Values for the tools of one backend, by the tools' own names.
pub type ToolsOfBackend<T> = BTreeMap<String, T>;

/// A trusted definition, written as `FINGERPRINT`, or `FINGERPRINT@MILLISECONDS` once it was approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedTool {
    /// Fingerprint of the definition.
    pub fingerprint: Fingerprint,
    /// Time of the approval, in milliseconds since 1970; 0 for trust on first use.
    pub approved_at: i64,
}

/// The first 192 bits of a definition's SHA-256, in base64url: 32 characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// Returns the fingerprint of a hash of 64 hexadecimal digits; of any other text that of its SHA-256.
    pub fn of_hash(hash: &str) -> Fingerprint {
        let bytes = hex::decode(hash).ok().filter(|bytes| bytes.len() > FINGERPRINT_BYTES);
        let bytes = bytes.unwrap_or_else(|| Sha256::digest(hash).to_vec());
        let kept = bytes.get(..FINGERPRINT_BYTES).unwrap_or(&bytes);
        Fingerprint(URL_SAFE_NO_PAD.encode(kept))
    }

    /// Reads a fingerprint; `None` for another text.
    pub fn parse(text: &str) -> Option<Fingerprint> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        (bytes.len() == FINGERPRINT_BYTES).then(|| Fingerprint(text.to_owned()))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fingerprint, D::Error> {
        let text = String::deserialize(deserializer)?;
        Fingerprint::parse(&text).ok_or_else(|| de::Error::custom("not a fingerprint of 32 characters"))
    }
}

impl Serialize for TrustedTool {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.approved_at {
            0 => self.fingerprint.serialize(serializer),
            at => serializer.collect_str(&format_args!("{}@{at}", self.fingerprint)),
        }
    }
}

impl<'de> Deserialize<'de> for TrustedTool {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TrustedTool, D::Error> {
        let text = String::deserialize(deserializer)?;
        let (fingerprint, at) = text.split_once('@').unwrap_or((text.as_str(), "0"));
        let tool = Fingerprint::parse(fingerprint).zip(at.parse::<i64>().ok().filter(|at| *at >= 0));
        let tool = tool.map(|(fingerprint, approved_at)| TrustedTool { fingerprint, approved_at });
        tool.ok_or_else(|| de::Error::custom("not `FINGERPRINT` or `FINGERPRINT@MILLISECONDS`"))
    }
}

impl TrustedTool {
    /// Returns true if this trust goes before `other` about the same tool: by a later approval.
    pub fn is_newer_than(&self, other: &TrustedTool) -> bool {
        self.approved_at > other.approved_at
    }
}

impl TrustedTools {
    /// Reads a document of at most [`MAX_TRUSTED_TOOLS_BYTES`]; the error says what is wrong with it.
    pub fn parse(text: &str) -> Result<TrustedTools, String> {
        if text.len() > MAX_TRUSTED_TOOLS_BYTES {
            let (size, most) = (text.len() >> 10, MAX_TRUSTED_TOOLS_BYTES >> 10);
            return Err(format!("it has {size} KiB, and at most {most} KiB are read"));
        }
        serde_json::from_str(text).map_err(|error| format!("it is no document of trusted tools: {error}"))
    }

    /// Returns the document as JSON. The same trust makes the same text.
    pub fn to_text(&self) -> String {
        // Maps with keys of text cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the trusted definition of a tool.
    pub fn tool(&self, backend: &str, tool: &str) -> Option<&TrustedTool> {
        self.trusted.get(backend)?.get(tool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(of: &str) -> Fingerprint {
        Fingerprint::of_hash(&hex::encode(Sha256::digest(of)))
    }

    fn document(tools: &[(&str, &str, i64)]) -> TrustedTools {
        let mut document = TrustedTools::default();
        for (tool, definition, approved_at) in tools {
            let trusted = TrustedTool { fingerprint: fingerprint(definition), approved_at: *approved_at };
            document.trusted.entry("jira".to_owned()).or_default().insert((*tool).to_owned(), trusted);
        }
        document
    }

    #[test]
    fn a_document_is_read_as_it_was_written() {
        let mut written = document(&[("seen", "a", 0), ("approved", "b", 1_764_236_400_000)]);
        written.pending.entry("jira".to_owned()).or_default().insert("changed".to_owned(), fingerprint("c"));
        let text = written.to_text();
        assert!(text.contains("@1764236400000\""), "{text}");
        assert_eq!(TrustedTools::parse(&text), Ok(written));
        assert_eq!(TrustedTools::parse("{}"), Ok(TrustedTools::default()));
    }

    #[test]
    fn a_fingerprint_tells_definitions_apart_and_has_32_characters() {
        assert_ne!(fingerprint("a"), fingerprint("b"));
        assert_eq!(fingerprint("a").to_string().len(), 32);
        assert_ne!(Fingerprint::of_hash("no digits"), Fingerprint::of_hash("others"));
    }

    #[test]
    fn other_texts_are_refused_with_their_reason() {
        let refused = |text: &str| TrustedTools::parse(text).unwrap_err();
        assert!(refused("").contains("no document"));
        for value in ["short", "@5", &format!("{}@-5", fingerprint("a")), &format!("{}@x", fingerprint("a"))]
        {
            let text = format!(r#"{{"trusted":{{"jira":{{"t":"{value}"}}}}}}"#);
            assert!(refused(&text).contains("FINGERPRINT@MILLISECONDS"), "{value}");
        }
        assert!(refused(&" ".repeat(MAX_TRUSTED_TOOLS_BYTES + 1)).contains("at most 960 KiB"));
    }

    #[test]
    fn fifteen_thousand_tools_fit() {
        let names: Vec<_> = (0..15_000).map(|number| format!("create_an_issue_{number:05}")).collect();
        let tools: Vec<_> = names.iter().map(|name| (name.as_str(), name.as_str(), 0)).collect();
        assert!(document(&tools).to_text().len() < MAX_TRUSTED_TOOLS_BYTES);
    }
}

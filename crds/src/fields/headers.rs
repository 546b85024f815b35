//! HTTP headers whose values are in Secrets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fields::cel_rules::Rule;
use crate::fields::references::SecretKeyReference;

/// Rule for a block with `headers` and `sensitiveHeaders`: no name may be in both.
pub(crate) const HEADER_IN_BOTH: Rule = (
    "!has(self.headers) || !has(self.sensitiveHeaders) || self.sensitiveHeaders.all(header, !(header.name in self.headers))",
    "a header is in both headers and sensitiveHeaders; keep one of the two",
);

/// A header whose value is in a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SensitiveHeader {
    /// Name of the header, such as `Authorization`.
    #[schemars(length(min = 1, max = 255))]
    pub name: String,
    /// Secret key that holds the whole value, such as `Bearer eyJ…`.
    pub secret_key_ref: SecretKeyReference,
}

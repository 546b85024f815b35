//! [`OtlpProtocol`]: protocols of exports.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Protocols of exports. Both carry the same messages in protobuf.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OtlpProtocol {
    /// OTLP over HTTP.
    #[default]
    #[serde(rename = "http/protobuf")]
    HttpProtobuf,
    /// OTLP over gRPC.
    #[serde(rename = "grpc")]
    Grpc,
}

impl OtlpProtocol {
    /// Returns the name in the file and in variables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::HttpProtobuf => "http/protobuf",
            Self::Grpc => "grpc",
        }
    }

    /// Returns the protocol of this name.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        [Self::HttpProtobuf, Self::Grpc].into_iter().find(|protocol| protocol.name() == name)
    }
}

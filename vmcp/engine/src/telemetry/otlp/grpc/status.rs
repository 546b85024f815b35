//! [`GrpcStatus`] and [`GrpcError`]: how a call of gRPC ended.

use std::time::Duration;

use http::HeaderMap;
use percent_encoding::percent_decode;

/// Characters of a collector's message that are shown.
const MAX_MESSAGE: usize = 200;

/// A status code of gRPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::telemetry::otlp) struct StatusCode(u32);

impl StatusCode {
    pub(super) const UNKNOWN: StatusCode = StatusCode(2);
    const DEADLINE_EXCEEDED: StatusCode = StatusCode(4);

    /// Returns the name by the specification.
    fn name(self) -> &'static str {
        match self.0 {
            0 => "OK",
            1 => "CANCELLED",
            3 => "INVALID_ARGUMENT",
            4 => "DEADLINE_EXCEEDED",
            5 => "NOT_FOUND",
            6 => "ALREADY_EXISTS",
            7 => "PERMISSION_DENIED",
            8 => "RESOURCE_EXHAUSTED",
            9 => "FAILED_PRECONDITION",
            10 => "ABORTED",
            11 => "OUT_OF_RANGE",
            12 => "UNIMPLEMENTED",
            13 => "INTERNAL",
            14 => "UNAVAILABLE",
            15 => "DATA_LOSS",
            16 => "UNAUTHENTICATED",
            _ => "UNKNOWN",
        }
    }

    /// Returns the HTTP status that an exporter treats alike: 503 for a failure after which the specification
    /// of OTLP asks for another attempt.
    fn http_status(self) -> http::StatusCode {
        match self.0 {
            1 | 4 | 10 | 11 | 14 | 15 => http::StatusCode::SERVICE_UNAVAILABLE,
            // Worth another attempt only with a `RetryInfo`, which is not read.
            8 => http::StatusCode::INSUFFICIENT_STORAGE,
            7 => http::StatusCode::FORBIDDEN,
            12 => http::StatusCode::NOT_FOUND,
            16 => http::StatusCode::UNAUTHORIZED,
            _ => http::StatusCode::BAD_REQUEST,
        }
    }
}

/// The end of a call as the collector tells it.
#[derive(Debug)]
pub(super) struct GrpcStatus {
    code: StatusCode,
    message: String,
}

impl GrpcStatus {
    pub(super) fn new(code: StatusCode, message: String) -> Self {
        Self { code, message }
    }

    /// Reads the status of trailers, or of the headers of an answer without a body; `None` without one.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let code = headers.get("grpc-status")?;
        let code = code.to_str().ok().and_then(|code| code.parse().ok()).map(StatusCode);
        let message = headers.get("grpc-message").map(|text| percent_decode(text.as_bytes()));
        let message = message.map(|text| text.decode_utf8_lossy().into_owned()).unwrap_or_default();
        let message = message.chars().filter(|one| !one.is_control()).take(MAX_MESSAGE).collect();
        Some(Self { code: code.unwrap_or(StatusCode::UNKNOWN), message })
    }

    pub(super) fn into_result(self) -> Result<(), GrpcError> {
        if self.code == StatusCode(0) {
            return Ok(());
        }
        Err(GrpcError::Status { code: self.code, message: self.message })
    }
}

/// A failed call. No text of it names the address or a header.
#[derive(Debug, thiserror::Error)]
pub(in crate::telemetry::otlp) enum GrpcError {
    /// The collector refused it, or it took too long.
    #[error("the collector answered with gRPC status {} ({}): {message}", .code.0, .code.name())]
    Status {
        /// Its code.
        code: StatusCode,
        /// Text of the collector.
        message: String,
    },
    /// There is an HTTP server that does not speak gRPC.
    #[error(
        "the collector's port does not speak gRPC, it answered with HTTP status {0}; give the port of OTLP over gRPC, mostly 4317, or remove `protocol`"
    )]
    NotGrpc(http::StatusCode),
    /// The connection failed.
    #[error("{0}")]
    Transport(String),
}

impl GrpcError {
    pub(super) fn timed_out(limit: Duration) -> Self {
        let message = format!("no answer within {limit:?}");
        Self::Status { code: StatusCode::DEADLINE_EXCEEDED, message }
    }

    /// Returns the HTTP status of a failure that has one.
    pub(in crate::telemetry::otlp) fn http_status(&self) -> Option<http::StatusCode> {
        match self {
            Self::Status { code, .. } => Some(code.http_status()),
            Self::NotGrpc(status) if !status.is_success() => Some(*status),
            Self::NotGrpc(_) | Self::Transport(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(pairs: &[(&'static str, &str)]) -> Option<Result<(), String>> {
        let headers = pairs.iter().map(|&(name, value)| {
            (http::HeaderName::from_static(name), http::HeaderValue::from_str(value).unwrap())
        });
        let status = GrpcStatus::of(&headers.collect())?;
        Some(status.into_result().map_err(|error| error.to_string()))
    }

    #[test]
    fn a_status_is_read_with_its_message() {
        assert_eq!(ended(&[]), None);
        assert_eq!(ended(&[("grpc-status", "0")]), Some(Ok(())));
        let refused = ended(&[("grpc-status", "16"), ("grpc-message", "no%20key%0Agiven")]);
        let said = "the collector answered with gRPC status 16 (UNAUTHENTICATED): no keygiven";
        assert_eq!(refused, Some(Err(said.to_owned())));
        let long = "x".repeat(2 * MAX_MESSAGE);
        let said = ended(&[("grpc-status", "mine"), ("grpc-message", &long)]).unwrap().unwrap_err();
        assert!(said.contains("status 2 (UNKNOWN)") && said.ends_with(&"x".repeat(MAX_MESSAGE)), "{said}");
        assert!(!said.contains(&"x".repeat(MAX_MESSAGE + 1)), "{said}");
    }

    #[test]
    fn only_failures_that_pass_are_worth_another_attempt() {
        let retried = |code| StatusCode(code).http_status() == http::StatusCode::SERVICE_UNAVAILABLE;
        let codes: Vec<_> = (1..=16).filter(|code| retried(*code)).collect();
        assert_eq!(codes, [1, 4, 10, 11, 14, 15]);
    }
}

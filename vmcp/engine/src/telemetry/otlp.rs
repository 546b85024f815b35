//! OTLP over HTTP or gRPC: parts that the exporters of traces, metrics and log records share.
//!
//! | room | holds |
//! |---|---|
//! | `client` | client of exports, over HTTP or gRPC |
//! | `grpc` | unary calls of gRPC |
//! | `retries` | exports that a collector refuses for the moment |
//! | `losses` | counters of telemetry that reached no collector |
//! | `log_lines` | log lines as OTLP log records, behind a bounded queue |
//! | `waiting_records` | the bound of log records that wait |
//! | `push` | thread that exports metrics |
//! | `exposition`, `families` | OpenMetrics text as families of samples; these as messages of OTLP |

mod client;
mod exposition;
mod families;
mod grpc;
pub(super) mod log_lines;
pub mod losses;
pub mod push;
mod retries;
#[cfg(test)]
mod tests;
pub(super) mod waiting_records;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::TelemetryResourceDetector;
use uuid::Uuid;

pub(super) use self::client::OtlpClient;

/// Target prefix of the log lines of exports themselves. They are not exported: a failed export would cause
/// another one.
pub(super) const TARGET: &str = "vmcp_engine::telemetry::otlp";

/// Returns the resource of this process. `service.instance.id` tells replicas apart, whose metrics would
/// otherwise be one series with two writers. The configuration alone reads the variables of OpenTelemetry,
/// unlike [`Resource::builder`].
pub(super) fn resource(service_name: &str, attributes: &BTreeMap<String, String>) -> Resource {
    static INSTANCE: OnceLock<Uuid> = OnceLock::new();
    let instance = INSTANCE.get_or_init(Uuid::new_v4).to_string();
    let own = [
        KeyValue::new("service.instance.id", instance),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
    ];
    let attributes = attributes.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
    Resource::builder_empty()
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_attributes(own)
        .with_attributes(attributes)
        .with_service_name(service_name.to_owned())
        .build()
}

//! Families of samples as the messages of OTLP. Counters become monotonic sums, histograms keep their
//! bounds; all are cumulative.
//!
//! The families of OpenTelemetry's conventions get their names, attributes and bounds back. Prometheus has
//! finer bounds below them; buckets are cumulative there, so leaving bounds out is exact.

use std::borrow::Cow;

use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValueKind;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::exemplar::Value as ExemplarValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as PointValue;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Exemplar, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, Sum,
};

use super::exposition::{self, MetricFamily, Sample};

/// Bounds of the conventions' histograms, in seconds.
///
/// Source: open-telemetry/semantic-conventions-genai, docs/gen-ai/mcp.md.
const CONVENTION_SECONDS: [f64; 14] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
/// Names of the conventions by the names of their families.
const CONVENTION_NAMES: [(&str, &str); 4] = [
    ("mcp_server_operation_duration_seconds", "mcp.server.operation.duration"),
    ("mcp_client_operation_duration_seconds", "mcp.client.operation.duration"),
    ("mcp_server_session_duration_seconds", "mcp.server.session.duration"),
    ("mcp_client_session_duration_seconds", "mcp.client.session.duration"),
];
/// Attributes of the conventions by the names of their labels.
const CONVENTION_ATTRIBUTES: [(&str, &str); 11] = [
    ("mcp_method_name", "mcp.method.name"),
    ("gen_ai_tool_name", "gen_ai.tool.name"),
    ("gen_ai_prompt_name", "gen_ai.prompt.name"),
    ("gen_ai_operation_name", "gen_ai.operation.name"),
    ("error_type", "error.type"),
    ("rpc_response_status_code", "rpc.response.status_code"),
    ("network_transport", "network.transport"),
    ("network_protocol_name", "network.protocol.name"),
    ("mcp_protocol_version", "mcp.protocol.version"),
    ("server_address", "server.address"),
    (SERVER_PORT, "server.port"),
];
/// Label whose attribute is a number.
const SERVER_PORT: &str = "server_port";

/// Begin of the counters and time of the samples, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(super) struct SampleTimes {
    pub(super) start: u64,
    pub(super) now: u64,
}

/// Returns the messages of an exposition.
pub(super) fn metrics(exposition: &str, times: SampleTimes) -> Vec<Metric> {
    exposition::families(exposition).iter().map(|family| metric(family, times)).collect()
}

fn metric(family: &MetricFamily<'_>, times: SampleTimes) -> Metric {
    let convention = CONVENTION_NAMES.iter().find(|(name, _)| *name == family.name);
    let unit = if family.name.ends_with("_seconds") {
        "s"
    } else if family.name.ends_with("_bytes") {
        "By"
    } else {
        ""
    };
    let temporality = AggregationTemporality::Cumulative.into();
    let data = match family.kind {
        "counter" => Data::Sum(Sum {
            data_points: numbers(family, times),
            aggregation_temporality: temporality,
            is_monotonic: true,
        }),
        "histogram" => Data::Histogram(Histogram {
            data_points: histograms(family, convention.is_some(), times),
            aggregation_temporality: temporality,
        }),
        _ => Data::Gauge(Gauge { data_points: numbers(family, times) }),
    };
    Metric {
        name: convention.map_or(family.name, |(_, name)| name).to_owned(),
        description: family.help.to_owned(),
        unit: unit.to_owned(),
        data: Some(data),
        ..Metric::default()
    }
}

fn numbers(family: &MetricFamily<'_>, times: SampleTimes) -> Vec<NumberDataPoint> {
    let point = |sample: &Sample<'_>| {
        let whole = sample.value.parse().map(PointValue::AsInt);
        let value = whole.or_else(|_| sample.value.parse().map(PointValue::AsDouble)).ok()?;
        Some(NumberDataPoint {
            attributes: attributes(&sample.labels),
            start_time_unix_nano: times.start,
            time_unix_nano: times.now,
            value: Some(value),
            ..NumberDataPoint::default()
        })
    };
    family.samples.iter().filter_map(point).collect()
}

/// Returns the points of a family whose lines come in the order sum, count, buckets.
fn histograms(family: &MetricFamily<'_>, is_convention: bool, times: SampleTimes) -> Vec<HistogramDataPoint> {
    let mut points: Vec<HistogramDataPoint> = Vec::new();
    let mut cumulative = 0;
    for sample in &family.samples {
        if sample.suffix == "_sum" {
            cumulative = 0;
            points.push(HistogramDataPoint {
                attributes: attributes(&sample.labels),
                start_time_unix_nano: times.start,
                time_unix_nano: times.now,
                sum: sample.value.parse().ok(),
                ..HistogramDataPoint::default()
            });
            continue;
        }
        let (Some(point), Ok(count)) = (points.last_mut(), sample.value.parse::<u64>()) else { continue };
        if sample.suffix == "_count" {
            point.count = count;
            continue;
        }
        point.exemplars.extend(sample.exemplar.as_ref().and_then(exemplar));
        let bound =
            sample.labels.iter().find(|(name, _)| *name == "le").map(|(_, bound)| bound.parse::<f64>());
        let Some(Ok(bound)) = bound else { continue };
        if is_convention && bound.is_finite() && !CONVENTION_SECONDS.contains(&bound) {
            continue;
        }
        point.bucket_counts.push(count.saturating_sub(cumulative));
        cumulative = count;
        if bound.is_finite() {
            point.explicit_bounds.push(bound);
        }
    }
    points
}

fn exemplar(exemplar: &exposition::Exemplar<'_>) -> Option<Exemplar> {
    let id = |name: &str| {
        let (_, id) = exemplar.labels.iter().find(|(label, _)| *label == name)?;
        hex::decode(id.as_bytes()).ok()
    };
    let at = std::time::Duration::try_from_secs_f64(exemplar.at).ok()?;
    Some(Exemplar {
        time_unix_nano: u64::try_from(at.as_nanos()).ok()?,
        trace_id: id("trace_id")?,
        span_id: id("span_id")?,
        value: Some(ExemplarValue::AsDouble(exemplar.value)),
        ..Exemplar::default()
    })
}

/// Returns the attributes of a sample. An empty label is an absent one.
fn attributes(labels: &[(&str, Cow<'_, str>)]) -> Vec<KeyValue> {
    let labels = labels.iter().filter(|(name, value)| *name != "le" && !value.is_empty());
    labels
        .map(|(name, value)| {
            let convention = CONVENTION_ATTRIBUTES.iter().find(|(label, _)| label == name);
            let number = if *name == SERVER_PORT { value.parse().ok() } else { None };
            let text = || AnyValueKind::StringValue(value.clone().into_owned());
            let value = number.map_or_else(text, AnyValueKind::IntValue);
            KeyValue {
                key: convention.map_or(*name, |(_, key)| key).to_owned(),
                value: Some(AnyValue { value: Some(value) }),
                ..KeyValue::default()
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use vmcp_backend::{EndedSession, ServerNetwork};

    use super::*;
    use crate::metrics::{Metrics, ServerOperation, TraceLabels};

    const TIMES: SampleTimes = SampleTimes { start: 1, now: 2 };

    fn exported(metrics: &Metrics, name: &str) -> Data {
        let all = super::metrics(&metrics.encode(), TIMES);
        all.into_iter().find(|metric| metric.name == name).unwrap().data.unwrap()
    }

    #[test]
    fn a_histogram_of_the_conventions_has_their_names_and_bounds() {
        let metrics = Metrics::new();
        let operation = ServerOperation {
            mcp_method_name: "tools/call",
            gen_ai_tool_name: "echo".into(),
            gen_ai_prompt_name: Arc::default(),
            error_type: "",
            network_transport: "tcp",
            mcp_protocol_version: "2026-07-28",
        };
        let trace = TraceLabels { trace_id: [0xab; 16], span_id: [0xcd; 8] };
        for microseconds in [60, 4_000, 15_000, 400_000_000] {
            let took = Duration::from_micros(microseconds);
            metrics.count_server_operation(&operation, took, Some(trace));
        }
        let Data::Histogram(histogram) = exported(&metrics, "mcp.server.operation.duration") else {
            panic!("no histogram")
        };
        let point = &histogram.data_points[0];
        assert_eq!(point.explicit_bounds, CONVENTION_SECONDS);
        assert_eq!(point.bucket_counts.len(), CONVENTION_SECONDS.len() + 1);
        assert_eq!((point.bucket_counts[0], point.bucket_counts[1], point.bucket_counts[14]), (2, 1, 1));
        assert_eq!((point.count, point.bucket_counts.iter().sum::<u64>()), (4, 4));
        let keys: Vec<_> = point.attributes.iter().map(|attribute| attribute.key.as_str()).collect();
        let expected = [
            "mcp.method.name",
            "gen_ai.tool.name",
            "gen_ai.operation.name",
            "network.transport",
            "network.protocol.name",
            "mcp.protocol.version",
        ];
        assert_eq!(keys, expected, "an empty error.type is absent");
        assert_eq!(point.exemplars[0].trace_id, [0xab; 16]);
        assert_eq!(point.exemplars[0].span_id, [0xcd; 8]);
    }

    #[test]
    fn the_port_of_a_server_is_a_number() {
        let metrics = Metrics::new();
        let address = "mcp.example.com".into();
        let network = ServerNetwork { transport: "tcp", protocol: "http", address, port: Some(8443) };
        let (network, lived) = (&Arc::new(network), Duration::from_secs(1));
        metrics.session_ended(&EndedSession { backend: "far", network, revision: "2025-11-25", lived });
        let Data::Histogram(histogram) = exported(&metrics, "mcp.client.session.duration") else {
            panic!("no histogram")
        };
        let point = &histogram.data_points[0];
        assert_eq!(point.explicit_bounds, CONVENTION_SECONDS);
        let value = |key: &str| {
            let found = point.attributes.iter().find(|attribute| attribute.key == key);
            found.and_then(|attribute| attribute.value.clone()?.value)
        };
        assert_eq!(value("server.port"), Some(AnyValueKind::IntValue(8443)));
        assert_eq!(value("server.address"), Some(AnyValueKind::StringValue("mcp.example.com".to_owned())));
    }

    #[test]
    fn counters_and_gauges_keep_their_names() {
        let metrics = Metrics::new();
        metrics.find_tool_requests.inc_by(3);
        metrics.buffered_bytes.set(5);
        let Data::Sum(sum) = exported(&metrics, "vmcp_optimizer_find_tool_requests") else {
            panic!("no sum")
        };
        assert!(sum.is_monotonic);
        assert_eq!(sum.data_points[0].value, Some(PointValue::AsInt(3)));
        assert_eq!(sum.data_points[0].start_time_unix_nano, TIMES.start);
        let Data::Gauge(gauge) = exported(&metrics, "vmcp_buffered_bytes") else { panic!("no gauge") };
        assert_eq!(gauge.data_points[0].value, Some(PointValue::AsInt(5)));
    }
}

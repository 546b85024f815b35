//! [`Traces`]: reconciles as spans over OTLP, where the variables of OpenTelemetry name a collector.
//!
//! kube's controller makes a span of each reconcile, with the object and the reason; its client makes one of
//! each request to the API server. The operator adds its own log lines to them. A reconcile takes
//! milliseconds of requests, so the library's layer is fast enough here.

use std::path::Path;
use std::time::Duration;

use opentelemetry::trace::{Link, SpanKind, TraceContextExt as _, TraceId, TraceState, TracerProvider as _};
use opentelemetry::{Context, Key, KeyValue};
use opentelemetry_otlp::{Protocol, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SamplingDecision, SamplingResult, SdkTracerProvider, ShouldSample};
use reqwest::Certificate;
use reqwest::redirect::Policy;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::registry::LookupSpan;
use vmcp_egress::{Proxies, read_ca_bundle};

/// Name of the service where no variable has one.
const SERVICE: &str = "vmcp-operator";
/// Name that the SDK gives a service without a name.
const UNNAMED: &str = "unknown_service";
/// Target prefix of the operator's own spans and lines.
const OWN: &str = "vmcp_operator";
/// Target prefixes of kube's spans.
const KUBE: [&str; 2] = ["kube_runtime::controller", "kube_client"];
/// Path of traces below the endpoint of all signals.
const TRACES_PATH: &str = "/v1/traces";
/// The protocol that the operator speaks; the specification's default.
const PROTOCOL: &str = "http/protobuf";
/// Time that one export may take where no variable says so; the specification's default.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Time that the end of the process leaves for the last spans.
const LAST_EXPORT: Duration = Duration::from_secs(5);

/// A running exporter.
#[derive(Debug)]
pub(super) struct Traces {
    provider: SdkTracerProvider,
}

/// The settings that the SDK does not read by itself.
#[derive(Debug, PartialEq)]
struct ExportSettings {
    endpoint: String,
    timeout: Duration,
    /// File of authorities that are trusted beside the system's.
    authorities: Option<String>,
    sampler: Reconciles,
}

impl ExportSettings {
    /// Reads the variables; `None` if they ask for no traces. The error says why traces that they ask for
    /// cannot be exported.
    fn read(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        // An empty variable counts as absent, as the specification asks.
        let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let of_traces = |name: &str| {
            set(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"))
                .or_else(|| set(&format!("OTEL_EXPORTER_OTLP_{name}")))
        };
        let is_off = set("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
            || set("OTEL_TRACES_EXPORTER")
                .is_some_and(|exporters| exporters.split(',').all(|exporter| exporter.trim() != "otlp"));
        let of_all = || {
            let endpoint = set("OTEL_EXPORTER_OTLP_ENDPOINT")?;
            Some(format!("{}{TRACES_PATH}", endpoint.trim_end_matches('/')))
        };
        let endpoint = set("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(of_all);
        let Some(endpoint) = endpoint.filter(|_| !is_off) else { return Ok(None) };
        if let Some(other) = of_traces("PROTOCOL").filter(|protocol| protocol != PROTOCOL) {
            return Err(format!(
                "the protocol is `{other}`; set OTEL_EXPORTER_OTLP_TRACES_PROTOCOL to {PROTOCOL}"
            ));
        }
        let milliseconds = of_traces("TIMEOUT").and_then(|value| value.trim().parse().ok());
        Ok(Some(Self {
            endpoint,
            timeout: milliseconds.map_or(TIMEOUT, Duration::from_millis),
            authorities: of_traces("CERTIFICATE"),
            sampler: Reconciles::read(&set),
        }))
    }
}

/// Samples a share of the reconciles. Requests to the API server that belong to no reconcile (watches, the
/// Lease) are left out: a watch is open for minutes.
#[derive(Debug, Clone, PartialEq)]
struct Reconciles {
    share: f64,
}

impl Reconciles {
    fn read(set: &dyn Fn(&str) -> Option<String>) -> Self {
        let share = || set("OTEL_TRACES_SAMPLER_ARG")?.trim().parse::<f64>().ok();
        let name = set("OTEL_TRACES_SAMPLER").unwrap_or_default();
        // A reconcile has no parent in another process.
        Self {
            share: match name.strip_prefix("parentbased_").unwrap_or(&name) {
                "always_off" => 0.0,
                "traceidratio" => share().unwrap_or(1.0),
                _ => 1.0,
            },
        }
    }
}

impl ShouldSample for Reconciles {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        trace: TraceId,
        name: &str,
        kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[Link],
    ) -> SamplingResult {
        let has_parent = parent.is_some_and(|context| context.span().span_context().is_valid());
        if !has_parent && *kind == SpanKind::Client {
            let (decision, trace_state) = (SamplingDecision::Drop, TraceState::default());
            return SamplingResult { decision, attributes: Vec::new(), trace_state };
        }
        let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(self.share)));
        sampler.should_sample(parent, trace, name, kind, attributes, links)
    }
}

impl Traces {
    /// Starts the exporter if the environment asks for it; it connects with its first export.
    pub(super) fn of_environment() -> Result<Option<Self>, String> {
        let settings = ExportSettings::read(&|name| std::env::var(name).ok())?;
        settings.map(|settings| Self::start(&settings)).transpose()
    }

    fn start(settings: &ExportSettings) -> Result<Self, String> {
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_http_client(client(settings)?)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(settings.endpoint.as_str())
            .with_timeout(settings.timeout)
            .build()
            .map_err(|error| error.to_string())?;
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_sampler(settings.sampler.clone())
            .with_resource(resource())
            .build();
        Ok(Self { provider })
    }

    /// Returns the layer that exports reconciles, their requests and the operator's lines in them.
    pub(super) fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let layer = tracing_opentelemetry::layer().with_tracer(self.provider.tracer(SERVICE));
        let layer = layer.with_location(false).with_threads(false).with_tracked_inactivity(false);
        // Requests to the API server are spans of level DEBUG.
        layer.with_filter(filter_fn(is_exported).with_max_level_hint(LevelFilter::DEBUG))
    }

    /// Exports the spans that wait, for at most five seconds.
    pub(super) async fn finish(self) {
        let finish = move || self.provider.shutdown_with_timeout(LAST_EXPORT);
        if let Ok(Err(error)) = tokio::task::spawn_blocking(finish).await {
            tracing::warn!(%error, "the last spans may not have reached the collector");
        }
    }
}

/// True for spans of reconciles and of requests, and for the operator's own lines.
fn is_exported(metadata: &Metadata<'_>) -> bool {
    let (target, level) = (metadata.target(), *metadata.level());
    let is_own = target.starts_with(OWN) && level <= Level::INFO;
    let is_kube = metadata.is_span() && level <= Level::DEBUG;
    is_own || (is_kube && KUBE.iter().any(|kube| target.starts_with(kube)))
}

/// Returns the resource of this process, with the attributes that the variables name.
fn resource() -> Resource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let builder = Resource::builder().with_attribute(version);
    let name = Resource::builder().build().get(&Key::new("service.name"));
    match name.filter(|name| !name.as_str().starts_with(UNNAMED)) {
        Some(_) => builder.build(),
        None => builder.with_service_name(SERVICE).build(),
    }
}

/// Makes the client of exports on a thread of its own, because the blocking client must not be made inside a
/// runtime. It follows no redirect, which could take a key in the headers to another host.
fn client(settings: &ExportSettings) -> Result<reqwest::blocking::Client, String> {
    let authorities = match &settings.authorities {
        Some(path) => {
            let read = read_ca_bundle(Path::new(path));
            read.map_err(|why| format!("the authorities in {path} cannot be used: {why}"))?
        }
        None => Vec::new(),
    };
    let timeout = settings.timeout;
    let build = move || {
        let certificates = authorities.iter().map(|authority| Certificate::from_der(authority));
        let certificates = certificates.collect::<Result<Vec<_>, _>>()?;
        let builder = reqwest::blocking::Client::builder().timeout(timeout).tls_certs_merge(certificates);
        builder.proxy(Proxies::of_environment().for_reqwest()).redirect(Policy::none()).build()
    };
    let made = std::thread::spawn(build).join();
    made.map_err(|_| "the HTTP client could not be made".to_owned())?.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<ExportSettings>, String> {
        let find = |name: &str| variables.iter().find(|(found, _)| *found == name);
        ExportSettings::read(&|name| find(name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn traces_take_an_endpoint_and_can_be_switched_off() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/");
        let settings = read(&[endpoint]).unwrap().unwrap();
        assert_eq!(settings.endpoint, "http://collector:4318/v1/traces");
        assert_eq!((settings.timeout, settings.sampler.share), (TIMEOUT, 1.0));
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces/x");
        let timeout = ("OTEL_EXPORTER_OTLP_TIMEOUT", "250");
        let settings = read(&[endpoint, own, timeout]).unwrap().unwrap();
        assert_eq!(settings.endpoint, "http://traces/x", "the signal's own endpoint is a whole URL");
        assert_eq!(settings.timeout, Duration::from_millis(250));
        for variables in [
            &[][..],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")],
            &[endpoint, ("OTEL_SDK_DISABLED", "TRUE")],
            &[endpoint, ("OTEL_TRACES_EXPORTER", "none")],
        ] {
            assert_eq!(read(variables), Ok(None), "{variables:?}");
        }
        let refused = read(&[endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]).unwrap_err();
        assert!(refused.contains("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL to http/protobuf"), "{refused}");
        let unreadable = ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/none/such.pem");
        let refused = Traces::start(&read(&[endpoint, unreadable]).unwrap().unwrap()).unwrap_err();
        assert!(refused.contains("/none/such.pem"), "{refused}");
    }

    #[test]
    fn the_sampler_is_that_of_the_variables() {
        for (name, argument, share) in [
            ("always_on", "", 1.0),
            ("parentbased_always_off", "", 0.0),
            ("traceidratio", "0.25", 0.25),
            ("parentbased_traceidratio", "0.5", 0.5),
            ("traceidratio", "many", 1.0),
            ("xray", "0.1", 1.0),
        ] {
            let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector");
            let sampler = [("OTEL_TRACES_SAMPLER", name), ("OTEL_TRACES_SAMPLER_ARG", argument)];
            let settings = read(&[&[endpoint][..], &sampler].concat()).unwrap().unwrap();
            assert_eq!(settings.sampler, Reconciles { share }, "{name}");
        }
    }

    /// Reads one request to the end of its body, answers it, and returns its bytes.
    fn answered(mut client: TcpStream) -> Vec<u8> {
        let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
        while !is_complete(&bytes) {
            let count = client.read(&mut part).unwrap();
            assert!(count > 0, "the client closed the connection");
            bytes.extend_from_slice(&part[..count]);
        }
        client.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
        bytes
    }

    fn is_complete(request: &[u8]) -> bool {
        let Some(head) = request.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
        let text = String::from_utf8_lossy(&request[..head]).to_ascii_lowercase();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length:")).unwrap();
        request.len() >= head + 4 + length.trim().parse::<usize>().unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_reconcile_is_exported_with_its_requests_and_lines_and_a_watch_is_not() {
        // An error means that a provider is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let arrived = std::thread::spawn(move || answered(listener.accept().unwrap().0));
        let settings = read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)]).unwrap().unwrap();
        let traces = Traces::start(&settings).unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(traces.layer()), || {
            let request = |name: &str| {
                let kind = "client";
                tracing::debug_span!(target: "kube_client", "HTTP", otel.name = name, otel.kind = kind)
            };
            request("a_watch").in_scope(|| ());
            tracing::info_span!(target: "kube_runtime::controller", "reconciling object").in_scope(|| {
                request("a_patch").in_scope(|| tracing::debug!(target: "kube_client", "a_detail"));
                tracing::warn!(target: "vmcp_operator::runtime", "a_line");
            });
        });
        traces.finish().await;
        let bytes = arrived.join().unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.starts_with("POST /v1/traces "), "{text}");
        for (word, expected) in [
            ("reconciling object", true),
            ("a_patch", true),
            ("a_line", true),
            (SERVICE, true),
            ("a_watch", false),
            ("a_detail", false),
        ] {
            assert_eq!(text.contains(word), expected, "{word}: {text}");
        }
    }
}

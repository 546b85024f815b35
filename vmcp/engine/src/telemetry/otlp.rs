//! Settings that all OTLP exporters share: the HTTP client and the addresses of the signals.

use std::collections::BTreeMap;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use vmcp_egress::Proxies;

/// Path of traces below the collector's base URL.
pub(super) const TRACES: &str = "/v1/traces";
/// Path of log records below the collector's base URL.
pub(super) const LOGS: &str = "/v1/logs";

/// Returns the client of exports. It follows no redirect, which could take a key in the headers to another
/// host. Made on a thread of its own, because the blocking client must not be made inside a runtime.
pub(super) fn client(timeout: Duration) -> Result<reqwest::blocking::Client, String> {
    let build = move || {
        let builder = reqwest::blocking::Client::builder().timeout(timeout);
        let builder = builder.proxy(Proxies::of_environment().for_reqwest());
        builder.redirect(reqwest::redirect::Policy::none()).build()
    };
    let made =
        std::thread::spawn(build).join().map_err(|_| "the HTTP client could not be made".to_owned())?;
    made.map_err(|error| error.to_string())
}

/// Returns the resource of this process.
pub(super) fn resource(service_name: &str, attributes: &BTreeMap<String, String>) -> Resource {
    let attributes = attributes.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
    Resource::builder().with_attributes(attributes).with_service_name(service_name.to_owned()).build()
}

/// `otel:4318` → `http://otel:4318/v1/traces`. An endpoint that names the path of traces stands for its base.
pub(super) fn signal_url(endpoint: &str, signal: &str) -> String {
    let base = if endpoint.contains("://") { endpoint.to_owned() } else { format!("http://{endpoint}") };
    let base = base.trim_end_matches('/');
    format!("{}{signal}", base.strip_suffix(TRACES).unwrap_or(base).trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_may_be_short() {
        for endpoint in ["otel:4318", "http://otel:4318", "http://otel:4318/", "http://otel:4318/v1/traces"] {
            assert_eq!(signal_url(endpoint, TRACES), "http://otel:4318/v1/traces", "{endpoint}");
            assert_eq!(signal_url(endpoint, LOGS), "http://otel:4318/v1/logs", "{endpoint}");
        }
        assert_eq!(signal_url("https://x.example/otlp", TRACES), "https://x.example/otlp/v1/traces");
    }
}

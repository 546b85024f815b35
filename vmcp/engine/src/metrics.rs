//! Every metric of the server, in one place: names, help and labels.
//!
//! Cardinality is bounded: names and addresses of backends come from the configuration, at most 1,000 names
//! of tools and 1,000 of prompts from the catalog; all other label values are fixed words. A client's text
//! never becomes a label. The encoder appends `_total` to counters.

mod backend_connections;
mod calls;
mod exemplars;
mod operations;
mod shares;

use parking_lot::{Mutex, MutexGuard};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

pub use backend_connections::{ClientSession, ConnectFailureLabels, PIPE, TCP};
use calls::BackendCalls;
pub use exemplars::TraceLabels;
pub(crate) use operations::OTHER;
pub use operations::{ClientOperation, ServerOperation, ServerSession, code_label, method_label};
use operations::{LabelNames, operation_histogram, traced_operation_histogram};
pub(crate) use shares::CountedShares;
pub use shares::{ShareDirectory, ShareState};

/// Upper bounds of vmcp's own duration histograms, in seconds. They begin at 50 µs because find_tool and the
/// relay live there.
const SECONDS: [f64; 19] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 30.0, 60.0,
];
/// Upper bounds of the number of tools in an answer; 50 is the largest limit.
const RESULTS: [f64; 8] = [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 50.0];
/// Upper bounds of a percentage; most savings lie above 90.
const PERCENT: [f64; 9] = [0.0, 25.0, 50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 100.0];

/// Labels of metrics by backend.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct BackendLabels {
    /// The backend's configured name.
    pub backend: String,
}

/// Labels of metrics by identity provider.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct IssuerLabels {
    /// The configured issuer.
    pub issuer: String,
}

/// Labels of metrics by store that replicas share.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct StoreLabels {
    /// Kind of the store.
    pub provider: String,
}

/// Labels of metrics by certificate of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CertificateLabels {
    /// `server`: of the client port; `client_authorities`: authorities that verify certificates of clients.
    pub certificate: &'static str,
}

/// Labels of a call to a backend.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CallLabels {
    /// The backend's configured name.
    pub backend: String,
    /// `ok`, `tool_error`, `rpc_error`, `denied`, `cancelled`, or the category of the `CallError`.
    pub outcome: &'static str,
}

/// Labels of a failure in the evaluation of policies.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PolicyFailureLabels {
    /// `permit` or `forbid` for a policy that was not evaluated; `arguments`, `claims`, `groups`, `uri` or
    /// `entities` for a value that policies cannot read.
    pub kind: &'static str,
}

/// Labels of a question to the decision point.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct DecisionPointLabels {
    /// `allow` or `deny`: the effect on the call.
    pub decision: &'static str,
    /// `asked`, `cached`, or the reason of a missing answer: `unaskable`, `timeout`, `unreachable`, `status`,
    /// `no_decision`.
    pub source: &'static str,
}

/// Labels of metrics by webhook.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct WebhookLabels {
    /// The webhook's configured name.
    pub webhook: String,
    /// `mutating`, `validating` or `post`.
    pub kind: &'static str,
}

/// Labels of a question to a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct WebhookOutcomeLabels {
    /// The webhook's configured name.
    pub webhook: String,
    /// `mutating`, `validating` or `post`.
    pub kind: &'static str,
    /// `allowed`, `changed`, `denied`, or the reason of a missing answer: `unaskable`, `timeout`, `busy`,
    /// `unreachable`, `status`, `unreadable`, `patch`.
    pub outcome: &'static str,
}

/// Labels of a notice to a webhook of sessions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct NoticeLabels {
    /// The webhook's configured name.
    pub webhook: String,
    /// `sent`, `failed` or `dropped` because the webhook's queue was full.
    pub outcome: &'static str,
}

/// Labels of a decision of policies that are only tried out.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PolicyShadowLabels {
    /// `allow` or `deny`: the decision in force.
    pub enforced: &'static str,
    /// `allow` or `deny`: the decision if all policies were enforced.
    pub shadow: &'static str,
}

/// Labels of a changed definition.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ChangeLabels {
    /// The backend's configured name.
    pub backend: String,
    /// `added`, `updated` or `removed`.
    pub change: &'static str,
    /// `tool`, `prompt`, `resource`, `resource template` or `instructions`.
    pub definition: &'static str,
}

/// Labels of a context of `GET /tools`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ContextLabels {
    /// Name of a built-in or configured context.
    pub context: String,
}

/// Labels of a piece of embedding work.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct EmbeddingLabels {
    /// `query` while a client waits, `tools` in the background; of errors also `model`, asking for its name.
    pub kind: &'static str,
}

/// Labels of a change of the configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ReloadLabels {
    /// `applied` or `refused`.
    pub outcome: &'static str,
}

/// Labels of a request that was refused before its body was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RefusalLabels {
    /// `host`, `origin`, `unauthenticated`, `insufficient_scope`, `identity_provider`, `client_requests`,
    /// `client_bytes`, `buffered_bytes`, `proofs` or `admin_token`.
    pub reason: &'static str,
}

/// Labels of a limit on state that this process keeps for clients.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct LimitLabels {
    /// `connections`, `sessions`, `subscriptions`, `questions`, `parked_calls`, `call_streams` or
    /// `call_stream_bytes`.
    pub limit: &'static str,
}

/// Labels of telemetry that no collector got.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct SignalLabels {
    /// `traces`, `metrics` or `logs`.
    pub signal: &'static str,
}

macro_rules! metrics {
    ($(#[doc = $help:literal] $field:ident: $type:ty = $name:literal, $make:expr;)*) => {
        /// All metrics of a process and the registry that writes them out.
        #[derive(Debug)]
        pub struct Metrics {
            registry: Registry,
            calls: BackendCalls,
            tool_names: LabelNames,
            prompt_names: LabelNames,
            rendering: Mutex<()>,
            /// Things of clients that are counted against limits.
            pub shares: ShareDirectory,
            $(#[doc = $help] pub $field: $type,)*
        }

        impl Metrics {
            /// Name of every family, in the order of the exposition, which shows a family of labels with its
            /// first sample only.
            pub const FAMILIES: &[&str] = &[$($name),*];

            /// Fresh metrics, all zero.
            pub fn new() -> Metrics {
                let mut registry = Registry::default();
                $(
                    let $field: $type = $make;
                    registry.register($name, $help.trim().trim_end_matches('.'), $field.clone());
                )*
                let calls = BackendCalls::default();
                let (tool_names, prompt_names) = (LabelNames::default(), LabelNames::default());
                let (rendering, shares) = (Mutex::default(), ShareDirectory::default());
                Metrics { registry, calls, tool_names, prompt_names, rendering, shares, $($field,)* }
            }
        }
    };
}

metrics! {
    /// Calls of find_tool.
    find_tool_requests: Counter = "vmcp_optimizer_find_tool_requests", Counter::default();
    /// Calls of find_tool that ended in an error.
    find_tool_errors: Counter = "vmcp_optimizer_find_tool_errors", Counter::default();
    /// Duration of find_tool with the embedding of its query, in seconds.
    find_tool_duration: Histogram = "vmcp_optimizer_find_tool_duration_seconds", Histogram::new(SECONDS);
    /// Tools in an answer of find_tool.
    find_tool_results: Histogram = "vmcp_optimizer_find_tool_results", Histogram::new(RESULTS);
    /// Searches that were answered without one of their arms, or with tools not yet embedded.
    degraded_searches: Counter = "vmcp_optimizer_degraded_searches", Counter::default();
    /// Searches of clients by find_tool, search_tools, recommend_tools and search_available_tools.
    searches: Counter = "vmcp_optimizer_searches", Counter::default();
    /// Searches of clients that found no tool.
    searches_without_result: Counter = "vmcp_optimizer_searches_without_result", Counter::default();
    /// Searches that found tools, and after which their client called none within ten minutes.
    searches_without_call: Counter = "vmcp_optimizer_searches_without_call", Counter::default();
    /// Tokens that an answer of find_tool saved against listing every tool, in percent.
    token_savings: Histogram = "vmcp_optimizer_token_savings_percent", Histogram::new(PERCENT);
    /// Answers of `GET /tools` that contexts chose.
    tools_filtered_requests: Counter = "vmcp_tools_filtered_requests", Counter::default();
    /// Tokens of these answers.
    tools_filtered_tokens: Counter = "vmcp_tools_filtered_tokens", Counter::default();
    /// Answers of `GET /tools`, filtered or not.
    tools_baseline_requests: Counter = "vmcp_tools_baseline_requests", Counter::default();
    /// Tokens that the whole lists in place of these answers would have had.
    tools_baseline_tokens: Counter = "vmcp_tools_baseline_tokens", Counter::default();
    /// Answers of `GET /tools` by known context.
    tools_contexts: Family<ContextLabels, Counter> = "vmcp_tools_contexts", Family::default();
    /// Calls of call_tool.
    call_tool_requests: Counter = "vmcp_optimizer_call_tool_requests", Counter::default();
    /// Calls of call_tool that ended in an error of any kind.
    call_tool_errors: Counter = "vmcp_optimizer_call_tool_errors", Counter::default();
    /// Calls of call_tool that named a tool the caller cannot reach.
    call_tool_not_found: Counter = "vmcp_optimizer_call_tool_not_found", Counter::default();
    /// Duration of call_tool with the backend's work, in seconds.
    call_tool_duration: Histogram = "vmcp_optimizer_call_tool_duration_seconds", Histogram::new(SECONDS);
    /// Answers of call_tool to failed calls that name similar tools.
    fallback_suggestions: Counter = "vmcp_fallback_suggestions", Counter::default();
    /// Successful calls of a similar tool in place of a failed one.
    fallback_calls: Counter = "vmcp_fallback_calls", Counter::default();
    /// Calls refused because the arguments do not fit the tool's schema.
    schema_rejections: Counter = "vmcp_optimizer_schema_rejections", Counter::default();
    /// Results of call_tool that were kept, with a reference in their place.
    large_results: Counter = "vmcp_large_results", Counter::default();
    /// Large results that were sent as they came, because they alone exceed the bounds of kept results.
    large_results_too_large: Counter = "vmcp_large_results_too_large", Counter::default();
    /// Results that this process keeps; those in Redis are not counted.
    kept_results: Gauge = "vmcp_kept_results", Gauge::default();
    /// Bytes of the results that this process keeps, in files or in memory.
    kept_results_bytes: Gauge = "vmcp_kept_results_bytes", Gauge::default();
    /// Kept results that gave way to others before their time.
    kept_results_evicted: Counter = "vmcp_kept_results_evicted", Counter::default();
    /// Large results that Redis did not take, so that this process alone keeps them.
    kept_results_unshared: Counter = "vmcp_kept_results_unshared", Counter::default();
    /// Questions to a language model for a query on the rows of a result.
    dataset_model_asks: Counter = "vmcp_dataset_model_asks", Counter::default();
    /// Operations on a result for which a language model gave no query that works.
    dataset_model_failures: Counter = "vmcp_dataset_model_failures", Counter::default();
    /// Questions to a language model for the script of a task.
    script_model_asks: Counter = "vmcp_script_model_asks", Counter::default();
    /// Tasks for which a language model gave no script that ran to its end.
    script_model_failures: Counter = "vmcp_script_model_failures", Counter::default();
    /// Duration of one request to the embedding provider, in seconds.
    embedding_duration: Family<EmbeddingLabels, Histogram, fn() -> Histogram> =
        "vmcp_embedding_duration_seconds", Family::new_with_constructor(|| Histogram::new(SECONDS));
    /// Requests to the embedding provider that failed.
    embedding_errors: Family<EmbeddingLabels, Counter> = "vmcp_embedding_errors", Family::default();
    /// Duration of one request to the re-ranking service, in seconds.
    rerank_duration: Histogram = "vmcp_rerank_duration_seconds", Histogram::new(SECONDS);
    /// Requests to the re-ranking service that failed.
    rerank_errors: Counter = "vmcp_rerank_errors", Counter::default();
    /// Tool texts whose vector was cached.
    embedding_cache_hits: Counter = "vmcp_embedding_cache_hits", Counter::default();
    /// Tool texts that had to be embedded.
    embedding_cache_misses: Counter = "vmcp_embedding_cache_misses", Counter::default();
    /// Time from the first catalog to vectors for all of it, in seconds.
    embedding_cold_start: Histogram = "vmcp_embedding_cold_start_seconds", Histogram::new(SECONDS);
    /// Calls to backends, by how they ended.
    backend_calls: Family<CallLabels, Counter> = "vmcp_backend_calls", Family::default();
    /// Time that a backend took for a call, in seconds.
    backend_duration: Family<BackendLabels, Histogram, fn() -> Histogram> =
        "vmcp_backend_call_duration_seconds", Family::new_with_constructor(|| Histogram::new(SECONDS));
    /// Duration of a client's request, in seconds (`mcp.server.operation.duration` of OpenTelemetry).
    server_operations: Family<ServerOperation, TracedHistogram, fn() -> TracedHistogram> =
        "mcp_server_operation_duration_seconds", Family::new_with_constructor(traced_operation_histogram);
    /// Duration of a call at its backend, in seconds (`mcp.client.operation.duration` of OpenTelemetry).
    client_operations: Family<ClientOperation, TracedHistogram, fn() -> TracedHistogram> =
        "mcp_client_operation_duration_seconds", Family::new_with_constructor(traced_operation_histogram);
    /// Life of a session that its client ended, in seconds (`mcp.server.session.duration` of OpenTelemetry).
    server_sessions: Family<ServerSession, Histogram, fn() -> Histogram> =
        "mcp_server_session_duration_seconds", Family::new_with_constructor(operation_histogram);
    /// Life of a session at a backend, in seconds (`mcp.client.session.duration` of OpenTelemetry).
    client_sessions: Family<ClientSession, Histogram, fn() -> Histogram> =
        "mcp_client_session_duration_seconds", Family::new_with_constructor(operation_histogram);
    /// Attempts to connect to a backend that failed, by the reason.
    connect_failures: Family<ConnectFailureLabels, Counter> = "vmcp_backend_connect_failures", Family::default();
    /// 1 if a backend is connected, else 0.
    backend_up: Family<BackendLabels, Gauge> = "vmcp_backend_up", Family::default();
    /// 1 if the last fetch of an identity provider's keys, and the last introspection, succeeded, else 0.
    identity_provider_up: Family<IssuerLabels, Gauge> = "vmcp_identity_provider_up", Family::default();
    /// 1 if Redis, where rate limits are shared, answered last, else 0; absent without it.
    rate_limit_store_up: Family<StoreLabels, Gauge> = "vmcp_rate_limit_store_up", Family::default();
    /// Time at which the first certificate of a use expires, in seconds since 1970; absent without TLS.
    certificate_expiry: Family<CertificateLabels, Gauge> = "vmcp_certificate_expiry_timestamp_seconds", Family::default();
    /// Tools that are searchable.
    catalog_tools: Gauge = "vmcp_catalog_tools", Gauge::default();
    /// Searchable tools that have a vector.
    catalog_embedded: Gauge = "vmcp_catalog_embedded_tools", Gauge::default();
    /// Tools that are hidden until their changed definitions are approved.
    catalog_quarantined: Gauge = "vmcp_catalog_quarantined_tools", Gauge::default();
    /// Definitions that changed.
    catalog_changes: Family<ChangeLabels, Counter> = "vmcp_catalog_changes", Family::default();
    /// Open connections of clients.
    client_connections: Gauge = "vmcp_client_connections", Gauge::default();
    /// Connections refused because there were server.maxConnections already.
    client_connections_refused: Counter = "vmcp_client_connections_refused", Counter::default();
    /// Requests of clients under way; streams that belong to no call are not counted.
    client_requests_in_flight: Gauge = "vmcp_client_requests_in_flight", Gauge::default();
    /// Requests of clients refused before they were read, by the reason.
    client_requests_refused: Family<RefusalLabels, Counter> = "vmcp_client_requests_refused", Family::default();
    /// Policies that were not evaluated, and values that policies cannot read, by kind.
    policy_failures: Family<PolicyFailureLabels, Counter> = "vmcp_policy_failures", Family::default();
    /// Decisions of policies that are only tried out, beside the enforced decision.
    policy_shadow_decisions: Family<PolicyShadowLabels, Counter> = "vmcp_policy_shadow_decisions", Family::default();
    /// Questions to the decision point, by the effect on the call and where the decision came from.
    decision_point_questions: Family<DecisionPointLabels, Counter> = "vmcp_decision_point_questions", Family::default();
    /// Questions to webhooks, by the answer.
    webhook_questions: Family<WebhookOutcomeLabels, Counter> = "vmcp_webhook_questions", Family::default();
    /// Duration of one question to a webhook, in seconds.
    webhook_duration: Family<WebhookLabels, Histogram, fn() -> Histogram> =
        "vmcp_webhook_duration_seconds", Family::new_with_constructor(|| Histogram::new(SECONDS));
    /// Notices of hooks to webhooks of sessions, by how they ended.
    session_notices: Family<NoticeLabels, Counter> = "vmcp_session_notices", Family::default();
    /// Things of clients refused at a limit: the share of one client, or the backstop of the process.
    client_limits_reached: Family<LimitLabels, Counter> = "vmcp_client_limits_reached", Family::default();
    /// Bytes of request bodies and answers in memory.
    buffered_bytes: Gauge = "vmcp_buffered_bytes", Gauge::default();
    /// Connections closed because the client left its answers unread.
    client_stalls: Counter = "vmcp_client_stalls", Counter::default();
    /// Answers that broke off after their beginning was sent to the client.
    answers_broken_off: Counter = "vmcp_answers_broken_off", Counter::default();
    /// Open streams of clients for messages that belong to no call.
    client_streams: Gauge = "vmcp_client_streams", Gauge::default();
    /// Streams of messages that were ended because the client did not read them.
    listeners_cut_off: Counter = "vmcp_listeners_cut_off", Counter::default();
    /// Viewers of the events port.
    event_viewers: Gauge = "vmcp_event_viewers", Gauge::default();
    /// Viewers that were cut off because they did not read events in time.
    event_viewers_cut_off: Counter = "vmcp_event_viewers_cut_off", Counter::default();
    /// Streams of calls that clients resumed by Last-Event-ID after their connection broke.
    call_streams_resumed: Counter = "vmcp_call_streams_resumed", Counter::default();
    /// Requests that were handed on to the replica that has what they belong to.
    requests_forwarded: Counter = "vmcp_requests_forwarded", Counter::default();
    /// Log lines dropped because standard error was not read.
    log_lines_dropped: Counter = "vmcp_log_lines_dropped", Counter::default();
    /// Spans and log records that no collector got, and exports of metrics that failed, by signal.
    telemetry_lost: Family<SignalLabels, Counter> = "vmcp_telemetry_lost", Family::default();
    /// Audit events left out or lost: refusals of a flood, too many events at once, a target that failed.
    audit_events_dropped: Counter = "vmcp_audit_events_dropped", Counter::default();
    /// Calls that are missing in the metrics of their tools, because they came faster than they were counted.
    tool_metrics_dropped: Counter = "vmcp_tool_metrics_dropped", Counter::default();
    /// Changes of the configuration file, by how they ended.
    config_reloads: Family<ReloadLabels, Counter> = "vmcp_config_reloads", Family::default();
}

/// A histogram whose buckets show a trace each.
type TracedHistogram = HistogramWithExemplars<TraceLabels>;

impl Metrics {
    /// Waits until no other thread renders, and keeps others from it.
    pub fn rendering(&self) -> MutexGuard<'_, ()> {
        self.rendering.lock()
    }

    /// The metrics in OpenMetrics text format, for `GET /metrics`.
    pub fn encode(&self) -> String {
        let mut out = String::new();
        // Writing to a `String` cannot fail; should it, the metrics written so far are the best answer.
        if let Err(error) = text::encode(&mut out, &self.registry) {
            tracing::error!(%error, "metrics could not be encoded");
        }
        out
    }
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_the_requirements_are_written() {
        let metrics = Metrics::new();
        metrics.find_tool_requests.inc();
        metrics.find_tool_duration.observe(0.002);
        metrics.backend_calls.get_or_create(&CallLabels { backend: "jira".into(), outcome: "ok" }).inc();
        let text = metrics.encode();
        for line in [
            "vmcp_optimizer_find_tool_requests_total 1",
            "vmcp_optimizer_find_tool_duration_seconds_count 1",
            "vmcp_optimizer_find_tool_results_count 0",
            "vmcp_optimizer_token_savings_percent_count 0",
            "vmcp_optimizer_call_tool_requests_total 0",
            "vmcp_optimizer_call_tool_errors_total 0",
            "vmcp_optimizer_call_tool_not_found_total 0",
            "vmcp_optimizer_schema_rejections_total 0",
            r#"vmcp_backend_calls_total{backend="jira",outcome="ok"} 1"#,
        ] {
            assert!(text.lines().any(|written| written == line), "{line} is missing in\n{text}");
        }
    }
}

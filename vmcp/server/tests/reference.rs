//! Generated pages of the reference: metrics and the admin API. `make schema` writes them.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use vmcp_backend::{EndedSession, ServerNetwork};
use vmcp_edge::port::admin_routes::ADMIN_ROUTES;
use vmcp_engine::telemetry::metrics::{
    BackendLabels, CertificateLabels, ChangeLabels, ClientOperation, ContextLabels, DecisionPointLabels,
    EmbeddingLabels, IssuerLabels, LimitLabels, Metrics, NoticeLabels, PolicyFailureLabels,
    PolicyShadowLabels, RefusalLabels, ReloadLabels, ServerOperation, ServerSession, SignalLabels,
    StoreLabels, WebhookLabels, WebhookOutcomeLabels,
};

/// Compares a page with the committed one, or writes it if `VMCP_UPDATE_SCHEMA` is set.
fn assert_committed(name: &str, page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    if std::env::var_os("VMCP_UPDATE_SCHEMA").is_some() {
        fs::write(&path, page).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == page, "docs/reference/{name} is out of date; regenerate it: make schema");
}

#[test]
fn metrics_page() {
    let metrics = Metrics::new();
    let backend = || "time".to_owned();
    // A family shows its labels with its first sample.
    metrics.count_call("time", "ok", Duration::from_millis(1));
    let server = ServerOperation {
        mcp_method_name: "tools/call",
        gen_ai_tool_name: metrics.tool_name("time_now"),
        gen_ai_prompt_name: Arc::default(),
        error_type: "",
        network_transport: "tcp",
        mcp_protocol_version: "2026-07-28",
    };
    metrics.count_server_operation(&server, Duration::from_millis(1), None);
    let network = ServerNetwork { transport: "pipe", protocol: "", address: "".into(), port: None };
    let network = Arc::new(network);
    let client = ClientOperation {
        mcp_method_name: "tools/call",
        gen_ai_tool_name: metrics.tool_name("now"),
        gen_ai_prompt_name: Arc::default(),
        error_type: "",
        mcp_protocol_version: "2026-07-28",
        network: Arc::clone(&network),
        backend: backend().into(),
    };
    metrics.count_client_operation(&client, Duration::from_millis(1), None);
    let session = ServerSession { network_transport: "tcp", mcp_protocol_version: "2025-11-25" };
    metrics.count_server_session(&session, Duration::from_secs(1));
    let ended = EndedSession {
        backend: "time",
        network: &network,
        revision: "2025-11-25",
        lived: Duration::from_secs(1),
    };
    metrics.session_ended(&ended);
    metrics.connect_failed("time", "timeout");
    metrics.telemetry_lost.get_or_create(&SignalLabels { signal: "logs" }).inc();
    metrics.embedding_duration.get_or_create(&EmbeddingLabels { kind: "query" }).observe(0.001);
    metrics.embedding_errors.get_or_create(&EmbeddingLabels { kind: "query" }).inc();
    metrics.backend_up.get_or_create(&BackendLabels { backend: backend() }).set(1);
    metrics
        .catalog_changes
        .get_or_create(&ChangeLabels { backend: backend(), change: "added", definition: "tool" })
        .inc();
    metrics.config_reloads.get_or_create(&ReloadLabels { outcome: "applied" }).inc();
    metrics.client_limits_reached.get_or_create(&LimitLabels { limit: "questions" }).inc();
    metrics.client_requests_refused.get_or_create(&RefusalLabels { reason: "host" }).inc();
    metrics.policy_failures.get_or_create(&PolicyFailureLabels { kind: "forbid" }).inc();
    let shadow = PolicyShadowLabels { enforced: "allow", shadow: "deny" };
    metrics.policy_shadow_decisions.get_or_create(&shadow).inc();
    let question = DecisionPointLabels { decision: "allow", source: "asked" };
    metrics.decision_point_questions.get_or_create(&question).inc();
    let (webhook, kind) = ("guard".to_owned(), "validating");
    metrics.webhook_duration.get_or_create(&WebhookLabels { webhook: webhook.clone(), kind }).observe(0.001);
    let asked = WebhookOutcomeLabels { webhook, kind, outcome: "allowed" };
    metrics.webhook_questions.get_or_create(&asked).inc();
    let notice = NoticeLabels { webhook: "chat".to_owned(), outcome: "sent" };
    metrics.session_notices.get_or_create(&notice).inc();
    metrics.tools_contexts.get_or_create(&ContextLabels { context: "jira".to_owned() }).inc();
    metrics.identity_provider_up.get_or_create(&IssuerLabels { issuer: "https://a".to_owned() }).set(1);
    metrics.rate_limit_store_up.get_or_create(&StoreLabels { provider: "redis".to_owned() }).set(1);
    metrics.certificate_expiry.get_or_create(&CertificateLabels { certificate: "server" }).set(1);
    let exposition = metrics.encode();
    let is_written =
        |family: &str| exposition.lines().any(|line| line.starts_with(&format!("# TYPE {family} ")));
    let missing: Vec<_> = Metrics::FAMILIES.iter().filter(|family| !is_written(family)).collect();
    assert!(missing.is_empty(), "give each of them a sample here, or the page lacks them: {missing:?}");
    let table = vmcp_tidy::metrics_table(&exposition);
    assert_committed(
        "metrics.md",
        &format!(
            "# Metrics\n\nGenerated from the registry; do not edit: `make schema` writes it. Served at `GET /metrics` of \
             the admin port as OpenMetrics;\na counter's samples end in `_total`. Label values and the questions that \
             these metrics answer: [operations](../operator/operations.md#metrics).\nThe operator has [its \
             own](operator-metrics.md).\n\n{table}"
        ),
    );
}

#[test]
fn admin_api_page() {
    let mut page = String::from(
        "# Admin API\n\nGenerated from the routes and the types they answer with; do not edit: `make schema` writes it. \
         The admin port (`server.adminListen`)\nis for operators, never for clients. A route that wants a token takes one \
         of `server.adminTokens` as `Authorization: Bearer …`; without\ntokens it is served on loopback addresses only and \
         not through a proxy, and answers 401 elsewhere.\n\n| route | token | query | answer | purpose |\n\
         |---|---|---|---|---|\n",
    );
    for route in &ADMIN_ROUTES {
        let token = if route.wants_token { "yes" } else { "" };
        // Writing to a string cannot fail.
        let _ = writeln!(
            page,
            "| `{} {}` | {token} | {} | `{}` | {} |",
            route.method, route.path, route.query, route.answer, route.purpose
        );
    }
    page.push_str(
        "\n## GET /admin/status\n\nReaders take defaults for fields they miss and ignore fields they do not know, so \
         that versions may differ.\nTimes are RFC 3339 in UTC.\n",
    );
    let schema = vmcp_config::status::status_schema();
    vmcp_config::SchemaTable::new(&schema, &[]).write(&mut page, "status", &schema);
    page.push_str(
        "\n## GET /admin/tools\n\n`{ \"tools\": [ … ] }`, one object a tool:\n\n| field | meaning |\n|---|---|\n\
         | `name` | name under which clients call it |\n\
         | `backend`, `original` | its backend, and its name there |\n\
         | `title`, `description` | as clients see them, overrides included |\n\
         | `hash` | SHA-256 of the definition, which tells a changed one |\n\
         | `listed` | false if a filter hides it: neither listed nor callable |\n\
         | `definition` | the whole definition, as its backend wrote it |\n",
    );
    page.push_str(
        "\n## GET /admin/runs\n\n`{ \"runs\": [ … ] }`, one object a run. `tookMs` counts from the begin to the end or to \
         now, in milliseconds:\n\n| field | meaning |\n|---|---|\n\
         | `id`, `tool` | id of the run, as in logs and audit; name of the composite tool |\n\
         | `state` | `running`, `waiting` (for an answer of the user), `done`, `failed`, or `unknown`: cut off before its end, or no answer came in time |\n\
         | `who` | subject of the caller, or `anonymous` |\n\
         | `begun`, `tookMs` | time of its begin; waits for answers count |\n\
         | `error` | reason of a failure, its first 300 characters |\n\
         | `steps` | steps that have begun: `id`, `state` (also `skipped`), `tookMs`, `error` |\n",
    );
    page.push_str(
        "\n## POST /admin/explain-tool\n\nThe body is `{ \"tool\": NAME }`; `claims` (of a token, with `sub`), `profile` and `query` are \
         optional, and names and queries have at\nmost 4,096 bytes. The answer:\n\n| field | meaning |\n|---|---|\n\
         | `tool`, `who` | listed name of the tool; subject of the client, or `anonymous` |\n\
         | `isKnown`, `isAllowed`, `isListed`, `isFound` | some backend has it; the client may call it; its `tools/list` has it; its find_tool can find it |\n\
         | `steps` | `subject` (`known`, `backend`, `name`, `definition`, `filter`, `policy`, `list`, `search`), `passes`, and `why` with the setting that decides |\n\
         | `policy` | decision without arguments: `allowed`, `policy`, `couldAllow` with other arguments, `errors`, `shadow` |\n\
         | `rank` | only with `query`: `rank` from 1 among `searched` tools, `returned` by find_tool, the parts of the score in `explanation`, `degraded`, the `first` hits |\n\
         | `nearest` | only for an unknown name: names that are meant perhaps |\n",
    );
    page.push_str(
        "\n## GET /admin/config_dump\n\n`{ \"settings\": [ … ] }`, one object a value. Options of the command line are not \
         in it:\n\n| field | meaning |\n|---|---|\n\
         | `path` | place in the file, such as `backends[0].url` |\n\
         | `value` | value in force; `***` for a secret; the text of a reference for what it stands for |\n\
         | `source` | `default`, `file`, `environment` (a variable of OpenTelemetry), or `{ \"reference\": … }` with the variable, file or stored secret that the file names |\n\
         | `line` | line in the file, from 1; only of a value that the file has |\n",
    );
    page.push_str(
        "\n## GET /admin/tool-metrics\n\n`{ \"tools\": [ … ] }`, one object a tool that was called. Neither arguments nor \
         results are kept, except the first 300\ncharacters of the last error:\n\n| field | meaning |\n|---|---|\n\
         | `server`, `tool` | its backend, and its name there |\n\
         | `call_count`, `success_count`, `failure_count` | calls; a failure is an error result, an answer that never came, or came too late |\n\
         | `success_rate`, `avg_latency_ms` | over all calls |\n\
         | `recent_success_rate`, `recent_latency_ms` | over about the last 50 calls |\n\
         | `last_called_at`, `last_success_at`, `last_error_at` | times; the latter two only if there was one |\n\
         | `last_error` | text of the last error; later successes leave it |\n\
         | `removed` | true if no backend offers the tool any more; its figures are kept |\n",
    );
    assert_committed("admin-api.md", &page);
}

//! Routes of the admin port as data: the router's test and the reference page read them.

/// Path to which the provider of `consoleSignIn` sends the browser back.
pub(in crate::port) const CONSOLE_CALLBACK: &str = "/console/oidc/callback";

/// A route of the admin port.
#[derive(Debug, Clone, Copy)]
pub struct AdminRoute {
    /// HTTP method.
    pub method: &'static str,
    /// Path, without a query.
    pub path: &'static str,
    /// True if the route wants a token of `server.adminTokens`; without tokens it is served on loopback only.
    pub wants_token: bool,
    /// Query parameters, or empty.
    pub query: &'static str,
    /// Media type of the answer.
    pub answer: &'static str,
    /// Purpose and status codes, in a sentence or two.
    pub purpose: &'static str,
}

/// Every route of the admin port.
pub const ADMIN_ROUTES: [AdminRoute; 41] = [
    AdminRoute {
        method: "GET",
        path: "/",
        wants_token: false,
        query: "",
        answer: "text/plain",
        purpose: "This list of routes; a browser is sent to the web console where that is served.",
    },
    AdminRoute {
        method: "GET",
        path: "/console/",
        wants_token: false,
        query: "",
        answer: "text/html",
        purpose: "The web console and its pages, to the people whom `server.console` names: 404 to all others, 401 \
                  with a form to sign in where a token is wanted. Its orders are `POST` with a token of the page.",
    },
    AdminRoute {
        method: "GET",
        path: "/healthz",
        wants_token: false,
        query: "",
        answer: "text/plain",
        purpose: "Liveness: 200 while the process answers.",
    },
    AdminRoute {
        method: "GET",
        path: "/readyz",
        wants_token: false,
        query: "",
        answer: "text/plain",
        purpose: "Readiness: 200 once the configuration is in force, 503 while draining. Of a bridge: 503 with a reason \
                  until its program answers.",
    },
    AdminRoute {
        method: "GET",
        path: "/metrics",
        wants_token: false,
        query: "",
        answer: "application/openmetrics-text, text/plain",
        purpose: "[Metrics](metrics.md); 404 if `telemetry.metricsEnabled` is false. With `server.metricsTokens`, 401 without one of \
                  them or of `server.adminTokens`.",
    },
    AdminRoute {
        method: "GET",
        path: "/admin/status",
        wants_token: true,
        query: "",
        answer: "application/json",
        purpose: "State of the configuration, of each backend and of embedding: [fields](#get-adminstatus).",
    },
    AdminRoute {
        method: "GET",
        path: "/admin/tools",
        wants_token: true,
        query: "`backend`: only this one's",
        answer: "application/json",
        purpose: "Every tool, hidden ones included, with its definition as its backend wrote it: [fields](#get-admintools).",
    },
    AdminRoute {
        method: "GET",
        path: "/admin/tools/changes",
        wants_token: true,
        query: "`backend`, `tool`: only this one's",
        answer: "application/json",
        purpose: "The latest change of each tool's definition, newest first, `{changes}`: `server`, `tool`, `state` \
                  (`accepted`, `pending`, `approved`), `at`, the `hash` of the definition after, and at most 100 `fields` \
                  with their values `before` and `after`: from 200 characters before the first difference, at most \
                  2000 characters; further ones are counted.",
    },
    AdminRoute {
        method: "GET",
        path: "/admin/tools/trusted",
        wants_token: true,
        query: "",
        answer: "application/json",
        purpose: "Fingerprints of the trusted definitions of tools under `onToolChange: Quarantine`, as \
                  `server.trustedToolsPath` reads them: `{trusted, pending}`, each by backend and tool. A trusted one is \
                  `FINGERPRINT`, or `FINGERPRINT@MILLISECONDS` once it was approved; `pending` has changed ones that wait \
                  for that. 404 without a backend under quarantine.",
    },
    AdminRoute {
        method: "POST",
        path: "/admin/tools/approve",
        wants_token: true,
        query: "`backend` and `tool`, by its own name; `hash` of `/admin/tools/changes`: that definition alone",
        answer: "text/plain",
        purpose: "Trusts the changed definition of a tool that is hidden under `onToolChange: Quarantine`: 200, 404 \
                  if none waits for approval, 409 if none with this `hash` does, 400 without both names or with another parameter.",
    },
    AdminRoute {
        method: "GET",
        path: "/admin/tools/usage",
        wants_token: true,
        query: "",
        answer: "application/json",
        purpose: "Tokens that contexts saved at `GET /tools` of this process: `{baseline, filtered, reduction}`, as \
                  `GET /tools/metrics` of the client port has it.",
    },
    AdminRoute {
        method: "POST",
        path: "/admin/tools/usage/reset",
        wants_token: true,
        query: "",
        answer: "text/plain",
        purpose: "Begins these figures anew.",
    },
    AdminRoute {
        method: "POST",
        path: "/admin/refresh",
        wants_token: true,
        query: "`backend`: only this one; `wait=true`: answer with what changed; `force=true`: also embed all its tools \
                anew, and wait",
        answer: "text/plain",
        purpose: "Lists backends again: 202 at once, 404 for an unknown backend. With `wait` or `force`, 200 and JSON, \
                  `{servers}`: `server`, and `added`, `updated`, `removed`, `unchanged`, or `error`.",
    },
    AdminRoute {
        method: "POST",
        path: "/admin/embeddings/regenerate",
        wants_token: true,
        query: "`backend`: only this one's tools",
        answer: "application/json",
        purpose: "Embeds tools anew, also those that have a vector: `{regenerated, failed, duration_ms}`. 404 for an \
                  unknown backend, 503 while the provider does not answer.",
    },
    AdminRoute {
        method: "POST",
        path: "/admin/restart",
        wants_token: true,
        query: "`backend`: this one",
        answer: "text/plain",
        purpose: "Closes the connection of a backend, whose program ends with it, and makes another: 202 at once, 404 \
                  for an unknown backend, 400 without a name. Calls under way at it fail.",
    },
    AdminRoute {
        method: "GET",
        path: "/admin/logs",
        wants_token: true,
        query: "`after`: only lines behind this number; `backend`: only this one's",
        answer: "application/json",
        purpose: "The latest 1000 log lines of the levels in force, `{next, entries}`; `next` is the number to ask \
                  behind the next time.",
    },
    AdminRoute {
        method: "GET",
        path: "/admin/calls",
        wants_token: true,
        query: "`after`: only calls behind this number; `backend`: only this one's",
        answer: "application/json",
        purpose: "The latest 1000 calls, `{next, entries}`: time, tool, outcome, milliseconds, bytes. Neither arguments \
                  nor results.",
    },
    AdminRoute {
        method: "GET",
        path: "/admin/calls/trace",
        wants_token: true,
        query: "`id`: number of a call, or a W3C trace id",
        answer: "application/json",
        purpose: "All that is kept about a call, `{calls, lines}`: caller, policy, times, the calls within it and its log \
                  lines; no arguments; of a failure the first 300 characters, which may quote them. 404 for a call that \
                  is not among the latest 1000, 400 without an id.",
    },
    AdminRoute {
        method: "POST",
        path: "/admin/explain-tool",
        wants_token: true,
        query: "",
        answer: "application/json",
        purpose: "Explains a tool by name: body `{tool, claims, profile, query}`, all but `tool` optional. Is it known, \
                  allowed by which policy, listed by which rule, found for the query: [fields](#post-adminexplain-tool). \
                  400 for a body that is none.",
    },
    AdminRoute {
        method: "GET",
        path: "/admin/config_dump",
        wants_token: true,
        query: "",
        answer: "application/json",
        purpose: "The configuration in force, `{settings}`: `path`, `value`, `source` of each setting, secrets masked: \
                  [fields](#get-adminconfig_dump).",
    },
    AdminRoute {
        method: "GET",
        path: "/admin/support",
        wants_token: true,
        query: "",
        answer: "application/json",
        purpose: "Texts for `vmcp support-bundle`, `{files}` by name: status, configuration, tools, calls, log lines, metrics. \
                  Values of all secrets that the configuration knows are `***`.",
    },
    AdminRoute {
        method: "GET",
        path: "/admin/log-level",
        wants_token: true,
        query: "",
        answer: "application/json",
        purpose: "Levels of log lines: `start`, `changes` by module (`vmcp`: all of vmcp's own), and `until`.",
    },
    AdminRoute {
        method: "PUT",
        path: "/admin/log-level",
        wants_token: true,
        query: "`level`: off, error, warn, info, debug or trace; `module`: only this one's, else all of vmcp's own; `for`: the \
                time after which all changes end; or `reset=true`: the levels of the start, with `module` that of one",
        answer: "application/json",
        purpose: "Changes the level of log lines while the process runs, and answers as GET does; 400 for a wrong level, \
                  module, time or parameter.",
    },
    AdminRoute {
        method: "POST",
        path: "/admin/profile",
        wants_token: true,
        query: "`seconds`: from 1 to 60",
        answer: "text/plain, application/json",
        purpose: "Samples the stacks of the process for that time, and answers folded stacks for a flame graph: 400 without \
                  a length, 409 while another profile is taken, 501 from a build without the feature `profiling`.",
    },
    AdminRoute {
        method: "GET",
        path: "/admin/runs",
        wants_token: true,
        query: "`tool`: only runs of this composite tool",
        answer: "application/json",
        purpose: "The latest 500 runs of composite tools at this process, newest first: [fields](#get-adminruns). Neither \
                  arguments nor results.",
    },
    AdminRoute {
        method: "GET",
        path: "/admin/tool-metrics",
        wants_token: true,
        query: "`server`, `tool`: only this one's; `sort`: `top` (most reliable first) or `failing` (worst first), then \
                `limit` (10), `min_calls` (5, for `top`), `threshold` (0.5, for `failing`); `scope`: `all` replicas of \
                `server.peers`, or this process's `own`",
        answer: "application/json",
        purpose: "Calls, success rate, latency and last error of each tool that was called, `{tools}`; 404 for one tool \
                  without a call: [fields](#get-admintool-metrics).",
    },
    AdminRoute {
        method: "GET",
        path: "/admin/tool-metrics/days",
        wants_token: true,
        query: "`server`, `tool`: only this one's; `days`: to look back (30); `limit`: most entries (100)",
        answer: "application/json",
        purpose: "Calls, successes, failures and mean latency of each tool on each day (UTC), newest first, `{days}`; without \
                  `server` and `tool` also searches of each day, those without a result and without a call after them, and the \
                  tokens that they saved, `searches`. They are kept for good, by the process that answers; 400 for a number \
                  out of range.",
    },
    AdminRoute {
        method: "GET",
        path: "/admin/tool-metrics/calls",
        wants_token: true,
        query: "as of `/admin/tool-metrics/days`",
        answer: "application/json",
        purpose: "Single calls of the last `optimizer.metricsRetentionDays` days, newest first, `{calls}`: `at`, `server`, \
                  `tool`, `outcome`, `latency_ms`. Of a burst, the last 64 calls of each fifth of a second.",
    },
    AdminRoute {
        method: "POST",
        path: "/admin/tool-metrics/reset",
        wants_token: true,
        query: "`server`, `tool`: only this one's; `scope`: `all` replicas, or this process's `own`",
        answer: "application/json",
        purpose: "Forgets the metrics of tools: `{reset}`, the number of tools that had some.",
    },
    AdminRoute {
        method: "POST",
        path: "/admin/sessions/end",
        wants_token: true,
        query: "`subject`, or `jti` of one token; `issuer`: only this one's; `for`: the time for which keys are refused (24h, \
                at most 90 days)",
        answer: "application/json",
        purpose: "Ends the sessions and streams of a person, and refuses tokens from before now; keys and certificates are \
                  refused for that time. Every replica of `server.peers` follows within two seconds. Answers the order.",
    },
    AdminRoute {
        method: "POST",
        path: "/admin/sessions/allow",
        wants_token: true,
        query: "as of `/admin/sessions/end`",
        answer: "application/json",
        purpose: "Lifts an order about the same credentials.",
    },
    AdminRoute {
        method: "GET",
        path: "/admin/sessions/ended",
        wants_token: true,
        query: "",
        answer: "application/json",
        purpose: "The orders in force, `{orders}`, lifted ones too.",
    },
    AdminRoute {
        method: "GET",
        path: "/admin/logins",
        wants_token: true,
        query: "`issuer` and `subject` of a client",
        answer: "application/json",
        purpose: "Backends for which this process keeps a token of the client, `{replica, logins}`: `server`, `kind`, \
                  `provider` where the client's own token carries it, and `expires` in seconds since 1970. No token. 400 \
                  without both names.",
    },
    AdminRoute {
        method: "POST",
        path: "/admin/logins/forget",
        wants_token: true,
        query: "`issuer` and `subject` of a client, `server`; `scope=own`: at this replica alone",
        answer: "application/json",
        purpose: "Forgets the tokens of the client for one backend, `{forgotten}`; sign-ins through `authServer` are \
                  withdrawn for that. 400 without the names.",
    },
    AdminRoute {
        method: "GET",
        path: "/admin/replica",
        wants_token: true,
        query: "`learned_after`: only pairs learned since, in milliseconds",
        answer: "application/json",
        purpose: "Counts, learned pairs and approvals of this process, for the other replicas of `server.peers`; 304 if \
                  it is the one of `If-None-Match`. Its shape may change with any version.",
    },
    AdminRoute {
        method: "GET",
        path: "/admin/replica/usage",
        wants_token: true,
        query: "as of `/admin/tool-metrics/days`",
        answer: "application/json",
        purpose: "Usage over days of this process, for the page of another replica of `server.peers` that sums it. Its \
                  shape may change with any version.",
    },
    AdminRoute {
        method: "GET",
        path: "/admin/replica/activity",
        wants_token: true,
        query: "",
        answer: "application/json",
        purpose: "Figures of the kept calls, callers, connections and failed servers of this process, for the overview of \
                  another replica. Its shape may change with any version.",
    },
    AdminRoute {
        method: "GET",
        path: "/admin/replica/calls",
        wants_token: true,
        query: "as of the console's page of calls",
        answer: "application/json",
        purpose: "The latest 300 calls of this process that fit, for the page of another replica. Its shape may change with \
                  any version.",
    },
    AdminRoute {
        method: "GET",
        path: "/admin/replica/call",
        wants_token: true,
        query: "`number` of a call, `replica`: the id of this process",
        answer: "application/json",
        purpose: "One call with its facts, for the page of another replica; null if it is not kept, or the id is another \
                  one. Its shape may change with any version.",
    },
    AdminRoute {
        method: "GET",
        path: "/admin/replica/logs",
        wants_token: true,
        query: "",
        answer: "application/json",
        purpose: "The latest log lines of this process, at most 1 MiB, for the page of another replica. Its shape may change \
                  with any version.",
    },
    AdminRoute {
        method: "GET",
        path: "/admin/replica/wanted",
        wants_token: true,
        query: "",
        answer: "application/json",
        purpose: "Searches of this process that led nowhere, in groups, for the page of another replica. Its shape may change \
                  with any version.",
    },
];

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use serde_json::json;
    use tower::ServiceExt as _;

    use super::*;
    use crate::port::admin::Admin;
    use crate::port::admin::routes::router;
    use vmcp_engine::testing::{KEYWORDS, Scripted, backends, engine};

    #[tokio::test]
    async fn every_route_is_served_and_guarded_as_described() {
        let server = Scripted::start(&[("now", "Tells the time.", json!({}))]).await;
        // `/admin/tools/trusted` is served once a backend is under quarantine.
        let quarantine = format!("aggregation: {{ onToolChange: Quarantine }}\n{KEYWORDS}");
        let engine = engine(&backends(&[("clock", &server.url)], &quarantine)).await;
        let answer = async |address: [u8; 4], route: &AdminRoute| {
            let router = router(Admin::new(engine.clone(), None), (address, 0).into());
            let request = Request::builder().method(route.method).uri(route.path).header("host", "localhost");
            router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
        };
        for route in &ADMIN_ROUTES {
            let page = answer([127, 0, 0, 1], route).await;
            // Routes that act on one thing refuse a request that does not name it.
            let needs_name = matches!(
                route.path,
                "/admin/restart"
                    | "/admin/tools/approve"
                    | "/admin/sessions/end"
                    | "/admin/sessions/allow"
                    | "/admin/logins"
                    | "/admin/logins/forget"
                    | "/admin/calls/trace"
                    | "/admin/explain-tool"
                    | "/admin/profile"
            ) || route.method == "PUT";
            let status = page.status();
            let expected = if needs_name { status == 400 } else { status.is_success() };
            assert!(expected, "{} {}: {status}", route.method, route.path);
            let kind = page.headers()["content-type"].to_str().unwrap();
            let is_described = route.answer.split(", ").any(|answer| kind.starts_with(answer));
            assert!(is_described, "{}: {kind}", route.path);
            let guarded = answer([0, 0, 0, 0], route).await.status() == 401;
            assert_eq!(guarded, route.wants_token, "{}", route.path);
        }
    }
}

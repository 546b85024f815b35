//! Remedies for settings of ToolHive, of other clients or of the Kubernetes resource that `vmcp.yaml` lacks.

/// Returns the remedy for an unknown key, by its path without indices.
pub(crate) fn for_key(path: &str) -> Option<&'static str> {
    Some(match path {
        "audit.includeResponseData" => "events hold no results: remove it",
        "audit.detectApplicationErrors" => "errors of tools always have an outcome of their own: remove it",
        "outgoingAuth.backends.subjectProviderName" => {
            "it belongs to the block of the type, such as `tokenExchange: { subjectProviderName: … }`"
        }
        "codeMode" => {
            "add `execute_tool_script` to `optimizer.tools`; `code` has the limits, as `maxParallel` and `callTimeout`"
        }
        "compositeToolRefs" => "only the Kubernetes resource has this: write `compositeTools`",
        "incomingAuth.oidc.introspection" => {
            "write `introspectionUrl`, `clientId` and `clientSecret: '${file:/path}'`"
        }
        "mcpServers" | "servers" => {
            "this is another client's format: convert its file by `vmcp init --from FILE`"
        }
        "name" | "groupRef" | "metadata" => "only the Kubernetes resource has this: remove it",
        "backends.type" => "write `transport: streamable-http`, `sse` or `websocket`, or nothing",
        "backends.envFile" | "backends.env_file" => "set the variables in `env`, with secrets from `${NAME}`",
        "operational.failureHandling.healthCheckInterval"
        | "operational.failureHandling.healthCheckTimeout" => {
            "remove it: each call and each listing (every `proxy.refreshInterval`) shows whether a backend is alive"
        }
        "optimizer.embeddingService" => "write `embeddings: { provider: tei, tei: { endpoint: … } }`",
        "optimizer.embeddingProvider" => "write `embeddings: { provider: … }`",
        "optimizer.maxToolsToReturn" => "write `search: { maxTools: … }`",
        "optimizer.hybridSearchSemanticRatio" => "write `search: { hybridSemanticRatio: … }`",
        "optimizer.semanticDistanceThreshold" => "write `search: { semanticDistanceThreshold: … }`",
        "aggregation.tools.toolConfigRef" => {
            "only the Kubernetes resource has this: write `filter` and `overrides`"
        }
        _ => return None,
    })
}

/// Returns the remedy for a value beside the choices at `path`.
pub(crate) fn for_value(path: &str, value: &str) -> Option<&'static str> {
    Some(match (path, value) {
        ("incomingAuth.type", "clientCertificate" | "mtls" | "mTLS") => "write `clientCertificates`",
        ("optimizer.storage.type", _) => "other kinds may come later: use `sqlite`",
        ("backends.transport", "ws" | "wss") => "write `websocket`",
        _ => return None,
    })
}

/// Strips the indices of a path: `backends[1].url` becomes `backends.url`.
pub(crate) fn general(path: &str) -> String {
    let mut general = String::with_capacity(path.len());
    let mut inside = false;
    for c in path.chars() {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            _ if !inside => general.push(c),
            _ => {}
        }
    }
    general
}

//! Every kind of mistake in `vmcp.yaml`, with exactly what is said about it.

fn environment(name: &str) -> Option<String> {
    match name {
        "TOKEN" => Some("s3cret".to_owned()),
        "EIGHT" => Some("8".to_owned()),
        "BAD_URL" => Some("ftp-s3cret".to_owned()),
        _ => None,
    }
}

fn file(path: &str) -> Result<Option<String>, String> {
    match path {
        "/run/bad_url" => Ok(Some("ftp-s3cret\n".to_owned())),
        "/run/closed" => Err("permission denied".to_owned()),
        _ => Ok(None),
    }
}

/// Returns the problems of `yaml`, one a line.
fn mistakes(yaml: &str) -> String {
    match vmcp_config::load_with_files(yaml, "f", &environment, &file) {
        Ok(_) => "no problem".to_owned(),
        Err(problems) => problems.to_string(),
    }
}

macro_rules! mistakes {
    ($($test:ident: { $($yaml:expr => $expected:expr,)+ })+) => {$(
        #[test]
        fn $test() {
            $(assert_eq!(mistakes($yaml), $expected, "for:\n{}", $yaml);)+
        }
    )+};
}

mistakes! {
    keys: {
        "optimizer:\n  exposre: All" =>
            "f:2: optimizer.exposre: unknown key; did you mean `exposure`?",
        "optimiser: {}" =>
            "f:1: optimiser: unknown key; did you mean `optimizer`?",
        "incomingAuth: { zebra: 1 }" =>
            "f:1: incomingAuth.zebra: unknown key; known keys here are `type`, `oidc`, `additionalIssuers`, `apiKeys`, `clientCertificates`, `authz`, `toolScopes`, `decisionPoint`",
        "backends:\n- nmae: a\n  url: http://a" =>
            "f:2: backends[0].nmae: unknown key; did you mean `name`?",
        "optimizer: { exposre: All, exposure: none }" =>
            "f:1: optimizer.exposure: must be one of `Auto`, `All`, `MetaOnly`, `Contextual`, not `none`; choose one of `Auto`, `All`, `MetaOnly`, `Contextual`\n\
             f:1: optimizer.exposre: unknown key; known keys here are `enabled`, `tools`, `admin`, `exposure`, `autoTokenBudget`, `pinnedTools`, `toolNameStyle`, `legacyAliases`, `maxToolResponseTokens`, `largeResults`, `ownResources`, `maxFallbacks`, `autoRetryFallback`, `search`, `storage`, `embeddings`, `contextual`, `learning`, `queryLog`, `metricsRetentionDays`, `llm`, `recommendTools`, `discovery`, `sessionHooks`, `rerank`, `limits`",
        "codeMode: {}" =>
            "f:1: codeMode: unknown key; add `execute_tool_script` to `optimizer.tools`; `code` has the limits, as `maxParallel` and `callTimeout`",
        "operational:\n  failureHandling:\n    healthCheckInterval: 1s" =>
            "f:3: operational.failureHandling.healthCheckInterval: unknown key; remove it: each call and each listing (every `proxy.refreshInterval`) shows whether a backend is alive",
        "mcpServers: {}" =>
            "f:1: mcpServers: unknown key; this is another client's format: convert its file by `vmcp init --from FILE`",
        "server:\n  listen: 127.0.0.1:1\n  listen: 127.0.0.1:2" =>
            "f:3: server.listen: given twice; first in line 2; keep one of them",
    }

    types: {
        "backends: time" =>
            "f:1: backends: must be a list, not the string `time`; write it as a list: `[a, b]`",
        "- a" =>
            "f:1: must be a map, not a list; write `key: value` lines below it",
        "proxy: [1]" =>
            "f:1: proxy: must be a map, not a list; write `key: value` lines below it",
        "optimizer: { enabled: \"yes\" }" =>
            "f:1: optimizer.enabled: must be true or false, not the string `yes`; write `true` or `false`, without quotes",
        "optimizer: { search: { maxTools: many } }" =>
            "f:1: optimizer.search.maxTools: must be a whole number, not the string `many`; write a number without quotes",
        "optimizer: { search: { maxTools: 2.5 } }" =>
            "f:1: optimizer.search.maxTools: must be a whole number, not the number `2.5`; write a number without quotes",
        "optimizer: { search: { hybridSemanticRatio: true } }" =>
            "f:1: optimizer.search.hybridSemanticRatio: must be a string or a number, not `true`; put it in quotes",
        "backends: [{ name: a, command: { x: y } }]" =>
            "f:1: backends[0].command: must be a list or a string, not a map; write it as a list: `[a, b]`",
        "backends:\n- name: a\n  command: [a]\n  env:\n    PORT: 80.10\n    NONE:" =>
            "f:5: backends[0].env.PORT: must be a string, not the number `80.1`; put it in quotes\n\
             f:6: backends[0].env.NONE: must be a string, not nothing; put it in quotes",
    }

    items_after_a_wrong_one_keep_their_index: {
        "backends:\n- time\n- name: A\n  url: http://a\n- name: b\n  command: [1.5, x]" =>
            "f:2: backends[0]: must be a map, not the string `time`; write `key: value` lines below it\n\
             f:3: backends[1].name: `A` is not a backend name; call it `a`\n\
             f:6: backends[2].command[0]: must be a string, not the number `1.5`; put it in quotes",
    }

    ranges: {
        "optimizer: { search: { maxTools: 51 } }" =>
            "f:1: optimizer.search.maxTools: `51` is out of range; choose a number from 1 to 50; the default is 8",
        "optimizer: { maxToolResponseTokens: 99 }" =>
            "f:1: optimizer.maxToolResponseTokens: `99` is out of range; choose a number from 100 to 100000",
        "optimizer: { largeResults: { threshold: 249, ttl: 25h, maxBytes: 65536 }, tools: [call_tool] }" =>
            "f:1: optimizer.largeResults.threshold: `249` is out of range; choose a number from 250 to 1000000; the default is 8000\n\
             f:1: optimizer.largeResults.maxBytes: 65536 is less than maxBytesPerPrincipal (67108864); raise it, or lower `maxBytesPerPrincipal`\n\
             f:1: optimizer.largeResults.ttl: `25h` is not between 1s and 24h; choose a duration within these bounds",
        "optimizer: { tools: [call_tool, search_result] }" =>
            "f:1: optimizer.tools[1]: search_result works on large results, which are off; set `optimizer.largeResults.enabled: true`, or remove it",
        "proxy: { maxConnectionRetries: -1 }" =>
            "f:1: proxy.maxConnectionRetries: `-1` is out of range; choose a number from 0 to 100; the default is 3",
        "optimizer: { search: { hybridSemanticRatio: \"1.5\", semanticDistanceThreshold: 3 } }" =>
            "f:1: optimizer.search.hybridSemanticRatio: `1.5` is not a number between 0 and 1; write a decimal, such as \"1.0\"\n\
             f:1: optimizer.search.semanticDistanceThreshold: `3` is not a number between 0 and 2; write a decimal, such as \"2.0\"",
        "optimizer: { limits: { parametersDepth: 128 } }" =>
            "f:1: optimizer.limits.parametersDepth: `128` is out of range; choose a number from 1 to 127; the default is 64",
    }

    choices: {
        "optimizer: { exposure: Meta }" =>
            "f:1: optimizer.exposure: must be one of `Auto`, `All`, `MetaOnly`, `Contextual`, not `Meta`; did you mean `MetaOnly`?",
        "incomingAuth: { type: clientCertificate }" =>
            "f:1: incomingAuth.type: must be one of `anonymous`, `oidc`, `apiKeys`, `clientCertificates`, not `clientCertificate`; write `clientCertificates`",
        "optimizer: { storage: { type: postgres } }" =>
            "f:1: optimizer.storage.type: must be one of `sqlite`, not `postgres`; other kinds may come later: use `sqlite`",
        "backends: [{ name: a, url: http://a, transport: http }]" =>
            "f:1: backends[0].transport: must be one of `stdio`, `streamable-http`, `sse`, `websocket`, `codex`, not `http`; did you mean `streamable-http`?",
        "operational: { logLevel: [] }" =>
            "f:1: operational.logLevel: must be one of `trace`, `debug`, `info`, `warn`, `error`, not a list; choose one of `trace`, `debug`, `info`, `warn`, `error`",
    }

    incoming_auth: {
        "incomingAuth: { type: oidc }" =>
            "f:1: incomingAuth.oidc: missing; add `oidc: { issuer: https://…, audience: … }`",
        "incomingAuth: { type: apiKeys }" =>
            "f:1: incomingAuth.apiKeys: missing; add `apiKeys: [{ subject: NAME, key: '${file:/path}' }]`",
        "incomingAuth: { apiKeys: [{ subject: ci, key: 0123456789abcdef }] }" =>
            "f:1: incomingAuth.apiKeys: not used by this `type`; set `type: apiKeys`, or remove this block",
        "incomingAuth: { type: apiKeys, apiKeys: [{ key: short }, { subject: b, key: 'sixteen with a space' }] }" =>
            "f:1: incomingAuth.apiKeys[0].subject: missing; name the client that has this key\n\
             f:1: incomingAuth.apiKeys[0].key: shorter than 16 characters; make one by `openssl rand -base64 32`\n\
             f:1: incomingAuth.apiKeys[1].key: has characters that no HTTP header carries; use printable ASCII without spaces",
        "incomingAuth:\n  type: oidc\n  oidc: { issuer: 'http://idp.example', clockSkew: 1h, scopes: ['a b'] }" =>
            "f:3: incomingAuth.oidc.issuer: keys that come over plain HTTP can be forged; use an https:// URL; for development, set `insecureAllowHttp: true`\n\
             f:3: incomingAuth.oidc.audience: missing: any token of the issuer would do, also one for another service; add the audience that the provider puts into tokens for this server, or `resource`\n\
             f:3: incomingAuth.oidc.scopes[0]: `a b` is not a scope; write one scope an entry, of printable ASCII without quotes and spaces\n\
             f:3: incomingAuth.oidc.clockSkew: `1h` is not between 0s and 10m; choose a duration within these bounds",
        "incomingAuth:\n  type: oidc\n  oidc: { issuer: 'https://idp.example', audience: a, introspection: { url: 'https://idp.example/i' } }" =>
            "f:3: incomingAuth.oidc.introspection: unknown key; write `introspectionUrl`, `clientId` and `clientSecret: '${file:/path}'`",
        "incomingAuth:\n  type: oidc\n  oidc: { issuer: 'https://idp.example', audience: a, introspectionUrl: 'http://idp.example/i', clientId: vmcp, introspectionCacheTtl: 1h }" =>
            "f:3: incomingAuth.oidc.introspectionCacheTtl: `1h` is not between 0s and 10m; choose a duration within these bounds\n\
             f:3: incomingAuth.oidc.clientSecret: missing: `introspectionUrl` asks for it; register this server at the provider, as a client that may introspect tokens\n\
             f:3: incomingAuth.oidc.introspectionUrl: tokens and the client's secret would travel unencrypted; use an https:// URL; for development, set `insecureAllowHttp: true`",
        "incomingAuth:\n  type: oidc\n  oidc: { issuer: 'https://idp.example', audience: a, clientId: vmcp, introspect: all }" =>
            "f:3: incomingAuth.oidc.clientId: not used without `introspectionUrl`: keys verify the tokens; remove it, or add `introspectionUrl`\n\
             f:3: incomingAuth.oidc.introspect: not used without `introspectionUrl`: keys verify the tokens; remove it, or add `introspectionUrl`",
        "incomingAuth:\n  type: oidc\n  oidc: { issuer: 'https://idp.example', audience: a, introspectionUrl: 'https://idp.example/i', clientId: vmcp, clientSecret: s }\n  additionalIssuers:\n  - { issuer: 'https://b.example', audience: a, introspectionUrl: 'https://b.example/i', clientId: vmcp, clientSecret: s }" =>
            "f:5: incomingAuth.additionalIssuers[0].introspectionUrl: another issuer has one: opaque tokens would be shown to both; keep one `introspectionUrl`; tokens of the other issuers must be JWTs",
        "incomingAuth:\n  type: oidc\n  oidc: { issuer: 'https://idp.example', audience: a, requiredBinding: dpop }" =>
            "f:3: incomingAuth.oidc.requiredBinding: proofs (DPoP) name the URL of this server, which is unknown here; add `resource: https://…/mcp`, the URL at which clients reach this server",
        "incomingAuth:\n  type: oidc\n  oidc: { issuer: 'https://idp.example', audience: a, requiredBinding: certificate }" =>
            "f:3: incomingAuth.oidc.requiredBinding: no connection has a client certificate; add `clientCertificates` and `server.tls`",
    }

    durations: {
        "proxy:\n  connectionTimeout: 0s\n  toolTimeout: soon\n  refreshInterval: 48h" =>
            "f:2: proxy.connectionTimeout: `0s` is not between 1ms and 24h; choose a duration within these bounds\n\
             f:3: proxy.toolTimeout: `soon` is not a duration; write a number with a unit, such as `500ms`, `30s` or `1m30s`\n\
             f:4: proxy.refreshInterval: `48h` is not between 1s and 24h; choose a duration within these bounds",
        "proxy: { toolTimeout: -3 }" =>
            "f:1: proxy.toolTimeout: `-3` is out of range; choose a number at least 0; the default is \"60s\"",
        "proxy: { toolTimeout: 20m }" =>
            "f:1: proxy.toolTimeout: 20m is longer than `proxy.maxToolTimeout`, 10m; shorten it, or raise `proxy.maxToolTimeout`",
        "backends: [{ name: a, url: http://a, timeout: 1h }]" =>
            "f:1: backends[0].timeout: 1h is longer than `proxy.maxToolTimeout`, 10m; shorten it, or raise `proxy.maxToolTimeout`",
        "backends: [{ name: a, url: http://a, timeout: 1s }]\noperational: { timeouts: { perWorkload: { a: 2s } } }" =>
            "f:2: operational.timeouts.perWorkload.a: backends[0].timeout says it too; keep one of the two",
    }

    environment_references: {
        "backends: []\ntelemetry:\n  headers: { Authorization: \"Bearer ${GITHUB_TOKEN}\" }" =>
            "f:3: telemetry.headers.Authorization: the environment variable `GITHUB_TOKEN` is not set; set it, also in a file `.env` beside this one, give a default by `${GITHUB_TOKEN:-…}`, or write `$${GITHUB_TOKEN}` to keep the text",
        // A name is not secret: without it there is nothing to switch off.
        "backends: [{ name: \"${GITHUB_NAME}\", url: http://a }]" =>
            "f:1: backends[0].name: the environment variable `GITHUB_NAME` is not set; set it, also in a file `.env` beside this one, give a default by `${GITHUB_NAME:-…}`, or write `$${GITHUB_NAME}` to keep the text",
        "telemetry: { serviceName: \"${TOKEN\" }" =>
            "f:1: telemetry.serviceName: `${` without a closing `}`; close it, or write `$${` to keep the text",
        "telemetry: { serviceName: \"${A-b}\" }" =>
            "f:1: telemetry.serviceName: `${A-b}` is not a reference to an environment variable, a file or a secret; write `${NAME}`, `${NAME:-default}`, `${file:/path}` or `${secret:NAME}`, or `$${` to keep the text",
        // A wrong value of a reference costs its backend alone.
        "backends: [{ name: a, url: \"${BAD_URL}\" }]" => "no problem",
        "optimizer: { enabled: \"${TOKEN}\" }" =>
            "f:1: optimizer.enabled: must be true or false, not the value of an environment variable; write `true` or `false`, without quotes",
    }

    file_references: {
        "backends: []\ntelemetry:\n  headers: { Authorization: \"Bearer ${file:/run/token}\" }" =>
            "f:3: telemetry.headers.Authorization: there is no file `/run/token`; create it, mount the secret that has it, or give a default by `${file:/run/token:-…}`",
        "telemetry: { serviceName: \"${file:/run/closed}\" }" =>
            "f:1: telemetry.serviceName: the file `/run/closed` cannot be read: permission denied; make it a text file that vmcp may read",
        "telemetry: { serviceName: \"${file:name}\" }" =>
            "f:1: telemetry.serviceName: `name` is not an absolute path; write the whole path: `${file:/etc/vmcp/secrets/token}`",
        "backends: [{ name: a, url: \"${file:/run/bad_url}\" }]" => "no problem",
    }

    backend_names: {
        "backends: [{ url: http://a }]" =>
            "f:1: backends[0].name: missing; give the backend a short, unique name, such as `name: github`",
        "backends: [{ name: My Server!, url: http://a }]" =>
            "f:1: backends[0].name: `My Server!` is not a backend name; call it `my-server`",
        "backends: [{ name: \"!\", url: http://a }]" =>
            "f:1: backends[0].name: `!` is not a backend name; use lower-case letters, digits, `-`, `_` and `.`, at most 63",
        "backends: [{ name: optim, url: http://a }]" =>
            "f:1: backends[0].name: `optim` is reserved for vmcp's own tools; choose another name",
        "backends:\n- { name: a, url: http://a }\n- { name: a, url: http://b }" =>
            "f:3: backends[1].name: `a` is already the name of backends[0]; give each backend a name of its own",
    }

    backend_transports: {
        "backends: [{ name: a }]" =>
            "f:1: backends[0]: neither `command` nor `url` is given; add `command: [program, argument]` to start it here, or `url: https://…/mcp` to reach it",
        "backends: [{ name: a, transport: streamable-http }]" =>
            "f:1: backends[0]: transport `streamable-http` requires `url`; add `command: [program, argument]` to start it here, or `url: https://…/mcp` to reach it",
        "backends: [{ name: a, url: http://a, command: b }]" =>
            "f:1: backends[0]: both `command` and `url` are given; keep `command` for a program started here, or `url` for a remote server",
        "backends: [{ name: a, url: http://a, transport: stdio }]" =>
            "f:1: backends[0].transport: `stdio` does not go with `url`; remove `transport`, or choose `streamable-http`, `sse` or `websocket`",
        "backends: [{ name: a, command: b, transport: sse, headers: { X: y } }]" =>
            "f:1: backends[0].headers: only a backend with `url` has this; remove them, or pass the secret to the program through `env`\n\
             f:1: backends[0].transport: a backend with `command` speaks stdio; remove `transport`, or replace `command` by `url`",
        "backends: [{ name: a, url: http://a, args: [x], env: { X: y }, cwd: . }]" =>
            "f:1: backends[0].args: only a backend with `command` has this; remove it, or replace `url` by `command`\n\
             f:1: backends[0].env: only a backend with `command` has this; remove it, or replace `url` by `command`\n\
             f:1: backends[0].cwd: only a backend with `command` has this; remove it, or replace `url` by `command`",
        "backends: [{ name: a, url: http://a, transport: codex }]" =>
            "f:1: backends[0].transport: `codex` does not go with `url`; remove `url`: Codex is started here, by `command` or as `codex app-server`",
        "backends: [{ name: a, command: [b], codex: { allowDangerous: true } }]" =>
            "f:1: backends[0].codex: only a backend with `transport: codex` has this; add `transport: codex`, or remove it",
        "backends: [{ name: a, transport: codex, codex: { workspaces: [src] } }]" =>
            "f:1: backends[0].codex.workspaces[0]: src is not an absolute path; write the whole path, beginning at `/`",
        "backends: [{ name: a, transport: codex, cwd: /, codex: { workspaces: [/w, /./] } }]" =>
            "f:1: backends[0].codex.workspaces[1]: turns of Codex could work in every directory; name a directory below `/`\n\
             f:1: backends[0].cwd: turns of Codex could work in every directory; name a directory below `/`",
        "backends: [{ name: a, command: uvx mcp-server-time }]" =>
            "f:1: backends[0].command: a program and its arguments in one string are not split; write it as a list: `[uvx, mcp-server-time]`",
        "backends: [{ name: a, command: [] }, { name: b, command: \"\" }]" =>
            "f:1: backends[0].command: empty; name the program to start\n\
             f:1: backends[1].command: empty; name the program to start",
        "backends: [{ name: a, command: [b, \"c\\0\"] , env: { \"A=B\": c } }]" =>
            "f:1: backends[0].env[\"A=B\"]: not the name of an environment variable; use letters, digits and `_`\n\
             f:1: backends[0].command: a command line cannot hold a NUL character; remove it",
    }

    urls: {
        "backends: [{ name: a, url: a.example.com/mcp }]" =>
            "f:1: backends[0].url: `a.example.com/mcp` is not an absolute URL; write it with scheme and host, such as `https://example.com/mcp`",
        "backends: [{ name: a, url: \"ftp://a\" }]" =>
            "f:1: backends[0].url: the scheme `ftp` is not supported; use an http:// or https:// URL, or ws:// or wss:// for a websocket",
        "backends: [{ name: a, url: \"https://a\", transport: websocket }]" =>
            "f:1: backends[0].url: not the address of a websocket; write `ws://` or `wss://`, or choose `streamable-http`",
        "backends: [{ name: a, url: \"wss://a\", transport: sse }]" =>
            "f:1: backends[0].url: the address of a websocket; remove `transport`, or write `http://` or `https://`",
        "backends: [{ name: a, url: \"wss://a\", transport: wss }]" =>
            "f:1: backends[0].transport: must be one of `stdio`, `streamable-http`, `sse`, `websocket`, `codex`, not `wss`; write `websocket`",
        "backends: [{ name: a, url: \"ws://a\", caBundlePath: ca.pem }]" =>
            "f:1: backends[0].caBundlePath: a server without TLS shows no certificate; remove it, or write `wss://`",
        "backends: [{ name: a, command: [b], addresses: public }]" =>
            "f:1: backends[0].addresses: only a backend with `url` has this; remove it",
        "optimizer: { admin: { allow: [{ url: 'https://a/', secrets: ['*'] }] } }" =>
            "f:1: optimizer.admin.allow[0].secrets[0]: not the name of a secret; write each name in full",
        "backends: [{ name: a, url: \"ws://a\", headers: { Sec-WebSocket-Protocol: x } }]" =>
            "f:1: backends[0].headers.Sec-WebSocket-Protocol: this header is set by vmcp itself; remove it",
        "backends: [{ name: a, url: \"https://u:p@a\" }]" =>
            "f:1: backends[0].url: a URL must not carry credentials; remove `user:password@` and set `headers: { Authorization: … }` instead",
        "backends: [{ name: a, url: \"https://a/#b\" }]" =>
            "f:1: backends[0].url: a URL with a `#fragment` cannot be called; remove the fragment",
    }

    headers: {
        "backends: [{ name: a, url: http://a, headers: { Mcp-Session-Id: x, Host: y } }]" =>
            "f:1: backends[0].headers.Host: this header is set by vmcp itself; remove it\n\
             f:1: backends[0].headers.Mcp-Session-Id: this header is set by vmcp itself; remove it",
        "backends: [{ name: a, url: http://a, headers: { \"a b\": x } }]" =>
            "f:1: backends[0].headers[\"a b\"]: not a header name; use letters, digits and any of !#$%&'*+-.^_`|~",
        "backends: [{ name: a, url: http://a, headers: { A: \"x\\ny\" } }]" =>
            "f:1: backends[0].headers.A: not a header value: it has a line break; use at most 8192 printable ASCII characters, without line breaks",
        "backends: [{ name: a, url: http://a, headers: { x-a: x, X-A: y } }]" =>
            "f:1: backends[0].headers.x-a: given twice, with different capitals; keep one of them",
    }

    aggregation: {
        "backends: [{ name: github, url: http://a }]\naggregation: { tools: [{ workload: gitub }, {}] }" =>
            "f:2: aggregation.tools[0].workload: no backend is named `gitub`; did you mean `github`?\n\
             f:2: aggregation.tools[1].workload: missing; name the backend that this entry is about",
        "backends: [{ name: a, url: http://a }]\naggregation: { tools: [{ workload: a }, { workload: a }] }" =>
            "f:2: aggregation.tools[1].workload: a second entry for `a`; put all rules of a backend into one entry",
        "aggregation:\n  aliases:\n    a b: s_x\n    c: ''\n    d: e\n    e: s_y" =>
            "f:3: aggregation.aliases[\"a b\"]: not a legal name of a tool; use 1 to 64 letters, digits, `_`, `-` and `.`\n\
             f:4: aggregation.aliases.c: no name of a tool; write the name under which the tool is listed\n\
             f:5: aggregation.aliases.d: `e` is an alias itself; write the tool's listed name",
        "aggregation: { conflictResolution: priority }" =>
            "f:1: aggregation.conflictResolutionConfig.priorityOrder: strategy `priority` needs an order; list backend names, most important first",
        "aggregation: { conflictResolution: priority, conflictResolutionConfig: { priorityOrder: [x] } }" =>
            "f:1: aggregation.conflictResolutionConfig.priorityOrder[0]: no backend is named `x`; add it to `backends`, or remove it here",
        "aggregation: { conflictResolutionConfig: { maxNameLength: 65 } }" =>
            "f:1: aggregation.conflictResolutionConfig.maxNameLength: `65` is out of range; choose a number from 32 to 64; the default is 50",
        "aggregation: { conflictResolutionConfig: { prefixFormat: x_ } }" =>
            "f:1: aggregation.conflictResolutionConfig.prefixFormat: `x_` has no place for the backend's name; write for instance `{workload}_`, or choose the strategy `passthrough`",
        "aggregation: { conflictResolutionConfig: { prefixFormat: \"{workload}/\" } }" =>
            "f:1: aggregation.conflictResolutionConfig.prefixFormat: `{workload}/` does not give legal tool names; use `{workload}`, letters, digits, `_`, `-` and `.`",
        "backends: [{ name: a, url: http://a }]\naggregation:\n  tools:\n  - workload: a\n    filter: []\n    overrides:\n      x: { name: z }\n      y.1: { name: z }\n      w: { name: a b }" =>
            "f:5: aggregation.tools[0].filter: an empty filter; remove it to list every tool, or set `excludeAll: true`\n\
             f:8: aggregation.tools[0].overrides[\"y.1\"].name: `x` is renamed to `z` too; give each tool a name of its own\n\
             f:9: aggregation.tools[0].overrides.w.name: `a b` is not a tool name; use letters, digits, `_`, `-` and `.`, at most 128",
    }

    names_of_backends_elsewhere: {
        "backends: [{ name: a1, url: http://a }]\nproxy: { preconnectServers: [a2] }\noperational: { timeouts: { perWorkload: { zebra: 1s } } }" =>
            "f:2: proxy.preconnectServers[0]: no backend is named `a2`; backends are `a1`\n\
             f:3: operational.timeouts.perWorkload.zebra: no backend is named `zebra`; backends are `a1`",
    }

    embeddings: {
        "optimizer: { embeddings: { provider: tei } }" =>
            "f:1: optimizer.embeddings.tei.endpoint: missing; add the base URL of the service, such as `http://localhost:8080`",
        "optimizer: { embeddings: { provider: openai, openai: { model: \"\" } } }" =>
            "f:1: optimizer.embeddings.openai.model: empty; name the model to ask for, such as `text-embedding-3-small`",
        "optimizer: { embeddings: { provider: openai, openai: { apiKey: x, headers: { Authorization: y } } } }" =>
            "f:1: optimizer.embeddings.openai.apiKey: `headers` gives `Authorization` too; keep one of the two",
        "optimizer: { embeddings: { local: { model: bge } } }" =>
            "f:1: optimizer.embeddings.local.model: the model `bge` does not run in-process; use `all-MiniLM-L6-v2` or `bge-small-en-v1.5`, or serve the model by `tei` or `openai`",
        "optimizer: { embeddings: { provider: vllm } }" =>
            "f:1: optimizer.embeddings.provider: must be one of `local`, `tei`, `openai`, `none`, not `vllm`; choose one of `local`, `tei`, `openai`, `none`",
    }

    optimizer: {
        "proxy: { enabled: false }\noptimizer: { tools: [call_tool, list_tools] }" =>
            "f:1: proxy.enabled: false leaves no tool of `optimizer.tools`; name another tool there, or set `optimizer.enabled: false`",
        "proxy: { enabled: false }\noptimizer: { discovery: { restApi: true } }" =>
            "f:2: optimizer.discovery.restApi: its calls go through call_tool, which `proxy.enabled: false` takes away; remove one of the two",
        "optimizer: { discovery: { llmFallback: true, contexts: { billing: {}, orders: { patterns: [\"(\"] } } } }" =>
            "f:1: optimizer.discovery.llmFallback: there is no language model; add `optimizer.llm`, or remove it\n\
             f:1: optimizer.discovery.contexts.billing: neither keywords nor patterns; list the words that mean this context, such as `keywords: [invoice]`\n\
             f:1: optimizer.discovery.contexts.orders.patterns[0]: `(` is no regular expression: unclosed group; correct it; look-around and back-references do not exist",
        "optimizer: { tools: [find_tool], discovery: { restApi: true } }" =>
            "f:1: optimizer.discovery.restApi: its calls go through call_tool, which `optimizer.tools` lacks; add `call_tool` to `optimizer.tools`, or remove it",
        "optimizer: { llm: { model: m, apiKey: cl\u{e9} } }" =>
            "f:1: optimizer.llm.apiKey: cannot be sent as a bearer token: it has a character that is not ASCII; use at most 8192 printable ASCII characters, without line breaks",
        "optimizer: { pinnedTools: [\" \"], storage: { dir: \"\" } }" =>
            "f:1: optimizer.pinnedTools[0]: empty; name a tool as it is listed, such as `github_create_issue`\n\
             f:1: optimizer.storage.dir: empty; name a folder, or remove it",
    }

    session_storage: {
        "sessionStorage: { provider: redis }" =>
            "f:1: sessionStorage.address: missing; add `address: HOST:6379`",
        "sessionStorage: { provider: redis, address: \"http://redis:6379\" }" =>
            "f:1: sessionStorage.address: `http://redis:6379` is not an address; write HOST:PORT, or rediss://HOST:PORT for TLS",
        "sessionStorage: { address: \"redis:6379\" }" =>
            "f:1: sessionStorage.address: memory has no address; set `provider: redis`, or remove it",
    }

    tls: {
        "server: { tls: { certificate: ./tls.crt, key: ./tls.key } }" =>
            "f:1: server.tls.certificate: no certificate in PEM; write the path of a PEM file: `certificate: ${file:/path}`\n\
             f:1: server.tls.key: no private key in PEM; write the path of a PEM file: `key: ${file:/path}`",
        "server: { peerAddress: 10.0.0.1, sessionKeys: [0123456789abcdef], tls: { certificate: \"-----BEGIN CERTIFICATE-----\", key: \"-----BEGIN PRIVATE KEY-----\" } }" =>
            "f:1: server.peerAddress: replicas hand requests on to each other in plain HTTP, which a port with TLS does not take; remove it, or remove `server.tls` and end TLS at a proxy",
        "incomingAuth: { type: clientCertificates }" =>
            "f:1: incomingAuth.clientCertificates: missing; add `clientCertificates: { authorities: '${file:/path/ca.crt}' }`",
        "incomingAuth: { type: clientCertificates, clientCertificates: { authorities: \"-----BEGIN CERTIFICATE-----\" } }" =>
            "f:1: incomingAuth.clientCertificates: clients show certificates over TLS only; add `server.tls` with a certificate and its key",
    }

    server: {
        "server: { listen: \"8080\", adminListen: example.com:1 }" =>
            "f:1: server.listen: `8080` is not an address with a port; write an IP address and a port, such as `127.0.0.1:8080` or `0.0.0.0:8080`\n\
             f:1: server.adminListen: `example.com:1` is not an address with a port; write an IP address and a port, such as `127.0.0.1:8080` or `0.0.0.0:8080`",
        "server: { listen: \"localhost:80\", adminListen: \"127.0.0.1:80\" }" =>
            "f:1: server.adminListen: the same as `server.listen`; nothing administrative is served to clients; choose another port",
        "server: { allowedHosts: [\"http://a\"], allowedOrigins: [a.example.com] }" =>
            "f:1: server.allowedHosts[0]: `http://a` is not a host; write a host with or without port, such as `mcp.example.com`\n\
             f:1: server.allowedOrigins[0]: `a.example.com` is not an origin; write scheme and host, and the port unless it is the scheme's own, such as `https://chat.example.com`",
        "server: { sessionKeys: [\"${TOKEN}\"] }" =>
            "f:1: server.sessionKeys[0]: shorter than 16 characters; use the output of `openssl rand -base64 32`, through the environment or a file",
        "server: { metricsTokens: [short] }" =>
            "f:1: server.metricsTokens[0]: shorter than 16 characters; use the output of `openssl rand -base64 32`, through the environment or a file",
        "server: { adminTokens: [a-token-of-some-length, \"\"] }" =>
            "f:1: server.adminTokens[1]: shorter than 16 characters; use the output of `openssl rand -base64 32`, through the environment or a file",
    }

    telemetry: {
        "telemetry: { tracingEnabled: true, serviceName: \"\", samplingRate: 5% }" =>
            "f:1: telemetry.tracingEnabled: there is nowhere to send traces to; add `telemetry.endpoint`, such as `http://localhost:4318`\n\
             f:1: telemetry.serviceName: empty; remove it, or name this server\n\
             f:1: telemetry.samplingRate: `5%` is not a number between 0 and 1; write a decimal, such as \"1.0\"",
        "telemetry: { endpoint: \"http://a:4317/v1/traces\", protocol: grpc, metricsInterval: 1ms }" =>
            "f:1: telemetry.endpoint: gRPC has no place for the path of the URL; write scheme, host and port alone, such as `http://collector:4317`, or remove `protocol`\n\
             f:1: telemetry.metricsInterval: `1ms` is not between 1s and 1h; choose a duration within these bounds",
        "telemetry: { endpoint: \"http://a/otlp\", logs: { protocol: grpc }, metrics: { protocol: grpc, endpoint: \"http://a/x\" } }" =>
            "f:1: telemetry.metrics.endpoint: gRPC has no place for the path of the URL; write scheme, host and port alone, such as `http://collector:4317`, or remove `protocol`\n\
             f:1: telemetry.logs.protocol: gRPC has no place for the path of the URL; write scheme, host and port alone, such as `http://collector:4317`, or remove `protocol`",
        "telemetry: { protocol: http/json }" =>
            "f:1: telemetry.protocol: must be one of `http/protobuf`, `grpc`, not `http/json`; choose one of `http/protobuf`, `grpc`",
        "telemetry: { metrics: { enabled: true }, logs: { enabled: true, endpoint: collector } }" =>
            "f:1: telemetry.metrics.enabled: there is nowhere to send metrics to; add `telemetry.endpoint`, such as `http://localhost:4318`\n\
             f:1: telemetry.logs.endpoint: `collector` is not an absolute URL; write it with scheme and host, such as `https://example.com/mcp`",
    }

    several_at_once_in_the_order_of_their_lines: {
        "backends:\n- name: A\n  command: x y\nproxy:\n  toolTimeout: x\n  zebra: 1\noptimizer:\n  search: { maxTools: 0 }" =>
            "f:2: backends[0].name: `A` is not a backend name; call it `a`\n\
             f:3: backends[0].command: a program and its arguments in one string are not split; write it as a list: `[x, y]`\n\
             f:5: proxy.toolTimeout: `x` is not a duration; write a number with a unit, such as `500ms`, `30s` or `1m30s`\n\
             f:6: proxy.zebra: unknown key; known keys here are `enabled`, `lazyConnect`, `firstListWait`, `preconnectServers`, `connectionTimeout`, `maxConnectionRetries`, `toolTimeout`, `maxToolTimeout`, `refreshInterval`, `idleTimeout`, `pinPackages`\n\
             f:8: optimizer.search.maxTools: `0` is out of range; choose a number from 1 to 50; the default is 8",
    }
}

#[test]
fn what_is_no_yaml_is_said_with_its_line() {
    for yaml in ["a: [", "a: b: c", "a: 'b", "a: *unknown", "{", "a: b\n---\na: c"] {
        let said = mistakes(yaml);
        assert!(said.starts_with("f:") && said.contains(": not readable as YAML: "), "{yaml:?}: {said}");
    }
}

#[test]
fn an_unquoted_package_is_told_to_be_quoted() {
    let said = mistakes("backends:\n- name: a\n  command: [npx, -y, @scope/pkg]");
    assert!(said.starts_with("f:3: ") && said.contains("\"@scope/package\""), "{said}");
}

#[test]
fn what_is_too_large_is_refused() {
    let said = mistakes(&"#".repeat(vmcp_config::MAX_BYTES + 1));
    assert_eq!(said, "f: the file has 4194305 bytes; keep it below 4194304");

    let level =
        |(from, to): (char, char)| format!("{to}: &{to} [{}]\n", vec![format!("*{from}"); 8].join(", "));
    let levels: Vec<_> = ('a'..'i').zip('b'..).map(level).collect();
    let bomb = format!("a: &a [x, x, x, x, x, x, x, x]\n{}", levels.concat());
    let said = mistakes(&bomb);
    assert!(said.ends_with("; keep to one document, 32 levels of nesting and few aliases"), "{said}");

    let deep = "[".repeat(10_000);
    assert!(mistakes(&deep).contains("not readable as YAML"));

    let backends: Vec<_> = (0..10_001).map(|i| format!("- {{name: b{i}, url: http://b}}\n")).collect();
    let many = format!("backends:\n{}", backends.concat());
    assert_eq!(mistakes(&many), "f:1: backends: 10001 backends; keep to at most 10000");
}

#[test]
fn a_tab_is_told_to_be_replaced() {
    for yaml in ["backends:\n\t- name: a", "backends:\n- name: a\n\tcommand: [a]"] {
        let said = mistakes(yaml);
        assert!(said.contains("replace tabs by spaces"), "{yaml:?}: {said}");
    }
}

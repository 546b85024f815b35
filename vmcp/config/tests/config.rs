//! Valid texts of `vmcp.yaml` and the settings that they become.

#![expect(clippy::panic, reason = "helpers of tests fail like tests")]

use std::time::Duration;

use proptest::prelude::*;
use serde_json::Value;
use vmcp_config::rules::{self, PrefixFormat, Visibility};
use vmcp_config::{
    Backend, Config, EmbeddingProvider, Exposure, LogLevel, OnUnavailable, Secret, ToolNameStyle, Transport,
};

fn environment(name: &str) -> Option<String> {
    match name {
        "GITHUB_TOKEN" => Some("ghp_123".to_owned()),
        "PORT" => Some("7000".to_owned()),
        "MAX" => Some("12".to_owned()),
        _ => None,
    }
}

fn loaded(yaml: &str) -> Config {
    vmcp_config::load(yaml, "f", &environment).unwrap_or_else(|problems| panic!("{problems}")).config
}

/// The one backend of `[{ name: a, … }]`.
fn backend(settings: &str) -> Backend {
    loaded(&format!("backends: [{{ name: a, {settings} }}]")).backends.remove(0)
}

/// The example of the design, word for word.
const EXAMPLE: &str = r#"
# vmcp.yaml, standalone
backends:
  - name: time
    command: [uvx, mcp-server-time]            # stdio, spawned here
  - name: github
    url: https://api.githubcopilot.com/mcp/    # streamable HTTP; `transport: sse` for the old kind
    headers: { Authorization: "Bearer ${GITHUB_TOKEN}" }
aggregation: { conflictResolution: prefix }
optimizer:
  embeddings: { provider: local }              # the default; tei, openai, none
incomingAuth: { type: anonymous }
"#;

#[test]
fn the_classics_of_a_first_file_are_warned_of() {
    for (entry, path, words) in [
        ("command: [ls, '~/x']", "backends[0].command[1]", "`~` is not your home; write `${HOME}/…`"),
        ("command: [ls], cwd: '~/x'", "backends[0].cwd", "`~` is not your home"),
        ("command: [ls, $HOME/x]", "backends[0].command[1]", "`$HOME` stays as it is; write `${HOME}`"),
        ("command: [ls, '|', head]", "backends[0].command[1]", "`|` is an argument"),
        ("command: [ls], args: ['/a/*.md']", "backends[0].args[0]", "`*` matches nothing"),
        ("command: ['npx -y foo']", "backends[0].command[0]", "write them as a list: `[npx, -y, foo]`"),
        (
            "url: 'http://a', headers: { A: Bearer ghp_0123456789ab }",
            "backends[0].headers.A",
            "a token in clear; store",
        ),
        ("command: [ls], env: { A: sk-0123456789ab }", "backends[0].env.A", "a token in clear"),
    ] {
        let loaded =
            vmcp_config::load(&format!("backends: [{{ name: a, {entry} }}]"), "f", &|_| None).unwrap();
        let warned: Vec<_> = loaded.warnings.iter().map(|warning| warning.render("f")).collect();
        assert!(
            warned.len() == 1 && warned[0].contains(path) && warned[0].contains(words),
            "{entry}: {warned:?}"
        );
    }
    for entry in [
        "command: [sh, -c, 'ls $HOME | head']",
        "command: [npx, -y, '@a/b'], env: { A: '${A:-sk-0123456789ab}' }",
    ] {
        let loaded =
            vmcp_config::load(&format!("backends: [{{ name: a, {entry} }}]"), "f", &|_| None).unwrap();
        assert_eq!(loaded.warnings, [], "{entry}");
    }
    let own = "backends: [{ name: a, url: 'http://localhost:8080/mcp' }]";
    let refused = vmcp_config::load(own, "f", &|_| None).unwrap_err().to_string();
    assert!(refused.contains("backends[0].url: the address of this server itself"), "{refused}");
}

#[test]
fn a_port_that_is_open_to_the_network_is_warned_of_unless_it_is_meant() {
    let warnings = |text: &str| {
        let loaded =
            vmcp_config::load(&format!("{text}\nbackends: [{{ name: a, command: [ls] }}]"), "f", &|_| None);
        let warnings = loaded.unwrap().warnings;
        warnings.iter().map(|warning| warning.render("f")).collect::<Vec<_>>()
    };
    let open = warnings("server: { listen: '0.0.0.0:8080' }");
    assert!(open.len() == 1 && open[0].contains("server.listen: every machine"), "{open:?}");
    for guarded in [
        "server: { listen: '127.0.0.1:8080' }",
        "server: { listen: '[::1]:8080' }",
        "server: { listen: '0.0.0.0:8080' }\nincomingAuth: { type: anonymous }",
        "server: { listen: '0.0.0.0:8080' }\nincomingAuth: { type: apiKeys, apiKeys: [{ subject: me, key: 0123456789abcdef0123456789abcdef }] }",
        "server: { listen: '0.0.0.0:8080', peers: ['vmcp-peers:9090'] }",
    ] {
        assert_eq!(warnings(guarded), [""; 0], "{guarded}");
    }
}

#[test]
fn a_backend_without_its_secret_is_switched_off_and_no_other() {
    let text = "backends:\n- { name: a, command: [a, '${ABSENT}'], env: { T: '${file:/none}' } }\n\
                - { name: b, url: 'https://${ABSENT}/mcp', timeout: '${ABSENT}' }\n\
                - { name: c, url: 'https://c.example/mcp' }\n\
                - { name: d, command: [d], enabled: false, env: { T: '${ABSENT}' } }";
    let loaded = vmcp_config::load_with_files(text, "f", &|_| None, &|_| Ok(None)).unwrap();
    let enabled: Vec<_> = loaded.config.backends.iter().map(|b| (&*b.name, b.enabled)).collect();
    assert_eq!(enabled, [("a", false), ("b", false), ("c", true), ("d", false)]);
    let reasons = &loaded.config.unavailable;
    assert_eq!(reasons.keys().map(|name| &**name).collect::<Vec<_>>(), ["a", "b"]);
    assert!(reasons["b"].starts_with("the environment variable `ABSENT` is not set; set it"), "{reasons:?}");
    let warned: Vec<_> = loaded.warnings.iter().map(|warning| warning.path.as_str()).collect();
    let expected = [
        "backends[0].command[1]",
        "backends[0].env.T",
        "backends[1].url",
        "backends[1].timeout",
        "backends[3].env.T",
    ];
    assert_eq!(warned, expected);
}

#[test]
fn a_wrong_value_costs_its_backend_and_is_named_by_variable_and_place() {
    let text = "backends:\n- { name: a, url: 'https://a.example/mcp', headers: { Authorization: 'Bearer ${BAD}' } }\n\
                - { name: b, url: 'https://b.example/mcp', headers: { Authorization: 'Bearer ${ENDS}' } }\n\
                - { name: c, url: '${BAD}' }\n\
                - { name: d, command: [d], env: { T: '${ENDS}', U: '${NUL}' } }\n\
                - { name: e, command: [e], timeout: '${BAD}' }\n\
                - { name: f, url: 'https://f.example/mcp' }\n\
                - { name: g, url: 'https://g.example/mcp' }\n\
                outgoingAuth: { source: inline, backends: { f: { type: headerInjection, headerInjection: { headerName: X, headerValue: '${BAD}' } } } }";
    let values = |name: &str| match name {
        "BAD" => Some("hunter2\nhunter3".to_owned()),
        "ENDS" => Some("t0ken-t0ken\r\n".to_owned()),
        "NUL" => Some("a\0".to_owned()),
        _ => None,
    };
    let loaded = vmcp_config::load(text, "f", &values).unwrap();
    let enabled: Vec<_> = loaded.config.backends.iter().filter(|b| b.enabled).map(|b| &*b.name).collect();
    assert_eq!(enabled, ["b", "g"]);
    let reasons = &loaded.config.unavailable;
    assert_eq!(
        reasons["a"],
        "headers.Authorization: not a header value: it has a line break (from `${BAD}`); \
         use at most 8192 printable ASCII characters, without line breaks"
    );
    assert!(reasons["f"].contains("headerValue") && reasons["f"].contains("`${BAD}`"), "{reasons:?}");
    let told = format!("{reasons:?} {:?}", loaded.warnings);
    assert!(!told.contains("hunter"), "{told}");
    assert!(told.contains("backends[0].headers.Authorization"), "{told}");
    let Transport::Http { headers, .. } = &loaded.config.backends[1].transport else { panic!() };
    assert_eq!(headers.get("authorization").map(Secret::expose), Some("Bearer t0ken-t0ken"));
    let Transport::Stdio { env, .. } = &loaded.config.backends[3].transport else { panic!() };
    assert_eq!(env["T"].expose(), "t0ken-t0ken\r\n", "a program gets what the variable has");
    // A mistake of the file stays one, whatever value stands there.
    for wrong in ["headers: { Host: '${ENDS}' }", "headers: { 'a b': '${ENDS}' }", "cwd: '${ENDS}'"] {
        let text = format!("backends: [{{ name: a, url: 'https://a.example/mcp', {wrong} }}]");
        assert!(vmcp_config::load(&text, "f", &values).is_err(), "{wrong}");
    }
}

#[test]
fn a_scheme_that_stands_there_twice_is_warned_of() {
    let text =
        "backends: [{ name: a, url: 'https://a.example/mcp', headers: { Authorization: 'Bearer ${TOK}' } }]";
    for (value, is_warned) in [("Bearer x", true), ("\"x\"", true), ("", true), ("x", false)] {
        let loaded = vmcp_config::load(text, "f", &|_| Some(value.to_owned())).unwrap();
        let warned =
            loaded.warnings.iter().any(|warning| warning.path == "backends[0].headers.Authorization");
        assert_eq!(warned, is_warned, "{value}: {:?}", loaded.warnings);
        assert!(loaded.config.backends[0].enabled);
    }
}

#[test]
fn numbers_and_booleans_reach_a_program_as_they_are_written() {
    let text = "x-octal: &octal 0o17\nbackends:\n- name: é\n  command: [ls, 0x1F, -1]\n  env: { A: 0x1F, B: +49123, C: True, D: 1_000, \
                E: -0, F: 7 , G: *octal, H: false, I: 0b101 }\n  args: [TRUE]\n";
    let loaded = loaded(&text.replace('é', "e # é"));
    let Transport::Stdio { args, env, .. } = &loaded.backends[0].transport else { panic!() };
    assert_eq!(args.iter().map(String::as_str).collect::<Vec<_>>(), ["0x1F", "-1", "TRUE"]);
    let env: Vec<_> = env.values().map(Secret::expose).collect();
    assert_eq!(env, ["0x1F", "+49123", "True", "1_000", "-0", "7", "0o17", "false", "0b101"]);
}

#[test]
fn the_example_of_the_design() {
    let config = loaded(EXAMPLE);
    let [time, github] = config.backends.as_slice() else { panic!("{config:?}") };
    let Transport::Stdio { command, args, .. } = &time.transport else { panic!("{time:?}") };
    assert_eq!((command.as_str(), args.as_slice()), ("uvx", &["mcp-server-time".to_owned()][..]));
    let Transport::Http { url, headers } = &github.transport else { panic!("{github:?}") };
    assert_eq!(url.as_str(), "https://api.githubcopilot.com/mcp/");
    assert_eq!(headers.get("authorization").map(Secret::expose), Some("Bearer ghp_123"));
    assert!(config.optimizer.enabled);
}

#[test]
fn the_defaults_are_those_of_the_requirements() {
    let config = loaded("");
    let seconds = Duration::from_secs;
    assert_eq!(config.backends, []);
    assert_eq!(config.aggregation, vmcp_config::Aggregation::default());
    let optimizer = &config.optimizer;
    assert_eq!((optimizer.exposure, optimizer.auto_token_budget), (Exposure::Auto, 10_000));
    assert_eq!((optimizer.tool_name_style, optimizer.max_tool_response_tokens), (ToolNameStyle::Auto, None));
    assert_eq!((optimizer.search.max_tools, optimizer.search.semantic_distance_threshold), (8, None));
    assert!((optimizer.search.hybrid_semantic_ratio - 0.6).abs() < 1e-6);
    assert_eq!(optimizer.embeddings.on_unavailable, OnUnavailable::Degrade);
    assert!(matches!(optimizer.embeddings.provider, EmbeddingProvider::Local { model_dir: None, .. }));
    let limits = &optimizer.limits;
    assert_eq!((limits.description_chars, limits.keywords_chars, limits.keywords_terms), (2000, 500, 50));
    assert_eq!((limits.tool_name_chars, limits.parameters_depth), (128, 64));
    assert_eq!((limits.parameters_bytes, limits.body_bytes), (1 << 20, 4 << 20));
    let proxy = &config.proxy;
    assert_eq!((proxy.lazy_connect, proxy.max_connection_retries), (true, 3));
    assert_eq!((proxy.connection_timeout, proxy.tool_timeout), (seconds(30), seconds(60)));
    assert_eq!(proxy.refresh_interval, seconds(300));
    let breaker = &config.operational.circuit_breaker;
    assert_eq!((breaker.enabled, breaker.failure_threshold, breaker.timeout), (true, 5, seconds(30)));
    assert_eq!(config.operational.log_level, LogLevel::Info);
    assert_eq!(config.server.listen, "127.0.0.1:8080".parse().unwrap());
    assert_eq!(config.server.admin_listen, "127.0.0.1:9090".parse().unwrap());
    assert_eq!(config.server.drain_timeout, seconds(30));
    assert!(config.telemetry.traces.is_none() && config.telemetry.metrics_enabled);
}

#[test]
fn without_the_proxy_no_own_tool_reaches_a_tool_by_its_name() {
    use vmcp_config::OptimTool;
    let tools = |proxy: &str| {
        let text = format!(
            "optimizer: {{ tools: [find_tool, call_tool, list_tools, get_tool_schema, list_mcp_servers, \
             read_mcp_resource, execute_code], largeResults: {{ enabled: true }} }}\n{proxy}"
        );
        loaded(&text).optimizer.tools
    };
    assert_eq!(tools("proxy: { enabled: true }"), tools(""));
    let left = tools("proxy: { enabled: false }");
    assert!(OptimTool::OF_PROXY.iter().all(|tool| tools("").contains(tool) && !left.contains(tool)));
    assert!(
        [OptimTool::FindTool, OptimTool::ExecuteCode, OptimTool::ReadResult]
            .iter()
            .all(|tool| left.contains(tool))
    );
    assert_eq!(loaded("proxy: { enabled: false }").optimizer.tools, [OptimTool::FindTool]);
    // Aggregation alone offers no own tool anyway.
    let off = loaded("proxy: { enabled: false }\noptimizer: { enabled: false, tools: [call_tool] }");
    assert!(off.optimizer.tools.is_empty());
}

#[test]
fn an_empty_file_warns_that_there_is_nothing_to_serve() {
    let warnings = vmcp_config::load("", "f", &environment).unwrap().warnings;
    assert_eq!(
        warnings[0].render("f"),
        "f: backends: there are none; add one, or import those of another client by `vmcp init --from FILE`"
    );
}

#[test]
fn a_toolhive_aggregation_is_taken_as_it_is() {
    let config = loaded(
        r#"
        backends:
          - { name: github, url: http://127.0.0.1:9001/mcp, transport: streamable-http }
          - { name: jira, command: jira }
        aggregation:
          conflictResolution: priority
          conflictResolutionConfig: { prefixFormat: "{workload}.", priorityOrder: [jira, github] }
          excludeAllTools: false
          defaultToolVisibility: deny
          tools:
            - workload: github
              filter: [search_code, create_pr]
              overrides:
                create_pull_request: { name: create_pr, description: "Open a PR", annotations: { title: "Create PR", destructiveHint: false } }
            - workload: jira
              excludeAll: true
        "#,
    );
    let rules = &config.aggregation;
    let order = vec!["jira".into(), "github".into()];
    assert_eq!(rules.strategy, rules::Strategy::Priority { order, format: PrefixFormat::new("{workload}.") });
    assert_eq!(rules.default_visibility, Visibility::Deny);
    let change = &rules.per_backend["github"].overrides["create_pull_request"];
    assert_eq!(
        (change.name.as_deref(), change.annotations.destructive_hint),
        (Some("create_pr"), Some(false))
    );
    assert!(
        rules.lists("github", "create_pr") && !rules.lists("github", "other") && !rules.lists("jira", "any")
    );
}

#[test]
fn numbers_and_strings_serve_alike_where_that_is_unambiguous() {
    let written =
        loaded("proxy: { toolTimeout: 90s }\noptimizer: { search: { hybridSemanticRatio: \"0.25\" } }");
    let bare = loaded("proxy: { toolTimeout: 90 }\noptimizer: { search: { hybridSemanticRatio: 0.25 } }");
    assert_eq!(written.proxy, bare.proxy);
    assert_eq!(written.optimizer, bare.optimizer);
}

#[test]
fn a_programs_words_and_variables_may_be_numbers_and_anchors_have_a_home() {
    let yaml = "x-common: &common { timeout: 30s }\n\
        backends:\n- { name: a, command: [serve, --port, 8080], env: { PORT: 8080, DEBUG: true }, <<: *common }";
    let text = "backends:\n- { name: a, command: [serve, --port, '8080'], env: { PORT: '8080', DEBUG: 'true' }, timeout: 30s }";
    assert_eq!(loaded(yaml).backends, loaded(text).backends);
}

#[test]
fn the_environment_gives_numbers_and_parts_of_strings() {
    let config =
        loaded("server: { listen: \"0.0.0.0:${PORT}\" }\noptimizer: { search: { maxTools: \"${MAX}\" } }");
    assert_eq!((config.server.listen.port(), config.optimizer.search.max_tools), (7000, 12));
}

#[test]
fn a_key_without_a_value_and_another_case_of_a_word_do_no_harm() {
    let config = loaded("backends:\nproxy:\noptimizer: { exposure: metaonly, toolNameStyle: Underscore }");
    assert_eq!(config.optimizer.exposure, Exposure::MetaOnly);
    assert_eq!(config.optimizer.tool_name_style, ToolNameStyle::Underscore);
}

#[test]
fn the_names_of_the_first_design_are_accepted() {
    let config =
        loaded("mcp_client_proxy: { lazy_connect: false, connection_timeout: 7, tool_timeout: 60.0 }");
    assert_eq!((config.proxy.lazy_connect, config.proxy.connection_timeout), (false, Duration::from_secs(7)));
}

#[test]
fn what_is_said_of_a_backend_elsewhere_arrives_at_the_backend() {
    let config = loaded(
        "backends: [{ name: a, command: [x], args: [y] }, { name: b, url: http://b, transport: sse }]\n\
         proxy: { preconnectServers: [a] }\n\
         operational: { timeouts: { default: 45s, perWorkload: { b: 2m } } }",
    );
    let [a, b] = config.backends.as_slice() else { panic!("{config:?}") };
    assert_eq!((a.preconnect, b.preconnect), (true, false));
    assert_eq!((a.timeout, b.timeout), (None, Some(Duration::from_mins(2))));
    assert_eq!(config.proxy.tool_timeout, Duration::from_secs(45));
    assert!(matches!(b.transport, Transport::Sse { .. }));
}

#[test]
fn a_collector_may_be_given_without_a_scheme() {
    let endpoint = |yaml: &str| loaded(yaml).telemetry.traces.map(|traces| traces.url.to_string());
    let traces = "https://otel:4318/v1/traces";
    assert_eq!(endpoint("telemetry: { endpoint: \"otel:4318\" }").as_deref(), Some(traces));
    assert_eq!(
        endpoint("telemetry: { endpoint: \"otel:4318\", insecure: true }").as_deref(),
        Some("http://otel:4318/v1/traces")
    );
}

#[test]
fn an_empty_key_is_none() {
    let key = |key: &str| {
        let yaml =
            format!("optimizer: {{ embeddings: {{ provider: openai, openai: {{ apiKey: \"{key}\" }} }} }}");
        match loaded(&yaml).optimizer.embeddings.provider {
            EmbeddingProvider::OpenAi { api_key, .. } => api_key,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(key("${NO_KEY:-}"), None);
    assert_eq!(key("${GITHUB_TOKEN}").as_ref().map(Secret::expose), Some("ghp_123"));
}

#[test]
fn the_fingerprint_follows_the_address_and_not_the_secret() {
    let with_token =
        |token: &str| backend(&format!("url: http://a, headers: {{ Authorization: {token} }}")).fingerprint();
    assert_eq!(with_token("x"), with_token("y"));
    let all = [
        "url: http://a",
        "url: http://a, transport: sse",
        "url: ws://a",
        "url: wss://a, transport: websocket",
        "url: http://b",
        "url: http://a, headers: { A: x }",
        "command: [a]",
        "command: [a, b]",
        "command: [ab]",
        "command: [a], env: { b: x }",
        "command: [a], cwd: b",
        "command: [a], transport: codex",
        "command: [a], transport: codex, codex: { allowDangerous: true }",
    ];
    let prints: std::collections::HashSet<_> =
        all.iter().map(|settings| backend(settings).fingerprint()).collect();
    assert_eq!(prints.len(), all.len());
    assert!(prints.iter().all(|print| print.len() == 64));
}

#[test]
fn codex_is_a_program_with_a_default_command_and_time_for_a_turn() {
    let loaded = loaded("backends: [{ name: a, transport: codex, codex: { workspaces: [/w] } }]");
    let backend = &loaded.backends[0];
    let Transport::Stdio { command, args, .. } = &backend.transport else { panic!("{backend:?}") };
    assert_eq!((command.as_str(), &args[..]), ("codex", &["app-server".to_owned()][..]));
    assert_eq!((backend.kind(), backend.timeout), ("codex", Some(loaded.proxy.max_tool_timeout)));
    let codex = backend.codex.as_ref().unwrap();
    assert_eq!((codex.allow_dangerous, &codex.workspaces[..]), (false, &["/w".into()][..]));
}

#[test]
fn the_effective_file_shows_defaults_and_references_and_no_secret() {
    let yaml = "backends:\n- name: a\n  command: [run, \"--key=${GITHUB_TOKEN}\"]\n  env: { T: \"${GITHUB_TOKEN}\", U: literal }";
    let effective = loaded(yaml).effective_yaml().to_owned();
    assert!(!effective.contains("ghp_123") && !effective.contains("literal"), "{effective}");
    let value: Value = serde_saphyr::from_str(&effective).unwrap();
    assert_eq!(value["backends"][0]["command"][1], "--key=${GITHUB_TOKEN}");
    assert_eq!(value["backends"][0]["env"], serde_json::json!({ "T": "***", "U": "***" }));
    assert_eq!(value["proxy"]["maxConnectionRetries"], 3);
    assert_eq!(value["proxy"]["connectionTimeout"], "30s");
}

#[test]
fn the_effective_file_of_an_empty_one_means_the_same() {
    let config = loaded("");
    assert_eq!(loaded(config.effective_yaml()), config);
}

#[test]
fn debug_output_shows_no_secret() {
    assert!(!format!("{:?}", loaded(EXAMPLE)).contains("ghp_123"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC*") {
        let _ = vmcp_config::load(&text, "f", &environment);
    }

    #[test]
    fn mutilated_files_never_panic(at in 0..EXAMPLE.len(), insert in "[\\[\\]{}:,&*!|>'\"%@`$# \\n\\ta-c0-9-]{0,6}", skip in 0_usize..20) {
        let tail = EXAMPLE.get((at + skip).min(EXAMPLE.len())..).unwrap_or_default();
        let _ = vmcp_config::load(&format!("{}{insert}{tail}", &EXAMPLE[..at]), "f", &environment);
    }

    #[test]
    fn arbitrary_values_at_known_keys_never_panic_nor_pass_the_check_only_to_fail_later(
        key in prop::sample::select(vec!["backends", "aggregation", "optimizer", "proxy", "telemetry", "operational", "server"]),
        setting in "[a-zA-Z]{1,12}",
        value in prop_oneof![Just("null".to_owned()), "-?[0-9]{1,25}", "[0-9.e]{1,9}", "[a-z\"]{0,5}", Just("{a: 1}".to_owned()), Just("[[]]".to_owned())],
    ) {
        for text in [format!("{key}: {value}"), format!("{key}: {{ {setting}: {value} }}"), format!("{key}: [{{ {setting}: {value} }}]")] {
            if let Err(problems) = vmcp_config::load(&text, "f", &environment) {
                prop_assert!(problems.list.iter().all(|problem| problem.remedy != "correct this value"), "{problems}");
            }
        }
    }

    #[test]
    fn any_number_anywhere_is_reported_or_taken(number in prop_oneof![any::<i64>().prop_map(|n| n.to_string()), any::<f64>().prop_map(|n| format!("{n:?}"))]) {
        let schema = vmcp_config::json_schema();
        for (block, definition) in [("proxy", "Proxy"), ("optimizer", "Optimizer"), ("server", "Server"), ("telemetry", "Telemetry")] {
            for key in schema["$defs"][definition]["properties"].as_object().unwrap().keys() {
                if let Err(problems) = vmcp_config::load(&format!("{block}: {{ {key}: {number} }}"), "f", &environment) {
                    prop_assert!(problems.list.iter().all(|problem| problem.remedy != "correct this value"), "{problems}");
                }
            }
        }
    }
}

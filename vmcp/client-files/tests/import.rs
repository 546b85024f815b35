//! Files of other clients become files of ours that load and mean the same.

#![expect(clippy::panic, clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::path::Path;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use vmcp_client_files::import::{
    ClientText, ImportError, Imported, MAX_FILE_BYTES, NameConflict, Surroundings, import, import_files,
};
use vmcp_config::{Config, Secret, Transport, edit};

/// Imports the file of a project.
pub(super) fn imported(file: &Value) -> Imported {
    import(&file.to_string(), ".mcp.json").unwrap()
}

/// Loads what was imported, with the environment that it asks for.
pub(super) fn loaded(imported: &Imported, others: &[(&str, &str)]) -> Config {
    let environment = |name: &str| {
        let other = || others.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned());
        imported.variables.get(name).map(|secret| secret.expose().to_owned()).or_else(other)
    };
    vmcp_config::load(&imported.yaml, "vmcp.yaml", &environment)
        .unwrap_or_else(|problems| panic!("{problems}\n{}", imported.yaml))
        .config
}

#[test]
fn a_file_of_claude() {
    let imported = imported(&json!({ "mcpServers": {
        "GitHub Copilot": {
            "type": "http",
            "url": "https://api.githubcopilot.com/mcp/",
            "headers": { "Authorization": "Bearer ghp_0123456789abcdef", "X-Team": "core", "Accept": "*/*" },
        },
        "files": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv"], "env": { "DEBUG": "1", "API_KEY": "k-1" } },
        "old": { "type": "sse", "url": "http://localhost:3000/sse", "disabled": true },
    } }));
    assert_eq!(
        imported.yaml,
        r#"# Imported from .mcp.json. `vmcp validate` checks it; `vmcp init` shows every setting.
backends:
  # renamed from "GitHub Copilot"
  # header Accept left out: vmcp sets it itself
  # Authorization: the secret is expected in the environment variable GITHUB_COPILOT_TOKEN
  - name: github-copilot
    url: https://api.githubcopilot.com/mcp/
    headers:
      Authorization: Bearer ${GITHUB_COPILOT_TOKEN}
      X-Team: core
  # API_KEY: the secret is expected in the environment variable API_KEY
  - name: files
    command: [npx, -y, "@modelcontextprotocol/server-filesystem", /srv]
    env:
      API_KEY: ${API_KEY}
      DEBUG: "1"
  - name: old
    url: http://localhost:3000/sse
    transport: sse
    enabled: false
"#
    );
    assert_eq!(imported.backends, ["github-copilot", "files", "old"]);
    let config = loaded(&imported, &[]);
    let Transport::Http { headers, .. } = &config.backends[0].transport else { panic!("{config:?}") };
    assert_eq!(headers["authorization"].expose(), "Bearer ghp_0123456789abcdef");
    let Transport::Stdio { env, .. } = &config.backends[1].transport else { panic!("{config:?}") };
    assert_eq!(env["API_KEY"].expose(), "k-1");
}

#[test]
fn a_file_of_vs_code_with_comments_and_inputs() {
    let text = r#"{
        // asked for when the server starts
        "inputs": [{ "type": "promptString", "id": "api-key", "password": true }],
        "servers": {
            "search": { "command": "search", "args": ["--root", "${workspaceFolder}", "--key=${input:api-key}"], "env": { "HOME": "${env:HOME}" }, },
        },
    }"#;
    let imported = import(text, "mcp.json").unwrap();
    let config = loaded(&imported, &[("API_KEY", "k"), ("HOME", "/home/me")]);
    let Transport::Stdio { args, env, .. } = &config.backends[0].transport else { panic!("{config:?}") };
    assert_eq!(args, &["--root", "${workspaceFolder}", "--key=k"]);
    assert_eq!(env["HOME"].expose(), "/home/me");
    assert_eq!(
        imported.notes,
        ["search: `${workspaceFolder}` means something to the other client only: replace it"]
    );
}

#[test]
fn secrets_leave_arguments_and_urls_too() {
    let imported = imported(&json!({ "mcpServers": {
        "a": { "command": "a", "args": ["--api-key", "one", "--token=two", "--verbose", "three", "sk-0123456789abcdef"] },
        "b": { "url": "https://user:four@b.example.com/mcp?api_key=five&page=1" },
    } }));
    for secret in ["one", "two", "sk-0123456789abcdef", "four", "five"] {
        assert!(!imported.yaml.contains(secret), "{secret} in\n{}", imported.yaml);
    }
    let config = loaded(&imported, &[]);
    let Transport::Stdio { args, .. } = &config.backends[0].transport else { panic!("{config:?}") };
    assert_eq!(args, &["--api-key", "one", "--token=two", "--verbose", "three", "sk-0123456789abcdef"]);
    let Transport::Http { url, .. } = &config.backends[1].transport else { panic!("{config:?}") };
    assert_eq!(url.as_str(), "https://b.example.com/mcp?api_key=five&page=1");
}

#[test]
fn passwords_leave_every_place_that_clients_keep_them_in() {
    let imported = imported(&json!({ "mcpServers": {
        "db": { "command": "npx", "args": ["-y", "x", "postgresql://bob:hunter2@db/x"],
            "env": { "DATABASE_URI": "mongodb+srv://u:p4ss@c/x", "HF": "hf_abcdefghijklmnop" } },
        "remote": { "command": "npx", "args": ["mcp-remote", "https://a.example/mcp", "--header", "Authorization: Bearer abc"] },
        "box": { "command": "docker", "args": ["run", "-i", "-e", "API_KEY=abc123", "-e", "PLAIN=1", "img"] },
        "context7": { "url": "https://c/mcp", "headers": { "CONTEXT7_API_KEY": "k3y", "Authorization": "Bearer t0k" } },
    } }));
    for secret in ["hunter2", "p4ss", "hf_abc", "Bearer abc", "abc123", "k3y", "t0k"] {
        assert!(!imported.yaml.contains(secret), "{secret} in\n{}", imported.yaml);
    }
    let variables: Vec<_> =
        imported.variables.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    let expected = [
        ("BOX_API_KEY", "abc123"),
        ("CONTEXT7_API_KEY", "k3y"),
        ("CONTEXT7_TOKEN", "t0k"),
        ("DATABASE_URI_PASSWORD", "p4ss"),
        ("DB_SECRET_PASSWORD", "hunter2"),
        ("HF", "hf_abcdefghijklmnop"),
        ("REMOTE_TOKEN", "abc"),
    ];
    assert_eq!(variables, expected);
    let config = loaded(&imported, &[]);
    let args = |index: usize| match &config.backends[index].transport {
        Transport::Stdio { args, .. } => args.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(args(0)[2], "postgresql://bob:hunter2@db/x", "{}", imported.yaml);
    assert_eq!(args(1)[3], "Authorization: Bearer abc");
    assert_eq!(args(2), ["run", "-i", "-e", "API_KEY=abc123", "-e", "PLAIN=1", "img"]);
}

#[test]
fn variables_that_a_server_sets_itself_stay_its_own() {
    let imported = imported(&json!({ "mcpServers": { "a": {
        "command": "npx",
        "args": ["mcp-remote", "https://a.example", "--header", "Authorization:${AUTH_HEADER}", "${HOME}"],
        "env": { "AUTH_HEADER": "Bearer abc" },
    } } }));
    let config = loaded(&imported, &[("HOME", "/home/me")]);
    let Transport::Stdio { args, env, .. } = &config.backends[0].transport else { panic!("{config:?}") };
    assert_eq!(args[3..], ["Authorization:${AUTH_HEADER}", "/home/me"], "{}", imported.yaml);
    assert_eq!(env["AUTH_HEADER"].expose(), "Bearer abc");
    assert_eq!(imported.variables.keys().collect::<Vec<_>>(), ["AUTH_HEADER_TOKEN"]);
}

#[test]
fn files_of_other_clients_are_read_whatever_their_format() {
    for (client, text) in [
        ("codex", "[mcp_servers.time]\ncommand = \"uvx\"\nargs = [\"x\"]\nenabled_tools = [\"now\"]"),
        (
            "zed",
            r#"{ "theme": 1, "context_servers": { "time": { "source": "custom", "command": "uvx", "args": ["x"] } } }"#,
        ),
        (
            "opencode",
            r#"{ "mcp": { "time": { "type": "local", "command": ["uvx", "x"], "enabled": true } } }"#,
        ),
        ("amp", r#"{ "amp.mcpServers": { "time": { "command": "uvx", "args": ["x"] } } }"#),
        ("continue", "name: mine\nmcpServers:\n  - name: time\n    command: uvx\n    args: [x]\n"),
        (
            "copilot-cli",
            r#"{ "mcpServers": { "time": { "type": "local", "command": "uvx", "args": ["x"], "tools": ["*"] } } }"#,
        ),
        ("goose", "extensions:\n  time:\n    type: stdio\n    cmd: uvx\n    args: [x]\n    envs: {}\n"),
        (
            "claude",
            r#"{ "projects": { "/work": { "mcpServers": { "time": { "command": "uvx", "args": ["x"] } } } } }"#,
        ),
    ] {
        let imported = import(text, client).unwrap_or_else(|error| panic!("{client}: {error}"));
        let config = loaded(&imported, &[]);
        let Transport::Stdio { command, args, .. } = &config.backends[0].transport else {
            panic!("{config:?}")
        };
        assert_eq!((command.as_str(), args.as_slice()), ("uvx", &["x".to_owned()][..]), "{client}");
        assert_eq!(imported.yaml.contains("filter: [now]"), client == "codex", "{}", imported.yaml);
    }
}

#[test]
fn vmcp_itself_is_left_out_and_legal_names_stay() {
    let imported = imported(&json!({ "mcpServers": {
        "A B": { "command": "npx -y foo" },
        "a-b": { "command": "x", "timeout": 30_000, "url": "http://x" },
        "vmcp": { "type": "http", "url": "http://127.0.0.1:8080/mcp" },
        "hub": { "command": "/usr/bin/vmcp", "args": ["serve", "--stdio"] },
        "far": { "command": "npx", "args": ["mcp-remote", "http://localhost:8080/mcp"] },
    } }));
    assert_eq!(imported.backends, ["a-b-2", "a-b"]);
    assert_eq!(imported.notes.iter().filter(|note| note.contains("leads to vmcp itself")).count(), 3);
    let config = loaded(&imported, &[]);
    let Transport::Stdio { command, args, .. } = &config.backends[0].transport else { panic!("{config:?}") };
    assert_eq!((command.as_str(), args.len()), ("npx", 2), "one string is split");
    assert_eq!(config.backends[1].timeout, Some(std::time::Duration::from_secs(30)));
    assert!(imported.notes.iter().any(|note| note.contains("url left out")), "{:?}", imported.notes);
}

#[test]
fn names_stay_unique_and_variables_too() {
    let token = |value: &str| json!({ "command": "x", "env": { "TOKEN": value } });
    let imported = imported(
        &json!({ "mcpServers": { "A": token("1"), "a": token("2"), "optim": token("1"), "": token("3") } }),
    );
    assert_eq!(imported.backends, ["a-2", "a", "optim-server", "server"]);
    let variables: Vec<_> =
        imported.variables.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    assert_eq!(variables, [("A_TOKEN", "2"), ("SERVER_TOKEN", "3"), ("TOKEN", "1")]);
    loaded(&imported, &[]);
}

#[test]
fn what_cannot_be_taken_over_is_said() {
    let imported = imported(&json!({ "mcpServers": {
        "a": { "type": "grpc", "url": "http://a" },
        "b": {},
        "c": { "command": 1 },
        "d": { "command": "d", "envFile": ".env" },
    } }));
    assert_eq!(imported.backends, ["d"]);
    assert_eq!(
        imported.notes,
        [
            "\"a\" left out: transport \"grpc\" is not supported",
            "\"b\" left out: neither `command` nor `url` is given",
            "\"c\" left out: invalid type: integer `1`, expected a string",
            "d: not taken over: envFile",
        ]
    );
    loaded(&imported, &[]);
}

/// Imports one file beside backends that exist.
fn beside(text: &str, name: &str, surroundings: &Surroundings<'_>) -> Imported {
    let folder = Some(Path::new("/work"));
    import_files(&[ClientText { name, text, folder, client: None }], surroundings).unwrap()
}

#[test]
fn a_merge_takes_servers_in_any_order_with_names_that_exist() {
    let text = json!({ "mcpServers": {
        "c": { "command": "c" }, "github": { "command": "new", "env": { "TOKEN": "t-2" } }, "b": { "command": "b" },
    } })
    .to_string();
    let before = "backends:\n  - name: github\n    command: [old]\n";
    let present = ["github".to_owned()];
    let is_taken = |name: &str, _: &str| name == "TOKEN";
    for (conflict, backends, skipped, names) in [
        (NameConflict::Skip, &["c", "b"][..], 1, &["github", "c", "b"][..]),
        (NameConflict::Rename, &["c", "github-2", "b"], 0, &["github", "c", "github-2", "b"]),
        (NameConflict::Replace, &["c", "github", "b"], 0, &["c", "github", "b"]),
    ] {
        let surroundings = Surroundings {
            backends: &present,
            conflict,
            is_taken: Some(&is_taken),
            ..Surroundings::default()
        };
        let imported = beside(&text, "f", &surroundings);
        assert_eq!(imported.backends, backends, "{conflict:?}");
        assert_eq!(imported.skipped.len(), skipped, "{conflict:?}");
        // A secret that stays behind is not written, and a name that has another value is not given to it.
        let expected = usize::from(skipped == 0);
        assert_eq!(imported.variables.len(), expected, "{:?}", imported.variables.keys());
        assert!(!imported.variables.contains_key("TOKEN"));
        let mut merged = before.to_owned();
        for name in &imported.replaced {
            merged = edit::remove(&merged, name).unwrap();
        }
        let merged = edit::append(&merged, &imported.entries, &imported.backends).unwrap();
        assert_eq!(edit::names(&merged).unwrap(), names, "{merged}");
    }
}

#[test]
fn names_that_the_import_makes_leave_backends_alone() {
    use NameConflict::{Rename, Replace, Skip};
    for (servers, present, conflict, backends, replaced) in [
        (&["日本"][..], "server", Replace, &["server"][..], &["server"][..]),
        (&["日本"], "server", Rename, &["server-2"], &[]),
        (&["日本"], "server", Skip, &[], &[]),
        (&["A", "a"], "a-2", Skip, &["a-3", "a"], &[]),
        (&["A", "a"], "a-2", Rename, &["a-3", "a"], &[]),
        (&["A", "a"], "a-2", Replace, &["a-3", "a"], &[]),
        (&["optim"], "optim-server", Skip, &[], &[]),
        (&["optim"], "optim-server", Rename, &["optim-server-2"], &[]),
        (&["optim"], "optim-server", Replace, &["optim-server"], &["optim-server"]),
    ] {
        let list = servers.iter().map(|name| ((*name).to_owned(), json!({ "command": "x" })));
        let text = json!({ "mcpServers": list.collect::<Map<_, _>>() }).to_string();
        let surroundings =
            Surroundings { backends: &[present.to_owned()], conflict, ..Surroundings::default() };
        let imported = beside(&text, "f", &surroundings);
        assert_eq!(imported.backends, backends, "{servers:?} {conflict:?}");
        assert_eq!(imported.replaced, replaced, "{servers:?} {conflict:?}");
        assert_eq!(imported.skipped.len() + imported.backends.len(), servers.len(), "{conflict:?}");
    }
}

#[test]
fn a_secret_never_gets_the_name_of_a_reference_of_another_server() {
    let referring = |value: &str| json!({ "url": "https://a.example", "headers": { "X-A": value } });
    let by_name = json!({ "url": "https://a.example", "bearer_token_env_var": "API_KEY" });
    for (path, a) in [
        ("mcp.json", referring("${input:api_key}")),
        ("mcp.json", referring("Bearer ${API_KEY:-none}")),
        ("/me/.gemini/settings.json", referring("Bearer $API_KEY")),
        ("config.yaml", referring("Bearer ${{ secrets.API_KEY }}")),
        ("config.json", by_name),
    ] {
        let b = json!({ "command": "b", "env": { "API_KEY": "sk-live-0123456789" } });
        for servers in [json!({ "a": a, "b": b }), json!({ "b": b, "a": a })] {
            let file = json!({ "mcpServers": servers }).to_string();
            let imported = beside(&file, path, &Surroundings::default());
            assert_eq!(imported.variables.keys().collect::<Vec<_>>(), ["B_API_KEY"], "{}", imported.yaml);
            assert!(imported.yaml.contains("${API_KEY"), "{}", imported.yaml);
        }
    }
}

#[test]
fn references_of_gemini_and_opencode_are_no_secrets() {
    let gemini = json!({ "mcpServers": {
        "a": { "command": "a", "env": { "TOKEN": "$MY_TOKEN" } },
        "b": { "httpUrl": "https://b.example", "headers": { "Authorization": "Bearer $GITHUB_MCP_PAT" } },
        "c": { "url": "https://c.example/sse" },
        "off": { "command": "off" },
    }, "mcp": { "excluded": ["off"] } });
    let imported = beside(&gemini.to_string(), "/me/.gemini/settings.json", &Surroundings::default());
    assert!(imported.variables.is_empty(), "{:?}", imported.variables.keys());
    let config = loaded(&imported, &[("MY_TOKEN", "one"), ("GITHUB_MCP_PAT", "two")]);
    let Transport::Stdio { env, .. } = &config.backends[0].transport else { panic!("{config:?}") };
    assert_eq!(env["TOKEN"].expose(), "one");
    let Transport::Http { headers, .. } = &config.backends[1].transport else { panic!("{config:?}") };
    assert_eq!(headers["authorization"].expose(), "Bearer two");
    assert!(imported.yaml.contains("transport: sse") && !config.backends[3].enabled, "{}", imported.yaml);

    let opencode = json!({ "mcp": { "f": {
        "type": "remote", "url": "https://f.example", "headers": { "Authorization": "Bearer {file:~/.secrets/f}" },
    } } });
    let home = Surroundings { home: Some(Path::new("/home/me")), ..Surroundings::default() };
    let imported = beside(&opencode.to_string(), "opencode.json", &home);
    assert!(imported.variables.is_empty(), "{:?}", imported.variables.keys());
    assert!(imported.yaml.contains("Bearer ${file:/home/me/.secrets/f}"), "{}", imported.yaml);
}

#[test]
fn a_file_of_another_client_cannot_refer_to_files() {
    let home = Surroundings { home: Some(Path::new("/home/me")), ..Surroundings::default() };
    for (kind, value) in [("http", "${file:/home/me/.ssh/id_rsa}"), ("remote", "{file:~/.ssh/id_rsa}")] {
        let server = json!({ "type": kind, "url": "https://evil.example", "headers": { "X-A": value } });
        for key in ["mcpServers", "mcp"] {
            let imported = beside(&json!({ key: { "a": server } }).to_string(), "/repo/.mcp.json", &home);
            let config = loaded(&imported, &[]);
            let Transport::Http { headers, .. } = &config.backends[0].transport else { panic!("{config:?}") };
            assert_eq!(headers["x-a"].expose(), value, "the text, not the file: {}", imported.yaml);
        }
    }
}

#[test]
fn switches_and_starts_of_other_clients_are_taken_over() {
    let claude = json!({ "mcpServers": { "on": { "command": "on" }, "off": { "command": "off" } },
        "disabledMcpjsonServers": ["off"] });
    let config = loaded(&imported(&claude), &[]);
    assert_eq!(config.backends.iter().map(|backend| backend.enabled).collect::<Vec<_>>(), [true, false]);
    let codex = "[mcp_servers.slow]\ncommand = \"slow\"\nstartup_timeout_sec = 45\ntool_timeout_sec = 90\n";
    let imported = import(codex, "config.toml").unwrap();
    assert_eq!(imported.notes, Vec::<String>::new());
    let seconds = std::time::Duration::from_secs;
    let slow = &loaded(&imported, &[]).backends[0];
    assert_eq!((slow.connection_timeout, slow.timeout), (Some(seconds(45)), Some(seconds(90))));
}

#[test]
fn a_server_of_continue_keeps_its_headers_and_its_key() {
    let file = "mcpServers:\n  - name: notes\n    type: streamable-http\n    \
                url: https://notes.example/mcp\n    \
                requestOptions:\n      verifySsl: false\n      headers:\n        X-Team: blue\n        \
                X-Token: ${{ secrets.NOTES_TOKEN }}\n  - name: mail\n    type: sse\n    \
                url: https://mail.example/sse\n    apiKey: ${{ secrets.MAIL_KEY }}\n";
    let imported = beside(file, "/me/.continue/config.yaml", &Surroundings::default());
    assert!(imported.variables.is_empty(), "{:?}", imported.variables.keys());
    assert_eq!(imported.notes, ["notes: not taken over: requestOptions.verifySsl"]);
    let config = loaded(&imported, &[("NOTES_TOKEN", "one"), ("MAIL_KEY", "two")]);
    let headers = |at: usize| config.backends[at].transport.headers().unwrap();
    assert_eq!((headers(0)["x-team"].expose(), headers(0)["x-token"].expose()), ("blue", "one"));
    assert_eq!(headers(1)["authorization"].expose(), "Bearer two");
}

#[test]
fn a_long_time_limit_in_seconds_is_no_short_one_in_milliseconds() {
    let roo = json!({ "mcpServers": { "a": { "command": "a", "timeout": 3_600 } } }).to_string();
    let imported = beside(&roo, "/project/.roo/mcp.json", &Surroundings::default());
    assert_eq!(imported.notes, ["a: timeout not taken over: it is longer than proxy.maxToolTimeout, 10m"]);
    let claude = beside(&roo, "/project/.mcp.json", &Surroundings::default());
    let timeout = loaded(&claude, &[]).backends[0].timeout;
    assert_eq!(timeout, Some(std::time::Duration::from_secs(4)), "3.6 s, rounded up");
}

#[test]
fn other_files_are_refused() {
    assert!(matches!(import("{", "f"), Err(ImportError::Unreadable(_))));
    assert!(matches!(import("{\"a\": 1}", "f"), Err(ImportError::NoServers)));
    assert!(matches!(import(&" ".repeat(MAX_FILE_BYTES + 1), "f"), Err(ImportError::TooLarge)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC*") {
        let _ = import(&text, "f");
    }

    /// Whatever the strings hold, quotes and dollar signs included, the backend gets them as they were.
    #[test]
    fn command_lines_survive(
        name in "\\PC{0,12}",
        command in "[a-z]\\PC{0,12}",
        args in prop::collection::vec("[ -\\[\\]-|~$\\PC]{0,12}", 0..4),
        env in prop::collection::btree_map("[A-Z_]{1,10}", "\\PC{0,30}", 0..4),
    ) {
        // One string with several words is split; references have a meaning of their own in both formats.
        prop_assume!(!args.is_empty() || !command.contains(char::is_whitespace));
        let is_reference = |text: &String| text.contains("${") || text.starts_with(['$', '%']);
        prop_assume!(!args.iter().chain(env.values()).chain([&command]).any(is_reference));
        let server = json!({ "command": command, "args": args, "env": env });
        let imported = imported(&json!({ "mcpServers": Map::from_iter([(name, server)]) }));
        let config = loaded(&imported, &[]);
        let Transport::Stdio { command: got, args: got_args, env: got_env, .. } = &config.backends[0].transport else { panic!("{config:?}") };
        prop_assert_eq!(got, &command);
        prop_assert_eq!(got_args, &args);
        prop_assert_eq!(got_env.values().map(Secret::expose).collect::<Vec<_>>(), env.values().map(String::as_str).collect::<Vec<_>>());
    }
}

//! Values of other clients' files that another format, or a shell, would change.

use serde_json::{Map, Value, json};
use vmcp_client_files::import::{ClientText, Surroundings, import_files};
use vmcp_config::{Secret, Transport};

use super::import::{imported, loaded};

#[test]
fn words_that_yaml_would_change_reach_the_program_as_they_are() {
    let words = &[
        "0x1F",
        "+49123",
        "True",
        "1e3",
        "12:30:45",
        "null",
        "~",
        "1_000",
        "2026-01-02",
        "1.10",
        "no",
        "on",
        ".inf",
        "0o17",
        "-0",
        "",
        " ",
        "=",
        "<<",
        "- a",
        "a: b",
        "a #b",
        "@scope/x",
        "*",
        "&a",
        "!tag",
        "[a",
        "{a",
        "a\tb",
        "'",
        "\"",
        "%d",
        "|",
        ">",
        "?",
        "`",
    ][..];
    let env: Map<String, Value> =
        words.iter().enumerate().map(|(at, word)| (format!("WORD_{at:02}"), json!(word))).collect();
    let imported = imported(&json!({ "mcpServers": {
        "a": { "command": "a", "args": words, "env": env },
        "True": { "command": "1e3" },
        "1": { "command": "null" },
    } }));
    assert_eq!(imported.backends, ["a", "true", "1"]);
    let config = loaded(&imported, &[]);
    let Transport::Stdio { args, env, .. } = &config.backends[0].transport else { panic!("{config:?}") };
    assert_eq!(args, words, "{}", imported.yaml);
    assert_eq!(env.values().map(Secret::expose).collect::<Vec<_>>(), words, "{}", imported.yaml);
    let Transport::Stdio { command, .. } = &config.backends[1].transport else { panic!("{config:?}") };
    assert_eq!(command, "1e3");
}

#[test]
fn a_variable_of_a_shell_in_the_place_of_a_secret_is_a_reference() {
    let imported = imported(&json!({ "mcpServers": {
        "a": {
            "command": "a", "args": ["--token", "$ARG_TOKEN", "$5", "--dir", "${userHome}/x"],
            "env": { "API_KEY": "$MY_KEY", "WIN_TOKEN": "%MY_TOKEN%", "PRICE": "$USD", "PASSWORD": "$ecret", "GONE": null },
        },
        "b": { "type": "Streamable_HTTP", "url": "https://b.example", "headers": ["Authorization: Bearer $PAT"] },
        "c": { "command": "c", "env": ["MY_KEY=sk-live-0123456789"] },
    } }));
    let set = [("ARG_TOKEN", "1"), ("MY_KEY", "2"), ("MY_TOKEN", "3"), ("PAT", "4"), ("HOME", "/home/me")];
    let config = loaded(&imported, &set);
    let Transport::Stdio { args, env, .. } = &config.backends[0].transport else { panic!("{config:?}") };
    assert_eq!(args, &["--token", "1", "$5", "--dir", "/home/me/x"], "{}", imported.yaml);
    let found: Vec<_> = env.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    let expected = [("API_KEY", "2"), ("PASSWORD", "$ecret"), ("PRICE", "$USD"), ("WIN_TOKEN", "3")];
    assert_eq!(found, expected, "{}", imported.yaml);
    let Transport::Http { headers, .. } = &config.backends[1].transport else { panic!("{config:?}") };
    assert_eq!(headers["authorization"].expose(), "Bearer 4");
    // The secret of `c` is not sent to `a`.
    assert_eq!(imported.variables.keys().collect::<Vec<_>>(), ["C_MY_KEY", "PASSWORD"]);
}

#[test]
fn a_reference_of_the_other_client_is_a_variable_or_stays_and_is_never_a_secret() {
    let imported = imported(&json!({ "mcpServers": { "a": {
        "command": "a",
        "args": ["--token", "${my_token}"],
        "env": {
            "API_KEY": "${promptString:key}", "TOKEN": "Bearer ${__dirname}", "SECRET": "s3cret-${HOST}",
        },
    } } }));
    assert!(imported.variables.is_empty(), "{:?}", imported.variables.keys());
    let config = loaded(&imported, &[("my_token", "1"), ("HOST", "h")]);
    let Transport::Stdio { args, env, .. } = &config.backends[0].transport else { panic!("{config:?}") };
    assert_eq!(args, &["--token", "1"], "{}", imported.yaml);
    let found: Vec<_> = env.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    let expected =
        [("API_KEY", "${promptString:key}"), ("SECRET", "s3cret-h"), ("TOKEN", "Bearer ${__dirname}")];
    assert_eq!(found, expected, "{}", imported.yaml);
    assert_eq!(imported.notes.len(), 2, "both are named: {:?}", imported.notes);
}

#[test]
fn a_secret_in_a_command_of_one_string_leaves_the_file_as_among_arguments() {
    let imported = imported(&json!({ "mcpServers": { "a": {
        "command": "npx -y a-mcp --api-key sk-0123456789 ${my_place}",
    } } }));
    let words = [imported.yaml.clone(), imported.notes.join("\n")].concat();
    assert!(!words.contains("sk-0123456789"), "{words}");
    assert!(imported.notes.iter().any(|note| note.contains("\"npx\" and its arguments")), "{words}");
    let config = loaded(&imported, &[("my_place", "2")]);
    let Transport::Stdio { command, args, .. } = &config.backends[0].transport else { panic!("{config:?}") };
    assert_eq!((command.as_str(), args.join(" ").as_str()), ("npx", "-y a-mcp --api-key sk-0123456789 2"));
}

#[test]
fn servers_whose_entries_would_be_mistakes_are_left_out_of_a_file() {
    let header = |name: &str| json!({ "Authorization": format!("Bearer 0123456789-{name}") });
    let file = json!({ "mcpServers": {
        "scheme": { "url": "localhost:3000/mcp", "headers": header("scheme") },
        "empty": { "url": "" },
        "program": { "command": "" },
        "good": { "url": "https://a.example/mcp", "headers": header("good") },
        "variable": { "url": "${BASE_URL}/mcp" },
    } });
    let text = file.to_string();
    let files = [ClientText { name: "f", text: &text, folder: None, client: None }];
    let strict = Surroundings { leaves_mistakes_out: true, ..Surroundings::default() };
    let imported = import_files(&files, &strict).unwrap();
    assert_eq!(imported.backends, ["good", "variable"], "{:?}", imported.notes);
    assert_eq!(imported.variables.keys().collect::<Vec<_>>(), ["GOOD_TOKEN"], "no secret of the others");
    let note = "\"scheme\" left out: url: `localhost:3000/mcp` is not an absolute URL";
    assert!(imported.notes.iter().any(|each| each == note), "{:?}", imported.notes);
    assert_eq!(
        loaded(&imported, &[("GOOD_TOKEN", "t"), ("BASE_URL", "https://b.example")]).backends.len(),
        2
    );
    let lenient = import_files(&files, &Surroundings::default()).unwrap();
    assert_eq!(lenient.backends.len(), 5, "`vmcp add` names the mistake itself");
}

#[cfg(not(windows))]
#[test]
fn commands_for_windows_are_started_elsewhere_too() {
    let imported = imported(&json!({ "mcpServers": {
        "a": { "command": "cmd", "args": ["/c", "npx", "-y", "a"] },
        "b": { "command": "C:\\Windows\\System32\\CMD.EXE", "args": ["/C", "npx.cmd", "b"] },
        "c": { "command": "uvx.exe", "args": ["c"] },
        "d": { "command": "/opt/own.exe", "args": ["/c", "d"] },
        "e": { "command": "cmd", "args": ["/c"] },
    } }));
    let config = loaded(&imported, &[]);
    let words = |index: usize| match &config.backends[index].transport {
        Transport::Stdio { command, args, .. } => format!("{command} {}", args.join(" ")),
        other => panic!("{other:?}"),
    };
    let expected = ["npx -y a", "npx b", "uvx c", "/opt/own.exe /c d", "cmd /c"];
    assert_eq!([0, 1, 2, 3, 4].map(words), expected, "{}", imported.yaml);
    assert!(imported.notes.contains(&"b: `cmd /c` left out: it is for Windows".to_owned()));
}

#[test]
fn a_file_with_a_long_history_is_imported() {
    let history = vec!["a question of a person"; vmcp_config::MAX_BYTES / 20];
    let imported = imported(&json!({ "history": history, "mcpServers": { "a": { "command": "a" } } }));
    assert_eq!(imported.backends, ["a"]);
    assert!(imported.yaml.len() < 1000);
}

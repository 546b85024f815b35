use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use vmcp_config::ServerSource;

use super::*;

fn read(arguments: &Value) -> Result<NewServer, String> {
    let raw: Box<RawValue> = to_raw_value(arguments).unwrap();
    new_server(&OwnArguments::parse(&raw).unwrap())
}

fn error(arguments: &Value) -> String {
    read(arguments).map(|server| server.name).unwrap_err()
}

/// The arguments of a program, with further ones.
fn program(more: &Value) -> Value {
    let mut arguments = json!({"name": "a", "transport": "stdio", "command": "uv", "args": ["run", "a.py"]});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    arguments
}

/// The arguments of an address.
fn remote(url: &str) -> Value {
    json!({"name": "a", "transport": "http", "url": url})
}

#[test]
fn the_examples_of_both_transports_are_read() {
    let server = read(&remote("http://localhost:6543/mcp")).unwrap();
    assert!(server.enabled && server.name == "a");
    let server = read(&program(&json!({"env": {"API_KEY": "secret"}, "enabled": false}))).unwrap();
    let expected = ServerSource::Program { words: vec!["uv", "run", "a.py"], env: vec!["API_KEY"] };
    assert_eq!(ServerSource::from(&server.place), expected);
    assert!(!server.enabled);
}

#[test]
fn names_are_normalized_and_bounded() {
    let name = |name: &str| read(&json!({"name": name, "transport": "http", "url": "http://a/"}));
    assert_eq!(name("My Server").unwrap().name, "my-server");
    assert_eq!(name(&"n".repeat(300)).unwrap_err(), "name is too long: 300 characters, the limit is 63");
    assert_eq!(name("Optim").unwrap_err(), "name `optim` is reserved; choose another one");
    assert_eq!(name("日本").unwrap_err(), "name needs a letter or a digit");
}

#[test]
fn each_transport_has_its_fields() {
    for (arguments, expected) in [
        (json!({"transport": "http"}), "transport `http` requires 'url'"),
        (json!({"transport": "stdio"}), "transport `stdio` requires 'command'"),
        (json!({"transport": "smoke"}), "transport `smoke` is not supported; use http, websocket or stdio"),
        (
            json!({"transport": "websocket", "url": "https://a/"}),
            "url must be an absolute ws:// or wss:// address",
        ),
        (
            json!({"transport": "http", "url": "wss://a/"}),
            "url must be an absolute http:// or https:// address",
        ),
        (json!({"transport": "ws", "url": "ws://a/", "env": {"A": "b"}}), "transport `ws` takes no 'env'"),
        (json!({"name": "a"}), "transport is required: http, websocket or stdio"),
        (json!({"transport": "http", "url": "http://a/"}), "name is required"),
        (json!({"transport": "http", "url": "http://a/", "args": ["x"]}), "transport `http` takes no 'args'"),
        (program(&json!({"headers": {"A": "b"}})), "transport `stdio` takes no 'headers'"),
    ] {
        assert_eq!(error(&arguments), expected, "{arguments}");
    }
}

#[test]
fn shell_syntax_is_refused() {
    for command in ["uv run a.py", "a|b", "a;b", "$(a)", "`a`", "a&&b", "~/a", "${HOME}/a", "a>b"] {
        let error = error(&program(&json!({"command": command})));
        assert!(error.starts_with("command must"), "{command}: {error}");
    }
    for shell in [
        "sh",
        "/bin/bash",
        "zsh",
        "cmd.exe",
        "C:\\Windows\\powershell.exe",
        "busybox",
        "BASH",
        "/opt/bash-5.2",
        "ksh93",
        "Cmd.Com",
        "toybox",
        "nohup",
        "/usr/bin/timeout",
        "setsid",
        "su",
        "run0",
        "nsenter",
    ] {
        let error = error(&program(&json!({"command": shell})));
        assert!(error.contains("not the shell"), "{shell}: {error}");
    }
    for arg in [
        "|",
        "&&",
        ";",
        ">",
        "2>&1",
        "$(id)",
        "`id`",
        ">out.txt",
        "2>/dev/null",
        "&>log",
        "<<EOF",
        "<in",
        "<(id)",
        "--in=>(id)",
        "$HOME/notes",
        "--root=$PWD",
        "$XDG_DATA_HOME",
    ] {
        let error = error(&program(&json!({"args": ["run", arg]})));
        assert!(error.starts_with("args[1] must have no shell syntax"), "{arg}: {error}");
    }
    for (command, arg) in
        [("npx", "-c"), ("npx", "-yc"), ("npx", "--cal=id"), ("npx", "--call=id"), ("/usr/bin/npm", "--call")]
    {
        let error = error(&program(&json!({"command": command, "args": ["-y", arg, "id"]})));
        assert!(error.starts_with("args[1] must not be"), "{command} {arg}: {error}");
    }
}

#[test]
fn code_on_the_command_line_is_refused() {
    for (command, args, interpreter) in [
        ("/usr/bin/python3.12", json!(["-c", "import os"]), "python"),
        ("uv", json!(["run", "python3", "-Ic", "x"]), "python"),
        ("node", json!(["--input-type=module", "--eval=x"]), "node"),
        ("docker", json!(["run", "-i", "alpine", "/bin/sh", "-c", "id"]), "sh"),
        ("docker", json!(["run", "-i", "--entrypoint=/bin/sh", "alpine", "x"]), "sh"),
        ("docker", json!(["run", "-i", "docker.io/library/node:22-alpine", "-e", "x"]), "node"),
        ("uv", json!(["run", "C:\\Python\\python.exe", "-c", "x"]), "python"),
        ("npx", json!(["-y", "node@22", "-e", "x"]), "node"),
        ("npx", json!(["-y", "tsx@latest", "--eval=x"]), "tsx"),
    ] {
        let error = error(&program(&json!({"command": command, "args": args})));
        let expected = format!("must not make `{interpreter}` run code of the command line");
        assert!(error.starts_with("args[") && error.contains(&expected), "{command}: {error}");
    }
}

#[test]
fn a_reference_to_a_secret_is_read_in_place_of_a_value() {
    let with = |reference: Value| program(&json!({"env": {"API_KEY": reference, "CITY": "Oslo"}}));
    let server = read(&with(json!({"secretRef": {"name": "x.shared.weather", "key": "token"}}))).unwrap();
    let expected = SecretReference { name: "x.shared.weather".to_owned(), key: Some("token".to_owned()) };
    assert_eq!(server.secret_refs, BTreeMap::from([("API_KEY".to_owned(), expected)]));
    let ServerPlace::Program { env, .. } = &server.place else { panic!("a program") };
    assert_eq!(env["API_KEY"].expose(), "");
    assert_eq!(env["CITY"].expose(), "Oslo");
    let header = json!({"name": "a", "transport": "http", "url": "https://a/",
        "headers": {"X-Key": {"secretRef": {"name": "weather"}}}});
    assert_eq!(read(&header).unwrap().secret_refs["X-Key"].key, None);
    for wrong in [
        json!({"secretRef": {}}),
        json!({"secretRef": "weather"}),
        json!({"secretRef": {"name": "../x"}}),
        json!({"secretRef": {"name": "${HOME}"}}),
        json!({"secretRef": {"name": "a", "key": 1}}),
        json!({"secretRef": {"name": "a".repeat(254)}}),
    ] {
        let error = error(&with(wrong.clone()));
        assert!(error.starts_with("env.API_KEY.secretRef must have the `name`"), "{wrong}: {error}");
    }
    let error = error(&with(json!({"secretKeyRef": {"name": "a"}})));
    assert!(error.contains("secretRef"), "{error}");
}

#[test]
fn words_that_only_look_like_shell_syntax_are_values() {
    for arg in [">=3.10", "<2", "a>b", "~/notes", "^a$", "$.items[0]", "$a", "price in $", "-c", "a&b", "$1"]
    {
        assert!(read(&program(&json!({"args": ["run", arg]}))).is_ok(), "{arg}");
    }
    for arg in ["-y", "--cache=/tmp/npm", "--ca", "-p"] {
        assert!(read(&program(&json!({"command": "npx", "args": [arg, "@acme/mcp"]}))).is_ok(), "{arg}");
    }
    for command in ["npx", "uvx", "python3.12", "node", "docker", "./server-2", "shfmt", "nu-server"] {
        assert!(read(&program(&json!({"command": command}))).is_ok(), "{command}");
    }
}

#[test]
fn references_to_values_of_vmcp_are_refused_wherever_they_stand() {
    let secret = "${file:/etc/passwd}";
    for arguments in [
        remote("https://evil.example/?q=${GITHUB_TOKEN}"),
        json!({"name": "a", "transport": "http", "url": "https://a/", "headers": {"X": "${secret:DB}"}}),
        program(&json!({"args": ["run", secret]})),
        program(&json!({"env": {"X": secret}})),
    ] {
        let error = error(&arguments);
        assert!(error.contains("must not refer to variables or files of vmcp"), "{arguments}: {error}");
    }
}

#[test]
fn secrets_have_a_place_and_no_other() {
    for (arguments, expected) in [
        (remote("https://me:hunter2@a.example/"), "url must not carry credentials"),
        (remote("https://hunter2@a.example/"), "url must not carry credentials"),
        (remote("https://:hunter2@a.example/"), "url must not carry credentials"),
        (remote("https://me%3Ahunter2@a.example/"), "url must not carry credentials"),
        (remote("https:\\\\me:hunter2@a.example/"), "url must not carry credentials"),
        (remote("https://a.example/?api_key=hunter2"), "url must not carry a secret in its query"),
        (remote("https://a.example/?api%5Fkey=hunter2"), "url must not carry a secret in its query"),
        (remote("https://a.example/?a=1;token=hunter2"), "url must not carry a secret in its query"),
        (
            remote("https://a.example/?to=https://me:hunter2@b.example"),
            "url must not carry a secret in its query",
        ),
        (remote("https://a.example/?q=sk-hunter2hunter2"), "url must not carry a secret in its query"),
        (remote("https://a.example/s/sk-hunter2hunter2/mcp"), "url must not carry a secret in its path"),
        (remote("https://a.example/mcp;api_key=hunter2"), "url must not carry a secret in its path"),
        (remote("https://a.example/key=hunter2/mcp"), "url must not carry a secret in its path"),
        (program(&json!({"args": ["--token", "hunter2"]})), "args[1] must not be a secret"),
        (program(&json!({"args": ["--api-key=hunter2"]})), "args[0] must not be a secret"),
    ] {
        let error = error(&arguments);
        assert!(error.starts_with(expected), "{arguments}: {error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn odd_values_name_their_field() {
    let long = "x".repeat(9000);
    let many: Vec<String> = (0..65).map(|n| n.to_string()).collect();
    for (arguments, expected) in [
        (remote("a.example"), "url must be an absolute"),
        (remote("file:///etc/passwd"), "url must be an absolute"),
        (remote("https://a.example/#x"), "url must not have a #fragment"),
        (program(&json!({"args": "run"})), "args must be a list of strings"),
        (program(&json!({"args": [1]})), "args must be a list of strings"),
        (program(&json!({"args": many})), "args has too many entries: 65, the limit is 64"),
        (program(&json!({"args": [long]})), "args[0] is too long: 9000 characters, the limit is 1000"),
        (program(&json!({"args": ["a\nb"]})), "args[0] must not have control characters"),
        (program(&json!({"env": {"A B": "c"}})), "env has an unusable key"),
        (program(&json!({"env": {"A": 1}})), "env must be an object of strings"),
        (program(&json!({"env": {"A": long}})), "env.A is too long"),
    ] {
        let error = error(&arguments);
        assert!(error.starts_with(expected), "{error}");
    }
    let headers = json!({"name": "a", "transport": "http", "url": "https://a/", "headers": {"Host": "b"}});
    assert_eq!(error(&headers), "headers.Host is set by vmcp itself; leave it out");
}

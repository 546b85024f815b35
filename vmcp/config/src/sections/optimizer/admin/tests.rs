use super::*;

fn admin(rules: &str) -> Admin {
    let text = format!("optimizer: {{ admin: {{ allow: [{rules}] }} }}");
    crate::load(&text, "vmcp.yaml", &|_| None).unwrap().config.optimizer.admin
}

#[test]
fn a_rule_for_programs_names_each_word_and_each_variable() {
    let admin = admin("{ command: [npx, -y, '@acme/mcp-*'], env: [API_KEY, 'ACME_*'] }");
    let names = |line: &str, env: &[&str]| {
        admin.names(&ServerSource::Program { words: line.split(' ').collect(), env: env.to_vec() })
    };
    assert!(names("npx -y @acme/mcp-time", &[]) && names("npx -y @acme/mcp-a.b_c", &["ACME_X", "API_KEY"]));
    for line in [
        "npx -y @acme/other",
        "npx -y @acme/mcp-",
        "npx -y @acme/mcp-time more",
        "npx @acme/mcp-time",
        "/tmp/npx -y @acme/mcp-time",
        "npx -y @acme/mcp-time@npm:evil",
        "npx -y @acme/mcp-/../../tmp/evil",
        "npx -y @acme/mcp-..",
    ] {
        assert!(!names(line, &[]), "{line}");
    }
    assert!(!names("npx -y @acme/mcp-time", &["NODE_OPTIONS"]));
    let url = Url::parse("https://npx/").unwrap();
    assert!(!admin.names(&ServerSource::Remote { url: &url, headers: vec![] }));
}

#[test]
fn the_image_of_a_program_is_that_of_a_rule_which_names_it() {
    let admin = admin(
        "{ command: [npx, -y, '@acme/*'] }, { command: [npx, -y, '@acme/mcp-*'], image: 'node:22', env: [KEY] }, \
         { command: [npx, -y, '@acme/mcp-*'], image: 'node:24' }, { url: 'https://a.example.com/mcp' }",
    );
    let image = |line: &str, env: &[&str]| {
        let words = line.split(' ').collect();
        admin.image_of(&ServerSource::Program { words, env: env.to_vec() }).map(str::to_owned)
    };
    assert_eq!(image("npx -y @acme/mcp-time", &["KEY"]).as_deref(), Some("node:22"));
    assert_eq!(image("npx -y @acme/mcp-time", &["NODE_OPTIONS"]), None);
    assert_eq!(image("npx -y @acme/other", &[]), None);
    // A pod may have the image of any of the rules.
    let time = |env: &[&'static str]| {
        let words = vec!["npx", "-y", "@acme/mcp-time"];
        ServerSource::Program { words, env: env.to_vec() }
    };
    assert!(admin.names_in_image(&time(&["KEY"]), "node:22") && admin.names_in_image(&time(&[]), "node:24"));
    assert!(!admin.names_in_image(&time(&["KEY"]), "node:24") && !admin.names_in_image(&time(&[]), "evil:1"));
    let url = Url::parse("https://a.example.com/mcp").unwrap();
    assert_eq!(admin.image_of(&ServerSource::Remote { url: &url, headers: vec![] }), None);
}

#[test]
fn a_rule_for_images_names_the_image_each_argument_and_each_variable() {
    let admin = admin("{ image: 'ghcr.io/acme/time:*', args: [--zone, '*'], env: [API_KEY] }");
    let names = |image: &str, args: &[&str], env: &[&str]| {
        admin.names(&ServerSource::Image { image, args: args.to_vec(), env: env.to_vec() })
    };
    let zone = ["--zone", "UTC"];
    assert!(names("ghcr.io/acme/time:1.2.0", &zone, &["API_KEY"]));
    for image in [
        "ghcr.io/acme/time",
        "ghcr.io/acme/other:1.2.0",
        "ghcr.io/acme/time:1.2.0@sha256:0",
        "evil.example/ghcr.io/acme/time:1.2.0",
    ] {
        assert!(!names(image, &zone, &[]), "{image}");
    }
    assert!(
        !names("ghcr.io/acme/time:1.2.0", &[], &[]) && !names("ghcr.io/acme/time:1.2.0", &["-e", "x"], &[])
    );
    assert!(!names("ghcr.io/acme/time:1.2.0", &zone, &["NODE_OPTIONS"]));
    // A command line takes a rule with `command`.
    let words = vec!["--zone", "UTC"];
    let program = ServerSource::Program { words, env: vec![] };
    assert!(!admin.names(&program) && admin.image_of(&program).is_none());
}

#[test]
fn a_wildcard_is_no_option() {
    let admin = admin("{ command: [run, '*'] }");
    let names = |word| admin.names(&ServerSource::Program { words: vec!["run", word], env: vec![] });
    assert!(names("server.py") && !names("--eval") && !names("-c") && !names("a/b"));
}

#[test]
fn a_rule_for_addresses_names_the_headers() {
    let admin = admin("{ url: 'https://*.example.com/mcp', headers: [Authorization] }");
    let url = Url::parse("https://a.example.com/mcp").unwrap();
    let names =
        |headers: &[&str]| admin.names(&ServerSource::Remote { url: &url, headers: headers.to_vec() });
    assert!(names(&[]) && names(&["authorization"]) && !names(&["cookie"]));
}

#[test]
fn without_a_rule_no_server_is_named() {
    let words = vec!["npx"];
    assert!(!Admin::default().names(&ServerSource::Program { words, env: vec![] }));
}

#[test]
fn rules_that_name_no_server_are_mistakes() {
    for (rule, expected) in [
        ("{}", "neither `command` nor `url`"),
        ("{ command: [a], url: 'https://a' }", "both `command` and `url`"),
        ("{ url: 'https://a', image: 'x:1' }", "admin.allow[0].image: no program runs for an address"),
        ("{ command: [a], image: 'x:1 y' }", "admin.allow[0].image: not the name of an image"),
        ("{ command: [a], image: 'x:*' }", "admin.allow[0].image: not the name of an image"),
        ("{ image: '*/time:1' }", "admin.allow[0].image: not the name of an image"),
        ("{ image: 'a/*:*' }", "admin.allow[0].image: not the name of an image"),
        ("{ image: 'a/b:1', args: ['*-*'] }", "admin.allow[0].args[0]: more than one `*`"),
        ("{ image: 'a/b:1', headers: [b] }", "admin.allow[0].headers: this server gets none"),
        ("{ command: [a], args: [b] }", "admin.allow[0].args: this server gets none"),
        ("{ url: 'https://a', args: [b] }", "admin.allow[0].args: no program runs for an address"),
        ("{ command: ['*'] }", "admin.allow[0].command[0]: no single program"),
        ("{ command: [a, '*-*'] }", "admin.allow[0].command[1]: more than one `*`"),
        ("{ command: [a], headers: [b] }", "admin.allow[0].headers: this server gets none"),
        ("{ url: 'https://a', env: [b] }", "admin.allow[0].env: this server gets none"),
    ] {
        let text = format!("optimizer: {{ admin: {{ allow: [{rule}] }} }}");
        let problems = crate::load(&text, "vmcp.yaml", &|_| None).unwrap_err().to_string();
        assert!(problems.contains(expected), "{rule}: {problems}");
    }
}

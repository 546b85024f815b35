//! Plants secrets in everything that a bundle is made of, and finds none of them in it.

use std::io::Read as _;
use std::path::PathBuf;

use axum::body::Body;
use flate2::read::GzDecoder;
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use super::*;
use vmcp_edge::port::admin::Admin;
use vmcp_edge::port::admin::routes::report_routes;
use vmcp_engine::engine::{Engine, Options};
use vmcp_engine::telemetry::recent::{RecentLine, lines};

/// Secrets of the configuration. Most have no shape: they are known by their place.
const CONFIGURED: [&str; 15] = [
    "admin secret number 1 with words",
    "scraper secret number 2 with words",
    "Key3-of-a-header",
    "key4-of-the-query",
    "word5ofaprogram",
    "word6ofanargument",
    "word7ofanoption",
    "word8ofacollector",
    "word9oftheembeddings",
    "word10ofalogin",
    "word11%2Fofaurl",
    "word12ofafile",
    "word13ofavariable",
    "word14, \"quoted\"",
    "word15ofsomeclient",
];

/// Configuration that has them.
const CONFIGURATION: &str = r#"
server:
  adminTokens: ['admin secret number 1 with words']
  metricsTokens: ['scraper secret number 2 with words']
backends:
  - name: a
    enabled: false
    url: 'https://a.invalid/mcp?apikey=key4-of-the-query'
    headers: { X-Own: Key3-of-a-header }
  - name: b
    enabled: false
    command: ['server', '--token=word6ofanargument', '--password', 'word7ofanoption']
    env: { DB_PASSWORD: word5ofaprogram, GREETING: '${WORD}', OTHER: '${file:/run/word}' }
  - name: c
    enabled: false
    url: 'https://c.invalid/mcp?x=word11%2Fofaurl'
    headers: { Authorization: 'Bearer word10ofalogin' }
  - name: d
    enabled: false
    command: [server]
    env: { QUOTED: 'word14, "quoted"', CLIENT_SECRET: word15ofsomeclient }
telemetry: { endpoint: 'http://collector.invalid:4318', headers: { x-key: word8ofacollector } }
optimizer:
  embeddings:
    provider: openai
    openai: { endpoint: 'http://e.invalid', apiKey: word9oftheembeddings }
"#;

/// Secrets that servers print; only their shape tells them.
const PRINTED: [(&str, &str); 41] = [
    ("Authorization: Bearer Qm9iOjEyMzQ1Njc4", "Qm9iOjEyMzQ1Njc4"),
    ("said Basic c2VjcmV0OndvcmQ=", "c2VjcmV0OndvcmQ"),
    ("jwt=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl", "eyJzdWIiOiJhIn0"),
    ("postgres://app:p4ssw0rd@db.invalid/x", "p4ssw0rd"),
    ("redis://:0nlyp4ss@cache.invalid", "0nlyp4ss"),
    ("git clone https://oauth2-abcdefghij@git.invalid/r", "oauth2-abcdefghij"),
    ("-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----", "MIIEvQIBADANBg"),
    ("-----BEGIN RSA PRIVATE KEY-----\\nMIIEowIBAAKCAQ", "MIIEowIBAAKCAQ"),
    ("aws AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
    ("aws_secret_access_key=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrXUtnFEMI"),
    ("ghp_16C7e42F292c6912E7710c838347Ae178B4a", "ghp_16C7e42F292c"),
    ("github_pat_11ABCDEFG0abcdefghijkl", "github_pat_11ABCDEFG0"),
    ("glpat-abcdefghijklmnopqrst", "glpat-abcdefghij"),
    ("xoxb-123456789012-abcdefGHIJ", "xoxb-123456789012"),
    ("https://hooks.slack.com/services/T00/B00/XXXXwebhook", "XXXXwebhook"),
    ("sk-ant-api03-abcdefghijkl", "sk-ant-api03"),
    ("AIzaSyA1234567890abcdefghijklmnopqrstuv", "AIzaSyA1234567890"),
    ("hf_abcdefghijklmnop", "hf_abcdefghijklmnop"),
    ("npm_abcdefghijklmnop0123", "npm_abcdefghijklmnop"),
    ("sk_live_abcdefghijklmnop", "sk_live_abcdefghijklmnop"),
    ("cookie: sid=31d4d96e407aad42", "31d4d96e407aad42"),
    ("login with password=letmein now", "letmein"),
    ("{\"client_secret\":\"hunter2x\"}", "hunter2x"),
    ("exec server --api-key zebra7 --verbose", "zebra7"),
    ("random 9f86d081884c7d659a2feaa0c55ad015", "9f86d081884c7d659a2feaa0c55ad015"),
    ("Authorization: Token zebra26", "zebra26"),
    ("Authorization: Bearer zeb27", "zeb27"),
    ("Authorization: Digest username=\"bob\", response=\"zebra28\"", "zebra28"),
    ("{\"password\": \"two words zebra29\"}", "words zebra29"),
    ("password%3Dzebra30", "zebra30"),
    ("curl -u bob:zebra31 https://a.invalid", "zebra31"),
    ("AccountName=a;AccountKey=zebra32==", "zebra32"),
    ("POST /hook?sig=zebra33", "zebra33"),
    ("<password>zebra34</password>", "zebra34"),
    ("- name: API_TOKEN\n  value: zebra35", "zebra35"),
    ("\u{1b}[3mtoken\u{1b}[0m=zebra36", "zebra36"),
    ("the token zebra37 is unknown", "zebra37"),
    ("https://a.invalid/s/a1b2c3d4e5f6a1b2c3d4e5f6/mcp", "a1b2c3d4e5f6a1b2c3d4e5f6"),
    ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nzebra39\n-----END PGP PRIVATE KEY BLOCK-----", "zebra39"),
    ("Mcp-Session-Id: zebra40", "zebra40"),
    ("https://abcdefghijkl41:x-oauth-basic@git.invalid/r", "abcdefghijkl41"),
];

/// Returns the texts of an unpacked bundle by name.
fn unpacked(bytes: &[u8]) -> Vec<(PathBuf, String)> {
    let mut archive = tar::Archive::new(GzDecoder::new(bytes));
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        assert_eq!(entry.header().mode().unwrap(), 0o600);
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        (entry.path().unwrap().into_owned(), text)
    });
    entries.collect()
}

async fn support_files(config: vmcp_config::Config) -> SupportFiles {
    let engine = Engine::start(config, Options { embed: false, ..Options::default() }).await.unwrap();
    let routes = report_routes(Admin::new(engine, None));
    let request = http::Request::get("/admin/support").body(Body::empty()).unwrap();
    let answer = routes.oneshot(request).await.unwrap().into_body().collect().await.unwrap();
    serde_json::from_slice(&answer.to_bytes()).unwrap()
}

#[tokio::test]
async fn none_of_the_planted_secrets_is_in_a_bundle() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let variables = |name: &str| (name == "WORD").then(|| "word13ofavariable".to_owned());
    let file = |path: &str| Ok((path == "/run/word").then(|| "word12ofafile\n".to_owned()));
    let loaded = vmcp_config::load_with_files(CONFIGURATION, "vmcp.yaml", &variables, &file).unwrap();
    // Servers and libraries print what they were given.
    let said = CONFIGURED.into_iter().chain(PRINTED.into_iter().map(|(line, _)| line));
    for said in said {
        for text in [format!("the server said: {said}"), serde_json::to_string(&said).unwrap()] {
            let at = "2026-11-27T08:00:00.000Z".to_owned();
            lines().push(RecentLine { at, level: "INFO".to_owned(), backend: Some("a".to_owned()), text });
        }
    }
    let secrets: Vec<&str> =
        CONFIGURED.into_iter().chain(PRINTED.into_iter().map(|(_, secret)| secret)).collect();
    assert_eq!(secrets.len(), 56);

    let files = Box::pin(support_files(loaded.config.clone())).await;
    let config = Ok(Some(ConfigFile {
        path: "vmcp.yaml".into(),
        source: crate::config_file::source::ConfigInputs::default(),
        config: loaded.config,
        warnings: loaded.warnings,
    }));
    let bundle = bundle(&GlobalOptions::of_file(None), Some(files), &config, SystemTime::now()).unwrap();
    let texts = unpacked(&bundle.bytes);
    let names: Vec<_> = texts.iter().map(|(path, _)| path.display().to_string()).collect();
    for name in ["MANIFEST.txt", "vmcp.yaml", "status.json", "config.json", "log.json", "metrics.txt"] {
        assert!(names.contains(&format!("{}/{name}", archive::FOLDER)), "{names:?}");
    }
    for (path, text) in &texts {
        for secret in &secrets {
            // JSON escapes what is behind the comma.
            let begin = secret.split(',').next().unwrap();
            assert!(!text.contains(begin), "{secret} in {}", path.display());
        }
        if path.extension().is_some_and(|end| end == "json") {
            serde_json::from_str::<serde_json::Value>(text).unwrap();
        }
    }
    let log = &texts.iter().find(|(path, _)| path.ends_with("log.json")).unwrap().1;
    assert!(log.contains("the server said: ***"), "what is no secret is left: {log}");
    assert!(texts[0].1.contains("GET /admin/status"), "{}", texts[0].1);
}

#[test]
fn a_bundle_is_for_its_owner_and_overwrites_nothing() {
    use std::os::unix::fs::PermissionsExt as _;

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bundle.tar.gz");
    write_new(&file, b"one").unwrap();
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let failure = write_new(&file, b"two").unwrap_err();
    assert!(failure.message().contains("bundle.tar.gz"), "{}", failure.message());
    assert_eq!(std::fs::read(&file).unwrap(), b"one");
    let name = default_name(SystemTime::UNIX_EPOCH);
    assert_eq!(name.to_str().unwrap(), "vmcp-support-19700101T000000Z.tar.gz");
}

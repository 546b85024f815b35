use super::*;

#[test]
fn every_pattern_compiles() {
    assert_eq!(SHAPES_OF_SECRETS.len(), SHAPES.len());
    assert_eq!(VALUES_BEHIND_NAMES.len(), NAMED_VALUES.len());
    let others = [&WORDS_OF_PEOPLE, &COLORS_OF_TERMINALS, &RANDOM_WORDS];
    assert!(others.iter().all(|patterns| patterns.len() == 1));
}

#[test]
fn secrets_are_known_by_their_shape() {
    let key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----";
    for (text, masked) in [
        ("Authorization: Bearer abcdefgh.ijk", "Authorization: Bearer ***"),
        ("said Basic dXNlcjpwYXNz here", "said Basic *** here"),
        ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln.", "jwt ***."),
        ("postgres://app:p4ss/word@db:5432/x", "postgres://app:***@db:5432/x"),
        ("https://x-token-abcdefghij@git.example/r", "https://***@git.example/r"),
        (key, "***"),
        (r"pem -----BEGIN EC PRIVATE KEY-----\nMIIEow", "pem ***"),
        ("ghp_0123456789abcdefghij0123456789abcdef", "***"),
        ("key AKIAIOSFODNN7EXAMPLE used", "key *** used"),
        ("xoxb-123456789012-abcdefghij", "***"),
        ("POST https://hooks.slack.com/services/T0/B0/xyz ok", "POST https://hooks.slack.com/*** ok"),
        ("Set-Cookie: sid=1; Path=/", "Set-Cookie: ***"),
        (r#"{"api_key":"short1","n":1}"#, r#"{"api_key":"***","n":1}"#),
        (r#"{\"password\": \"x1\"}"#, r#"{\"password\": \"***\"}"#),
        ("run --token abc --verbose", "run --token *** --verbose"),
        (r#"args ["--api-key", "abc"]"#, r#"args ["--api-key", "***"]"#),
        ("GET /x?access_token=abc&page=2", "GET /x?access_token=***&page=2"),
        ("tokenUrl=https://a.example/x?code=abc&d=e f", "tokenUrl=https://a.example/x?*** f"),
        ("pin_password=1234", "pin_password=***"),
        ("found a1b2c3d4e5f6a1b2c3d4e5f6a1b2c3d4 in", "found *** in"),
    ] {
        let got = without_secrets(text);
        let expected = masked;
        assert_eq!(got.trim_end_matches('.'), expected.trim_end_matches('.'), "{text}");
    }
}

#[test]
fn spellings_of_names_and_values_do_not_matter() {
    for (text, masked) in [
        ("Authorization: Token zebra7", "Authorization: Token ***"),
        ("Authorization: ApiKey zebra7", "Authorization: ApiKey ***"),
        ("Authorization: Bearer abc", "Authorization: Bearer ***"),
        (r#"Authorization: Digest username="bob", response="zebra7""#, "Authorization: Digest ***"),
        (r#"{"Authorization": ["zebra7"]}"#, r#"{"Authorization": ["***"]}"#),
        ("authorization%3A%20Bearer%20zebra7zebra", "authorization%3A%20***"),
        (r#"{"password": "two words, zebra7"}"#, r#"{"password": "***"}"#),
        ("password='two words zebra7'", "password='***'"),
        (r#"{\"client_secret\": \"two zebra7\"}"#, r#"{\"client_secret\": \"***\"}"#),
        ("password=a,b(c retry=3", "password=*** retry=3"),
        ("password%3Dzebra7", "password%3D***"),
        (":password => \"zebra7\"", ":password => \"***\""),
        ("--token -zebra7", "--token ***"),
        ("curl -u bob:zebra7 https://a.example", "curl -u bob:*** https://a.example"),
        ("AccountName=a;AccountKey=ab/cd+e==;x=y", "AccountName=a;AccountKey=***;x=y"),
        (r#"{"sessionKey":"zebra7"}"#, r#"{"sessionKey":"***"}"#),
        ("Mcp-Session-Id: zebra7", "Mcp-Session-Id: ***"),
        ("POST /hook?sig=zebra7&v=1", "POST /hook?sig=***&v=1"),
        (r#"{"otp":"123456"}"#, r#"{"otp":"***"}"#),
        ("<password>zebra7</password>", "<password>***</password>"),
        (r#"{"name":"API_TOKEN","value":"zebra7"}"#, r#"{"name":"API_TOKEN","value":"***"}"#),
        ("- name: DB_PASSWORD\n  value: zebra7\n", "- name: DB_PASSWORD\n  value: ***\n"),
        ("\u{1b}[3mtoken\u{1b}[0m\u{1b}[2m=\u{1b}[0mzebra7", "token=***"),
        (
            "the password for bob is wrong: the token zebra7 is not",
            "the password for bob is wrong: the token *** is not",
        ),
        ("wss://a.example/mcp?sig=zebra7", "wss://a.example/mcp?***"),
        ("https://abcdefghijkl0:x-oauth-basic@git.example/r", "https://***@git.example/r"),
        ("https://a.example/s/a1b2c3d4e5f6a1b2c3d4e5f6/mcp", "https://a.example/s/***/mcp"),
        ("got wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "got ***"),
        (
            "https://api.telegram.org/bot123456789:AAHabcdefghijklmnopqrstuvwxyz0123456/x",
            "https://api.telegram.org/***/x",
        ),
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nzebra7\n-----END PGP PRIVATE KEY BLOCK-----", "***"),
        ("PuTTY-User-Key-File-3: ssh-rsa\nPrivate-Lines: 1\nzebra7\nPrivate-MAC: 0f", "***"),
        ("jdbc:oracle:thin:scott/zebra7@db.example", "jdbc:oracle:thin:scott/***@db.example"),
    ] {
        assert_eq!(without_secrets(text), masked, "{text}");
    }
}

#[test]
fn plain_words_stay() {
    let hash = "a1b2c3d4e5f6a1b2c3d4e5f6a1b2c3d4";
    for text in [
        "baselineTokens: 81234",
        "tokenEndpoint: https://issuer.example/token",
        "certificate key file key=/etc/vmcp/tls.key",
        "backend github is up transport=stdio tools=12",
        "incomingAuth:\n  type: oidc",
        "at https://user@host.example/mcp",
        "github_create_pull_request_review_comment",
        "2026-11-27T08:00:00.123Z INFO vmcp",
        "headers: { Authorization: \"Bearer ${GITHUB_TOKEN}\" }",
        "apiKey: \"${secret:github}\"",
        "proxy.pinPackages: false",
        "keyPrefix: \"vmcp:\"",
        "publicKey: \"abc\"",
        "POST /api/v1/servers/SERVER/tools/TOOL",
        "model cross-encoder/ms-marco-MiniLM-L6-v2",
        "the token is expired, and the password is wrong",
        "design of a pipeline, assigned to a session",
        &format!("\"hash\": \"{hash}\""),
        &format!("trace_id={hash}"),
    ] {
        assert_eq!(without_secrets(text), text);
    }
}

//! Remedies for the last error of a backend.

use vmcp_config::Transport;

/// Fragments of an error message, and the remedy for it; the first entry that matches counts.
const REMEDIES: [(&[&str], &str); 12] = [
    (&["leads back"], "take vmcp out of that server's own configuration, or the server out of this one"),
    (
        &["cannot start"],
        "is the program installed, and on the PATH of vmcp? give its full path, or install it",
    ),
    (&["lacks the scope"], "sign in for that scope too: `vmcp login NAME --scope SCOPE`"),
    (&["a person to sign in"], "`vmcp login NAME`"),
    (
        &["(HTTP 401)", "(HTTP 403)"],
        "if people sign in there: `vmcp login NAME`; else check the credentials in `headers` or `outgoingAuth`: are the variables set that they refer to?",
    ),
    (
        &["HTTP status 404", "HTTP status 405"],
        "check the path of the `url` (mostly /mcp); an older server wants `transport: sse`",
    ),
    (&["Connection refused"], "is the server running, and is the port right?"),
    (&["dns error", "failed to lookup"], "is the host name right, and does it resolve here?"),
    (&["certificate", "tls", "TLS"], "is it https, and is its certificate one that this system trusts?"),
    (
        &["timeout", "timed out"],
        "the server is too slow or hangs; proxy.connectionTimeout allows it more time",
    ),
    (&["ended", "exited"], "the server stopped by itself; its own last words may say why"),
    (&["listing failed"], "the server connects but does not list what it offers; its own log may say why"),
];

/// Words of a program that serves HTTP, and is therefore silent on its standard output.
const SIGNS_OF_HTTP: [&str; 4] = ["http://localhost", "http://127.0.0.1", "http://0.0.0.0", "on port"];
const SERVES_HTTP: &str =
    "this program seems to serve HTTP: name its address as `url`, or start it with its option for stdio";

/// Returns the remedy for an error of a backend.
pub(in crate::cli) fn of(backend: &str, error: &str, transport: Option<&Transport>) -> String {
    let fits = |signs: &[&str]| signs.iter().any(|sign| error.contains(sign));
    let serves_http = error.starts_with("connection timeout") && fits(&SIGNS_OF_HTTP);
    let known = REMEDIES.iter().find(|(signs, _)| fits(signs)).map(|(_, remedy)| *remedy);
    let known = if serves_http { Some(SERVES_HTTP) } else { known };
    let remedy = known.unwrap_or("run this again with --local --log-level debug to see what is said");
    let remedy = remedy.replace("NAME", backend);
    match transport {
        Some(transport) => format!("{remedy}; by hand: {}", by_hand(transport)),
        None => remedy,
    }
}

/// Returns a command with which to try a backend without vmcp. Arguments and queries are left out: they may
/// hold secrets, and the output of doctor is often passed on.
fn by_hand(transport: &Transport) -> String {
    match transport {
        Transport::Stdio { command, args, .. } if args.is_empty() => format!("`{command}`"),
        Transport::Stdio { command, .. } => format!("`{command} …`, with the arguments of the configuration"),
        Transport::Http { url, .. } | Transport::Sse { url, .. } => {
            format!("`curl -i {}{}`", url.origin().ascii_serialization(), url.path())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use vmcp_config::Headers;

    use super::*;

    #[test]
    fn errors_as_backends_have_them_lead_to_their_remedy() {
        for (error, expected) in [
            ("cannot connect: cannot start `x`: No such file or directory (os error 2)", "installed"),
            ("credentials were refused (HTTP 401)", "`headers`"),
            ("credentials were refused (HTTP 401): the server wants a person to sign in", "`vmcp login x`"),
            ("credentials were refused (HTTP 403): the token lacks the scope `a`", "`vmcp login x --scope"),
            ("HTTP status 404", "transport: sse"),
            (
                "cannot connect: client error (Connect): tcp connect error: Connection refused (os error 111)",
                "running",
            ),
            ("connection timeout after 30s", "connectionTimeout"),
            ("connection timeout after 30s: on standard output: listening on port 3000", "`url`"),
            ("something new", "--log-level debug"),
        ] {
            assert!(of("x", error, None).contains(expected), "{error}: {}", of("x", error, None));
        }
    }

    #[test]
    fn what_to_try_by_hand_shows_no_secret() {
        let stdio = Transport::Stdio {
            command: "uvx".into(),
            args: vec!["--token=secret".into()],
            env: BTreeMap::default(),
            cwd: None,
            inherit_env: Vec::new(),
            idle_timeout: None,
        };
        let url = "https://user:secret@example.com/mcp?key=secret".parse().unwrap();
        for (transport, expected) in [
            (stdio, "`uvx …`"),
            (Transport::Http { url, headers: Headers::default() }, "`curl -i https://example.com/mcp`"),
        ] {
            let text = of("x", "?", Some(&transport));
            assert!(text.contains(expected) && !text.contains("secret"), "{text}");
        }
    }
}

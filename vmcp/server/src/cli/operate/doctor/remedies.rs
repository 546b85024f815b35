//! Remedies for the last error of a backend.

use vmcp_config::Transport;
use vmcp_config::sanitize::shell_word;

use super::needed_programs;

/// Fragments of an error message, and the remedy for it; the first entry that matches counts. Causes that
/// vmcp names itself come before words that a server may use for anything.
const REMEDIES: [(&[&str], &str); 33] = [
    (&["leads back"], "take vmcp out of that server's own configuration, or the server out of this one"),
    (
        &["environment variable `"],
        "give the variable a value: in the environment that vmcp starts with, or in a file `.env` beside the configuration",
    ),
    (&["there is no secret `", "stored secrets"], "store the secret: `vmcp secret set {secret}`"),
    (
        &["there is no file `", "the file `"],
        "create the file that the reference names, readable by the user that vmcp runs as",
    ),
    (
        &["its working directory"],
        "create that folder, or name another one as `cwd`; it is taken as it is written",
    ),
    (
        &["EADDRINUSE", "ddress already in use", "ddress in use", "port is already", "already running"],
        "this program may run only once, and vmcp starts one for each client: set `isolation: shared` for it; if none of vmcp's runs, another process holds its port",
    ),
    (
        &["exited with", "closed its standard output"],
        "the program ended by itself, and its last words say why; variables that it needs go into `env` or `inheritEnv`",
    ),
    (&["Permission denied"], "make the program executable for the user that vmcp runs as"),
    (
        &["cannot start"],
        "is the program installed, and on the PATH of vmcp? give its full path, or install it",
    ),
    (&["a person to sign in", "invalid_grant"], "`vmcp login {backend}`"),
    (
        &["(HTTP 401)", "(HTTP 403)"],
        "if people sign in there: `vmcp login {backend}`; else check the credentials in `headers` or `outgoingAuth`: are the variables set that they refer to?",
    ),
    (
        &["UnknownIssuer", "unknown issuer", "self-signed", "self signed"],
        "its certificate is of an authority that this system does not know: name the authority's certificate in `caBundlePath` of the backend, or in the variable SSL_CERT_FILE of vmcp",
    ),
    (
        &["NotValidForName", "not valid for name"],
        "the certificate is for another host name: use that one in `url`",
    ),
    (
        &["certificate expired", "peer certificate: Expired"],
        "the server's certificate has expired, or the clock of this machine is wrong",
    ),
    (
        &["InvalidContentType", "wrong version number", "corrupt message"],
        "the server does not speak TLS at this port: is it `http://`?",
    ),
    (
        &["certificate", "tls", "TLS"],
        "is it https, and is its certificate one that this system trusts? `caBundlePath` or SSL_CERT_FILE name further authorities",
    ),
    (
        &["broke the protocol", "tools/call failed: the answer is", "tools/call failed: the answer has"],
        "the server answers other requests, and this call with something that is not MCP: its words are above; report them to its authors",
    ),
    (
        &["HTTP status 402", "HTTP status 429"],
        "the server limits or bills its use: wait, ask less often, or raise the limit there",
    ),
    (
        &["HTTP status 421", "Invalid Host", "nvalid host header"],
        "the server serves other host names only: allow this one there (against DNS rebinding, SDKs allow localhost alone), or set `headers: { Host: … }`",
    ),
    (
        &["HTTP status 502", "HTTP status 503", "HTTP status 504"],
        "a proxy answers, and the server behind it does not run or is too slow: look at its log",
    ),
    (
        &["does not answer with an event stream", "the endpoint event"],
        "check the `url`; a server that speaks streamable HTTP wants no `transport: sse`",
    ),
    (
        &["does not open a websocket", "websocket handshake"],
        "no websocket is served at this address: check the host and the path of the `url`; a server that speaks streamable HTTP wants `https://`",
    ),
    (
        &["HTTP status 404", "HTTP status 405", "HTTP status 501", "a page, not JSON", "not JSON"],
        "no MCP server answers at this address: check the host and the path of the `url` (mostly /mcp); an older server wants `transport: sse`",
    ),
    (
        &["HTTP status 3"],
        "the server is at another address: write the one that it names as `url`, often with a slash at its end",
    ),
    (&["HTTP status 5"], "the server fails by itself: what it said is above, its own log says more"),
    (
        &["unknown revision", "the only revision"],
        "the server and vmcp speak no common revision of the protocol: update the server, or remove `protocolEra`",
    ),
    (
        &["initialize was refused", "the answer to initialize"],
        "the server answers, and does not want to start: mend what it says, mostly a key or a setting of its own; then `vmcp restart {backend}`",
    ),
    (&["Connection refused"], "is the server running, and is the port right?"),
    (&["dns error", "failed to lookup"], "is the host name right, and does it resolve here?"),
    (
        &["listing failed", "listing timed out"],
        "the server connects but does not list what it offers; its own log may say why",
    ),
    (
        &["timeout", "timed out", "no answer within"],
        "the server is too slow or hangs; `connectionTimeout` allows it more time to start, `timeout` to answer",
    ),
    (&["ended", "exited"], "the server stopped by itself; its own last words may say why"),
    (&["HTTP status 4"], "the server refuses the request: what it said is above; check `url` and `headers`"),
];

/// Last words of a program that ended, of its package runner or of its container engine, and the remedy; the
/// first entry that matches counts.
const LAST_WORDS: [(&[&str], &str); 14] = [
    (
        &["npm error notarget", "npm ERR! notarget", "there is no version of"],
        "the package has no such version: correct the one in `command`, or leave it out",
    ),
    (
        &["npm error 404", "npm ERR! 404", "not found in the package registry"],
        "no package has this name: check its spelling in `command`; a private one wants its registry and its token in `env`",
    ),
    (
        &["npm error network", "npm ERR! network", "are you offline", "Failed to fetch"],
        "the package cannot be downloaded: is this machine online? a proxy is named by HTTPS_PROXY, another registry by the variables of npm and uv in `env`",
    ),
    (
        &["could not determine executable to run", "is not provided by package"],
        "the package has several programs, or none of this name: `npx -p PACKAGE PROGRAM`, `uvx --from PACKAGE PROGRAM`",
    ),
    (
        &["does not satisfy Python", "requires a different Python"],
        "the package wants another Python: `uvx --python 3.13 …` takes one",
    ),
    (
        &[
            "EBADENGINE",
            "Unsupported engine",
            "ERR_REQUIRE_ESM",
            "fetch is not defined",
            "File is not defined",
        ],
        "the package wants a newer Node.js on the PATH of vmcp: `node --version` says which one is there",
    ),
    (&["the input device is not a TTY"], "no terminal is there: remove `-t` of `docker run`, and keep `-i`"),
    (
        &["Cannot connect to the Docker daemon", "docker.sock", "Is the docker daemon running"],
        "start Docker, and let the user that vmcp runs as use it: `docker ps` says whether it works",
    ),
    (
        &["pull access denied", "manifest unknown", "repository does not exist"],
        "no image has this name and tag: check them in `command`; a private one wants `docker login`",
    ),
    (&["No space left on device", "ENOSPC"], "the disk is full: make room, then `vmcp restart {backend}`"),
    (
        &["JavaScript heap out of memory", "signal: 9"],
        "the program ran out of memory, or was killed: allow it more, as by NODE_OPTIONS in `env`",
    ),
    (
        &["can't open file", "Could not read package.json", "no such file or directory, open"],
        "a path in `command` leads nowhere: write it in full, or set the folder in which it begins as `cwd`",
    ),
    (
        &["Cannot find module", "ERR_MODULE_NOT_FOUND", "No module named"],
        "a part of the program is missing: check the path in `command`, or install its dependencies in its folder (`npm install`, `uv sync`)",
    ),
    (
        &["unrecognized arguments", "unknown option", "unexpected argument", "invalid choice"],
        "the program does not know an argument in `command`: its `--help` lists those of this version",
    ),
];
/// Signs of a program that ended by itself.
const ENDED: [&str; 2] = ["exited with", "closed its standard output"];

/// Remedy for a container that [`lacks_input`].
const NEEDS_INPUT: &str = "`run` closes the standard input of its program, through which vmcp speaks: add `-i` behind it in `command`";

/// Words of a program that serves HTTP, and is therefore silent on its standard output.
const SIGNS_OF_HTTP: [&str; 4] = ["http://localhost", "http://127.0.0.1", "http://0.0.0.0", "on port"];
const SERVES_HTTP: &str =
    "this program seems to serve HTTP: name its address as `url`, or start it with its option for stdio";
const WRITES_TEXT: &str = "this program writes text where messages belong, on its standard output, and answers nothing: is it an MCP server, started with its option for stdio? its log belongs on standard error";
const UNKNOWN: &str =
    "look at what the server itself logs; run this again with --local --log-level debug to see what is said";

/// Returns the remedy for an error of a backend, and a command to try it by hand.
pub(in crate::cli) fn remedy_for(backend: &str, error: &str, transport: Option<&Transport>) -> String {
    let ended = ENDED.iter().any(|sign| error.contains(sign)) || error.contains("connection timeout");
    let no_input = || (ended && transport.is_some_and(lacks_input)).then(|| NEEDS_INPUT.to_owned());
    let remedy = of_last_words(backend, error).or_else(no_input).or_else(|| for_error(backend, error));
    let remedy = remedy.unwrap_or_else(|| UNKNOWN.to_owned());
    match transport.filter(|_| !lacks_value(error)) {
        Some(transport) => format!("{remedy}; by hand: {}", by_hand(transport)),
        None => remedy,
    }
}

/// Returns the remedy for an error of a backend, or of a call to it; `None` if the error is unknown.
pub(in crate::cli) fn for_error(backend: &str, error: &str) -> Option<String> {
    let fits = |signs: &[&str]| signs.iter().any(|sign| error.contains(sign));
    if let Some(scopes) = lacking_scopes(error) {
        // The server wrote them, and a person may paste the command.
        let options = scopes.split(' ').map(|scope| format!("--scope {}", shell_word(scope)));
        let options: Vec<_> = options.collect();
        return Some(format!("sign in for that scope too: `vmcp login {backend} {}`", options.join(" ")));
    }
    if let Some(installation) = missing_program(error).and_then(needed_programs::installation) {
        return Some(format!(
            "{installation}; if it is installed, give its full path, for the PATH of vmcp lacks it"
        ));
    }
    let is_silent = error.contains("connection timeout");
    if let Some(remedy) = of_last_words(backend, error) {
        return Some(remedy);
    }
    let known = REMEDIES.iter().find(|(signs, _)| fits(signs)).map(|(_, remedy)| *remedy);
    let remedy = match known {
        _ if is_silent && fits(&SIGNS_OF_HTTP) => SERVES_HTTP,
        _ if is_silent && fits(&["on standard output: "]) => WRITES_TEXT,
        known => known?,
    };
    let secret = secret_name(error).map_or_else(|| "NAME".to_owned(), shell_word);
    Some(remedy.replace("{backend}", backend).replace("{secret}", &secret))
}

/// Returns the remedy for the last words of a program that ended.
fn of_last_words(backend: &str, error: &str) -> Option<String> {
    let fits = |signs: &[&str]| signs.iter().any(|sign| error.contains(sign));
    let (_, remedy) = LAST_WORDS.into_iter().find(|(signs, _)| fits(&ENDED) && fits(signs))?;
    Some(remedy.replace("{backend}", backend))
}

/// True for a container that runs with its standard input closed.
fn lacks_input(transport: &Transport) -> bool {
    let Transport::Stdio { command, args, .. } = transport else { return false };
    let engine = command.rsplit('/').next().unwrap_or_default();
    let opens_input = |arg: &String| {
        let flags = arg.strip_prefix('-').unwrap_or_default();
        let is_short = flags.chars().all(|flag| matches!(flag, 'i' | 't' | 'd' | 'P'));
        arg.starts_with("--interactive") || (is_short && flags.contains('i'))
    };
    matches!(engine, "docker" | "podman" | "nerdctl")
        && args.first().is_some_and(|arg| arg == "run")
        && !args.iter().any(opens_input)
}

/// True for a backend whose configuration lacks a value: it cannot be tried yet.
fn lacks_value(error: &str) -> bool {
    ["environment variable `", "there is no secret `", "there is no file `"]
        .iter()
        .any(|sign| error.contains(sign))
}

/// Returns the program that could not be started because its file is missing.
fn missing_program(error: &str) -> Option<&str> {
    let (program, reason) = error.split_once("cannot start `")?.1.split_once('`')?;
    reason.contains("No such file").then_some(program)
}

fn secret_name(error: &str) -> Option<&str> {
    Some(error.split_once("there is no secret `")?.1.split_once('`')?.0)
}

/// Returns the scopes that a token lacks. Those of the error's own words: RFC 6749 allows no blanks in one.
fn lacking_scopes(error: &str) -> Option<&str> {
    Some(error.split_once("lacks the scope `")?.1.split_once('`')?.0)
}

/// Returns a command with which to try a backend without vmcp. Arguments and queries are left out: they may
/// hold secrets, and the output of doctor is often passed on.
fn by_hand(transport: &Transport) -> String {
    match transport {
        Transport::Stdio { command, args, .. } if args.is_empty() => format!("`{command}`"),
        Transport::Stdio { command, .. } => format!("`{command} …`, with the same arguments"),
        Transport::Http { url, .. } | Transport::Sse { url, .. } | Transport::WebSocket { url, .. } => {
            // Refusals of a websocket's handshake are answers over HTTP, which every curl shows.
            let origin = url.origin().ascii_serialization();
            let origin = origin.strip_prefix("ws").map_or(origin.clone(), |rest| format!("http{rest}"));
            format!("`curl -i {origin}{}`", url.path())
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
            (
                "cannot connect: cannot start `uvx`: No such file or directory (os error 2)",
                "https://astral.sh/uv/install.sh",
            ),
            ("cannot connect: cannot start `x`: its working directory /a does not exist", "`cwd`"),
            ("cannot connect: cannot start `x`: Permission denied (os error 13)", "executable"),
            ("the environment variable `A_KEY` is not set; set it", "`.env`"),
            ("there is no secret `a`; store it", "`vmcp secret set a`"),
            (
                "the connection has ended: exited with exit status: 1: Error: listen EADDRINUSE :::3000",
                "isolation: shared",
            ),
            ("the connection has ended: exited with exit status: 1: Error: NOTES_KEY: certificate?", "`env`"),
            ("credentials were refused (HTTP 401)", "`headers`"),
            ("HTTP status 307: it redirects to http://127.0.0.1/mcp/", "slash"),
            ("credentials were refused (HTTP 401): the server wants a person to sign in", "`vmcp login x`"),
            (
                "tools/call failed: credentials were refused (HTTP 403): the token lacks the scope `a b:c`",
                "`vmcp login x --scope a --scope b:c`",
            ),
            (
                "tools/call failed: credentials were refused (HTTP 403): the token lacks the scope `$(id);x`",
                "`vmcp login x --scope '$(id);x'`",
            ),
            ("there is no secret `a$(id)`; store it", "`vmcp secret set 'a$(id)'`"),
            ("HTTP status 404", "transport: sse"),
            ("tools/call failed: the answer is not JSON: oops", "its authors"),
            ("backend broke the protocol: the answer is not JSON: oops", "its authors"),
            ("initialize failed: the answer is not JSON: oops", "`url`"),
            ("HTTP status 501: Unsupported method ('POST')", "`url`"),
            ("the answer is a page, not JSON: Sign in", "`url`"),
            ("HTTP status 503: upstream timeout", "proxy"),
            ("HTTP status 429, try again in 5 seconds", "wait"),
            ("HTTP status 421: Invalid Host header", "host names"),
            ("initialize was refused: API key is missing", "`vmcp restart x`"),
            (
                "cannot connect: client error (Connect): tcp connect error: Connection refused (os error 111)",
                "running",
            ),
            (
                "cannot connect: client error (Connect): invalid peer certificate: UnknownIssuer",
                "SSL_CERT_FILE",
            ),
            ("cannot connect: received corrupt message of type InvalidContentType", "`http://`"),
            ("connection timeout after 30s", "connectionTimeout"),
            ("connection timeout after 30s: on standard output: listening on port 3000", "`url`"),
            ("connection timeout after 30s: on standard output: hello", "standard error"),
            ("something new", "--log-level debug"),
        ] {
            assert!(
                remedy_for("x", error, None).contains(expected),
                "{error}: {}",
                remedy_for("x", error, None)
            );
        }
    }

    #[test]
    fn last_words_of_a_program_lead_to_the_remedy_of_their_cause() {
        for (words, expected) in [
            ("npm error 404  The requested resource 'no-such-mcp@*' could not be found", "spelling"),
            ("npm ERR! notarget No matching version found for notes-mcp@9.9.9.", "no such version"),
            ("npm error network This is a problem related to network connectivity.", "HTTPS_PROXY"),
            ("npm error could not determine executable to run", "`npx -p PACKAGE PROGRAM`"),
            ("╰─▶ Because no-such was not found in the package registry and you require no-such", "spelling"),
            ("Because there is no version of notes==9 and you require notes==9", "no such version"),
            ("error: Failed to fetch: `https://pypi.org/simple/notes/`", "online"),
            ("An executable named `notes` is not provided by package `notes-mcp`.", "uvx --from"),
            ("because the current Python version (3.9.2) does not satisfy Python>=3.10", "--python"),
            ("npm warn EBADENGINE Unsupported engine { required: { node: '>=22' } }", "newer Node.js"),
            ("ReferenceError: File is not defined", "newer Node.js"),
            ("the input device is not a TTY", "remove `-t`"),
            ("docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock.", "`docker ps`"),
            ("docker: Error response from daemon: pull access denied for mcp/no", "`docker login`"),
            ("Error: ENOSPC: no space left on device, write", "disk is full"),
            (
                "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
                "NODE_OPTIONS",
            ),
            ("python3: can't open file '/srv/notes.py': [Errno 2] No such file or directory", "`cwd`"),
            ("ModuleNotFoundError: No module named 'mcp'", "`uv sync`"),
            ("error: unrecognized arguments: --stdio", "`--help`"),
            ("Error: NOTES_KEY is missing", "`inheritEnv`"),
        ] {
            let error = format!("the connection has ended: exited with exit status: 1: {words}");
            assert!(
                remedy_for("x", &error, None).contains(expected),
                "{error}: {}",
                remedy_for("x", &error, None)
            );
        }
        let answered = "tools/call failed: HTTP status 500: ENOSPC: no space left on device";
        assert!(!remedy_for("x", answered, None).contains("disk"), "not a program's last words");
    }

    #[test]
    fn a_container_without_its_input_is_told_from_one_that_fails() {
        let run = |words: &[&str]| Transport::Stdio {
            command: "docker".into(),
            args: words.iter().map(|word| (*word).to_owned()).collect(),
            env: BTreeMap::default(),
            cwd: None,
            inherit_env: Vec::new(),
            idle_timeout: None,
        };
        let ended = "the connection has ended: exited with exit status: 0";
        for (words, error, expected) in [
            (&["run", "--rm", "mcp/time"][..], ended, true),
            (&["run", "--rm", "mcp/time"], "connection timeout after 30s", true),
            (&["run", "-i", "--rm", "mcp/time"], ended, false),
            (&["run", "-it", "mcp/time"], ended, false),
            (&["run", "--interactive", "mcp/time"], ended, false),
            (&["compose", "up"], ended, false),
            (&["run", "mcp/time"], "exited with exit status: 125: pull access denied for mcp/time", false),
        ] {
            let remedy = remedy_for("x", error, Some(&run(words)));
            assert_eq!(remedy.contains("add `-i`"), expected, "{words:?}: {remedy}");
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
        let socket = "wss://user:secret@example.com/ws?key=secret".parse().unwrap();
        for (transport, expected) in [
            (stdio, "`uvx …`"),
            (Transport::Http { url, headers: Headers::default() }, "`curl -i https://example.com/mcp`"),
            (
                Transport::WebSocket { url: socket, headers: Headers::default() },
                "`curl -i https://example.com/ws`",
            ),
        ] {
            let text = remedy_for("x", "?", Some(&transport));
            assert!(text.contains(expected) && !text.contains("secret"), "{text}");
        }
    }
}

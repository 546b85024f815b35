//! Login of this server at one of its backends, begun on the web console: `vmcp login` runs as a child
//! process, and the person's browser opens its address.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use vmcp_edge::port::console::sources::LoginSource;

/// Time in which the authorization server must be found.
const ADDRESS_WITHIN: Duration = Duration::from_secs(30);
/// Logins that wait for their person at a time; a further one is refused.
const MAX_LOGINS: usize = 4;

/// Returns the source of logins by `program`, whose configuration is the file `config`, with values of
/// `env_files`.
pub(super) fn source(program: PathBuf, config: PathBuf, env_files: &[PathBuf]) -> LoginSource {
    let places = Arc::new(Semaphore::new(MAX_LOGINS));
    let mut options = vec![OsString::from("--config"), config.into_os_string()];
    options.extend(env_files.iter().flat_map(|file| [OsString::from("--env-file"), file.into()]));
    Arc::new(move |server: String| {
        let (program, options, places) = (program.clone(), options.clone(), Arc::clone(&places));
        async move { begin(&program, &options, &server, places).await }.boxed()
    })
}

/// Begins a login, and returns the address at which the person signs in. The process waits for the person,
/// five minutes at most, and stores the tokens.
async fn begin(
    program: &Path,
    options: &[OsString],
    server: &str,
    places: Arc<Semaphore>,
) -> Result<String, String> {
    let Ok(place) = places.try_acquire_owned() else {
        return Err(format!("{MAX_LOGINS} logins wait for their person: try again in five minutes"));
    };
    let mut command = Command::new(program);
    command.args(["login", server, "--no-browser"]).args(options);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| format!("`vmcp login` did not start: {error}"))?;
    let Some(stderr) = child.stderr.take() else { return Err("`vmcp login` has no output".to_owned()) };
    let mut lines = BufReader::new(stderr).lines();
    let address = timeout(ADDRESS_WITHIN, async {
        let mut words = Vec::new();
        while let Ok(Some(line)) = lines.next_line().await {
            let line = line.trim();
            if line.starts_with("https://") || line.starts_with("http://") {
                return Ok(line.to_owned());
            }
            words.push(line.to_owned());
        }
        // The process has ended: its last words are the reason and the remedy.
        Err(words.join(" ").trim().to_owned())
    });
    let late = |_| Err("the server that signs people in did not answer in time".to_owned());
    let address = address.await.unwrap_or_else(late)?;
    tokio::spawn(async move {
        // Read on: a full pipe would stop the process.
        while let Ok(Some(_)) = lines.next_line().await {}
        let _ = child.wait().await;
        drop(place);
    });
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a program that stands for `vmcp` and runs `script`. A shell writes it: a file that this process
    /// writes could not be started while another test starts a program (`ETXTBSY`).
    fn program(folder: &Path, script: &str) -> PathBuf {
        let path = folder.join("vmcp");
        let mut write = std::process::Command::new("sh");
        write.args(["-c", "printf '%s\\n' \"$2\" > \"$1\" && chmod 755 \"$1\"", "sh"]).arg(&path);
        assert!(write.arg(format!("#!/bin/sh\n{script}")).status().unwrap().success());
        path
    }

    #[tokio::test]
    async fn the_address_of_a_login_is_returned_or_the_last_words_of_its_process() {
        let folder = tempfile::tempdir().unwrap();
        let says = "echo \"login $2 by $5\" >&2; echo '  https://login.example/a?b=c' >&2; echo more >&2";
        let begin = source(program(folder.path(), says), "vmcp.yaml".into(), &[]);
        assert_eq!(begin("notes".to_owned()).await.as_deref(), Ok("https://login.example/a?b=c"));
        let refuses = source(program(folder.path(), "echo \"no login at $2\" >&2; exit 1"), "x".into(), &[]);
        assert_eq!(refuses("notes".to_owned()).await, Err("no login at notes".to_owned()));
        let repeats = program(folder.path(), "echo $* >&2; exit 1");
        let begin = source(repeats, "x.yaml".into(), &["/srv/a.env".into(), "/srv/b.env".into()]);
        let words = "login notes --no-browser --config x.yaml --env-file /srv/a.env --env-file /srv/b.env";
        assert_eq!(begin("notes".to_owned()).await, Err(words.to_owned()));
        let missing = source(folder.path().join("gone"), "x".into(), &[]);
        assert!(missing("notes".to_owned()).await.unwrap_err().contains("did not start"));
    }

    #[tokio::test]
    async fn a_few_logins_wait_for_their_person_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let waits = "echo https://login.example/ >&2; exec sleep 30";
        let begin = source(program(folder.path(), waits), "x".into(), &[]);
        for _ in 0..MAX_LOGINS {
            assert!(begin("notes".to_owned()).await.is_ok());
        }
        assert!(begin("notes".to_owned()).await.unwrap_err().contains("logins wait"));
    }
}

//! The desktop's keyring (Secret Service: GNOME Keyring, KWallet, KeePassXC) as a place for secrets, by the
//! program `secret-tool` of libsecret. The D-Bus libraries for it would be thirty crates.

use std::env;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const PROGRAM: &str = "secret-tool";
/// Time that the keyring has to answer; it may ask its owner to unlock it meanwhile.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Stores a secret in place of the one of this name; an error says why there is no keyring.
pub(crate) fn set(name: &str, value: &str) -> Result<(), String> {
    if env::var_os("DBUS_SESSION_BUS_ADDRESS").is_none() {
        return Err("no desktop session".to_owned());
    }
    let label = format!("--label=vmcp: {name}");
    run(&["store", &label], name, Some(value)).map(drop)
}

/// Returns a stored secret.
pub(crate) fn get(name: &str) -> Result<String, String> {
    let value = run(&["lookup"], name, None)?;
    if value.is_empty() { Err("the keyring has no such secret".to_owned()) } else { Ok(value) }
}

/// Removes a secret.
pub(crate) fn remove(name: &str) -> Result<(), String> {
    run(&["clear"], name, None).map(drop)
}

/// Runs the program for the secret `name`; values pass through pipes, never through arguments.
fn run(action: &[&str], name: &str, input: Option<&str>) -> Result<String, String> {
    let attributes = ["application", "vmcp", "name", name];
    let mut child = Command::new(PROGRAM)
        .args(action)
        .args(attributes)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot start {PROGRAM}: {error}"))?;
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
        stdin.write_all(input.as_bytes()).map_err(|error| format!("{PROGRAM}: {error}"))?;
    }
    let Some(mut stdout) = child.stdout.take() else { return Err(format!("{PROGRAM} has no output")) };
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = stdout.read_to_string(&mut text).map(|_| text);
        // The receiver is gone after the timeout.
        let _ = sender.send(read);
    });
    let Ok(read) = receiver.recv_timeout(TIMEOUT) else {
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!(
            "{PROGRAM} did not answer within {} s; is the keyring locked?",
            TIMEOUT.as_secs()
        ));
    };
    let status = child.wait().map_err(|error| format!("{PROGRAM}: {error}"))?;
    match read {
        Ok(text) if status.success() => Ok(text),
        _ => Err(format!("{PROGRAM} failed ({status}); is the keyring running and unlocked?")),
    }
}

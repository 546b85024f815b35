//! The desktop's keyring as a place for secrets, by the program that the system has for it: `security` of
//! macOS, elsewhere `secret-tool` of libsecret. The D-Bus libraries for the latter would be thirty crates.

mod keychain;
mod secret_service;

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use keychain::Keychain;
use secret_service::SecretService;

/// Time that the keyring has to answer; it may ask its owner to unlock it meanwhile.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A keyring that holds secrets by name.
trait Keyring {
    fn set(&self, name: &str, value: &str) -> Result<(), String>;
    fn get(&self, name: &str) -> Result<String, String>;
    fn remove(&self, name: &str) -> Result<(), String>;
}

/// Stores a secret, and replaces a secret of this name; fails without a keyring, with the reason.
pub(crate) fn set(name: &str, value: &str) -> Result<(), String> {
    of_this_system().set(name, value)
}

/// Returns a stored secret.
pub(crate) fn get(name: &str) -> Result<String, String> {
    let value = of_this_system().get(name)?;
    if value.is_empty() { Err("the keyring has no such secret".to_owned()) } else { Ok(value) }
}

/// Removes a secret.
pub(crate) fn remove(name: &str) -> Result<(), String> {
    of_this_system().remove(name)
}

fn of_this_system() -> &'static dyn Keyring {
    if cfg!(target_os = "macos") { &Keychain { program: "security" } } else { &SecretService }
}

/// Runs the program of a keyring and returns what it printed. Values pass through pipes, never through
/// arguments, which every user of the machine can list.
fn run(program: &str, arguments: &[&str], input: Option<&str>) -> Result<String, String> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot start {program}: {error}"))?;
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
        stdin.write_all(input.as_bytes()).map_err(|error| format!("{program}: {error}"))?;
    }
    let Some(mut stdout) = child.stdout.take() else { return Err(format!("{program} has no output")) };
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
            "{program} did not answer within {} s; is the keyring locked?",
            TIMEOUT.as_secs()
        ));
    };
    let status = child.wait().map_err(|error| format!("{program}: {error}"))?;
    match read {
        Ok(text) if status.success() => Ok(text),
        _ => Err(format!("{program} failed ({status}); is the keyring running and unlocked?")),
    }
}

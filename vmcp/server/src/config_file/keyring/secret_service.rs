//! The Secret Service of Linux desktops: GNOME Keyring, KWallet, KeePassXC.

use std::env;

use super::{Keyring, run};

const PROGRAM: &str = "secret-tool";

/// The keyring of the desktop session.
pub(super) struct SecretService;

impl Keyring for SecretService {
    fn set(&self, name: &str, value: &str) -> Result<(), String> {
        if env::var_os("DBUS_SESSION_BUS_ADDRESS").is_none() {
            return Err("no desktop session".to_owned());
        }
        let label = format!("--label=vmcp: {name}");
        with_attributes(&["store", &label], name, Some(value)).map(drop)
    }

    fn get(&self, name: &str) -> Result<String, String> {
        with_attributes(&["lookup"], name, None)
    }

    fn remove(&self, name: &str) -> Result<(), String> {
        with_attributes(&["clear"], name, None).map(drop)
    }
}

/// Runs an action on the secret `name`.
fn with_attributes(action: &[&str], name: &str, input: Option<&str>) -> Result<String, String> {
    run(PROGRAM, &[action, &["application", "vmcp", "name", name]].concat(), input)
}

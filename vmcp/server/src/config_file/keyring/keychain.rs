//! The Keychain of macOS, by its own program `security`.

use super::{Keyring, run};

/// Service under which the Keychain lists the secrets of vmcp.
const SERVICE: &str = "vmcp";
/// Most bytes of a command line that `security -i` reads; it cuts a longer one.
const MAX_COMMAND_BYTES: usize = 4096;

/// The Keychain, by the program at this path or of this name.
pub(super) struct Keychain<'a> {
    pub(super) program: &'a str,
}

impl Keychain<'_> {
    /// Runs an action on the secret `name`, with further arguments.
    fn run(&self, action: &str, name: &str, further: &[&str]) -> Result<String, String> {
        run(self.program, &[&[action, "-s", SERVICE, "-a", name], further].concat(), None)
    }
}

impl Keyring for Keychain<'_> {
    fn set(&self, name: &str, value: &str) -> Result<(), String> {
        // With `-i` the command comes through standard input, so that no list of processes shows the value.
        // In hexadecimal digits it needs no quotes, and `find-generic-password` prints it unchanged: other
        // values with characters beyond ASCII it prints in a form of its own.
        let value = hex::encode(value);
        let command = format!("add-generic-password -U -s {SERVICE} -a {name} -w {value}\n");
        if command.len() > MAX_COMMAND_BYTES {
            return Err("too long for the Keychain".to_owned());
        }
        run(self.program, &["-i"], Some(&command)).map(drop)
    }

    fn get(&self, name: &str) -> Result<String, String> {
        let printed = self.run("find-generic-password", name, &["-w"])?;
        let value = hex::decode(printed.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        value.ok_or_else(|| "the Keychain has a value that is not vmcp's".to_owned())
    }

    fn remove(&self, name: &str) -> Result<(), String> {
        self.run("delete-generic-password", name, &[]).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Stands in for `security`: keeps values in files beside it, and what it was started with in `seen`.
    const PROGRAM: &str = r#"#!/bin/sh
folder=$(dirname "$0")
echo "$@" >> "$folder/seen"
[ "$1" = -i ] && read -r command && set -- $command
action=$1 service=$3 name=$5 value=$7
case $action in
  add-generic-password) service=$4 name=$6 value=$8; printf '%s\n' "$value" > "$folder/$service-$name" ;;
  find-generic-password) cat "$folder/$service-$name" ;;
  delete-generic-password) rm "$folder/$service-$name" ;;
  *) exit 2 ;;
esac
"#;

    #[test]
    fn a_secret_is_stored_read_and_removed_and_no_argument_shows_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("security");
        fs::write(&path, PROGRAM).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        let keychain = Keychain { program: path.to_str().unwrap() };

        let value = "pa\"ss wörd $HOME\nsecond line";
        keychain.set("GITHUB_TOKEN", "former").unwrap();
        keychain.set("GITHUB_TOKEN", value).unwrap();
        assert_eq!(keychain.get("GITHUB_TOKEN").as_deref(), Ok(value));
        keychain.remove("GITHUB_TOKEN").unwrap();
        let gone = keychain.get("GITHUB_TOKEN").unwrap_err();
        assert!(gone.contains("failed"), "{gone}");

        let seen = fs::read_to_string(folder.path().join("seen")).unwrap();
        assert!(!seen.contains("former") && !seen.contains(&hex::encode("former")), "{seen}");
    }

    #[test]
    fn a_value_that_the_program_would_cut_is_refused() {
        let keychain = Keychain { program: "/nowhere/security" };
        assert_eq!(keychain.set("LONG", &"x".repeat(3000)), Err("too long for the Keychain".to_owned()));
        assert!(keychain.set("SHORT", "x").unwrap_err().contains("cannot start"));
    }
}

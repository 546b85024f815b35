//! `vmcp service`: keeps `vmcp serve` running as a service of this user: systemd on Linux, launchd on macOS.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, Subcommand};

use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::{notes, output};
use crate::cli::installed_program::program_to_write;
use crate::cli::options::GlobalOptions;
use crate::cli::process::shell_variables::variables;
use crate::config_file::secret_store::write_private;
use vmcp_engine::folders;

/// Name of the systemd unit.
const UNIT: &str = "vmcp.service";
/// Label of the launchd agent.
const LABEL: &str = "dev.vmcp.server";

/// Keep `vmcp serve` running as a service of this user
///
/// The service file keeps PATH and the variables of proxies, certificate authorities and folders that this
/// shell has (HTTPS_PROXY, NO_PROXY, SSL_CERT_FILE, XDG_CACHE_HOME and their like). Install again after one
/// of them has changed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vmcp service install                # starts now, and at each login
  vmcp service install --print        # only shows the file
  vmcp service uninstall")]
pub(in crate::cli) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Write the service file (systemd on Linux, launchd on macOS) and start it
    Install {
        /// Print the file instead of writing it
        #[arg(long)]
        print: bool,
        /// Write the file and leave the rest to you
        #[arg(long)]
        no_start: bool,
    },
    /// Stop the service and remove its file
    Uninstall,
}

/// Service manager of this system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manager {
    Systemd,
    Launchd,
}

impl Manager {
    fn here() -> Manager {
        if cfg!(target_os = "macos") { Manager::Launchd } else { Manager::Systemd }
    }

    fn file(self, home: &Path, config_home: Option<&Path>) -> PathBuf {
        match self {
            Manager::Systemd => config_home
                .map_or_else(|| home.join(".config"), Path::to_owned)
                .join("systemd/user")
                .join(UNIT),
            Manager::Launchd => home.join("Library/LaunchAgents").join(format!("{LABEL}.plist")),
        }
    }

    /// Returns the service file of `program` with the environment variables of [`variables`].
    fn text(self, program: &Path, config: &Path, variables: &[(String, String)]) -> String {
        let (program, config) = (program.display().to_string(), config.display().to_string());
        let mut environment = String::new();
        for (name, value) in variables {
            // Writing to a string cannot fail.
            let _ = match self {
                Manager::Systemd => writeln!(environment, "Environment={}", assignment(name, value)),
                Manager::Launchd => write!(environment, "<key>{name}</key><string>{}</string>", xml(value)),
            };
        }
        match self {
            Manager::Systemd => format!(
                "[Unit]\nDescription=vmcp: many MCP servers behind one endpoint\n\n\
                 [Service]\nExecStart={} serve --config {}\n{environment}Restart=on-failure\n\n\
                 [Install]\nWantedBy=default.target\n",
                systemd(&program),
                systemd(&config),
            ),
            Manager::Launchd => format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<plist version=\"1.0\"><dict>\n\
                 <key>Label</key><string>{LABEL}</string>\n<key>ProgramArguments</key><array>\
                 <string>{}</string><string>serve</string><string>--config</string><string>{}</string></array>\n\
                 <key>EnvironmentVariables</key><dict>{environment}</dict>\n\
                 <key>RunAtLoad</key><true/>\n<key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>\n\
                 </dict></plist>\n",
                xml(&program),
                xml(&config),
            ),
        }
    }

    fn start_commands(self, file: &str) -> Vec<Vec<&str>> {
        match self {
            Manager::Systemd => vec![
                vec!["systemctl", "--user", "daemon-reload"],
                vec!["systemctl", "--user", "enable", "--now", UNIT],
            ],
            Manager::Launchd => vec![vec!["launchctl", "load", "-w", file]],
        }
    }

    fn stop_command(self, file: &str) -> Vec<&str> {
        match self {
            Manager::Systemd => vec!["systemctl", "--user", "disable", "--now", UNIT],
            Manager::Launchd => vec!["launchctl", "unload", "-w", file],
        }
    }
}

/// Quotes a word of a command in a unit file: `%` and `$` begin specifiers and variables there.
fn systemd(word: &str) -> String {
    quoted(&word.replace('$', "$$"))
}

/// Quotes an assignment of `Environment=` in a unit file, where `$` has no meaning.
fn assignment(name: &str, value: &str) -> String {
    quoted(&format!("{name}={value}"))
}

fn quoted(word: &str) -> String {
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    format!("\"{escaped}\"")
}

fn xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: &Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let manager = Manager::here();
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = folders::home_dir().ok_or_else(|| CommandFailure::new("there is no home folder"))?;
    let file = manager.file(&home, folder("XDG_CONFIG_HOME").as_deref());
    let shown = file.display().to_string();
    match arguments.action {
        Action::Install { print, no_start } => {
            // A file with mistakes would be started again and again.
            let config = global.load()?.path.canonicalize()?;
            let text =
                manager.text(&program_to_write()?, &config, &variables(&|name| std::env::var(name).ok()));
            if print {
                output::result(&text)?;
                return Ok(Exit::Done);
            }
            if let Some(folder) = file.parent() {
                std::fs::create_dir_all(folder)?;
            }
            write_private(&file, &text)?;
            notes::note(&format!("wrote {shown}"));
            let commands = manager.start_commands(&shown);
            for command in &commands {
                if no_start {
                    notes::note(&format!("  then: {}", command.join(" ")));
                } else {
                    execute(command).map_err(|failure| not_started(failure, manager))?;
                }
            }
            if !no_start {
                notes::note("vmcp runs, and starts at each login; `vmcp status` shows it");
                if manager == Manager::Systemd && !lingers() {
                    notes::note("it ends when you sign out; `loginctl enable-linger` keeps it running");
                }
            }
        }
        Action::Uninstall => {
            if !file.exists() {
                return Err(CommandFailure::new(format!("there is no {shown}")).exit(Exit::NothingFound));
            }
            let stopped = execute(&manager.stop_command(&shown));
            std::fs::remove_file(&file)?;
            stopped?;
            notes::note(&format!("removed {shown}"));
        }
    }
    Ok(Exit::Done)
}

/// Adds what is missing to the failure of a service manager's command.
fn not_started(failure: CommandFailure, manager: Manager) -> CommandFailure {
    const WITHOUT: &str = "`vmcp start` runs it in the background until this machine stops";
    if manager != Manager::Systemd {
        return failure;
    }
    // The words of systemctl in a container or under `sudo`, and of the system without systemctl. Some of
    // systemctl end in "No such file or directory" too, so the bus comes first. Releases name it differently:
    // "connect to bus", "connect to user scope bus via local transport".
    let message = failure.message();
    let lacks_bus = message.contains("Failed to connect to") && message.contains("bus");
    let other_signs = ["No medium found", "not been booted with systemd"];
    if lacks_bus || other_signs.iter().any(|sign| message.contains(sign)) {
        return failure.remedy(format!(
            "this session has no service manager of yours: `loginctl enable-linger`, sign in again as this user \
             (ssh, not sudo), and run this again; or {WITHOUT}"
        ));
    }
    if message.contains("No such file") {
        return failure.remedy(format!("there is no systemd here: {WITHOUT}"));
    }
    failure
}

/// Returns true if services of this user go on after the last session, or if that is unknown.
fn lingers() -> bool {
    let output = Command::new("loginctl").args(["show-user", "--property=Linger", "--value"]).output();
    output.map_or(true, |output| String::from_utf8_lossy(&output.stdout).trim() != "no")
}

fn execute(words: &[&str]) -> Result<(), CommandFailure> {
    let line = words.join(" ");
    let Some((program, args)) = words.split_first() else { return Ok(()) };
    let failed = |reason: String| CommandFailure::new(format!("`{line}` failed: {reason}"));
    let output = Command::new(program).args(args).output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_without_a_service_manager_is_told_what_is_missing() {
        let remedy = |reason: &str| {
            let failure = CommandFailure::new(format!("`systemctl --user daemon-reload` failed: {reason}"));
            not_started(failure, Manager::Systemd).remedy_text().map(str::to_owned)
        };
        for reason in [
            "Failed to connect to bus: No medium found",
            "Failed to connect to user scope bus via local transport: $DBUS_SESSION_BUS_ADDRESS and \
             $XDG_RUNTIME_DIR not defined (consider using --machine=<user>@.host --user to connect to bus of \
             other user)",
            "Failed to connect to user scope bus via local transport: No such file or directory",
        ] {
            let bus = remedy(reason).unwrap();
            let names_both = bus.contains("`loginctl enable-linger`") && bus.contains("`vmcp start`");
            assert!(names_both, "{reason}: {bus}");
        }
        assert!(remedy("No such file or directory (os error 2)").unwrap().contains("`vmcp start`"));
        assert_eq!(remedy("Unit is masked"), None);
    }

    #[test]
    fn odd_paths_stay_one_word() {
        let (program, config) =
            (Path::new("/opt/my \"tools\"/vmcp"), Path::new("/home/50%/$a & b/vmcp.yaml"));
        let unit = Manager::Systemd.text(program, config, &[]);
        let line = r#"ExecStart="/opt/my \"tools\"/vmcp" serve --config "/home/50%%/$$a & b/vmcp.yaml""#;
        assert!(unit.lines().any(|found| found == line), "{unit}");
        let agent = Manager::Launchd.text(program, config, &[]);
        assert!(agent.contains("<string>/home/50%/$a &amp; b/vmcp.yaml</string>"), "{agent}");
    }

    #[test]
    fn a_service_has_the_proxies_of_the_shell() {
        let shell = |name: &str| {
            let value = match name {
                "PATH" => "/me/bin:/usr/bin",
                "HTTPS_PROXY" => "http://me:p%40$s@proxy.corp:3128",
                "no_proxy" => "corp",
                "ALL_PROXY" => "",
                "XDG_CACHE_HOME" => "/data/cache",
                "SSL_CERT_DIR" => "/a\nExecStart=/bin/evil",
                _ => return None,
            };
            Some(value.to_owned())
        };
        let variables = variables(&shell);
        let names: Vec<_> = variables.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["PATH", "XDG_CACHE_HOME", "HTTPS_PROXY", "no_proxy"]);
        let unit = Manager::Systemd.text(Path::new("/vmcp"), Path::new("/vmcp.yaml"), &variables);
        for line in [
            r#"Environment="PATH=/me/bin:/usr/bin""#,
            r#"Environment="HTTPS_PROXY=http://me:p%%40$s@proxy.corp:3128""#,
            r#"Environment="no_proxy=corp""#,
        ] {
            assert!(unit.lines().any(|found| found == line), "{line}: {unit}");
        }
        assert!(!unit.contains("evil"), "{unit}");
        let agent = Manager::Launchd.text(Path::new("/vmcp"), Path::new("/vmcp.yaml"), &variables);
        assert!(agent.contains("<key>no_proxy</key><string>corp</string></dict>"), "{agent}");
    }

    #[test]
    fn files_lie_where_their_managers_look() {
        let home = Path::new("/me");
        let unit = Manager::Systemd.file(home, None);
        assert_eq!(unit, Path::new("/me/.config/systemd/user/vmcp.service"));
        let agent = Manager::Launchd.file(home, Some(Path::new("/elsewhere")));
        assert_eq!(agent, Path::new("/me/Library/LaunchAgents/dev.vmcp.server.plist"));
    }
}

//! pnpm's cache: `dlx/HASH/` holds the packages of one `pnpm dlx` command line. The hash covers what pnpm
//! resolves, so that pnpm is asked: a shell that it starts for the same package tells the folder of programs,
//! which stands first in its `PATH`.

use std::path::{Path, PathBuf};

use super::command_line::PackageCommand;

/// Command of the shell, and begin of its answer: pnpm may write lines of its own.
const SCRIPT: &str = "printf 'vmcp-path:%s\\n' \"$PATH\"";
const MARK: &str = "vmcp-path:";

/// Returns the arguments with which pnpm answers where a package's programs are; `is_fresh` has it look for
/// the newest version.
pub(super) fn question(command: &PackageCommand, is_fresh: bool) -> Vec<String> {
    let fresh = is_fresh.then(|| "--config.dlx-cache-max-age=0".to_owned());
    let package = [format!("--package={}", command.package), "-c".to_owned(), SCRIPT.to_owned()];
    fresh.into_iter().chain(command.options.iter().cloned()).chain(package).collect()
}

/// Parses the answer; returns the folder `node_modules`.
pub(super) fn modules(answer: &str) -> Option<PathBuf> {
    let path = answer.lines().find_map(|line| line.strip_prefix(MARK))?;
    let programs = std::env::split_paths(path).next()?;
    programs.parent().filter(|_| programs.ends_with("node_modules/.bin")).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pnpm_is_asked_for_the_package_with_the_options_of_the_command_line() {
        let args = ["-s", "dlx", "@me/server@latest", "--port", "1"].map(str::to_owned);
        let command = PackageCommand::parse("/opt/pnpm", &args).unwrap();
        let words = ["-s", "dlx", "--package=@me/server@latest", "-c", SCRIPT];
        assert_eq!(question(&command, false), words);
        assert_eq!(question(&command, true)[0], "--config.dlx-cache-max-age=0");
        assert_eq!(question(&command, true)[1..], words);
    }

    #[test]
    fn an_answer_names_the_folder_of_programs_first() {
        let answer = "Progress: resolved 1\nvmcp-path:/c/dlx/ab/1-2/node_modules/.bin:/usr/bin\n";
        assert_eq!(modules(answer), Some("/c/dlx/ab/1-2/node_modules".into()));
        assert_eq!(modules("vmcp-path:/usr/bin:/c/node_modules/.bin\n"), None, "an own folder comes first");
        assert_eq!(modules("/c/node_modules/.bin\n"), None);
    }
}

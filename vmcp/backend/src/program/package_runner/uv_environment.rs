//! uv's environments: a tool that is installed for good has one, every other package one in uv's cache. uv
//! alone knows which, so that its Python is asked in the same environment.

use std::path::Path;

use super::command_line::{PackageCommand, Runner};
use super::npm_cache::is_executable;
use super::pinned_program::PinnedProgram;

/// Prints the environment's folder, and the package to which a program belongs, with its version.
const SCRIPT: &str = "\
import sys, importlib.metadata as metadata
for each in metadata.distributions():
    for entry in each.entry_points:
        if entry.group == 'console_scripts' and entry.name == sys.argv[1]:
            print(sys.prefix, each.metadata['Name'], each.version, sep='\\n')
            raise SystemExit
";

/// Returns the arguments with which uv answers where a package's program is. `mode` is `--offline`, or
/// `--refresh` for the newest version.
pub(super) fn question(command: &PackageCommand, mode: &str) -> Option<Vec<String>> {
    let program = command.program.as_deref().filter(|_| command.runner == Runner::Uvx)?;
    let words = [mode, "--from", &command.package, "python", "-I", "-c", SCRIPT, program];
    Some(command.options.iter().cloned().chain(words.map(str::to_owned)).collect())
}

/// Parses the answer.
pub(super) fn parsed(answer: &str, program: &str) -> Option<PinnedProgram> {
    let mut lines = answer.lines();
    let (prefix, package, version) = (lines.next()?, lines.next()?, lines.next()?);
    let file = Path::new(prefix).join("bin").join(program);
    is_executable(&file).then_some(())?;
    let program = file.to_str()?.to_owned();
    Some(PinnedProgram { package: package.to_owned(), version: version.to_owned(), program, skipped: 0 })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn uv_is_asked_with_the_options_of_the_command_line() {
        let args = ["tool", "run", "-p", "3.12", "time@1", "--zone", "x"].map(str::to_owned);
        let command = PackageCommand::parse("/bin/uv", &args).unwrap();
        let words = question(&command, "--offline").unwrap();
        let expected = ["tool", "run", "-p", "3.12", "--offline", "--from", "time@1", "python", "-I", "-c"];
        assert_eq!(words[..10], expected);
        assert_eq!(words[11..], ["time"]);
    }

    #[test]
    fn an_answer_names_a_program_that_is_there() {
        let home = tempfile::tempdir().unwrap();
        let bin = home.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        let file = bin.join("time");
        std::fs::write(&file, "#!/bin/sh\n").unwrap();
        let answer = format!("{}\nmcp-time\n1.2\n", home.path().display());
        assert_eq!(parsed(&answer, "time"), None, "not executable");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        let found = parsed(&answer, "time").unwrap();
        assert_eq!((found.package.as_str(), found.version.as_str()), ("mcp-time", "1.2"));
        assert_eq!(found.program, file.display().to_string());
        assert_eq!(parsed(&answer, "other"), None);
        assert_eq!(parsed("", "time"), None, "no such program in the environment");
    }
}

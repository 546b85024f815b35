//! [`InlineCode`]: options by which interpreters and shells run code of the command line, such as `python -c`
//! and `node -e`, also behind a runner (`uv run python -c`), or as the entry point of an image. The
//! code could be any program.

/// Shells that run the text behind `-c`, or behind `/c` and `-Command`.
const SHELLS: [&str; 26] = [
    "ash",
    "bash",
    "busybox",
    "cmd",
    "csh",
    "dash",
    "elvish",
    "fish",
    "hush",
    "ksh",
    "lksh",
    "mksh",
    "nu",
    "oksh",
    "osh",
    "posh",
    "powershell",
    "pwsh",
    "rbash",
    "rksh",
    "sh",
    "tcsh",
    "toybox",
    "xonsh",
    "yash",
    "zsh",
];

/// Options of one interpreter.
struct Interpreter {
    names: &'static [&'static str],
    /// Letters of short options that take code; a group such as `-ne` may begin with other letters.
    letters: &'static str,
    /// Letters of short options that may stand before them in a group.
    flags: &'static str,
    /// Long options that take code, and subcommands.
    words: &'static [&'static str],
    /// Options whose value is the next word.
    with_value: &'static [&'static str],
}

static INTERPRETERS: [Interpreter; 9] = [
    Interpreter {
        names: &["python", "pypy"],
        letters: "c",
        flags: "bBdEhiIOPqRsSuvx",
        // The module times the code of its arguments.
        words: &["timeit", "-mtimeit"],
        with_value: &["-W", "-X"],
    },
    Interpreter {
        names: &["node", "nodejs", "tsx", "ts-node"],
        letters: "ep",
        flags: "i",
        words: &["--eval", "--print"],
        with_value: &["-r", "-C", "--require", "--import", "--loader", "--conditions"],
    },
    Interpreter {
        names: &["bun"],
        letters: "ep",
        flags: "",
        words: &["--eval", "--print", "exec"],
        with_value: &["-r", "--require", "--import", "--preload"],
    },
    Interpreter { names: &["deno"], letters: "", flags: "", words: &["eval"], with_value: &[] },
    Interpreter {
        names: &["perl"],
        // A module may be followed by `;` and code.
        letters: "eEmM",
        flags: "0123456789acfilnpsStTuUwWX",
        words: &[],
        with_value: &["-I"],
    },
    Interpreter {
        names: &["ruby"],
        letters: "e",
        flags: "acdlnpsSvwy",
        words: &[],
        with_value: &["-I", "-r", "-C"],
    },
    Interpreter {
        names: &["php"],
        letters: "rBRE",
        flags: "nqC",
        words: &["--run"],
        with_value: &["-d", "-c"],
    },
    Interpreter { names: &["lua", "luajit"], letters: "e", flags: "iEW", words: &[], with_value: &["-l"] },
    Interpreter {
        names: &["osascript", "rscript", "julia"],
        letters: "eE",
        flags: "",
        words: &["--eval", "--print"],
        with_value: &[],
    },
];

/// Interpreters that run the code of a `data:` URL.
const DATA_URL_RUNNERS: [&str; 6] = ["bun", "deno", "node", "nodejs", "ts-node", "tsx"];

/// Reads a command line word by word.
#[derive(Debug, Default)]
pub(super) struct InlineCode<'a> {
    /// The interpreter or shell whose options are being read.
    interpreter: Option<&'a str>,
    /// True if the next word is the value of an option.
    skips_next: bool,
    /// The interpreter that runs a `data:` URL among its later words.
    data_url_runner: Option<&'a str>,
    /// The interpreter that an image runs in place of its own program, with the words behind the image.
    entry_point: Option<&'a str>,
    /// True if the next word is the entry point of an image.
    names_entry_point: bool,
}

impl<'a> InlineCode<'a> {
    /// Reads the next word, whose name as a program is `program`. Returns the interpreter if the word makes
    /// it run code of the command line.
    pub(super) fn read(&mut self, word: &str, program: &'a str) -> Option<&'a str> {
        if let Some(runner) = self.data_url_runner.filter(|_| is_data_url(word)) {
            return Some(runner);
        }
        if std::mem::take(&mut self.names_entry_point) {
            return self.begin_entry_point(program);
        }
        if std::mem::take(&mut self.skips_next) {
            return None;
        }
        let readers = [self.interpreter, self.entry_point];
        if let Some(reader) = readers.into_iter().flatten().find(|name| takes_code(name, word)) {
            return Some(reader);
        }
        match word.strip_prefix("--entrypoint") {
            Some("") => self.names_entry_point = true,
            Some(rest) if rest.starts_with('=') => {
                return self.begin_entry_point(program.rsplit('=').next().unwrap_or_default());
            }
            _ if word.starts_with('-') => {
                // Another option may follow.
                self.skips_next =
                    self.interpreter.and_then(interpreter).is_some_and(|one| one.with_value.contains(&word));
            }
            _ => {
                // The script, or the first program of the line; the words behind a script are its own.
                self.interpreter = is_known(program).then_some(program);
                self.data_url_runner =
                    self.interpreter.filter(|name| runs_data_urls(name)).or(self.data_url_runner);
            }
        }
        None
    }

    /// Reads the program that an image starts; a shell would run any code.
    fn begin_entry_point(&mut self, program: &'a str) -> Option<&'a str> {
        if SHELLS.contains(&program) {
            return Some(program);
        }
        self.entry_point = is_known(program).then_some(program);
        self.data_url_runner = self.entry_point.filter(|name| runs_data_urls(name)).or(self.data_url_runner);
        None
    }
}

fn runs_data_urls(program: &str) -> bool {
    DATA_URL_RUNNERS.contains(&program)
}

/// Returns true for a `data:` URL, also as the value of an option. A comma tells it from a volume, such as
/// `data:/data`.
fn is_data_url(word: &str) -> bool {
    let value =
        if word.starts_with('-') { word.split_once('=').map_or("", |(_, value)| value) } else { word };
    value.contains(',') && value.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"))
}

fn is_known(program: &str) -> bool {
    SHELLS.contains(&program) || interpreter(program).is_some()
}

fn interpreter(program: &str) -> Option<&'static Interpreter> {
    INTERPRETERS.iter().find(|one| one.names.contains(&program))
}

/// Returns true if the word is the option of a program that takes code.
fn takes_code(program: &str, word: &str) -> bool {
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    if SHELLS.contains(&program) {
        let lower = name.to_ascii_lowercase();
        let is_short = lower.starts_with('-') && !lower.starts_with("--") && lower.contains('c');
        // `cmd` also takes `/cdir` and `/s/c`.
        let is_of_cmd =
            program == "cmd" && lower.starts_with('/') && (lower.contains("/c") || lower.contains("/k"));
        return is_short || is_of_cmd || matches!(lower.as_str(), "/c" | "/k" | "--command" | "-e" | "-ec");
    }
    let Some(interpreter) = interpreter(program) else { return false };
    if interpreter.words.contains(&name) {
        return true;
    }
    let Some(group) = word.strip_prefix('-').filter(|group| !group.starts_with('-')) else { return false };
    let first = group.chars().find(|letter| !interpreter.flags.contains(*letter));
    first.is_some_and(|letter| interpreter.letters.contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> Option<&str> {
        let mut code = InlineCode::default();
        line.split(' ').find_map(|word| code.read(word, word))
    }

    #[test]
    fn options_with_code_are_found_wherever_their_interpreter_stands() {
        for (line, interpreter) in [
            ("python -c x", "python"),
            ("python -Ic x", "python"),
            ("python -cprint", "python"),
            ("python -W ignore -c x", "python"),
            ("uv run python -c x", "python"),
            ("node --no-warnings -e x", "node"),
            ("node --require a -pe x", "node"),
            ("node --eval=x", "node"),
            ("deno eval x", "deno"),
            ("perl -0777 -lne x", "perl"),
            ("php -r x", "php"),
            ("uv run bash -lc x", "bash"),
            ("docker run -i alpine sh -c x", "sh"),
            ("wine cmd /c x", "cmd"),
            ("wine cmd /s/cx", "cmd"),
            ("docker run -i alpine rbash -c x", "rbash"),
            ("python -m timeit x", "python"),
            ("perl -MPOSIX;x", "perl"),
            ("bun exec x", "bun"),
            ("node --import=data:text/javascript,x", "node"),
            ("node --import data:text/javascript,x a.js", "node"),
            ("deno run --allow-all data:application/typescript,x", "deno"),
            ("docker run -i --entrypoint sh alpine x", "sh"),
            ("docker run -i --entrypoint=sh alpine x", "sh"),
            ("docker run -i --entrypoint python a/b -c x", "python"),
        ] {
            assert_eq!(found(line), Some(interpreter), "{line}");
        }
        for line in [
            "python -m server",
            "python -u server.py -c config.toml",
            "node server.js -e prod",
            "uv run server.py -c x",
            "deno run eval",
            "ruby -rbundler server.rb",
            "bun run exec",
            "python -m server timeit",
            "docker run -i --entrypoint node -v data:/data a/b server.js",
            "npx -y @acme/mcp data:text/plain,x",
            "npx -y @acme/mcp --mode script -c a.json",
        ] {
            assert_eq!(found(line), None, "{line}");
        }
    }
}

//! Child processes of a cluster, ended together even if this process is killed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

/// Child processes in one process group, so that one signal ends them all; each writes a log of its own.
pub(crate) struct Processes {
    folder: PathBuf,
    children: Vec<(String, Child)>,
    /// The process group, which is the id of the first process, whether or not that one still runs.
    group: Option<i32>,
    /// Programs with their arguments, by name, to start them again.
    commands: BTreeMap<String, (PathBuf, Vec<String>)>,
    /// Pipe to the janitor, a shell that kills the group and removes the folder when it closes: on drop, and
    /// when this process is killed.
    lifeline: Option<ChildStdin>,
}

impl Processes {
    /// Returns processes that end with this one, in whatever way that ends.
    pub(crate) fn ours(folder: &Path) -> Self {
        const JANITOR: &str =
            r#"cat; kill -KILL "-$(cat "$0/group")"; rm -rf "$0" || { sleep 1; rm -rf "$0"; }"#;
        let mut janitor = Command::new("sh");
        janitor.arg("-c").arg(JANITOR).arg(folder).process_group(0);
        janitor.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let lifeline = janitor.spawn().expect("starting a shell").stdin;
        let mut processes = Self::lasting(folder);
        processes.lifeline = lifeline;
        processes
    }

    /// Returns processes that outlive this one.
    pub(crate) fn lasting(folder: &Path) -> Self {
        let folder = folder.to_owned();
        Self { folder, children: Vec::new(), group: None, commands: BTreeMap::new(), lifeline: None }
    }

    /// Starts a program; an argument may hold several flags, separated by white space.
    pub(crate) fn start(&mut self, name: &str, program: &Path, flags: &[&str]) {
        let flags = flags.iter().flat_map(|flags| flags.split_whitespace()).map(str::to_owned).collect();
        self.commands.insert(name.to_owned(), (program.to_owned(), flags));
        self.start_again(name);
    }

    /// Starts a program that was stopped, as it was started before. At least one other one must run: a
    /// process group ends with its last process.
    pub(crate) fn start_again(&mut self, name: &str) {
        let (program, flags) = self.commands.get(name).expect("a program that was started before");
        let mut command = Command::new(program);
        let log = File::options().create(true).append(true).open(self.log(name)).expect("a log file");
        command.args(flags);
        // Memory is left, and cores are not: garbage that these Go programs collect at five times their live
        // heap takes a sixth less of a core.
        command.envs([("GOGC", "400"), ("GOMEMLIMIT", "1GiB")]);
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log file")).stderr(log);
        let child = command.process_group(self.group.unwrap_or_default()).spawn();
        let child = child.unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        if self.group.is_none() {
            self.group = Some(child.id().cast_signed());
            let mut file = File::create(self.folder.join("group")).expect("the file of the group");
            write!(file, "{}", child.id()).expect("writing the group");
        }
        self.children.push((name.to_owned(), child));
    }

    /// Adds flags to those with which a program is started again.
    pub(crate) fn add_flags(&mut self, name: &str, flags: &str) {
        let (_, known) = self.commands.get_mut(name).expect("a program that was started before");
        known.extend(flags.split_whitespace().map(str::to_owned));
    }

    /// Ends a program by SIGTERM, and waits until it has ended.
    pub(crate) fn stop(&mut self, name: &str) {
        let at = self.children.iter().position(|(running, _)| running == name).expect("a running program");
        let (_, mut child) = self.children.swap_remove(at);
        let sent = Command::new("kill").arg(child.id().to_string()).status();
        assert!(sent.expect("kill").success(), "{name} takes a signal");
        child.wait().expect("its end");
    }

    /// Returns true if a program of this name was started.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.commands.contains_key(name)
    }

    /// Fails with the log of a process that has ended.
    pub(crate) fn assert_running(&mut self) {
        for (name, child) in &mut self.children {
            if let Ok(Some(status)) = child.try_wait() {
                let log = fs::read_to_string(self.folder.join(format!("{name}.log"))).unwrap_or_default();
                panic!("{name} ended with {status}:\n{}", vmcp_integration::last_lines(&log, 20));
            }
        }
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        if self.lifeline.take().is_some() {
            for (_, child) in &mut self.children {
                drop(child.kill().and_then(|()| child.wait()));
            }
        }
    }
}

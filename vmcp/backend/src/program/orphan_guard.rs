//! Guard against orphans: a helper process that ends the process groups of programs when vmcp is gone without
//! having ended them, as after SIGKILL or for want of memory.
//!
//! The helper reads lines from a pipe, `+PGID` for a group that lives and `-PGID` for one that has ended.
//! Only vmcp holds the other end: when the pipe closes, the groups that are left are orphans. A parent-death
//! signal would not do: it follows the thread that started the program, and reaches no grandchildren.

use std::io::Write as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;

use parking_lot::Mutex;

/// Connection to the helper process, which is started with the first program.
#[derive(Debug)]
pub struct OrphanGuard {
    helper: Mutex<Helper>,
}

#[derive(Debug)]
enum Helper {
    NotStarted(Command),
    Running(ChildStdin, Child),
    /// It could not be started, or has ended; programs run without it.
    Absent,
}

/// A process group that the helper ends with vmcp. Dropped, the group is its own again.
#[derive(Debug)]
pub struct WatchedGroup {
    guard: Arc<OrphanGuard>,
    id: u32,
}

impl OrphanGuard {
    /// Makes a guard whose helper is `command`, which reads the lines from its standard input.
    pub fn new(command: Command) -> Arc<OrphanGuard> {
        Arc::new(OrphanGuard { helper: Mutex::new(Helper::NotStarted(command)) })
    }

    /// Puts a process group under guard; `None` without a helper.
    pub fn watch(self: &Arc<Self>, id: u32) -> Option<WatchedGroup> {
        self.tell('+', id).then(|| WatchedGroup { guard: Arc::clone(self), id })
    }

    fn tell(&self, sign: char, id: u32) -> bool {
        let mut helper = self.helper.lock();
        if let Helper::NotStarted(command) = &mut *helper {
            // Its own group: a signal of the terminal must not end it before vmcp.
            #[cfg(unix)]
            std::os::unix::process::CommandExt::process_group(command, 0);
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            let started = command.spawn().map(|mut child| (child.stdin.take(), child));
            *helper = match started {
                Ok((Some(pipe), child)) => Helper::Running(pipe, child),
                Ok((None, _)) => Helper::Absent,
                Err(error) => {
                    tracing::debug!(%error, "no guard against orphans");
                    Helper::Absent
                }
            };
        }
        let Helper::Running(pipe, _) = &mut *helper else { return false };
        // A line is far smaller than the pipe, so the write is whole and does not wait.
        let told = pipe.write_all(format!("{sign}{id}\n").as_bytes()).is_ok();
        if !told {
            *helper = Helper::Absent;
        }
        told
    }
}

impl Drop for WatchedGroup {
    fn drop(&mut self) {
        self.guard.tell('-', self.id);
    }
}

impl Drop for OrphanGuard {
    fn drop(&mut self) {
        if let Helper::Running(pipe, child) = &mut *self.helper.lock() {
            let _ = pipe.flush();
            // Killed, it would leave what is still running; it ends by itself when the pipe closes.
            let _ = child.try_wait();
        }
    }
}

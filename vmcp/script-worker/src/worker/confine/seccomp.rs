//! The filter of system calls: an allow list of calls that an interpreter with memory and two pipes needs.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

/// System calls of a worker: its pipes, memory, locks, random seeds, signals of its own abort, its end.
/// Every other one fails with `EPERM`: there is no `open`, `socket`, `fork` or `exec`.
const ALLOWED: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_clock_gettime,
    libc::SYS_getrandom,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Filters the calls of this thread and its children; returns true if the kernel does so.
pub(super) fn apply() -> bool {
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else { return false };
    let mut rules: BTreeMap<i64, Vec<_>> = ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    // An abort signals the worker itself; the processes of the server have the same user.
    let own = u64::from(std::process::id());
    let own = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, own);
    let Ok(own) = own.and_then(|own| SeccompRule::new(vec![own])) else { return false };
    rules.insert(libc::SYS_tgkill, vec![own]);
    let denied = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(rules, denied, SeccompAction::Allow, arch);
    let program: Option<BpfProgram> = filter.ok().and_then(|filter| filter.try_into().ok());
    program.is_some_and(|program| apply_filter(&program).is_ok())
}

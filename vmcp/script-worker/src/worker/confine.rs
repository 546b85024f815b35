//! Confinement of a worker: resource limits, then Landlock, then seccomp. Each only tightens, and a process
//! cannot take it back.

#[cfg(target_os = "linux")]
mod seccomp;

use std::io;

use nix::sys::resource::{Resource, setrlimit};

use vmcp_script::ResourceBounds;
use vmcp_script::protocol::Confinement;

/// Lower priority of a worker beside the server: ten steps, a tenth of the share of the processor where both
/// want it. Scripts that only compute hardly delay the calls of others.
const NICENESS: i32 = 10;

/// Confines the calling process. Fails if a resource limit cannot be set; an old kernel may lack the rest,
/// which the returned value says.
pub(super) fn confine(bounds: ResourceBounds) -> io::Result<Confinement> {
    // A sandbox around the server may forbid it; the worker then competes as an equal.
    let _ = rustix::process::nice(NICENESS);
    let set = |resource, limit| setrlimit(resource, limit, limit).map_err(io::Error::from);
    set(Resource::RLIMIT_CPU, bounds.cpu_seconds)?;
    set(Resource::RLIMIT_CORE, 0)?;
    set(Resource::RLIMIT_FSIZE, 0)?;
    #[cfg(target_os = "linux")]
    {
        let (size, data) = memory_in_use()?;
        set(Resource::RLIMIT_AS, size.saturating_add(bounds.memory))?;
        // The address space may hold regions that an allocator has reserved; writable memory counts apart.
        set(Resource::RLIMIT_DATA, data.saturating_add(bounds.memory))?;
        set(Resource::RLIMIT_NPROC, 0)?;
    }
    let landlock = landlock();
    // No further descriptor can be opened: the next one would be at this number, or above.
    set(Resource::RLIMIT_NOFILE, 3)?;
    let seccomp = seccomp();
    Ok(Confinement { seccomp, landlock })
}

/// Returns the sizes of the address space and of writable memory, in bytes.
#[cfg(target_os = "linux")]
fn memory_in_use() -> io::Result<(u64, u64)> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let kilobytes = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).map(|size| size * 1024)
    };
    kilobytes("VmSize:")
        .zip(kilobytes("VmData:"))
        .ok_or_else(|| io::Error::other("/proc/self/status names no sizes"))
}

/// Denies every access to files and every TCP port; returns true if the kernel does so.
#[cfg(target_os = "linux")]
fn landlock() -> bool {
    use landlock::{ABI, Access as _, AccessFs, AccessNet, Ruleset, RulesetAttr as _, RulesetStatus};
    // Rights that the kernel does not know are left out.
    let restricted = Ruleset::default()
        .handle_access(AccessFs::from_all(ABI::V5))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(ABI::V5)))
        .and_then(Ruleset::create)
        .and_then(landlock::RulesetCreated::restrict_self);
    restricted.is_ok_and(|status| status.ruleset != RulesetStatus::NotEnforced)
}

#[cfg(not(target_os = "linux"))]
fn landlock() -> bool {
    false
}

#[cfg(target_os = "linux")]
fn seccomp() -> bool {
    seccomp::apply()
}

#[cfg(not(target_os = "linux"))]
fn seccomp() -> bool {
    false
}

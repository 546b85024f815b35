//! `vmcp`, or with `--role` a bare proxy, under an allocator that counts; for the stage `allocations`.

use std::alloc::System;
use std::process::ExitCode;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use vmcp_bench::counted::{self, AllocationCounts};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> ExitCode {
    let count = || {
        let stats = ALLOCATOR.stats();
        AllocationCounts {
            // A buffer that grows is allocated again.
            allocations: (stats.allocations + stats.reallocations) as u64,
            bytes: stats.bytes_allocated as u64,
        }
    };
    counted::main(count, vmcp_bench::main)
}

//! The `vmcp-bench` binary; all of it is in the library beside it.

fn main() -> anyhow::Result<()> {
    vmcp_bench::main()
}

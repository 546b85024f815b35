//! Links release builds with packed relative relocations (`DT_RELR`): 34 KB instead of 3 MB of relocations, which
//! each process reads at its start and holds in memory.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    let set = |name: &str| std::env::var(name).unwrap_or_default();
    if set("PROFILE") != "release" || set("CARGO_CFG_TARGET_OS") != "linux" {
        return;
    }
    // The linker of zig refuses the option.
    let is_packed = match set("CARGO_CFG_TARGET_ENV").as_str() {
        "musl" => !set("RUSTC_LINKER").contains("zig"),
        // Some versions of mold leave out the version of glibc that the option needs; lld is in the toolchain.
        "gnu" => lld_of_the_toolchain().is_some_and(|folder| {
            println!("cargo:rustc-link-arg-bins=-B{}", folder.display());
            println!("cargo:rustc-link-arg-bins=-fuse-ld=lld");
            true
        }),
        _ => false,
    };
    if is_packed {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Returns the folder of `ld.lld` in the Rust toolchain of this machine.
fn lld_of_the_toolchain() -> Option<PathBuf> {
    let rustc = std::env::var("RUSTC").ok()?;
    let printed = Command::new(rustc).args(["--print", "sysroot"]).output().ok()?;
    let sysroot = PathBuf::from(String::from_utf8(printed.stdout).ok()?.trim());
    let host = std::env::var("HOST").ok()?;
    let folder = sysroot.join("lib/rustlib").join(host).join("bin/gcc-ld");
    folder.join("ld.lld").is_file().then_some(folder)
}

//! Links release builds for size: identical functions once (identical code folding), and packed relative
//! relocations (`DT_RELR`), 34 KB instead of 3 MB, which each process reads at its start and holds in memory.
//! The functions of calls and of a start lie side by side, by the list of `scripts/function_order.py`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The functions that come first, in their order, one a line. `make function-order` writes it.
const FUNCTION_ORDER: &str = "function-order.txt";
/// Environment variable that keeps the names of functions in the program, for the list and for profiles.
const KEEP_SYMBOLS: &str = "VMCP_KEEP_SYMBOLS";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    println!("cargo:rerun-if-changed={FUNCTION_ORDER}");
    println!("cargo:rerun-if-env-changed={KEEP_SYMBOLS}");
    let set = |name: &str| std::env::var(name).unwrap_or_default();
    if set("PROFILE") != "release" || set("CARGO_CFG_TARGET_OS") != "linux" {
        return;
    }
    // The profile cannot: for a package with settings of its own, Cargo strips debug information alone. The
    // profile `bench` has debug information, and keeps its names.
    if set(KEEP_SYMBOLS).is_empty() && set("DEBUG") == "false" {
        println!("cargo:rustc-link-arg-bins=-Wl,--strip-all");
    }
    let (lld, is_packed) = match set("CARGO_CFG_TARGET_ENV").as_str() {
        // The linker of zig refuses both options.
        "musl" if !set("RUSTC_LINKER").contains("zig") => (lld_of_the_toolchain(), true),
        // Some versions of mold leave out the version of glibc that packed relocations need.
        "gnu" if glibc_starts_packed_programs() => {
            let lld = lld_of_the_toolchain();
            let is_packed = lld.is_some();
            (lld, is_packed)
        }
        _ => (None, false),
    };
    if let Some(folder) = lld {
        println!("cargo:rustc-link-arg-bins=-B{}", folder.display());
        println!("cargo:rustc-link-arg-bins=-fuse-ld=lld");
        // Monomorphization makes equal functions again and again. The libraries that compare addresses of
        // functions (tiny-skia, zlib-rs, SQLite) compare functions that differ in their code.
        println!("cargo:rustc-link-arg-bins=-Wl,--icf=all");
        order_functions(&PathBuf::from(set("CARGO_MANIFEST_DIR")).join(FUNCTION_ORDER));
    }
    if is_packed {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Puts the functions of a list first, in its order. Names that this build does not have are ignored.
fn order_functions(list: &Path) {
    if list.is_file() {
        println!("cargo:rustc-link-arg-bins=-Wl,--symbol-ordering-file={}", list.display());
        println!("cargo:rustc-link-arg-bins=-Wl,--no-warn-symbol-ordering");
    }
}

/// Oldest minor version of glibc 2 that starts programs with packed relocations.
const OLDEST_GLIBC: u32 = 36;

/// Returns true if the program is built for this machine's own glibc, which starts programs with packed
/// relocations. An older one refuses them: it lacks the version `GLIBC_ABI_DT_RELR`.
fn glibc_starts_packed_programs() -> bool {
    let is_native =
        std::env::var("HOST").is_ok_and(|host| std::env::var("TARGET").is_ok_and(|it| it == host));
    is_native && glibc().is_some_and(|minor| minor >= OLDEST_GLIBC)
}

/// Returns the minor version of this machine's glibc 2.
fn glibc() -> Option<u32> {
    let printed = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(printed.stdout).ok()?;
    let version = text.trim().strip_prefix("glibc 2.")?;
    version.split('.').next()?.parse().ok()
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

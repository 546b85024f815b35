//! Does nothing; without a build script, cargo passes the dependencies of build scripts over.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
}

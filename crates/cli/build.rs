//! Links the program at a fixed address if the target is glibc, so that the dynamic loader has no
//! pointers to adjust when the program starts (docs/decisions/0040-fixed-address.md). Also copies
//! the example verb out of CONTRIBUTING.md, so that the tests can compile it. Cargo runs it before
//! compiling the crate.

use std::path::Path;

/// Path of the page in the workspace. A packaged crate does not contain it.
const CONTRIBUTING: &str = "../../CONTRIBUTING.md";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let page = std::fs::read_to_string(CONTRIBUTING).unwrap_or_default();
    if !page.is_empty() {
        println!("cargo::rerun-if-changed={CONTRIBUTING}");
    }
    let skeleton =
        page.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap_or_default();
    // An included file cannot have module documentation.
    let skeleton: Vec<&str> = skeleton.lines().filter(|line| !line.starts_with("//!")).collect();
    let out = std::env::var_os("OUT_DIR").unwrap_or_default();
    if let Err(error) = std::fs::write(Path::new(&out).join("skeleton.rs"), skeleton.join("\n")) {
        println!("cargo::error=the skeleton of a verb cannot be written: {error}");
    }
    if std::env::var("CARGO_CFG_TARGET_ENV").as_deref() == Ok("gnu") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}

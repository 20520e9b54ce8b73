//! Links the program at a fixed address, where the target is glibc: the loader then has no pointers
//! to adjust at each start (docs/decisions/0040-fixed-address.md).

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_ENV").as_deref() == Ok("gnu") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}

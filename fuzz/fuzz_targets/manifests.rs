//! Reads manifests, which are Parquet files that other programs may have written. Each is read or
//! refused.
#![no_main]

#[path = "shims/manifest.rs"]
mod manifest;

use std::io::Write;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(bytes).expect("written");
    manifest::read(file);
});

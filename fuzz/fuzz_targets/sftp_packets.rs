//! Parses the packets of an SFTP server. Each is read or refused, in bounded memory.
#![no_main]

#[path = "shims/store.rs"]
mod store;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| store::sftp::read(bytes));

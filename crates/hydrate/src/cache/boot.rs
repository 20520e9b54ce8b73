//! Which run of the kernel this is.
//!
//! What a process has written survives its death, for the kernel has it; a power cut it survives only once it is on the
//! disk, and nobody syncs 100,000 small objects. So what is written in one boot is taken at its word in that boot only.

use std::fs;
use std::sync::OnceLock;

use xxhash_rust::xxh3::xxh3_64;

/// This boot, as a number that no other boot has. Where the kernel does not tell, a random one: nothing that other
/// processes wrote is trusted then before it is verified.
pub(super) fn boot() -> u64 {
    static BOOT: OnceLock<u64> = OnceLock::new();
    *BOOT.get_or_init(|| match fs::read("/proc/sys/kernel/random/boot_id") {
        Ok(id) if !id.is_empty() => xxh3_64(&id),
        _ => random(),
    })
}

/// A random number, for choices that need not be secret.
pub(super) fn random() -> u64 {
    let mut bytes = [0; 8];
    // Before the kernel has gathered entropy it gives fewer bytes; the time then tells processes apart.
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::NONBLOCK);
    if got.is_ok_and(|count| count == bytes.len()) {
        return u64::from_ne_bytes(bytes);
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    xxh3_64(&(now.as_nanos() ^ u128::from(std::process::id())).to_ne_bytes())
}

//! Identifies the current boot, and records times of last use. The cache trusts a block by the boot
//! in which the block was written, and evicts versions by their time of last use.

use std::fs;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use xxhash_rust::xxh3::xxh3_64;

/// Returns a number that identifies the current boot of the machine. A write of a process that has
/// died survives in the page cache, but only until the machine stops. If the kernel reports no boot
/// id, the number is random. Then blocks that other processes have written are verified before use.
pub(super) fn boot() -> u64 {
    static BOOT: OnceLock<u64> = OnceLock::new();
    *BOOT.get_or_init(|| match fs::read("/proc/sys/kernel/random/boot_id") {
        Ok(id) if !id.is_empty() => xxh3_64(&id),
        _ => random(),
    })
}

/// Returns a random number, which need not be secret.
pub(super) fn random() -> u64 {
    let mut bytes = [0; 8];
    // Before the entropy pool is ready, the kernel returns fewer bytes. In that case the clock is
    // used.
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::NONBLOCK);
    if filled.is_ok_and(|count| count == bytes.len()) {
        return u64::from_ne_bytes(bytes);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    xxh3_64(&(now.as_nanos() ^ u128::from(std::process::id())).to_ne_bytes())
}

/// Bound below which a header field is in seconds, as earlier builds wrote it, and not in
/// nanoseconds.
const SECONDS: u64 = 1 << 40;

/// A time of the system clock, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(u64);

impl Timestamp {
    /// Returns the current time.
    #[must_use]
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Converts the value of a header field.
    pub(super) fn from_word(word: u64) -> Self {
        Self(if word < SECONDS { word.saturating_mul(1_000_000_000) } else { word })
    }

    /// Returns the value for a header field.
    pub(super) fn word(self) -> u64 {
        self.0
    }

    pub(super) fn to_system_time(self) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_written_by_earlier_builds_are_converted() {
        let now = Timestamp::now();
        let seconds = now.word() / 1_000_000_000;
        assert_eq!(Timestamp::from_word(now.word()), now);
        assert_eq!(Timestamp::from_word(seconds).word(), seconds * 1_000_000_000);
        assert!(Timestamp::from_word(seconds) <= now);
        assert_eq!(Timestamp::from_word(0).to_system_time(), UNIX_EPOCH);
    }
}

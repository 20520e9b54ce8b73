//! Makes identifiers of requests. Responses of the S3 API and lines of the access log contain the
//! identifier, so that a failure reported by a client is found in the log.

use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The name of S3's header.
pub(crate) const NAME: &str = "x-amz-request-id";

/// Step between identifiers. It is odd, so its multiples modulo 2^64 all differ. Its bits have no
/// pattern, so successive identifiers differ in most digits.
const ID_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the next identifier: 16 hexadecimal digits, as in S3. It is unique in this process;
/// another process starts at another number.
pub(crate) fn next() -> String {
    static FIRST: OnceLock<u64> = OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let first = FIRST.get_or_init(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // The cast keeps the lower 64 bits, which change fastest.
        (now.as_nanos() as u64) ^ (u64::from(process::id()) << 40)
    });
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{:016X}", first.wrapping_add(count.wrapping_mul(ID_STEP)))
}

#[cfg(test)]
mod tests {
    use super::next;

    #[test]
    fn no_two_identifiers_are_equal() {
        let ids: std::collections::HashSet<String> = (0..10_000).map(|_| next()).collect();
        assert_eq!(ids.len(), 10_000);
        assert!(ids.iter().all(|id| id.len() == 16));
    }
}

//! Counts recent wrong secrets and delays further attempts. The delays are the same for the sign-in
//! form, HTTP Basic and signatures.
//!
//! Wrong secrets are counted for each pair of address and access key, and only that pair is
//! delayed. Behind a proxy all clients have one address, but other keys are not delayed. Access
//! keys that do not exist share one count for each address, which bounds the memory that an address
//! can use.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;

/// Number of wrong secrets after which the first delay applies. Smaller numbers come from typing
/// errors, or from a program that sends an outdated secret in parallel.
const FAILURES_BEFORE_DELAY: u32 = 10;
/// The first delay. Each further wrong secret doubles it.
const FIRST_DELAY: Duration = Duration::from_secs(10);
/// Maximum delay. It allows about 300 guesses a day.
const MAX_DELAY: Duration = Duration::from_secs(300);
/// Time after the last wrong secret for which a pair is remembered; longer than [`MAX_DELAY`].
const FAILURE_LIFETIME: Duration = Duration::from_secs(900);
/// Maximum number of remembered pairs, about 100 bytes each.
const MAX_PAIRS: usize = 10_000;

/// Recent wrong secrets, by address and access key.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    failures: Mutex<HashMap<(IpAddr, String), Failures>>,
    /// The number of pairs. While it is zero, requests do not take the lock.
    pairs: AtomicUsize,
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last: Instant,
}

impl Failures {
    fn delay(&self) -> Duration {
        self.count
            .checked_sub(FAILURES_BEFORE_DELAY)
            .map_or(Duration::ZERO, |further| FIRST_DELAY.saturating_mul(1 << further.min(20)).min(MAX_DELAY))
    }

    fn remaining_delay(&self, now: Instant) -> Option<Duration> {
        let left = (self.last + self.delay()).saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }
}

impl Attempts {
    /// Returns how long secrets of `access_key` from this address are still refused without a
    /// check; `None` if a secret may be checked now. For every key that does not exist, pass an
    /// empty `access_key`.
    pub(crate) fn remaining_delay(&self, from: IpAddr, access_key: &str) -> Option<Duration> {
        if self.pairs.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.failures.lock().get(&pair(from, access_key))?.remaining_delay(Instant::now())
    }

    /// Counts a wrong secret.
    pub(crate) fn count_failure(&self, from: IpAddr, access_key: &str) {
        let now = Instant::now();
        let mut failures = self.failures.lock();
        let pair = pair(from, access_key);
        if failures.len() >= MAX_PAIRS && !failures.contains_key(&pair) {
            make_room(&mut failures, now);
        }
        let entry = failures.entry(pair).or_insert(Failures { count: 0, last: now });
        if now.duration_since(entry.last) > FAILURE_LIFETIME {
            entry.count = 0;
        }
        (entry.count, entry.last) = (entry.count.saturating_add(1), now);
        self.pairs.store(failures.len(), Ordering::Relaxed);
    }

    /// Forgets the wrong secrets of a pair after the right secret came.
    pub(crate) fn clear_failures(&self, from: IpAddr, access_key: &str) {
        if self.pairs.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut failures = self.failures.lock();
        failures.remove(&pair(from, access_key));
        self.pairs.store(failures.len(), Ordering::Relaxed);
    }
}

/// Drops outdated pairs. If there are none, drops the pair with the fewest failures, because a pair
/// with many failures may be under attack.
fn make_room(failures: &mut HashMap<(IpAddr, String), Failures>, now: Instant) {
    failures.retain(|_, entry| now.duration_since(entry.last) <= FAILURE_LIFETIME);
    if failures.len() < MAX_PAIRS {
        return;
    }
    let least = failures.iter().min_by_key(|(_, entry)| (entry.count, entry.last));
    if let Some(pair) = least.map(|(pair, _)| pair.clone()) {
        failures.remove(&pair);
    }
}

fn pair(from: IpAddr, access_key: &str) -> (IpAddr, String) {
    (network(from), access_key.to_owned())
}

/// Returns the address, or for IPv6 its /64 network, because one client has 2^64 addresses.
fn network(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) & (u128::MAX << 64)).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    #[test]
    fn delays_double_up_to_a_bound() {
        let delays: Vec<u64> = (FAILURES_BEFORE_DELAY - 2..FAILURES_BEFORE_DELAY + 8)
            .map(|count| Failures { count, last: Instant::now() }.delay().as_secs())
            .collect();
        assert_eq!(delays, [0, 0, 10, 20, 40, 80, 160, 300, 300, 300]);
        assert_eq!(Failures { count: u32::MAX, last: Instant::now() }.delay(), MAX_DELAY);
    }

    #[test]
    fn one_key_from_one_address_is_delayed_and_no_other() {
        let attempts = Attempts::default();
        for _ in 0..FAILURES_BEFORE_DELAY {
            assert_eq!(attempts.remaining_delay(HERE, "alice"), None);
            attempts.count_failure(HERE, "alice");
        }
        assert!(attempts.remaining_delay(HERE, "alice").is_some());
        assert_eq!(attempts.remaining_delay(HERE, "bob"), None);
        assert_eq!(attempts.remaining_delay([192, 0, 2, 2].into(), "alice"), None);
        attempts.clear_failures(HERE, "alice");
        assert_eq!(attempts.remaining_delay(HERE, "alice"), None);
    }

    #[test]
    fn addresses_of_one_ipv6_network_count_as_one() {
        let attempts = Attempts::default();
        for host in 0..FAILURES_BEFORE_DELAY {
            attempts.count_failure(format!("2001:db8::{host:x}").parse().unwrap(), "alice");
        }
        assert!(attempts.remaining_delay("2001:db8::ffff".parse().unwrap(), "alice").is_some());
        assert_eq!(attempts.remaining_delay("2001:db8:0:1::1".parse().unwrap(), "alice"), None);
    }

    #[test]
    fn a_flood_of_addresses_is_bounded_and_does_not_end_a_delay() {
        let attempts = Attempts::default();
        for _ in 0..FAILURES_BEFORE_DELAY + 5 {
            attempts.count_failure(HERE, "alice");
        }
        for number in 0..u32::try_from(MAX_PAIRS).unwrap() + 50 {
            attempts.count_failure(std::net::Ipv4Addr::from(0x0a00_0000 + number).into(), "alice");
        }
        assert!(attempts.failures.lock().len() <= MAX_PAIRS);
        assert!(attempts.remaining_delay(HERE, "alice").is_some());
    }
}

//! How much one request asks for. It costs a server about as much as sending 4 MiB, and a round trip; but who waits for a byte
//! in its middle waits for all before it, and the last one of a file should not be under way alone.

use firstbyte_transfer::control::Distance;

/// Bytes of a background request at least: a connection of 40 MB/s needs 0.1 s for them, several round trips, and one nearby
/// costs MinIO as much processor time as sending them.
pub(crate) const SMALLEST: u64 = 4 << 20;
/// Bytes of one at most. What has come stays, but nothing else of the background begins before its end: at 1 Gbit/s that is
/// 0.3 s. Far away more gains nothing.
const LARGEST_NEAR: u64 = 32 << 20;
const LARGEST_FAR: u64 = 8 << 20;

/// About how many requests a window is cut into, and the bytes of one at most. Far away 16 are more than any link has been
/// seen to need at once, and more than 8 MiB gain nothing; nearby one costs MinIO up to 2 ms, in which it sends 4 MiB.
pub(crate) const fn cut(server: Distance) -> (u64, u64) {
    match server {
        Distance::Near => (4, 32 << 20),
        Distance::Far => (16, 8 << 20),
    }
}

/// Bytes of a background request where `rest` are left for `threads` to ask for: a share, so that requests become smaller and
/// all end together. Before the first answer little is asked for, since the server may be near.
pub(crate) fn share(rest: u64, threads: usize, server: Option<Distance>) -> u64 {
    let most = match server {
        None => SMALLEST,
        Some(Distance::Near) => LARGEST_NEAR,
        Some(Distance::Far) => LARGEST_FAR,
    };
    (rest / threads.max(1) as u64).clamp(SMALLEST, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The requests for a file of so many bytes.
    fn requests(mut rest: u64, threads: usize, server: Option<Distance>) -> Vec<u64> {
        let mut sizes = Vec::new();
        while rest > 0 {
            sizes.push(share(rest, threads, server).min(rest));
            rest -= sizes[sizes.len() - 1];
        }
        sizes
    }

    #[test]
    fn a_file_from_nearby_takes_few_requests_and_the_last_ones_are_small() {
        let sizes = requests(1 << 30, 4, Some(Distance::Near));
        assert!(sizes.len() <= 48, "{sizes:?}");
        assert_eq!(sizes[0], LARGEST_NEAR);
        assert!(
            sizes.is_sorted_by(|one, next| one >= next)
                && sizes[sizes.len() - 4..].iter().all(|size| *size <= SMALLEST)
        );
    }

    #[test]
    fn before_the_first_answer_and_far_away_no_request_is_long() {
        assert_eq!(share(1 << 30, 12, None), SMALLEST);
        assert_eq!(share(1 << 30, 12, Some(Distance::Far)), LARGEST_FAR);
        assert_eq!(requests(5 << 20, 0, Some(Distance::Far)), [5 << 20]);
        assert_eq!(requests(0, 4, None), [0; 0]);
    }
}

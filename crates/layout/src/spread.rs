//! Measures how evenly names that are to be used as hashes are spread: counts files by the first
//! bytes of their names.
//!
//! Memory is bounded: if there are too many distinct beginnings, all of them are shortened by one
//! byte. Names may have any bytes. Even if they are not hexadecimal, the counts show how many files
//! each directory would have. Called by the survey.

use std::collections::HashMap;

/// Maximum number of leading bytes that are counted.
const MAX_COUNTED_BYTES: usize = 4;
/// Maximum number of distinct beginnings, which take some MiB. It is twice the number of strings of
/// four hexadecimal digits, or of two arbitrary bytes. So names that differ in these are always
/// distinguished.
const MAX_BEGINNINGS: usize = 1 << 17;

/// First bytes of a name, padded with zeros, which no name contains.
type Beginning = [u8; MAX_COUNTED_BYTES];

/// Counts of files by the first bytes of their names.
pub(crate) struct NameSpread {
    counts: HashMap<Beginning, u32>,
    /// Number of leading bytes that are distinguished.
    bytes: usize,
    files: u64,
}

/// The number of files in the directory of a file chosen at random, including that file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Crowding {
    /// For the surveyed names.
    pub(crate) found: f64,
    /// For names distributed evenly over all directories that hexadecimal digits can name.
    pub(crate) even: f64,
}

impl NameSpread {
    pub(crate) fn new() -> Self {
        Self { counts: HashMap::new(), bytes: MAX_COUNTED_BYTES, files: 0 }
    }

    pub(crate) fn add(&mut self, name: &[u8]) {
        let mut beginning = [0; MAX_COUNTED_BYTES];
        let length = name.len().min(self.bytes);
        beginning[..length].copy_from_slice(&name[..length]);
        *self.counts.entry(beginning).or_default() += 1;
        self.files += 1;
        while self.counts.len() > MAX_BEGINNINGS {
            self.bytes -= 1;
            self.counts = self.cut(self.bytes);
        }
    }

    /// Returns the number of different directories if each is named by the first `digits` digits of
    /// a name. `None` if fewer digits are distinguished.
    pub(crate) fn directories(&self, digits: usize) -> Option<u64> {
        (digits <= self.bytes).then(|| self.cut(digits).len() as u64)
    }

    /// Computes the crowding if the directory of a file is named by the first `digits` digits of
    /// its name. If fewer digits are distinguished, these are used.
    ///
    /// If `n` files are distributed evenly over `k` directories, a file shares its directory with
    /// about `n / k` others, so the directory has `n / k + 1` files.
    pub(crate) fn crowding(&self, digits: usize) -> Crowding {
        let digits = digits.min(self.bytes);
        let squares: f64 = self.cut(digits).values().map(|count| f64::from(*count).powi(2)).sum();
        let directories = (0..digits).fold(1.0, |all, _| all * 16.0);
        let files = to_float(self.files);
        Crowding { found: squares / files.max(1.0), even: files / directories + 1.0 }
    }

    /// Returns the counts by the first `bytes` bytes. Counts of beginnings that become equal are
    /// added.
    fn cut(&self, bytes: usize) -> HashMap<Beginning, u32> {
        let mut cut = HashMap::new();
        for (beginning, count) in &self.counts {
            let mut shorter = [0; MAX_COUNTED_BYTES];
            shorter[..bytes].copy_from_slice(&beginning[..bytes]);
            *cut.entry(shorter).or_default() += count;
        }
        cut
    }
}

#[expect(clippy::cast_precision_loss, reason = "an estimate, not an account")]
pub(crate) fn to_float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    /// Counts `files` names that are distributed like hashes, written in an alphabet.
    fn spread(alphabet: &[u8], files: u32) -> NameSpread {
        let mut spread = NameSpread::new();
        for number in 0..files {
            let digest = Sha256::digest(number.to_le_bytes());
            let number = u64::from_le_bytes(*digest.first_chunk().unwrap());
            let base = alphabet.len() as u64;
            let symbol = |at: u32| alphabet[usize::try_from(number / base.pow(at) % base).unwrap()];
            spread.add(&(0..8).map(symbol).collect::<Vec<_>>());
        }
        spread
    }

    fn excess(spread: &NameSpread, digits: usize) -> f64 {
        let Crowding { found, even } = spread.crowding(digits);
        found / even
    }

    #[test]
    fn hexadecimal_names_are_spread_evenly_at_any_digit() {
        let spread = spread(b"0123456789abcdef", 50_000);
        for digits in 1..=4 {
            assert!((0.9..1.1).contains(&excess(&spread, digits)), "{digits}");
        }
        assert_eq!([1, 2, 3].map(|digits| spread.directories(digits)), [16, 256, 4096].map(Some));
        assert_eq!(spread.directories(5), None);
    }

    #[test]
    fn richer_alphabets_crowd_less_and_poorer_ones_more() {
        let base32 = spread(b"abcdefghijklmnopqrstuvwxyz234567", 50_000);
        let base64 = spread(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", 50_000);
        assert_eq!((base32.directories(1), base64.directories(2)), (Some(32), Some(4096)));
        for digits in 1..=4 {
            assert!(excess(&base32, digits) < 1.1 && excess(&base64, digits) < 1.1, "{digits}");
        }
        let decimal = spread(b"0123456789", 50_000);
        assert!((1.5..1.7).contains(&excess(&decimal, 1)), "10 directories of 16");
        assert!((2.4..2.6).contains(&excess(&decimal, 2)), "100 of 256");
    }

    #[test]
    fn more_beginnings_than_are_kept_are_distinguished_by_fewer_bytes() {
        let all: Vec<u8> = (1..=255).collect();
        let spread = spread(&all, 200_000);
        assert_eq!((spread.bytes, spread.files), (2, 200_000));
        assert!(spread.counts.len() <= MAX_BEGINNINGS);
        assert_eq!(spread.counts.values().sum::<u32>(), 200_000);
        assert_eq!((spread.directories(1), spread.directories(3)), (Some(255), None));
    }
}

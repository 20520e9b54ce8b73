//! Generates the content that the demo serves, and compares it with what arrived.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use firstbyte_location::to_usize;

/// Content is made and compared in pieces of this size: large enough that calls cost nothing beside
/// the bytes.
const PIECE: usize = 1 << 20;

/// SplitMix64: content that no compression or zero-page trick can shorten, the same for the same
/// seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From `low` up to, not including, `high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low).max(1)
    }
}

/// Writes `length` random bytes to a new file at `path`.
pub(crate) fn write_random(path: &Path, length: u64, random: &mut Random) -> io::Result<()> {
    let mut file = BufWriter::with_capacity(PIECE, File::create(path)?);
    let mut left = length;
    while left > 0 {
        let piece = random.next().to_le_bytes();
        let n = to_usize(left).min(piece.len());
        file.write_all(&piece[..n])?;
        left -= n as u64;
    }
    file.flush()
}

/// Whether two files hold the same bytes.
pub(crate) fn same(left: &Path, right: &Path) -> io::Result<bool> {
    let (mut left, mut right) = (File::open(left)?, File::open(right)?);
    if left.metadata()?.len() != right.metadata()?.len() {
        return Ok(false);
    }
    let (mut a, mut b) = (vec![0; PIECE], vec![0; PIECE]);
    loop {
        let n = left.read(&mut a)?;
        if n == 0 {
            return Ok(true);
        }
        right.read_exact(&mut b[..n])?;
        if a[..n] != b[..n] {
            return Ok(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_the_same_only_if_every_byte_is() {
        let directory = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| directory.path().join(name));
        for path in [&a, &b] {
            write_random(path, (3 << 20) + 5, &mut Random::new(1)).unwrap();
        }
        assert!(same(&a, &b).unwrap());
        let mut bytes = std::fs::read(&b).unwrap();
        bytes[(2 << 20) + 7] ^= 1;
        std::fs::write(&b, &bytes).unwrap();
        assert!(!same(&a, &b).unwrap());
        std::fs::write(&b, &bytes[1..]).unwrap();
        assert!(!same(&a, &b).unwrap());
    }
}

//! Test data from a seed: the same everywhere, different at every offset, and never kept in the repository.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// What one write of [`write_file`] carries.
const STEP: usize = 4 << 20;

/// The first `len` bytes of the stream that `seed` names.
#[must_use]
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    bytes_at(seed, 0, len)
}

/// `len` bytes of the stream from `offset` on, without making those before.
#[must_use]
pub fn bytes_at(seed: u64, offset: u64, len: usize) -> Vec<u8> {
    let skip = usize::try_from(offset % 8).unwrap_or_default();
    let mut bytes = Vec::with_capacity(len + 16);
    for index in offset / 8.. {
        if bytes.len() >= skip + len {
            break;
        }
        bytes.extend_from_slice(&word(seed, index).to_le_bytes());
    }
    bytes.drain(..skip);
    bytes.truncate(len);
    bytes
}

/// Writes a file of `len` bytes of the stream.
///
/// # Errors
/// Those of the file.
pub fn write_file(path: &Path, seed: u64, len: u64) -> io::Result<()> {
    let mut file = File::create(path)?;
    let mut offset = 0;
    while offset < len {
        let step = STEP.min(usize::try_from(len - offset).unwrap_or(STEP));
        file.write_all(&bytes_at(seed, offset, step))?;
        offset += step as u64;
    }
    Ok(())
}

/// Word `index` of the stream: SplitMix64, whose state is a counter, so that any place can be had at once.
fn word(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_is_that_part_of_the_whole() {
        let whole = bytes(7, 1000);
        for (offset, len) in [(0, 1000), (1, 8), (13, 500), (992, 8), (999, 1), (5, 0)] {
            assert_eq!(bytes_at(7, offset, len), whole[usize::try_from(offset).unwrap()..][..len]);
        }
        assert_ne!(bytes(8, 1000), whole);
    }

    #[test]
    fn a_file_holds_the_stream() {
        let scratch = crate::scratch();
        let path = scratch.path().join("data");
        let len = STEP + 12_345;
        write_file(&path, 3, len as u64).unwrap();
        assert!(std::fs::read(&path).unwrap() == bytes(3, len));
    }
}

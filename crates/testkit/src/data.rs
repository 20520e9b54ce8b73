//! Generates reproducible test data from a seed, and makes directories for test files.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use firstbyte_location::to_usize;
use tempfile::TempDir;

/// Number of bytes per write of [`write_file`].
const WRITE_BYTES: usize = 4 << 20;

/// Generates the first `len` bytes of the stream for `seed`.
#[must_use]
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    bytes_at(seed, 0, len)
}

/// Generates `len` bytes of the stream from `offset` on, without generating the bytes before
/// `offset`.
#[must_use]
pub fn bytes_at(seed: u64, offset: u64, len: usize) -> Vec<u8> {
    let skip = to_usize(offset % 8);
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

/// Writes a file with the first `len` bytes of the stream.
///
/// # Errors
/// A system call fails.
pub fn write_file(path: &Path, seed: u64, len: u64) -> io::Result<()> {
    let mut file = File::create(path)?;
    let mut offset = 0;
    while offset < len {
        let step = WRITE_BYTES.min(to_usize(len - offset));
        file.write_all(&bytes_at(seed, offset, step))?;
        offset += step as u64;
    }
    Ok(())
}

/// Makes a temporary directory, in memory if the system has `/dev/shm`. Dropping it removes the
/// directory.
#[must_use]
pub fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a directory for test files")
}

/// Computes word `index` of the stream. SplitMix64 allows random access, because its state is a
/// counter.
fn word(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Returns a number of test repetitions from the environment, for long runs. The default suits a
/// normal test run.
pub fn count(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_at_an_offset_equal_those_of_the_whole_stream() {
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
        let len = WRITE_BYTES + 12_345;
        write_file(&path, 3, len as u64).unwrap();
        assert!(std::fs::read(&path).unwrap() == bytes(3, len));
    }
}

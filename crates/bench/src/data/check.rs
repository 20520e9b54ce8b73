//! Checks the content of files against their seed.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use firstbyte_location::shown;

use super::make::{FileSizes, name_of, size_of};
use super::stream::{first_difference, seed_of};
use crate::job::{Error, Result};

/// Bytes per read.
const READ_BYTES: usize = 1 << 20;

/// Checks that the file `path` has `size` bytes of the stream of `seed`.
///
/// # Errors
/// [`Error::Content`] with the first wrong byte, [`Error::Target`] for another length, and errors
/// of reading.
pub fn check_file(path: &Path, size: u64, seed: u64) -> Result<()> {
    check(path, size, seed, &mut vec![0; READ_BYTES])
}

fn check(path: &Path, size: u64, seed: u64, buffer: &mut [u8]) -> Result<()> {
    let mut file = File::open(path).map_err(Error::at(path))?;
    let mut offset = 0;
    loop {
        let length = file.read(buffer).map_err(Error::at(path))?;
        if let Some(wrong) = first_difference(seed, offset, &buffer[..length]) {
            return Err(Error::Content { place: shown(path).to_string(), offset: Some(wrong) });
        }
        offset += length as u64;
        match length {
            0 if offset == size => return Ok(()),
            0 => {
                let what = format!("{offset} bytes instead of {size}");
                return Err(Error::target(shown(path).to_string(), what));
            }
            _ => {}
        }
    }
}

/// Checks that `directory` holds exactly the files of [`files`](super::files) with these arguments.
/// Returns their size in bytes.
///
/// # Errors
/// The errors of [`check_file`], and [`Error::Target`] for a file that is missing or unexpected.
pub fn check_files(directory: &Path, count: u64, sizes: &FileSizes, seed: u64) -> Result<u64> {
    let mut buffer = vec![0; READ_BYTES];
    let mut bytes = 0;
    for number in 0..count {
        let name = name_of(number);
        let size = size_of(&name, sizes, seed);
        check(&directory.join(&name), size, seed_of(seed, &name), &mut buffer)?;
        bytes += size;
    }
    let found = fs::read_dir(directory).map_err(Error::at(directory))?.count() as u64;
    if found != count {
        return Err(Error::target(shown(directory).to_string(), format!("{found} files instead of {count}")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::make::{Spread, file, files};
    use super::*;

    const SIZES: FileSizes = FileSizes { min: 0, max: 3000, spread: Spread::Uniform };

    fn flip(path: &Path, at: usize) {
        let mut bytes = fs::read(path).unwrap();
        bytes[at] ^= 0x40;
        fs::write(path, bytes).unwrap();
    }

    #[test]
    fn the_first_byte_that_differs_from_the_seed_is_named() {
        let here = tempfile::tempdir().unwrap();
        let path = here.path().join("big");
        let size = 3 * READ_BYTES as u64 + 77;
        file(&path, size, 5).unwrap();
        check_file(&path, size, 5).unwrap();
        assert!(check_file(&path, size, 6).unwrap_err().is_wrong_content());
        let error = check_file(&path, size + 1, 5).unwrap_err().to_string();
        assert!(error.ends_with(&format!("{size} bytes instead of {}", size + 1)), "{error}");
        flip(&path, READ_BYTES + 9);
        let error = check_file(&path, size, 5).unwrap_err();
        assert!(error.is_wrong_content());
        assert!(error.to_string().ends_with(&format!("wrong content at byte {}", READ_BYTES + 9)), "{error}");
    }

    #[test]
    fn missing_and_unexpected_files_are_errors() {
        let here = tempfile::tempdir().unwrap();
        let root = here.path().join("files");
        let bytes = files(&root, 20, &SIZES, 9).unwrap();
        assert_eq!(check_files(&root, 20, &SIZES, 9).unwrap(), bytes);
        assert!(
            check_files(&root, 19, &SIZES, 9).unwrap_err().to_string().contains("20 files instead of 19")
        );
        assert!(check_files(&root, 21, &SIZES, 9).is_err());
        let victim = root.join(name_of(7));
        assert!(fs::metadata(&victim).unwrap().len() > 0);
        flip(&victim, 0);
        assert!(check_files(&root, 20, &SIZES, 9).unwrap_err().is_wrong_content());
    }
}

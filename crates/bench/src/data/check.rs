//! Checks the content of files: against their seed, or by comparing two trees.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use firstbyte_location::shown;
use sha2::{Digest as _, Sha256};

use super::make::{FileSizes, name_of, size_of};
use super::stream::{first_difference, seed_of};
use crate::job::{Error, Result};

/// Bytes of a read.
const STEP: usize = 1 << 20;

/// SHA-256 of each file below a directory, by its path from there; of a single file by its name.
pub type Digest = BTreeMap<PathBuf, [u8; 32]>;

/// Checks that the file `path` has `size` bytes of the stream of `seed`.
///
/// # Errors
/// [`Error::Content`] with the first wrong byte, [`Error::Target`] for another length, and errors
/// of reading.
pub fn check_file(path: &Path, size: u64, seed: u64) -> Result<()> {
    check(path, size, seed, &mut vec![0; STEP])
}

fn check(path: &Path, size: u64, seed: u64, buffer: &mut [u8]) -> Result<()> {
    let place = || shown(path).to_string();
    let mut offset = 0;
    each_piece(path, buffer, |bytes| {
        if let Some(offset) = first_difference(seed, offset, bytes) {
            return Err(Error::Content { place: place(), offset: Some(offset) });
        }
        offset += bytes.len() as u64;
        Ok(())
    })?;
    if offset != size {
        return Err(Error::target(place(), format!("{offset} bytes instead of {size}")));
    }
    Ok(())
}

/// Checks that `directory` holds exactly the files of [`files`](super::files) with these
/// arguments, and returns their bytes.
///
/// # Errors
/// Those of [`check_file`], and [`Error::Target`] for a file that is missing or too much.
pub fn check_files(directory: &Path, count: u64, sizes: &FileSizes, seed: u64) -> Result<u64> {
    let mut buffer = vec![0; STEP];
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

/// The digest of a file, or of every file below a directory.
///
/// # Errors
/// Something cannot be read.
pub fn digest(path: &Path) -> Result<Digest> {
    let mut found = Digest::new();
    let mut buffer = vec![0; STEP];
    if path.is_dir() {
        below(path, Path::new(""), &mut |name| {
            let sum = sha256(&path.join(&name), &mut buffer)?;
            found.insert(name, sum);
            Ok(())
        })?;
    } else {
        let name = path.file_name().map_or_else(|| path.to_owned(), PathBuf::from);
        found.insert(name, sha256(path, &mut buffer)?);
    }
    Ok(found)
}

/// Checks that `delivered` holds the files of `wanted` and no others. A tool may put them below
/// a directory of its own or not: they are compared from the directory where they begin. A single
/// file may have another name.
///
/// # Errors
/// [`Error::Target`] with the first difference, and errors of reading.
pub fn same(wanted: &Digest, is_file: bool, delivered: &Path) -> Result<()> {
    let found = digest(delivered)?;
    let differs = |what: String| Error::target(shown(delivered).to_string(), what);
    if is_file {
        let (Some(is), Some(should), 1) = (found.values().next(), wanted.values().next(), found.len()) else {
            return Err(differs(format!("{} files instead of one", found.len())));
        };
        let name = || found.keys().next().cloned().unwrap_or_default();
        return (is == should).then_some(()).ok_or_else(|| Error::Content {
            place: shown(&delivered.join(name())).to_string(),
            offset: None,
        });
    }
    if found.len() != wanted.len() {
        return Err(differs(format!("{} files instead of {}", found.len(), wanted.len())));
    }
    let prefix = common(&found, wanted);
    for (name, sum) in wanted {
        let at = prefix.join(name);
        match found.get(&at) {
            None => return Err(differs(format!("{} is missing", shown(name)))),
            Some(is) if is != sum => {
                return Err(Error::Content { place: shown(&delivered.join(at)).to_string(), offset: None });
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// The directory that all of `found` have more than `wanted`.
fn common(found: &Digest, wanted: &Digest) -> PathBuf {
    let (Some(first), Some(least)) = (found.keys().next(), wanted.keys().next()) else {
        return PathBuf::new();
    };
    let more = first.components().count().saturating_sub(least.components().count());
    first.components().take(more).collect()
}

/// Calls `visit` with the path of each file below `root`, from there.
fn below(root: &Path, at: &Path, visit: &mut dyn FnMut(PathBuf) -> Result<()>) -> Result<()> {
    let here = root.join(at);
    for entry in fs::read_dir(&here).map_err(Error::at(&here))? {
        let entry = entry.map_err(Error::at(&here))?;
        let name = at.join(entry.file_name());
        if entry.file_type().map_err(Error::at(&here))?.is_dir() {
            below(root, &name, visit)?;
        } else {
            visit(name)?;
        }
    }
    Ok(())
}

fn sha256(path: &Path, buffer: &mut [u8]) -> Result<[u8; 32]> {
    let mut hasher = Sha256::new();
    each_piece(path, buffer, |bytes| {
        hasher.update(bytes);
        Ok(())
    })?;
    Ok(hasher.finalize().into())
}

fn each_piece(path: &Path, buffer: &mut [u8], mut visit: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut file = File::open(path).map_err(Error::at(path))?;
    loop {
        match file.read(buffer).map_err(Error::at(path))? {
            0 => return Ok(()),
            length => visit(&buffer[..length])?,
        }
    }
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
    fn a_file_is_what_its_seed_says_or_the_first_wrong_byte_is_named() {
        let here = tempfile::tempdir().unwrap();
        let path = here.path().join("big");
        let size = 3 * STEP as u64 + 77;
        file(&path, size, 5).unwrap();
        check_file(&path, size, 5).unwrap();
        assert!(check_file(&path, size, 6).unwrap_err().is_wrong_content());
        let error = check_file(&path, size + 1, 5).unwrap_err().to_string();
        assert!(error.ends_with(&format!("{size} bytes instead of {}", size + 1)), "{error}");
        flip(&path, STEP + 9);
        let error = check_file(&path, size, 5).unwrap_err();
        assert!(error.is_wrong_content());
        assert!(error.to_string().ends_with(&format!("wrong content at byte {}", STEP + 9)), "{error}");
    }

    #[test]
    fn many_files_are_all_there_and_no_others() {
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

    #[test]
    fn delivered_trees_are_compared_from_where_they_begin() {
        let here = tempfile::tempdir().unwrap();
        let root = here.path().join("files");
        files(&root, 5, &SIZES, 9).unwrap();
        let wanted = digest(&root).unwrap();
        same(&wanted, false, &root).unwrap();
        // A tool kept the directory's name.
        same(&wanted, false, here.path()).unwrap();
        let more = root.join("more");
        fs::write(&more, "x").unwrap();
        assert!(same(&wanted, false, &root).unwrap_err().to_string().contains("6 files instead of 5"));
        fs::remove_file(more).unwrap();
        flip(&root.join(name_of(2)), 0);
        assert!(same(&wanted, false, &root).unwrap_err().is_wrong_content());
        let one = here.path().join("one");
        file(&one, 100, 1).unwrap();
        let wanted = digest(&one).unwrap();
        same(&wanted, true, &one).unwrap();
        flip(&one, 50);
        assert!(same(&wanted, true, &one).unwrap_err().is_wrong_content());
    }
}

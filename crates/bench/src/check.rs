//! Compares the tree or file that a run delivered with its original. Called by the engine after a
//! run whose plan requires the comparison.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::walk::files_below;

/// Bytes per comparison.
const COMPARISON_BYTES: usize = 1 << 20;

/// Checks that `found` equals `original`. Directories are compared by names and contents. The copy
/// of a file may also be the only file of the directory `found`. The error names the first
/// difference.
pub(crate) fn check_same(original: &Path, found: &Path) -> Result<(), String> {
    if original.is_dir() {
        return same_trees(original, found);
    }
    if found.is_file() {
        return same_files(original, found);
    }
    let files = files_of(found)?;
    match files.values().collect::<Vec<_>>().as_slice() {
        [one] => same_files(original, one),
        many => Err(format!("{} files where 1 was expected", many.len())),
    }
}

fn same_trees(original: &Path, found: &Path) -> Result<(), String> {
    let expected = files_of(original)?;
    let mut here = files_of(found)?;
    // Some tools copy a directory's contents, others make a directory of its name.
    if let Some(name) = original.file_name().map(PathBuf::from)
        && here.keys().all(|path| path.starts_with(&name))
    {
        here = here
            .into_iter()
            .filter_map(|(key, at)| Some((key.strip_prefix(&name).ok()?.into(), at)))
            .collect();
    }
    if expected.len() != here.len() {
        return Err(format!("{} files where {} were expected", here.len(), expected.len()));
    }
    for (name, original) in &expected {
        let found = here.get(name).ok_or_else(|| format!("{} is missing", name.display()))?;
        same_files(original, found)?;
    }
    Ok(())
}

/// Lists all files below a directory, by their relative paths.
fn files_of(root: &Path) -> Result<BTreeMap<PathBuf, PathBuf>, String> {
    let files = files_below(root).map_err(|(path, error)| format!("{}: {error}", path.display()))?;
    let within = |path: PathBuf| Some((path.strip_prefix(root).ok()?.to_owned(), path));
    Ok(files.into_iter().filter_map(within).collect())
}

fn same_files(original: &Path, found: &Path) -> Result<(), String> {
    let (mut expected, mut here) = (open(original)?, open(found)?);
    let (mut left, mut right) = (vec![0; COMPARISON_BYTES], vec![0; COMPARISON_BYTES]);
    let mut at = 0;
    loop {
        let (wanted, read) = (fill(&mut expected, &mut left), fill(&mut here, &mut right));
        let (wanted, read) = (wanted.map_err(with_path(original))?, read.map_err(with_path(found))?);
        if left[..wanted] != right[..read] {
            let differs = left.iter().zip(&right).take(wanted.min(read)).position(|(a, b)| a != b);
            let at = at + differs.unwrap_or(wanted.min(read));
            return Err(format!("{}: wrong content at byte {at}", found.display()));
        }
        if wanted == 0 {
            return Ok(());
        }
        at += wanted;
    }
}

fn open(path: &Path) -> Result<File, String> {
    File::open(path).map_err(with_path(path))
}

fn with_path(path: &Path) -> impl FnOnce(std::io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

/// Reads until the buffer is full or the file ends.
fn fill(file: &mut File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        root
    }

    #[test]
    fn trees_are_compared_by_names_and_contents() {
        let original = tree(&[("a", "1"), ("d/b", "22")]);
        assert_eq!(check_same(original.path(), tree(&[("a", "1"), ("d/b", "22")]).path()), Ok(()));
        // Some tools keep the directory's name.
        let name = original.path().file_name().unwrap().to_str().unwrap();
        let (one, two) = (format!("{name}/a"), format!("{name}/d/b"));
        assert_eq!(check_same(original.path(), tree(&[(&one, "1"), (&two, "22")]).path()), Ok(()));
        for wrong in [
            &[("a", "1")][..],
            &[("a", "1"), ("d/b", "23")],
            &[("a", "1"), ("d/c", "22")],
            &[("a", "1"), ("d/b", "2")],
        ] {
            assert!(check_same(original.path(), tree(wrong).path()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_file_is_found_under_any_name_in_the_destination() {
        let original = tree(&[("a", "1")]);
        let file = original.path().join("a");
        assert_eq!(check_same(&file, tree(&[("other", "1")]).path()), Ok(()));
        assert!(
            check_same(&file, tree(&[("other", "2")]).path())
                .unwrap_err()
                .ends_with("wrong content at byte 0")
        );
        assert!(check_same(&file, tree(&[]).path()).unwrap_err().starts_with("0 files"));
    }
}

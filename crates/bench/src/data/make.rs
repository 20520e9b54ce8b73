//! Makes the files and trees of a plan, with names, sizes and content from a seed.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use firstbyte_location::units::parse_size;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, linkat, mknodat, openat};

use super::stream::{fill, seed_of};
use crate::job::{Error, Result};
use crate::threads::on_threads;

/// Bytes per write.
const WRITE_BYTES: usize = 1 << 20;
/// Names per inode. ext4 allows 65,000.
const NAMES_PER_INODE: u64 = 60_000;
/// Threads that make names.
const NAME_THREADS: u64 = 4;
/// Number of names above which they become links to few inodes. A listing shows no difference, and
/// making links takes a tenth of the time.
const LINKED_FROM: u64 = 2_000_000;
/// Permissions of files.
const FILE_MODE: Mode = Mode::from_raw_mode(0o644);

/// Range and distribution of the sizes of many files.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileSizes {
    /// Smallest size in bytes.
    pub min: u64,
    /// Largest size in bytes.
    pub max: u64,
    /// The distribution of sizes.
    pub spread: Spread,
}

/// The distribution of sizes between the smallest and the largest.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Spread {
    /// Every size is equally likely.
    #[default]
    Uniform,
    /// Every order of magnitude is equally likely.
    Logarithmic,
}

impl FileSizes {
    /// Parses `10KiB..100KiB`, or one size for all; `log:1KiB..1GiB` spreads by magnitude.
    ///
    /// # Errors
    /// The text has another form, or its first size is above its second.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |why: String| Error::job(format!("{text:?}: {why}; write for example 10KiB..100KiB"));
        let (spread, sizes) = match text.strip_prefix("log:") {
            Some(sizes) => (Spread::Logarithmic, sizes),
            None => (Spread::Uniform, text),
        };
        let (min, max) = sizes.split_once("..").unwrap_or((sizes, sizes));
        let size = |text: &str| parse_size(text).map_err(|error| wrong(error.to_string()));
        let (min, max) = (size(min)?, size(max)?);
        if min > max {
            return Err(wrong("the first size is above the second".into()));
        }
        Ok(Self { min, max, spread })
    }
}

/// Returns the name of file `number` of [`files`].
#[must_use]
pub fn name_of(number: u64) -> String {
    format!("file_{number:05}")
}

/// Returns the size of the file `name` of [`files`] in bytes.
#[must_use]
pub fn size_of(name: &str, sizes: &FileSizes, seed: u64) -> u64 {
    let mut random = fastrand::Rng::with_seed(seed_of(seed, name));
    let FileSizes { min, max, spread } = *sizes;
    match spread {
        Spread::Uniform => random.u64(min..=max),
        Spread::Logarithmic => {
            let (least, most) = ((min.max(1) as f64).ln(), (max.max(1) as f64).ln());
            let size = (least + (most - least) * random.f64()).exp();
            (size as u64).clamp(min, max)
        }
    }
}

/// Writes the file `path` of `size` bytes with the stream of `seed`.
///
/// # Errors
/// The file cannot be written.
pub fn file(path: &Path, size: u64, seed: u64) -> Result<()> {
    let mut buffer = vec![0; WRITE_BYTES.min(size as usize)];
    write(path, size, seed, &mut buffer)
}

fn write(path: &Path, size: u64, seed: u64, buffer: &mut [u8]) -> Result<()> {
    let mut file = File::create(path).map_err(Error::at(path))?;
    let mut offset = 0;
    while offset < size {
        let step = (size - offset).min(buffer.len() as u64) as usize;
        fill(seed, offset, &mut buffer[..step]);
        file.write_all(&buffer[..step]).map_err(Error::at(path))?;
        offset += step as u64;
    }
    Ok(())
}

/// Fills the new directory `directory` with `count` files, named by [`name_of`]. Returns their size
/// in bytes. The content of each file is the stream of the seed that [`seed_of`] gives its name.
///
/// # Errors
/// The directory or a file cannot be written.
pub fn files(directory: &Path, count: u64, sizes: &FileSizes, seed: u64) -> Result<u64> {
    make_directory(directory)?;
    let mut buffer = vec![0; WRITE_BYTES];
    let mut bytes = 0;
    for number in 0..count {
        let name = name_of(number);
        let size = size_of(&name, sizes, seed);
        write(&directory.join(&name), size, seed_of(seed, &name), &mut buffer)?;
        bytes += size;
    }
    Ok(bytes)
}

/// Makes the directory `root` with `count` empty files `image_00000000.tif`, by several threads.
/// Above `LINKED_FROM` files, most are links.
///
/// # Errors
/// The directory cannot be made, or a name exists or cannot be made.
pub fn names(root: &Path, count: u64) -> Result<()> {
    make_names(root, count, count > LINKED_FROM)
}

/// Makes the same names as [`names`], as links to few inodes where the file system has links.
///
/// # Errors
/// The errors of [`names`].
pub fn links(root: &Path, count: u64) -> Result<()> {
    make_names(root, count, true)
}

fn make_names(root: &Path, count: u64, linked: bool) -> Result<()> {
    make_directory(root)?;
    let at = open(root)?;
    let share = count.div_ceil(NAME_THREADS);
    let made = on_threads(NAME_THREADS as usize, |thread| {
        let from = (thread as u64 * share).min(count);
        let mut first = String::new();
        for number in from..(from + share).min(count) {
            let name = format!("image_{number:08}.tif");
            let links = linked && !(number - from).is_multiple_of(NAMES_PER_INODE);
            // If the file system has no links, or allows fewer, the name becomes a new file.
            if !links || linkat(&at, &first, &at, &name, AtFlags::empty()).is_err() {
                mknodat(&at, &name, FileType::RegularFile, FILE_MODE, 0).map_err(making_error(root))?;
                first = name;
            }
        }
        Ok(())
    });
    made.map(drop)
}

/// Makes the tree `root` of `entries` entries, `directories` of them directories in three levels,
/// the rest empty files.
///
/// # Errors
/// There are fewer entries than directories, or an entry exists or cannot be made.
pub fn tree(root: &Path, entries: u64, directories: u64) -> Result<()> {
    if entries < directories {
        return Err(Error::job(format!("{entries} entries cannot hold {directories} directories")));
    }
    make_directory(root)?;
    let children = ((directories as f64).cbrt().round() as u64) + 1;
    let mut paths: Vec<PathBuf> = vec![root.to_owned()];
    let mut next = 0;
    while (paths.len() as u64) <= directories {
        let missing = directories + 1 - paths.len() as u64;
        for number in 0..children.min(missing) {
            let path = paths[next].join(format!("plate-{number:03}"));
            make_directory(&path)?;
            paths.push(path);
        }
        next += 1;
    }
    for number in 0..entries - directories {
        let path = paths[(number % paths.len() as u64) as usize].join(format!("well-{number:06}.tif"));
        mknodat(CWD, &path, FileType::RegularFile, FILE_MODE, 0).map_err(making_error(&path))?;
    }
    Ok(())
}

fn make_directory(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(Error::at(path))
}

fn open(root: &Path) -> Result<OwnedFd> {
    openat(CWD, root, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(making_error(root))
}

fn making_error(path: &Path) -> impl FnOnce(rustix::io::Errno) -> Error + use<'_> {
    move |errno| Error::at(path)(errno.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_ranges_in_units() {
        let sizes = |min, max, spread| FileSizes { min, max, spread };
        assert_eq!(FileSizes::parse("10KiB..100KiB").unwrap(), sizes(10_240, 102_400, Spread::Uniform));
        assert_eq!(FileSizes::parse("10KB").unwrap(), sizes(10_000, 10_000, Spread::Uniform));
        assert_eq!(FileSizes::parse("log:1k..1M").unwrap(), sizes(1 << 10, 1 << 20, Spread::Logarithmic));
        for wrong in ["", "1..", "100k..10k", "many"] {
            let error = FileSizes::parse(wrong).unwrap_err().to_string();
            assert!(error.contains(&format!("{wrong:?}")) && error.contains("10KiB..100KiB"), "{error}");
        }
    }

    #[test]
    fn sizes_lie_in_their_range_and_follow_from_seed_and_name() {
        for (text, below_middle) in [("10KB..100KB", 0.45..0.55), ("log:10KB..100KB", 0.68..0.78)] {
            let sizes = FileSizes::parse(text).unwrap();
            let all: Vec<u64> = (0..2000).map(|number| size_of(&name_of(number), &sizes, 1)).collect();
            assert!(all.iter().all(|size| (sizes.min..=sizes.max).contains(size)));
            // Expected below 55 KB: half of the uniform sizes, and log10(5.5) = 0.74 of the
            // logarithmic sizes.
            let share = all.iter().filter(|size| **size < 55_000).count() as f64 / 2000.0;
            assert!(below_middle.contains(&share), "{text}: {share}");
            assert_eq!(all[3], size_of(&name_of(3), &sizes, 1));
            assert_ne!(all[3], size_of(&name_of(3), &sizes, 2));
        }
    }

    #[test]
    fn names_and_trees_have_the_requested_entries() {
        let here = tempfile::tempdir().unwrap();
        let (flat, deep) = (here.path().join("flat"), here.path().join("deep"));
        let sorted = |directory: &Path| {
            let mut found: Vec<_> =
                fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            found.sort();
            found
        };
        names(&flat, 1003).unwrap();
        let found = sorted(&flat);
        assert_eq!(found.len(), 1003);
        assert_eq!(found[1002], "image_00001002.tif");
        let linked = here.path().join("linked");
        links(&linked, 1003).unwrap();
        assert_eq!(sorted(&linked), found);
        tree(&deep, 508, 17).unwrap();
        let (mut directories, mut all, mut waiting) = (0, 0, vec![deep]);
        while let Some(at) = waiting.pop() {
            for entry in fs::read_dir(&at).unwrap().flatten() {
                all += 1;
                if entry.file_type().unwrap().is_dir() {
                    directories += 1;
                    waiting.push(entry.path());
                }
            }
        }
        assert_eq!((all, directories), (508, 17));
        assert!(tree(&here.path().join("none"), 1, 2).is_err());
    }
}

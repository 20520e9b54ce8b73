//! Renames files like a conversion to a hash layout and does nothing else: the baseline for
//! measurements.
//!
//! `rename_loop there|back DIRECTORY LEVELS WIDTH` makes all directories in advance, reads the
//! directory and renames each file to its place by XXH3, in the order of reading, in one thread.
//! `back` undoes this. There is no layout file, no lock, no second pass and no sync, so a killed
//! run leaves files in both places.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use firstbyte_layout::{DigitSource, LayoutScheme, Leaf};
use firstbyte_listing::{Batch, DirectoryReader};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [way, root, levels, width] = &arguments[..] else {
        return Err("write: there|back DIRECTORY LEVELS WIDTH".into());
    };
    let root = rustix::fs::open(root.as_str(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
    let scheme = LayoutScheme::new(DigitSource::Xxh3, levels.parse()?, width.parse()?, Leaf::Name)?;
    let directories = directories(usize::from(scheme.levels()), usize::from(scheme.width()));
    match way.as_str() {
        "there" => there(&root, scheme, &directories),
        _ => back(&root, &directories, usize::from(scheme.levels())),
    }
}

/// Returns the paths of all directories. A parent comes before its children.
fn directories(levels: usize, width: usize) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut upper = 0..1;
    for _ in 0..levels {
        let from = all.len();
        for index in upper {
            let above = all[index].clone();
            all.extend((0..1_u32 << (4 * width)).map(|digits| format!("{above}{digits:0width$x}/")));
        }
        upper = from..all.len();
    }
    all
}

fn there(
    root: &OwnedFd,
    scheme: LayoutScheme,
    directories: &[String],
) -> Result<(), Box<dyn std::error::Error>> {
    for directory in &directories[1..] {
        rustix::fs::mkdirat(root, directory.as_str(), Mode::from_raw_mode(0o777))?;
    }
    let mut reader = DirectoryReader::from(rustix::fs::openat(root, ".", OFlags::DIRECTORY, Mode::empty())?);
    let mut batch = Batch::new(1 << 20);
    while reader.read(&mut batch)? {
        for entry in batch.entries().filter(|entry| entry.kind() == firstbyte_location::EntryKind::File) {
            let to = CString::new(scheme.path(entry.name())?.as_os_str().as_bytes())?;
            rustix::fs::renameat_with(root, entry.c_name(), root, &to, RenameFlags::NOREPLACE)?;
        }
    }
    Ok(())
}

fn back(root: &OwnedFd, directories: &[String], levels: usize) -> Result<(), Box<dyn std::error::Error>> {
    for directory in directories[1..].iter().rev() {
        if directory.matches('/').count() == levels {
            let fd = rustix::fs::openat(root, directory.as_str(), OFlags::DIRECTORY, Mode::empty())?;
            let mut reader = DirectoryReader::from(fd.try_clone()?);
            let mut batch = Batch::new(1 << 16);
            while reader.read(&mut batch)? {
                for entry in batch.entries() {
                    rustix::fs::renameat_with(
                        &fd,
                        entry.c_name(),
                        root,
                        entry.c_name(),
                        RenameFlags::NOREPLACE,
                    )?;
                }
            }
        }
        rustix::fs::unlinkat(root, directory.as_str(), AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

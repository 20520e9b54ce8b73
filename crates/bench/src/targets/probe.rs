//! Examines a target with few requests: an object and its size, or a tree and the sizes of its
//! first files.

use std::collections::BTreeMap;
use std::path::Path;

use firstbyte::Client;
use firstbyte_location::{EntryKind, Location};
use firstbyte_store::{ListOptions, is_priced_class};

use crate::error::{Error, Result};

/// Largest number of files to examine. A larger target is measured by its first files.
const MAX_FILES: usize = 20_000;

/// A target that was examined.
#[derive(Clone, Debug)]
pub struct Target {
    /// Location as it was given; absolute for a local path.
    pub location: String,
    /// True for a path on a mounted file system.
    pub local: bool,
    /// Kind and size.
    pub found: Found,
    /// Storage class of the object, or of the first such object of a tree, if its prices are not
    /// those of the bucket.
    pub class: Option<String>,
}

/// The kind of a target.
#[derive(Clone, Debug)]
pub enum Found {
    /// A file or object of this many bytes.
    Object(u64),
    /// A directory, prefix or bucket.
    Tree(Shape),
}

/// The files of a tree.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// Sizes of the first files, by name.
    pub sizes: BTreeMap<String, u64>,
    /// False if the tree has more entries, or names that are not UTF-8.
    pub complete: bool,
    /// First storage class whose prices are not those of the bucket.
    pub class: Option<String>,
}

impl Shape {
    /// Returns the largest file and its size.
    #[must_use]
    pub fn largest(&self) -> Option<(&str, u64)> {
        self.sizes.iter().map(|(name, size)| (name.as_str(), *size)).max_by_key(|(_, size)| *size)
    }

    /// Returns the number and the bytes of the first `count` files by name, and the name after the
    /// last of them.
    #[must_use]
    pub fn first(&self, count: u64) -> (u64, u64, Option<&str>) {
        let taken = self.sizes.iter().take(count as usize);
        let (files, bytes) = taken.fold((0, 0), |(files, bytes), (_, size)| (files + 1, bytes + size));
        (files, bytes, self.sizes.keys().nth(count as usize).map(String::as_str))
    }
}

/// Examines a target.
///
/// # Errors
/// The target is missing, empty, or cannot be read.
pub fn probe(client: &Client, location: &str) -> Result<Target> {
    let failed = |what: String| {
        // The store's errors already begin with the location.
        let what = what.strip_prefix(&format!("{location}: ")).map(str::to_owned).unwrap_or(what);
        Error::Target { location: location.to_owned(), what }
    };
    let parsed = Location::parse(location.as_ref()).map_err(|error| failed(error.to_string()))?;
    let local = matches!(parsed, Location::Local(_));
    // Jobs have other working directories, in which a relative path would name another file.
    let location = match parsed.as_local() {
        Some(path) => &absolute(path),
        None => location,
    };
    let object = client.store().stat(&parsed);
    if let Ok(stat) = &object
        && stat.kind != EntryKind::Directory
    {
        let size =
            stat.size().ok_or_else(|| failed("its length is not known, so it cannot be measured".into()))?;
        if size == 0 {
            return Err(failed("is empty; name an object with content".into()));
        }
        let class = stat.storage_class.clone().filter(|class| !is_priced_class(class));
        return Ok(Target { location: location.to_owned(), local, found: Found::Object(size), class });
    }
    let shape = shape_of(client, location);
    match (shape, object) {
        (Ok(shape), _) if !shape.sizes.is_empty() => {
            let class = shape.class.clone();
            Ok(Target { location: location.to_owned(), local, found: Found::Tree(shape), class })
        }
        (Ok(shape), Ok(_)) if !shape.complete => {
            Err(failed("no name of its files is valid UTF-8, so no job can name them".into()))
        }
        (Ok(_), Ok(_)) => Err(failed("has no files; name a directory or prefix with some".into())),
        (_, Err(error)) => {
            let advice = error.advice().map(|advice| format!("; {advice}")).unwrap_or_default();
            Err(failed(format!("{error}{advice}")))
        }
        (Err(error), Ok(_)) => Err(failed(error.to_string())),
    }
}

/// Returns a local path as text that is valid in every directory.
fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

fn shape_of(client: &Client, location: &str) -> firstbyte::Result<Shape> {
    let options = ListOptions { recursive: true, ..ListOptions::default() };
    let mut shape = Shape { complete: true, ..Shape::default() };
    for entry in client.list(location, &options)? {
        let entry = entry?;
        if shape.sizes.len() == MAX_FILES {
            shape.complete = false;
            break;
        }
        if entry.kind != EntryKind::File {
            continue;
        }
        let class = entry.storage_class.filter(|class| !is_priced_class(class));
        shape.class = shape.class.take().or(class);
        match String::from_utf8(entry.name) {
            Ok(name) => drop(shape.sizes.insert(name, entry.size.unwrap_or_default())),
            // The description of a job is UTF-8, so a job cannot read this file.
            Err(_) => shape.complete = false,
        }
    }
    Ok(shape)
}

//! `cp`: one object or a tree, between any two locations, by the rules of the command line.
//!
//! A tree written with a `/` at its end stands for its contents. A destination written as a directory (`DST/`, `.`, `..`, a
//! bucket) takes what is copied under its own name. Any other is the name of the copy, there already or not, except that
//! an object goes into a directory that is there. So the same call has the same target however often it is made.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use firstbyte_location::{Kind, Location, S3Object};
use firstbyte_store::Checksum;
use firstbyte_transfer::{Effect, Engine, Levels, Settings, Shard, Silent, Stop, Summary, Tree};

use crate::{Client, Error, Result};

/// Whether a directory is copied with what is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// No: a directory as the source is an error.
    #[default]
    Object,
    /// Yes.
    Tree,
}

/// How one copy is done.
#[derive(Clone, Debug, Default)]
pub struct Copy {
    /// Whether a directory is copied.
    pub depth: Depth,
    /// What the one object copied must have.
    pub checksum: Option<Checksum>,
    /// Bytes a second; as the client's options say where none is given.
    pub limit_rate: Option<u64>,
    /// Ends it from another thread; the same copy resumes from there.
    pub stop: Stop,
}

impl Client {
    /// Copies an object or a tree. A destination is the old one or the whole new one; an interrupted copy, run again,
    /// resumes.
    ///
    /// ```no_run
    /// use firstbyte::{Client, Copy, Depth, Options};
    ///
    /// # fn main() -> firstbyte::Result<()> {
    /// let client = Client::new(Options::from_environment()?)?;
    /// let tree = Copy { depth: Depth::Tree, ..Copy::default() };
    /// let summary = client.cp("results/", "s3://bucket/results/", &tree)?;
    /// assert!(summary.failed.is_empty(), "{:?}", summary.failed);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What ended it. Failures of single objects of a tree are in the summary.
    pub fn cp(
        &self,
        source: impl AsRef<OsStr>,
        destination: impl AsRef<OsStr>,
        copy: &Copy,
    ) -> Result<Summary> {
        let contents = is_contents(source.as_ref());
        let source = Location::parse(source.as_ref())?;
        let written = destination.as_ref();
        let destination = Location::parse(written)?;
        let into = is_written_as_directory(written, &destination);
        let settings = Settings {
            checksum: copy.checksum.clone(),
            limit_rate: copy.limit_rate.or(self.copies.limit_rate),
            stop: copy.stop.clone(),
            ..self.copies.clone()
        };
        let engine = Engine::new(self.store().clone(), settings);
        if !self.is_tree(&source, copy.depth)? {
            let into = into || destination.as_local().is_some_and(|path| path.is_dir());
            let target = target(&source, &destination, into, source.file_name())?;
            return match Overlap::of(&source, &target) {
                Overlap::Same => Err(onto_itself(&source)),
                Overlap::Apart | Overlap::Inside => Ok(engine.copy(&source, &target, &Silent)?),
            };
        }
        let name = if contents { Some(Vec::new()) } else { source.file_name().or(Some(Vec::new())) };
        let destination = target(&source, &destination, into, name)?;
        if Overlap::of(&source, &destination) != Overlap::Apart {
            return Err(onto_itself(&source));
        }
        let tree = Tree {
            source,
            destination,
            beginning: String::new(),
            levels: Levels::All,
            select: &|_| true,
            shard: Shard::default(),
            effect: Effect::Apply,
        };
        let mut summary = engine.copy_tree(&tree, &Silent)?;
        match summary.ended.take() {
            Some(error) => Err(error.into()),
            None => Ok(summary),
        }
    }

    fn is_tree(&self, source: &Location, depth: Depth) -> Result<bool> {
        let is_tree = match source {
            Location::Local(path) => fs::metadata(path).is_ok_and(|metadata| metadata.is_dir()),
            // What a server answers for a URL that ends in `/` is a page, and a page can be copied.
            Location::Http(_) if depth == Depth::Object => false,
            _ if source.is_directory_like() => true,
            _ if depth == Depth::Tree => self.store().stat(source)?.kind == Kind::Directory,
            _ => false,
        };
        match (is_tree, depth) {
            (true, Depth::Object) => Err(Error::Directory { location: source.to_string() }),
            (is_tree, _) => Ok(is_tree),
        }
    }
}

/// Whether what is written is a directory's contents rather than itself.
#[must_use]
pub fn is_contents(text: &OsStr) -> bool {
    text.as_bytes().ends_with(b"/") || text.as_bytes().ends_with(b"/.")
}

/// Whether a destination is written as a directory: it ends in `/`, `/.` or `/..`, is one of these, or names a bucket.
#[must_use]
pub fn is_written_as_directory(text: &OsStr, location: &Location) -> bool {
    let dots = |text: &[u8]| matches!(text.rsplit(|byte| *byte == b'/').next(), Some(b"." | b".."));
    location.is_directory_like() || (location.as_local().is_some() && dots(text.as_bytes()))
}

/// Where the copy goes: into a directory under `name`, which is empty for bare contents.
fn target(source: &Location, destination: &Location, into: bool, name: Option<Vec<u8>>) -> Result<Location> {
    if !into {
        return Ok(destination.clone());
    }
    match name {
        Some(name) if name.is_empty() => Ok(destination.clone()),
        Some(name) => Ok(destination.join(&name)),
        None => Err(Error::Copy {
            location: source.to_string(),
            why: "has no name to copy it under; name the destination".into(),
        }),
    }
}

fn onto_itself(source: &Location) -> Error {
    Error::Copy { location: source.to_string(), why: "would be copied onto or into itself".into() }
}

/// How a destination lies to its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// Neither in the other.
    Apart,
    /// They are the same.
    Same,
    /// The destination lies below the source, whose copy would never end.
    Inside,
}

impl Overlap {
    /// Compares two locations; local paths are resolved as far as they exist.
    #[must_use]
    pub fn of(source: &Location, destination: &Location) -> Self {
        let (from, to) = (absolute(source), absolute(destination));
        let inside = match (&from, &to) {
            _ if from == to => return Self::Same,
            (Location::Local(from), Location::Local(to)) => to.starts_with(from),
            (Location::S3(from), Location::S3(to)) => {
                from.bucket == to.bucket && to.key.starts_with(&from.key)
            }
            _ => false,
        };
        if inside { Self::Inside } else { Self::Apart }
    }
}

/// The one spelling of a location: local paths resolved as far as they exist, prefixes ending in `/`.
fn absolute(location: &Location) -> Location {
    match location {
        Location::Local(path) => {
            let existing = path.ancestors().find_map(|part| {
                let part = if part.as_os_str().is_empty() { ".".as_ref() } else { part };
                Some((part, fs::canonicalize(part).ok()?))
            });
            Location::Local(match existing {
                Some((part, resolved)) => match path.strip_prefix(part) {
                    Ok(rest) if rest.as_os_str().is_empty() => resolved,
                    Ok(rest) => resolved.join(rest),
                    Err(_) => resolved.join(path),
                },
                None => path.clone(),
            })
        }
        Location::S3(S3Object { bucket, key }) if !key.is_empty() && !key.ends_with('/') => {
            Location::S3(S3Object { bucket: bucket.clone(), key: format!("{key}/") })
        }
        _ => location.clone(),
    }
}

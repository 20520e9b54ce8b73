//! Determines the target of each copied object: turns the source and destination of a copy, as they
//! were written, into locations. The command line and [`Client::cp`](crate::Client::cp) share these
//! rules. A copy has the same target each time it is run.
//!
//! If a source directory ends in `/`, its contents are copied and not the directory itself. A
//! destination that is written as a directory (`DST/`, `.`, `..`, a bucket) takes each source under
//! the source's own name, and so does the destination of several sources. For a tree, any other
//! destination is the name of the copy, whether it exists or not. The same holds for an object,
//! unless an existing directory has the name of the destination; the object is then copied into
//! that directory.

mod overlap;

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use firstbyte_location::{DestinationName, EntryKind, Location, PLACES_WITH_COLON, shown};
use firstbyte_store::{Store, require_bucket};

use self::overlap::{Overlap, absolute};
use crate::error::{Error, Result};
use crate::operand::{Glob, OperandKind};

/// Treatment of `*`, `?` and `[` in sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wildcards {
    /// Wildcards are recognized, unless a file of exactly that name exists.
    On,
    /// Wildcards are ordinary characters, so every key can be named.
    Off,
}

/// A parsed source.
#[derive(Clone, Debug)]
pub enum ParsedSource {
    /// One object.
    Object(Location),
    /// Everything below a location.
    Tree {
        /// The directory or prefix.
        root: Location,
        /// The name of the copy in a destination directory. `None` if only the contents are copied.
        name: Option<DestinationName>,
    },
    /// The names below a location that match a pattern.
    Glob {
        /// The location before the pattern.
        base: Location,
        /// The pattern that the names have to match.
        glob: Glob,
    },
}

/// Whether an object may be copied onto itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OntoItself {
    /// Refused, because nothing would change.
    #[default]
    Refuse,
    /// An object in a store may, because the copy has other properties or is of another version.
    Rewrite,
}

/// The place to which copies go.
#[derive(Clone, Debug)]
pub enum Destination {
    /// Copies go into this directory, under their own names. The destination was written as a
    /// directory.
    Into(Location),
    /// The destination is an existing directory that was not written as one. Objects are copied
    /// into it; a tree takes its name.
    There(Location),
    /// The copy gets exactly this name.
    As(Location),
}

impl ParsedSource {
    /// Parses `text`. Local paths are looked up in the file system, and remote locations only if
    /// trees are allowed and the text does not end in `/`.
    ///
    /// # Errors
    /// The text is not a location, a bucket's name contains a pattern, a directory is given without
    /// [`OperandKind::Tree`], or a request fails.
    pub fn parse(text: &OsStr, allowed: OperandKind, wildcards: Wildcards, store: &Store) -> Result<Self> {
        let location = Location::parse(text)?;
        if wildcards == Wildcards::On
            && let Some((base, glob)) = Glob::parse(text, &location)?
        {
            return Ok(Self::Glob { base, glob });
        }
        let is_tree = match &location {
            Location::Local(path) => fs::metadata(path).is_ok_and(|metadata| metadata.is_dir()),
            // A URL that ends in `/` returns a page, which can be copied as an object.
            Location::Http(_) if allowed == OperandKind::Object => false,
            _ if location.is_directory_like() => true,
            _ if allowed == OperandKind::Tree => store.stat(&location)?.kind == EntryKind::Directory,
            _ => false,
        };
        match (is_tree, allowed) {
            (false, _) => Ok(Self::Object(location)),
            (true, OperandKind::Tree) => Self::tree(text),
            (true, OperandKind::Object) => Err(Error::Directory { location: location.to_string() }),
        }
    }

    /// Parses `text` as a tree, whether the tree exists or not.
    ///
    /// # Errors
    /// The text is not a location, or has no name that a directory can contain.
    pub fn tree(text: &OsStr) -> Result<Self> {
        let root = Location::parse(text)?;
        let name = if is_contents(text) { None } else { tree_name(&root)? };
        Ok(Self::Tree { root, name })
    }

    /// Returns the location of the copy of this source. For patterns and trees, the names are
    /// joined to it.
    ///
    /// # Errors
    /// An object without a name is copied into a directory. A source is copied onto itself; for a
    /// pattern, this means that the destination is the place where the pattern begins. A tree is
    /// copied into itself. Or the copy of a tree, or of the names that match a pattern, would be at
    /// or below a file.
    pub fn target(&self, destination: &Destination) -> Result<Location> {
        self.target_of(destination, OntoItself::Refuse)
    }

    /// Returns the location of the copy like [`target`](Self::target). With
    /// [`OntoItself::Rewrite`], an object in a store may be copied onto itself, and the result is
    /// then exactly its own location.
    ///
    /// # Errors
    /// The errors of [`target`](Self::target).
    pub fn target_of(&self, destination: &Destination, onto_itself: OntoItself) -> Result<Location> {
        let (Self::Object(source) | Self::Tree { root: source, .. } | Self::Glob { base: source, .. }) = self;
        let target = self.unchecked_target(destination)?;
        if onto_itself == OntoItself::Rewrite
            && matches!(source, Location::Object(_))
            && Overlap::of(source, &target) == Overlap::Same
        {
            return Ok(source.clone());
        }
        match self {
            Self::Object(_) => refuse_onto_itself(source, &target).map(|()| target),
            Self::Tree { .. } => {
                refuse_into_itself(source, &target).and_then(|()| refuse_below_file(source, &target))
            }
            Self::Glob { .. } => {
                refuse_onto_itself(source, &target).and_then(|()| refuse_below_file(source, &target))
            }
        }
    }

    fn unchecked_target(&self, destination: &Destination) -> Result<Location> {
        match (self, destination) {
            (Self::Object(source), Destination::Into(directory) | Destination::There(directory)) => {
                let name = source.file_name().ok_or_else(|| Error::Operand {
                    operand: source.to_string(),
                    why: "has no usable file name; name the destination".into(),
                })?;
                Ok(directory.child(&name))
            }
            (Self::Tree { name: Some(name), .. }, Destination::Into(directory)) => Ok(directory.child(name)),
            (_, Destination::Into(target) | Destination::There(target) | Destination::As(target)) => {
                Ok(target.clone())
            }
        }
    }
}

impl Destination {
    /// Returns the location as it was written.
    #[must_use]
    pub fn location(&self) -> &Location {
        match self {
            Self::Into(location) | Self::There(location) | Self::As(location) => location,
        }
    }

    /// Parses `text`. Several sources, or a source with a pattern, need a directory as destination.
    ///
    /// # Errors
    /// The errors of [`destination_location`]. Also an error if the path goes up again from a
    /// directory that does not exist, or if there are several sources and the destination is not a
    /// directory.
    pub fn parse(text: &OsStr, sources: &[OsString], wildcards: Wildcards) -> Result<Self> {
        let is_glob = |text: &OsString| {
            Location::parse(text).is_ok_and(|location| matches!(Glob::parse(text, &location), Ok(Some(_))))
        };
        Self::of(text, sources.len() > 1 || (wildcards == Wildcards::On && sources.iter().any(is_glob)))
    }

    /// Parses `text`, the destination of one source or, if `several`, of several sources.
    ///
    /// # Errors
    /// The errors of [`parse`](Self::parse).
    pub fn of(text: &OsStr, several: bool) -> Result<Self> {
        let location = destination_location(text)?;
        if let Some(missing) = location.as_local().and_then(missing_below_dots) {
            return Err(Error::Operand {
                operand: location.to_string(),
                why: format!("{} does not exist, so `..` has no meaning in it; create it", shown(missing)),
            });
        }
        if is_written_as_directory(text, &location) {
            return Ok(Self::Into(location));
        }
        match location.as_local().is_some_and(|path| path.is_dir()) {
            true if several => Ok(Self::Into(location)),
            true => Ok(Self::There(location)),
            false if several => Err(Error::Operand {
                operand: location.to_string(),
                why: "several sources need a directory as destination; end it with / or create it".into(),
            }),
            false => Ok(Self::As(location)),
        }
    }
}

/// Parses `text` as the location that a run writes to.
///
/// # Errors
/// The text is not a location, names no bucket, or is a path that other programs read as a place on
/// another host: a colon before the first `/`, as in `host:/path` of rsync and `remote:bucket/key`
/// of rclone. Such a path is accepted if its first directory exists, or if it is written `./...`.
pub fn destination_location(text: &OsStr) -> Result<Location> {
    let location = Location::parse(text)?;
    require_bucket(&location)?;
    let first = text.as_bytes().split(|byte| *byte == b'/').next().unwrap_or_default();
    let names_host = first.len() < text.len() && first.contains(&b':');
    if location.as_local().is_some_and(|path| path.as_os_str() == text)
        && names_host
        && fs::symlink_metadata(OsStr::from_bytes(first)).is_err()
    {
        let (text, host) = (shown(text), shown(OsStr::from_bytes(first)));
        return Err(Error::Operand {
            operand: text.to_string(),
            why: format!("the directory {host} does not exist; {PLACES_WITH_COLON}, or ./{text} for a path"),
        });
    }
    Ok(location)
}

/// Returns the name of the copy of a whole tree. Returns `None` for a bucket or a host, and for `/`
/// and `..` on a file system, because these stand for their contents.
///
/// # Errors
/// [`Error::Operand`]: the tree has a name that no directory can contain.
pub fn tree_name(root: &Location) -> Result<Option<DestinationName>> {
    match (root.file_name(), root.last_component()) {
        (None, Some(_)) => Err(Error::Operand {
            operand: root.to_string(),
            why: "has no usable file name; end it with / to copy its contents".into(),
        }),
        (name, _) => Ok(name),
    }
}

/// Returns whether `text` stands for the contents of a directory and not for the directory itself.
fn is_contents(text: &OsStr) -> bool {
    text.as_bytes().ends_with(b"/") || text.as_bytes().ends_with(b"/.")
}

/// Returns a missing directory that the path enters and leaves again (`missing/..`). If a copy
/// created this directory, the destination could be the source.
fn missing_below_dots(path: &Path) -> Option<&Path> {
    let ups = path.ancestors().filter(|part| part.ends_with(".."));
    ups.filter_map(Path::parent).find(|above| !above.as_os_str().is_empty() && !above.exists())
}

/// Returns whether a destination is written as a directory: it ends in `/`, `/.` or `/..`, is `.`
/// or `..`, or names a bucket.
fn is_written_as_directory(text: &OsStr, location: &Location) -> bool {
    let dots = |text: &[u8]| matches!(text.rsplit(|byte| *byte == b'/').next(), Some(b"." | b".."));
    location.is_directory_like() || (location.as_local().is_some() && dots(text.as_bytes()))
}

/// Returns the target of a tree. Fails if the target is a file or is below one, because every name
/// would fail.
fn refuse_below_file(root: &Location, target: &Location) -> Result<Location> {
    let existing = target
        .as_local()
        .and_then(|path| path.ancestors().find_map(|part| Some((part, fs::metadata(part).ok()?))));
    match existing {
        Some((part, metadata)) if !metadata.is_dir() => {
            let beside = root.file_name().map(|name| sibling(&Location::Local(part.to_owned()), &name));
            let free = beside.filter(|free| free.as_local().is_some_and(|path| !path.exists()));
            let such_as = free.map(|free| format!(", such as {free}")).unwrap_or_default();
            Err(Error::Operand {
                operand: shown(part).to_string(),
                why: format!(
                    "is a file, and a directory cannot be written into it; name another destination{such_as}"
                ),
            })
        }
        _ => Ok(target.clone()),
    }
}

/// Returns the location of `name` in the directory or prefix that contains `location`.
fn sibling(location: &Location, name: &DestinationName) -> Location {
    match location.parent() {
        Some(Location::Local(parent)) if parent.as_os_str().is_empty() => {
            Location::Local(PathBuf::from(OsStr::from_bytes(name.as_bytes())))
        }
        Some(parent) => parent.child(name),
        None => location.child(name),
    }
}

/// Refuses to copy an object or a tree onto itself.
///
/// # Errors
/// [`Error::Overlap`].
pub fn refuse_onto_itself(source: &Location, destination: &Location) -> Result<()> {
    match Overlap::of(source, destination) {
        Overlap::Same => Err(Error::Overlap {
            why: format!("{source} and {destination} are the same"),
            advice: "name another destination".into(),
        }),
        Overlap::Apart | Overlap::Inside => Ok(()),
    }
}

/// Refuses to copy a tree onto itself, or into itself, because such a copy would never end.
///
/// # Errors
/// [`Error::Overlap`].
pub fn refuse_into_itself(source: &Location, destination: &Location) -> Result<()> {
    refuse_onto_itself(source, destination)?;
    match Overlap::of(source, destination) {
        Overlap::Inside => {
            let name = destination.file_name().filter(|_| source.file_name().is_some());
            let outside = name.map(|name| format!(", such as {}", sibling(source, &name)));
            Err(Error::Overlap {
                why: format!("{destination}: lies inside its source {source}"),
                advice: format!("name a destination outside it{}", outside.unwrap_or_default()).into(),
            })
        }
        Overlap::Apart | Overlap::Same => Ok(()),
    }
}

/// Refuses to delete objects that only `destination` has if the source is inside `destination`,
/// because the source itself would be deleted.
///
/// # Errors
/// [`Error::Overlap`].
pub fn refuse_to_delete_source(source: &Location, destination: &Location) -> Result<()> {
    match Overlap::of(destination, source) {
        Overlap::Inside => Err(Error::Overlap {
            why: format!("{source}: lies inside {destination}, and --delete would delete the source"),
            advice: "leave --delete out, or name another destination".into(),
        }),
        Overlap::Apart | Overlap::Same => Ok(()),
    }
}

/// Refuses moves that could overwrite objects which were already moved or have yet to be moved: two
/// targets are the same, one target is inside another, or a tree is inside its own target. Several
/// patterns below the same location count as one source.
///
/// # Errors
/// [`Error::Overlap`].
pub fn refuse_lost_sources(moves: &[(ParsedSource, Location)]) -> Result<()> {
    let mut bases = Vec::new();
    let mut targets = Vec::new();
    for (source, target) in moves {
        match source {
            ParsedSource::Object(_) => {}
            ParsedSource::Tree { root, .. } => refuse_inside_target(root, target)?,
            ParsedSource::Glob { base, .. } if bases.contains(&base) => continue,
            ParsedSource::Glob { base, .. } => bases.push(base),
        }
        targets.push(absolute(target));
    }
    // // Sorts the targets so that a location inside a target comes after that target.
    targets.sort_by(|one, other| match (one, other) {
        (Location::Local(one), Location::Local(other)) => one.cmp(other),
        _ => one.to_string().cmp(&other.to_string()),
    });
    match targets.windows(2).find(|pair| Overlap::of(&pair[0], &pair[1]) != Overlap::Apart) {
        Some(pair) => Err(Error::Overlap {
            why: format!("{}: two sources go there, and one could overwrite the other", pair[1]),
            advice: "move one at a time".into(),
        }),
        None => Ok(()),
    }
}

/// Refuses copies of named objects if two of them have the same target, because only the last one
/// would be left. Trees with the same target are merged: if two of them have the same name, the
/// object of the first tree is copied, and the object of the second counts as a failure.
///
/// # Errors
/// [`Error::Overlap`].
pub fn refuse_common_target<'t>(targets: impl IntoIterator<Item = &'t Location>) -> Result<()> {
    let mut known = HashSet::new();
    match targets.into_iter().find(|target| !known.insert(absolute(target))) {
        Some(target) => Err(Error::Overlap {
            why: format!("{target}: two sources go there, and one would overwrite the other"),
            advice: "copy one at a time, each to a name of its own".into(),
        }),
        None => Ok(()),
    }
}

/// Refuses to move a tree, or a pattern that matches at several levels, to a location that contains
/// it, because a moved name could be one that has yet to be moved.
///
/// # Errors
/// [`Error::Overlap`].
pub fn refuse_inside_target(source: &Location, target: &Location) -> Result<()> {
    match Overlap::of(target, source) {
        Overlap::Inside => Err(Error::Overlap {
            why: format!(
                "{source}: lies inside its destination {target}, where moved names could meet names that are not moved \
                 yet"
            ),
            advice: "move it elsewhere first".into(),
        }),
        Overlap::Apart | Overlap::Same => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(text: &str) -> Location {
        Location::parse(OsStr::new(text)).unwrap()
    }

    fn object(text: &str) -> ParsedSource {
        ParsedSource::Object(location(text))
    }

    fn destination(text: &str, sources: &[&str]) -> Result<Destination> {
        let sources: Vec<OsString> = sources.iter().map(OsString::from).collect();
        Destination::parse(OsStr::new(text), &sources, Wildcards::On)
    }

    #[test]
    fn a_directory_takes_copies_under_their_own_names_and_a_name_is_the_name() {
        let into = destination("s3://b/dir/", &["x"]).unwrap();
        assert_eq!(object("/tmp/x.gz").target(&into).unwrap().to_string(), "s3://b/dir/x.gz");
        let named = destination("s3://b/dir", &["x"]).unwrap();
        assert_eq!(object("/tmp/x.gz").target(&named).unwrap().to_string(), "s3://b/dir");
    }

    #[test]
    fn a_destination_has_a_bucket_and_is_no_place_of_another_program() {
        for text in ["s3://", "gs://", "s3+lab://", "host:/path", "lab:bucket/key", "me@host:dir/"] {
            assert!(destination(text, &["x"]).is_err(), "{text}");
        }
        for text in
            ["./host:/path", "/host:/path", "a:b", "dir/a:b", "s3://b", "http://h:80/x", "file:///a:b/c"]
        {
            assert!(destination(text, &["x"]).is_ok(), "{text}");
        }
    }

    #[test]
    fn the_target_of_a_tree_is_the_same_whether_something_is_there_or_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let tree = |name: Option<&str>| ParsedSource::Tree {
            root: location("s3://b/t"),
            name: name.map(|name| DestinationName::new(name).unwrap()),
        };
        for _ in 0..2 {
            for (text, name, target) in [
                ("new", Some("t"), "new"),
                ("new/", Some("t"), "new/t"),
                ("new/.", Some("t"), "new/./t"),
                ("new", None, "new"),
                ("new/", None, "new/"),
            ] {
                let found = tree(name).target(&destination(&path(text), &["t"]).unwrap()).unwrap();
                assert_eq!(found, location(&path(target)), "{text} {name:?}");
            }
            fs::create_dir_all(dir.path().join("new")).unwrap();
        }
        let found = tree(Some("t")).target(&destination(".", &["t"]).unwrap()).unwrap();
        assert_eq!(found, location("./t"));
    }

    #[test]
    fn no_source_goes_outside_the_directory_that_takes_it() {
        let into = destination("/d/", &["x"]).unwrap();
        for text in
            ["http://h/a%2F..%2F..%2Fesc", "http://h/%2e%2e", "s3://b/x/..", "gs://b/.", "az://b/a/.."]
        {
            let error = object(text).target(&into).unwrap_err().to_string();
            assert!(error.contains("no usable file name"), "{error}");
            assert!(tree_name(&location(text)).is_err(), "{text}");
        }
        assert_eq!(tree_name(&location("s3://b")).unwrap(), None);
        assert_eq!(tree_name(&location("/")).unwrap(), None);
    }

    #[test]
    fn several_sources_need_a_directory() {
        assert!(matches!(destination("s3://b/name", &["a", "b"]), Err(Error::Operand { .. })));
        assert!(destination("/no/such", &["a", "b"]).is_err());
        assert!(destination("/no/such", &["s3://b/*.gz"]).is_err());
        let exact = Destination::parse(OsStr::new("/no/such"), &["s3://b/*.gz".into()], Wildcards::Off);
        assert!(exact.is_ok());
        assert!(destination("/no/such", &["s3://b/a"]).is_ok());
    }

    #[test]
    fn what_was_moved_is_never_overwritten_by_another_source() {
        let tree = |root: &str| ParsedSource::Tree { root: location(root), name: None };
        let moves = |pairs: &[(ParsedSource, &str)]| {
            refuse_lost_sources(
                &pairs.iter().map(|(one, to)| (one.clone(), location(to))).collect::<Vec<_>>(),
            )
        };
        let (one, other) = (object("s3://a/x"), object("s3://b/x"));
        assert!(moves(&[(one.clone(), "s3://c/x"), (other.clone(), "s3://c/x")]).is_err());
        assert!(moves(&[(one.clone(), "s3://c/x"), (other.clone(), "s3://c/xy")]).is_ok());
        assert!(
            moves(&[(one.clone(), "s3://c/d/x"), (other, "s3://c/e"), (tree("s3://b/d"), "s3://c/d")])
                .is_err()
        );
        assert!(moves(&[(tree("s3://c/p/q"), "s3://c/p")]).is_err());
        assert!(moves(&[(tree("s3://c/p/q"), "s3://c/r")]).is_ok());
    }

    #[test]
    fn what_matches_a_pattern_is_not_copied_to_where_the_pattern_begins() {
        let target = |pattern: &str, to: &str| {
            let (base, glob) = Glob::parse(OsStr::new(pattern), &location(pattern)).unwrap().unwrap();
            ParsedSource::Glob { base, glob }.target(&destination(to, &[pattern]).unwrap())
        };
        for (pattern, to) in [
            ("s3://b/d/*", "s3://b/d/"),
            ("s3://b/d/**", "s3://b/d/"),
            ("s3://b/*", "s3://b"),
            ("s3://b/d/?", "s3://b/d/"),
        ] {
            assert!(matches!(target(pattern, to), Err(Error::Overlap { .. })), "{pattern} {to}");
        }
        assert_eq!(target("s3://b/d/*", "s3://b/e/").unwrap(), location("s3://b/e/"));
        assert_eq!(target("s3://b/d/*", "s3://b/").unwrap(), location("s3://b/"));
    }

    #[test]
    fn nothing_is_copied_onto_or_into_itself() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| Location::Local(dir.path().join(name));
        fs::create_dir(dir.path().join("d")).unwrap();
        fs::write(dir.path().join("f"), "x").unwrap();
        std::os::unix::fs::symlink("f", dir.path().join("l")).unwrap();
        assert!(refuse_onto_itself(&path("f"), &path("d/../f")).is_err());
        assert!(refuse_onto_itself(&path("f"), &path("l")).is_err());
        assert!(refuse_onto_itself(&path("f"), &path("g")).is_ok());
        assert!(refuse_into_itself(&path("d"), &path("d/new/deep")).is_err());
        assert!(refuse_into_itself(&path("d"), &path("dd")).is_ok());
        assert!(refuse_into_itself(&location("s3://b/p"), &location("s3://b/p/q")).is_err());
        assert!(refuse_into_itself(&location("s3://b/p"), &location("s3://b/pq")).is_ok());
        assert!(refuse_into_itself(&location("sftp://h/p"), &location("sftp://h/p/q")).is_err());
        assert!(refuse_into_itself(&location("sftp://h/p"), &location("sftp://h/pq")).is_ok());
        assert!(refuse_into_itself(&location("sftp://h/p"), &location("sftp://other/p/q")).is_ok());
        assert!(refuse_onto_itself(&location("sftp://h/p/"), &location("sftp://h/p")).is_err());
    }
}

//! Which object goes where: sources and destination as they were written, turned into locations.
//!
//! The rules are the same however often a line is run. A directory named with a `/` at its end stands for its contents. A
//! destination written as a directory (`DST/`, `.`, `..`, a bucket), and that of several sources, takes each under its own
//! name. Any other destination of a tree is the name of the copy, whether something is there already or not; one of an
//! object is so too, unless a directory is there, which takes the object.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::PathBuf;

use firstbyte::{Overlap, is_contents, is_written_as_directory};
use firstbyte_location::{Kind, Location, shown};
use firstbyte_store::Store;
use firstbyte_transfer::Levels;

use crate::error::{Error, Result};
use crate::pattern::{Pattern, split_glob};

/// Whether directories are copied with what is in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// No: a directory as a source is a mistake.
    Objects,
    /// Yes.
    Trees,
}

/// Whether `*`, `?` and `[` in sources are wildcards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wildcards {
    /// Yes, unless a file of just that name is there.
    On,
    /// No: every key can be named.
    Off,
}

/// What a source stands for.
#[derive(Clone, Debug)]
pub enum Source {
    /// Standard input.
    Stdin,
    /// One object.
    Object(Location),
    /// Everything below a location; `name` is what its copy is called in a directory, none for its bare contents.
    Tree { root: Location, name: Option<Vec<u8>> },
    /// The names below a location that match.
    Glob { base: Location, pattern: Pattern, levels: Levels },
}

/// Where copies go.
#[derive(Clone, Debug)]
pub enum Destination {
    /// Standard output.
    Stdout,
    /// A pipe or device: written to, never replaced.
    Stream(PathBuf),
    /// Into this directory, under their own names.
    Into(Location),
    /// A directory that is there, though it is not written as one: objects go into it, a tree becomes it.
    There(Location),
    /// Under exactly this name.
    As(Location),
}

impl Source {
    /// Looks at what `text` names. Local paths are looked up; remote ones only where `depth` leaves a doubt.
    pub fn parse(text: &OsStr, depth: Depth, wildcards: Wildcards, store: &Store) -> Result<Self> {
        if text == "-" {
            return Ok(Self::Stdin);
        }
        let location = Location::parse(text)?;
        if wildcards == Wildcards::On
            && let Some(glob) = glob(text, &location, depth)?
        {
            return Ok(glob);
        }
        let is_tree = match &location {
            Location::Local(path) => fs::metadata(path).is_ok_and(|metadata| metadata.is_dir()),
            // What a server answers for a URL that ends in `/` is a page, and a page can be copied.
            Location::Http(_) if depth == Depth::Objects => false,
            _ if location.is_directory_like() => true,
            _ if depth == Depth::Trees => store.stat(&location)?.kind == Kind::Directory,
            _ => false,
        };
        match (is_tree, depth) {
            (false, _) => Ok(Self::Object(location)),
            (true, Depth::Trees) => {
                let name = if is_contents(text) { None } else { location.file_name() };
                Ok(Self::Tree { root: location, name })
            }
            (true, Depth::Objects) => {
                Err(Error::usage(format!("{location}: is a directory"))
                    .advise("add -r to copy what is in it"))
            }
        }
    }

    /// Where this source's copy goes; for globs and trees, what its names are joined to.
    pub fn target(&self, destination: &Destination) -> Result<Location> {
        match (self, destination) {
            (_, Destination::Stdout | Destination::Stream(_)) => {
                Err(Error::usage("only single objects can be written to a stream"))
            }
            (_, Destination::As(location)) | (Self::Tree { .. }, Destination::There(location)) => {
                Ok(location.clone())
            }
            (Self::Glob { .. }, Destination::Into(directory) | Destination::There(directory)) => {
                Ok(directory.clone())
            }
            (Self::Tree { name, .. }, Destination::Into(directory)) => {
                Ok(name.as_ref().map_or_else(|| directory.clone(), |name| directory.join(name)))
            }
            (Self::Object(source), Destination::Into(directory) | Destination::There(directory)) => {
                match source.file_name() {
                    Some(name) => Ok(directory.join(&name)),
                    None => Err(Error::usage(format!(
                        "{source}: has no name to copy it under; name the destination"
                    ))),
                }
            }
            (Self::Stdin, Destination::Into(directory) | Destination::There(directory)) => Err(Error::usage(
                format!("{directory}: is a directory; standard input needs a name to be written to"),
            )),
        }
    }
}

/// The glob that `text` is, if it is one.
fn glob(text: &OsStr, location: &Location, depth: Depth) -> Result<Option<Source>> {
    let named = match location {
        // `?` begins a URL's query, and servers in general cannot list.
        Location::Http(_) => return Ok(None),
        Location::Local(path) => path.symlink_metadata().is_ok(),
        Location::S3(_) => false,
    };
    let Some((base, pattern)) = text.to_str().filter(|_| !named).and_then(split_glob) else {
        return Ok(None);
    };
    if base == "s3://" {
        return Err(Error::usage(format!("{}: a bucket's name cannot hold wildcards", shown(text))));
    }
    let base =
        if base.is_empty() { Location::Local("./".into()) } else { Location::parse(OsStr::new(base))? };
    let levels =
        if depth == Depth::Trees || pattern.crosses_directories() { Levels::All } else { Levels::One };
    Ok(Some(Source::Glob { base, pattern, levels }))
}

impl Destination {
    /// Looks at what `text` names; several sources need a directory.
    pub fn parse(text: &OsStr, sources: &[OsString], wildcards: Wildcards) -> Result<Self> {
        if text == "-" {
            return Ok(Self::Stdout);
        }
        let location = Location::parse(text)?;
        if is_written_as_directory(text, &location) {
            return Ok(Self::Into(location));
        }
        let is_glob = |text: &OsString| {
            let location = Location::parse(text).ok()?;
            glob(text, &location, Depth::Objects).ok().flatten()
        };
        let several = sources.len() > 1
            || (wildcards == Wildcards::On && sources.iter().any(|text| is_glob(text).is_some()));
        if let Location::Local(path) = &location
            && let Ok(metadata) = fs::metadata(path)
        {
            if metadata.is_dir() {
                return Ok(if several { Self::Into(location) } else { Self::There(location) });
            }
            if !metadata.is_file() {
                return Ok(Self::Stream(path.clone()));
            }
        }
        if several {
            let error = Error::usage(format!("{location}: several sources need a directory to go to"));
            return Err(error.advise("end it with / or create it"));
        }
        Ok(Self::As(location))
    }
}

/// Refuses a copy of a thing onto itself, or of a tree into itself, which would never end.
pub fn refuse_onto_itself(source: &Location, destination: &Location) -> Result<()> {
    match Overlap::of(source, destination) {
        Overlap::Same => Err(Error::usage(format!("{source} and {destination} are the same"))),
        Overlap::Apart | Overlap::Inside => Ok(()),
    }
}

/// As [`refuse_onto_itself`], and a tree may not go below itself either.
pub fn refuse_into_itself(source: &Location, destination: &Location) -> Result<()> {
    refuse_onto_itself(source, destination)?;
    match Overlap::of(source, destination) {
        Overlap::Inside => Err(Error::usage(format!(
            "{destination} lies inside {source}, which would be copied into itself"
        ))),
        Overlap::Apart | Overlap::Same => Ok(()),
    }
}

/// Refuses to delete what only a destination has where the source lies in it: the source would be extra.
pub fn refuse_to_delete_source(source: &Location, destination: &Location) -> Result<()> {
    match Overlap::of(destination, source) {
        Overlap::Inside => Err(Error::usage(format!(
            "{source} lies inside {destination}, and would be deleted with what only {destination} has"
        ))),
        Overlap::Apart | Overlap::Same => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(text: &str) -> Location {
        Location::parse(OsStr::new(text)).unwrap()
    }

    fn object(text: &str) -> Source {
        Source::Object(location(text))
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
    fn the_target_of_a_tree_is_the_same_whether_something_is_there_or_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let tree =
            |name: Option<&str>| Source::Tree { root: location("s3://b/t"), name: name.map(|n| n.into()) };
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
    fn several_sources_need_a_directory() {
        let error = destination("s3://b/name", &["a", "b"]).unwrap_err();
        assert_eq!(error.exit, crate::error::Exit::Usage);
        assert!(destination("/no/such", &["a", "b"]).is_err());
        assert!(destination("/no/such", &["s3://b/*.gz"]).is_err());
        let exact = Destination::parse(OsStr::new("/no/such"), &["s3://b/*.gz".into()], Wildcards::Off);
        assert!(exact.is_ok());
        assert!(destination("/no/such", &["s3://b/a"]).is_ok());
    }

    #[test]
    fn devices_are_written_to_and_never_replaced() {
        let null = destination("/dev/null", &["a"]).unwrap();
        assert!(matches!(null, Destination::Stream(_)));
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
    }
}

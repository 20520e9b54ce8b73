//! Proves that two locations are different places before a run deletes anything. If one place had
//! both names, a move would delete its own copies, and a sync its own source.
//!
//! One place can have two names, for example if two hosts share a home directory, a host has a
//! link, a server's bucket is a local directory, or a file system is mounted twice. Identities such
//! as inode numbers cannot be compared across hosts and stores. So a [`MarkerFile`] is created in
//! one directory and must not appear in the other. A pair that cannot be tested is refused.
//! [`sources`](crate::sources) and [`extras`](crate::extras) call this.

use std::collections::HashMap;

use firstbyte_location::{EntryKind, Location};
use firstbyte_store::{Error as StoreError, PAGE, Store};
use rustix_futex_sync::Mutex;

use crate::contained;
use crate::error::{Error, Result};
use crate::job;
use crate::marker::MarkerFile;

/// Maximum number of characters of an object's name that a marker's name ends with.
const MAX_END_LENGTH: usize = 40;

/// Proof about two directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Separation {
    /// Two directories, and not one with two names. One may contain the other.
    Names,
    /// Two directories, neither of which contains the other.
    Trees,
    /// The source is not in the destination and is not the destination itself.
    SourceOutside,
}

/// Tests pairs of directories and remembers the results. At most a page ([`PAGE`]) of pairs is
/// remembered. That is enough, because in a tree on an SFTP host only directories below links are
/// tested by themselves.
pub(crate) struct SeparationProver {
    store: Store,
    known_pairs: Mutex<KnownPairs>,
}

/// A directory of a source, and one of a destination.
type Pair = (Location, Location);

/// The results so far. The lock is held during a test, so that there is one marker at a time.
#[derive(Default)]
struct KnownPairs {
    findings: HashMap<Pair, PairFinding>,
    /// A pair of a tree that turned out to be one place. The run ends then, and cancels the
    /// requests of all workers. No other pair is tested afterwards, because a marker whose creation
    /// was cancelled may stay behind.
    same_place: Option<Pair>,
}

/// The result of comparing a pair of directories.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PairFinding {
    Different,
    Same,
}

impl KnownPairs {
    /// Returns whether a pair is known to be different. Fails if the pair is known to be one place,
    /// or if another pair of the same tree is.
    fn find(&self, pair: &Pair, separation: Separation) -> Result<bool> {
        let one = match self.findings.get(pair) {
            Some(PairFinding::Different) => return Ok(true),
            Some(PairFinding::Same) => Some(pair),
            None => self.same_place.as_ref().filter(|_| separation == Separation::Trees),
        };
        match one {
            None => Ok(false),
            Some((source, destination)) => {
                Err(Error::OnePlace { place: destination.to_string(), other: source.to_string() })
            }
        }
    }

    fn add(&mut self, pair: Pair, finding: PairFinding) {
        if self.findings.len() >= PAGE {
            self.findings.clear();
        }
        self.findings.insert(pair, finding);
    }
}

impl SeparationProver {
    pub(crate) fn new(store: &Store) -> Self {
        Self { store: store.clone(), known_pairs: Mutex::default() }
    }

    /// Proves that two directories are different. Tests each pair only once.
    pub(crate) fn prove(
        &self,
        source: &Location,
        destination: &Location,
        separation: Separation,
    ) -> Result<()> {
        if are_keys_of_one_bucket(source, destination) {
            return Ok(());
        }
        let mut known = self.known_pairs.lock();
        let pair = (source.clone(), destination.clone());
        if known.find(&pair, separation)? {
            return Ok(());
        }
        let outcome = test_with_marker(&self.store, source, destination, separation);
        match outcome {
            Ok(()) => known.add(pair, PairFinding::Different),
            Err(Error::OnePlace { .. }) => {
                known.same_place = Some(pair.clone()).filter(|_| separation == Separation::Trees);
                known.add(pair, PairFinding::Same);
            }
            Err(_) => {}
        }
        outcome
    }

    /// Proves that a source object and its destination are two objects. If their names are equal,
    /// their directories must be different. If the names differ, a file system may still treat both
    /// names as the same, for example if it ignores letter case.
    pub(crate) fn prove_objects(&self, source: &Location, destination: &Location) -> Result<()> {
        let parent = |location: &Location| location.parent().unwrap_or_else(|| location.clone());
        let (from, to) = (parent(source), parent(destination));
        let name = |location: &Location| marker_end(&location.last_component().unwrap_or_default());
        let (old, new) = (name(source), name(destination));
        if old == new {
            return self.prove(&from, &to, Separation::Names);
        }
        if are_keys_of_one_bucket(source, destination) {
            return Ok(());
        }
        // While this thread waits for the lock, the run may end. Then the creation of the marker
        // fails, so no second marker appears.
        let _known = self.known_pairs.lock();
        MarkerFile::new(&self.store, &to, &from, new)?.prove_absent(&[from], &old)
    }

    /// Proves the same as [`prove`](Self::prove) for `directory` below a destination on an SFTP
    /// host. The test is needed only if a part of the path is a link: otherwise the directory is
    /// where the root is, and the root was tested.
    pub(crate) fn prove_below(&self, source: &Location, root: &Location, directory: &[u8]) -> Result<()> {
        if directory.is_empty() || !matches!(root, Location::Sftp(_)) {
            return Ok(());
        }
        let pair = (source.join(directory), root.join(directory));
        if self.known_pairs.lock().find(&pair, Separation::Trees)? {
            return Ok(());
        }
        let ends = (0..directory.len()).filter(|at| directory[*at] == b'/').chain([directory.len()]);
        for end in ends {
            match self.store.kind_of_name(&root.join(&directory[..end])) {
                Ok(EntryKind::Symlink) => return self.prove(&pair.0, &pair.1, Separation::Trees),
                Ok(_) => {}
                Err(StoreError::NotFound { .. }) => break,
                Err(error) => return Err(error.into()),
            }
        }
        self.known_pairs.lock().add(pair, PairFinding::Different);
        Ok(())
    }
}

/// Returns whether both locations are keys of one bucket, where different keys are different
/// objects.
fn are_keys_of_one_bucket(one: &Location, other: &Location) -> bool {
    match (one, other) {
        (Location::Object(one), Location::Object(other)) => {
            (one.service, &one.bucket) == (other.service, &other.bucket)
        }
        _ => false,
    }
}

fn test_with_marker(
    store: &Store,
    source: &Location,
    destination: &Location,
    separation: Separation,
) -> Result<()> {
    let places = match separation {
        Separation::Names => vec![source.clone()],
        Separation::Trees => [vec![source.clone()], locations_above(source)].concat(),
        // In a file system, the directories above the source are searched for the marker. In a
        // store, access to the prefixes above the source's keys may be denied.
        Separation::SourceOutside if job::has_directories(source) => locations_above(source),
        Separation::SourceOutside => return contained::prove_apart(store, source, destination),
    };
    MarkerFile::new(store, destination, source, "")?.prove_absent(&places, "")?;
    // No marker is created at a source in an object store, where the user may have only the rights
    // to read and delete.
    if separation == Separation::Trees && matches!(source, Location::Local(_) | Location::Sftp(_)) {
        MarkerFile::new(store, source, destination, "")?.prove_absent(&locations_above(destination), "")?;
    }
    match separation {
        Separation::Names => Ok(()),
        Separation::Trees | Separation::SourceOutside => contained::prove_apart(store, source, destination),
    }
}

/// Returns the characters with which the marker's name ends: the start of the object's name.
fn marker_end(name: &[u8]) -> String {
    String::from_utf8_lossy(name).chars().take(MAX_END_LENGTH).collect()
}

/// Returns the directories or prefixes whose names are above a location. Links in a local path are
/// resolved first.
fn locations_above(location: &Location) -> Vec<Location> {
    let start = match location {
        Location::Local(path) => {
            Location::Local(std::fs::canonicalize(path).unwrap_or_else(|_| path.clone()))
        }
        other => other.clone(),
    };
    std::iter::successors(start.parent(), Location::parent).collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn the_places_above_a_location_end_at_its_root() {
        let above = |text: &str| {
            let places = locations_above(&Location::parse(OsStr::new(text)).unwrap());
            places.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(above("/no/such/dir"), ["/no/such", "/no", "/"]);
        assert_eq!(above("s3://b/x/y/"), ["s3://b/x/", "s3://b/"]);
        assert_eq!(above("s3://b/x/y"), above("s3://b/x/y/"));
        assert!(above("s3://b").is_empty());
        assert_eq!(above("sftp://h/x/y/").len(), 2);
        assert_eq!(above("http://h/x/y/"), ["http://h/x/", "http://h/"]);
    }

    #[test]
    fn a_directory_under_two_names_is_one_place() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| Location::Local(scratch.path().join(name));
        for name in ["a/sub", "b"] {
            std::fs::create_dir_all(scratch.path().join(name)).unwrap();
        }
        std::os::unix::fs::symlink("a", scratch.path().join("link")).unwrap();
        let store = Store::new(firstbyte_store::StoreOptions::default()).unwrap();
        let prove = |one: &str, other: &str, separation| {
            SeparationProver::new(&store).prove(&at(one), &at(other), separation)
        };
        let is_one = |proof| matches!(proof, Err(Error::OnePlace { .. }));
        prove("a", "b", Separation::Trees).unwrap();
        prove("a", "a/sub", Separation::Names).unwrap();
        prove("a", "link", Separation::SourceOutside).unwrap();
        assert!(is_one(prove("a", "link", Separation::Names)));
        assert!(is_one(prove("a", "link/sub", Separation::Trees)));
        assert!(is_one(prove("a/sub", "link", Separation::Trees)));
        assert!(is_one(prove("a/sub", "link", Separation::SourceOutside)));
        for name in ["a", "a/sub", "b"] {
            let left = std::fs::read_dir(scratch.path().join(name)).unwrap().map(|entry| entry.unwrap());
            assert!(left.into_iter().all(|entry| entry.file_name() == "sub"), "{name}");
        }
        // A run that ends because of one pair creates no marker for another pair.
        let apart = SeparationProver::new(&store);
        assert!(is_one(apart.prove(&at("a"), &at("link/sub"), Separation::Trees)));
        assert!(is_one(apart.prove(&at("a"), &at("b"), Separation::Trees)));
        let apart = SeparationProver::new(&store);
        apart.prove_objects(&at("a/x"), &at("link/y")).unwrap();
        apart.prove_objects(&at("a/x"), &at("b/x")).unwrap();
        assert!(is_one(apart.prove_objects(&at("a/x"), &at("link/x"))));
        let file = at("a/file");
        std::fs::write(file.as_local().unwrap(), "").unwrap();
        assert!(matches!(prove("b", "a/file", Separation::Names), Err(Error::Unproven { .. })));
    }
}

//! Tests `sync --delete` on random trees against a model: between files and stores, with filters,
//! edits within a second, interruptions, and stores with quirks. No name that the model keeps may
//! ever be deleted, and a run that reports success must leave the destination equal to the model.
//!
//! `FIRSTBYTE_SYNC_TREES` is the number of trees (10000 in the long runs), and `FIRSTBYTE_SEED` is
//! the first seed.

use crate::support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use firstbyte_location::{EntryKind, Location};
use firstbyte_store::ListOptions;
use firstbyte_testkit::{Quirk, QuirkStore, bytes, count, scratch};
use firstbyte_transfer::{
    Effect, EmptySource, Engine, Extras, Levels, NoObserver, Observer, Shard, SourceLimits, Stop, Summary,
    TransferSettings, Tree, TreeNames,
};

/// Quirks that a sync must tolerate. A quirk may make a run fail, but no name may be lost.
const QUIRKS: [Quirk; 14] = [
    Quirk::UnsortedPages,
    Quirk::UnsortedListing,
    Quirk::ListsByDirectories,
    Quirk::IgnoresStartAfter,
    Quirk::RepeatsKeys,
    Quirk::BareTags,
    Quirk::CapitalTags,
    Quirk::NoTags,
    Quirk::ClockAhead,
    Quirk::ClockBehind,
    Quirk::LostAnswers,
    Quirk::NoDeleteMany,
    Quirk::ShortBodies,
    Quirk::NoChecksums,
];

/// Components of names. They are sorted differently as components than in whole keys.
const PARTS: [&str; 9] = ["a", "a-", "a.b", "a b", "b", "b0", "B", "ü", "z~"];

/// A generator of pseudo-random numbers.
struct Draws {
    seed: u64,
    at: u64,
}

impl Draws {
    fn below(&mut self, most: usize) -> usize {
        self.at += 8;
        let word = firstbyte_testkit::bytes_at(self.seed, self.at, 8);
        (u64::from_le_bytes(word.try_into().unwrap()) % most as u64) as usize
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// Draws names. No name is a directory of another, so a file system can hold all of them.
    fn names(&mut self) -> BTreeSet<String> {
        let mut names: BTreeSet<String> = BTreeSet::new();
        for _ in 0..self.below(14) {
            let parts: Vec<&str> = (0..=self.below(3)).map(|_| self.of(&PARTS)).collect();
            let name = parts.join("/");
            let is_inside = |inner: &str, outer: &str| inner.starts_with(&format!("{outer}/"));
            if !names.iter().any(|other| is_inside(other, &name) || is_inside(&name, other)) {
                names.insert(name);
            }
        }
        names
    }
}

/// One side of a sync: a directory, or a prefix of the store.
struct Side<'a> {
    server: &'a QuirkStore,
    root: Option<PathBuf>,
    prefix: &'static str,
    engine: &'a Engine,
    spare: &'a Path,
}

impl Side<'_> {
    fn location(&self) -> Location {
        match &self.root {
            Some(root) => Location::Local(root.clone()),
            None => Location::parse(format!("s3://bucket/{}", self.prefix).as_ref()).unwrap(),
        }
    }

    /// Writes a file, or uploads a file whose time is then in the object's metadata.
    fn write(&self, name: &str, content: &[u8], age: Option<Duration>) {
        let path = match &self.root {
            Some(root) => root.join(name),
            None => self.spare.to_owned(),
        };
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        if let Some(age) = age {
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        }
        if self.root.is_none() {
            let place = self.location().join(name.as_bytes());
            self.engine.copy(&Location::Local(path), &place, &NoObserver).unwrap();
        }
    }

    fn remove(&self, name: &str) {
        match &self.root {
            Some(root) => std::fs::remove_file(root.join(name)).unwrap(),
            None => self.server.remove(&format!("{}/{name}", self.prefix)),
        }
    }

    /// Returns every name with its content, length and date.
    fn state(&self) -> BTreeMap<String, (Vec<u8>, u64, Option<SystemTime>)> {
        let options = ListOptions { recursive: true, ..ListOptions::default() };
        let objects = self.server.objects();
        let Ok(listing) = self.engine.store().list(&self.location(), &options) else {
            return BTreeMap::new();
        };
        let describe = |entry: firstbyte_location::Entry| {
            let name = String::from_utf8(entry.name).unwrap();
            let content = match &self.root {
                Some(root) => std::fs::read(root.join(&name)).unwrap(),
                None => objects[&format!("{}/{name}", self.prefix)].clone(),
            };
            (name, (content, entry.size.unwrap(), entry.modified))
        };
        listing.map(Result::unwrap).filter(|entry| entry.kind == EntryKind::File).map(describe).collect()
    }
}

/// An observer that stops a run after some objects.
struct Interrupting {
    left: AtomicUsize,
    stop: Stop,
}

impl Observer for Interrupting {
    fn finished(&self, _: &Location, _: &Location, _: u64) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.stop.stop();
        }
    }
}

/// A filter on names, and one on lengths and dates.
#[derive(Clone, Copy, Debug)]
struct Filters {
    without: Option<&'static str>,
    limits: SourceLimits,
}

impl Filters {
    fn draw(draws: &mut Draws) -> Self {
        let without = draws.one_in(2).then(|| draws.of(&PARTS));
        let hours = |hours: u64| SystemTime::now().checked_sub(Duration::from_secs(hours * 3_600));
        let limits = match draws.below(7) {
            0 => SourceLimits { least_size: Some(4), ..SourceLimits::default() },
            1 => SourceLimits { greatest_size: Some(4), ..SourceLimits::default() },
            2 => SourceLimits { modified_since: hours(5), ..SourceLimits::default() },
            3 => SourceLimits { modified_until: hours(5), ..SourceLimits::default() },
            4 => SourceLimits { least_size: Some(3), modified_since: hours(5), ..SourceLimits::default() },
            _ => SourceLimits::default(),
        };
        Self { without, limits }
    }

    fn takes_name(&self, name: &str) -> bool {
        self.without.is_none_or(|part| !name.split('/').any(|own| own == part))
    }
}

fn engine(server: &QuirkStore, limits: SourceLimits, stop: Stop) -> Engine {
    support::engine(server, TransferSettings { limits, stop, ..TransferSettings::default() })
}

fn sync(
    engine: &Engine,
    from: &Side<'_>,
    to: &Side<'_>,
    filters: Filters,
    observer: &dyn Observer,
) -> Summary {
    let select = |name: &[u8]| filters.takes_name(std::str::from_utf8(name).unwrap());
    let tree = Tree {
        source: from.location(),
        names: TreeNames::Listed,
        destination: to.location(),
        beginning: String::new(),
        levels: Levels::All,
        select: &select,
        bounds: Default::default(),
        shard: Shard::default(),
        effect: Effect::Apply,
    };
    engine.sync(&tree, Extras::Delete(EmptySource::Allow), observer).unwrap()
}

/// Computes the expected destination after a sync from the rules alone.
fn model(from: &Side<'_>, to: &Side<'_>, filters: Filters) -> BTreeMap<String, Vec<u8>> {
    let (source, before) = (from.state(), to.state());
    let takes = |name: &str, size: u64, modified: Option<SystemTime>| {
        filters.takes_name(name) && filters.limits.take(Some(size), modified)
    };
    let mut after = BTreeMap::new();
    for (name, (content, size, modified)) in &before {
        if source.contains_key(name) || !takes(name, *size, *modified) {
            after.insert(name.clone(), content.clone());
        }
    }
    for (name, (content, size, modified)) in source {
        if takes(&name, size, modified) {
            after.insert(name, content);
        }
    }
    after
}

/// Draws an age for a file. Half of the files are older than the filter by age allows.
fn age(draws: &mut Draws) -> Option<Duration> {
    draws.one_in(2).then(|| Duration::from_secs(9 * 3_600))
}

/// Edits both sides. Most edits do not change the length, and all of them happen within a second.
fn edit(seed: u64, draws: &mut Draws, from: &Side<'_>, to: &Side<'_>) {
    for (name, (content, ..)) in from.state() {
        match draws.below(6) {
            0 => from.remove(&name),
            1 | 2 => from.write(&name, &bytes(seed ^ draws.at, content.len()), None),
            3 => from.write(&name, &bytes(seed ^ draws.at, content.len() + 1), age(draws)),
            _ => {}
        }
    }
    for name in draws.names() {
        let taken = to.state();
        let is_near = |other: &String| {
            other.starts_with(&format!("{name}/")) || name.starts_with(&format!("{other}/")) || *other == name
        };
        if !taken.keys().chain(from.state().keys()).any(is_near) {
            to.write(&name, &bytes(seed ^ draws.at, 1 + draws.below(6)), age(draws));
        }
    }
}

fn run(seed: u64) {
    let mut draws = Draws { seed, at: 0 };
    let quirk = draws.one_in(3).then(|| draws.of(&QUIRKS));
    let server = QuirkStore::start(&[]);
    server.set_page(1 + draws.below(6));
    let (one, other) = (scratch(), scratch());
    let spare = one.path().join("spare");
    let plain = engine(&server, SourceLimits::default(), Stop::default());
    let side = |local: bool, root: PathBuf, prefix| Side {
        server: &server,
        root: local.then_some(root),
        prefix,
        engine: &plain,
        spare: &spare,
    };
    let (from_local, to_local) = draws.of(&[(true, false), (false, true), (false, false), (true, true)]);
    let from = side(from_local, one.path().join("from"), "from");
    let to = side(to_local, other.path().join("to"), "to");
    let what = format!("seed {seed}, {quirk:?}, {} to {}", from.location(), to.location());

    // The destination starts as a partial copy of the source.
    for side in [&from, &to] {
        side.write("keep", b"kept", None);
        if let Some(root) = &side.root {
            std::fs::create_dir_all(root).unwrap();
        }
    }
    for name in draws.names() {
        let content = bytes(seed ^ draws.at, 1 + draws.below(6));
        from.write(&name, &content, age(&mut draws));
    }
    let nothing = Filters { without: None, limits: SourceLimits::default() };
    sync(&plain, &from, &to, nothing, &NoObserver);
    edit(seed, &mut draws, &from, &to);

    server.set_quirks(quirk.as_slice());
    let filters = Filters::draw(&mut draws);
    let wanted = model(&from, &to, filters);
    let before: BTreeSet<String> = to.state().into_keys().collect();
    if draws.one_in(3) {
        let stop = Stop::default();
        let observer = Interrupting { left: AtomicUsize::new(1 + draws.below(4)), stop: stop.clone() };
        sync(&engine(&server, filters.limits, stop), &from, &to, filters, &observer);
        let left = to.state();
        let lost: Vec<_> =
            wanted.keys().filter(|name| before.contains(*name) && !left.contains_key(*name)).collect();
        assert!(lost.is_empty(), "{what}, {filters:?}, interrupted: lost {lost:?}");
    }
    let mut summary =
        sync(&engine(&server, filters.limits, Stop::default()), &from, &to, filters, &NoObserver);
    for _ in 0..2 {
        if summary.failures > 0 || summary.ended.is_some() {
            summary =
                sync(&engine(&server, filters.limits, Stop::default()), &from, &to, filters, &NoObserver);
        }
    }
    assert!(
        summary.failures == 0 && summary.ended.is_none(),
        "{what}: {:?} {:?}",
        summary.failed,
        summary.ended
    );
    let found: BTreeMap<_, _> = to.state().into_iter().map(|(name, (content, ..))| (name, content)).collect();
    assert!(found == wanted, "{what}, {filters:?}:\nfound  {found:?}\nwanted {wanted:?}");
}

#[test]
fn a_sync_that_deletes_makes_what_the_model_makes_and_deletes_nothing_that_it_keeps() {
    let first = count("FIRSTBYTE_SEED", 1);
    for seed in first..first + count("FIRSTBYTE_SYNC_TREES", 200) {
        run(seed);
    }
}

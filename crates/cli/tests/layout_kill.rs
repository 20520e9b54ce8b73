//! `kill -9` at random instants of conversions in both directions, while writers and readers work.
//! No file may be lost or duplicated, no reader may fail to find an existing file, and at the end
//! every file that was not written must have its original inode.
//!
//! `FIRSTBYTE_LAYOUT_FILES` and `FIRSTBYTE_LAYOUT_KILLS` set the size. With 1,000,000 and 100 it is
//! the long run.

use crate::support;

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use firstbyte_layout::{DigitSource, Layout, LayoutScheme, Leaf};
use firstbyte_testkit::{bytes_at, count, until};
use support::World;

const WRITERS: u64 = 4;
const READERS: u64 = 4;
/// Number of files per group. In each group, each of the four writers owns one file, and no process
/// changes the other four files.
const FILES_PER_GROUP: u64 = 8;

fn name(number: u64) -> String {
    format!("sample-{number:07}")
}

/// Random numbers that follow from a seed.
struct Draws {
    seed: u64,
    drawn: u64,
}

impl Draws {
    fn new(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.drawn += 1;
        let bytes = bytes_at(self.seed, self.drawn * 8, 8);
        u64::from_le_bytes(bytes.try_into().unwrap()) % limit
    }
}

/// State that writers and readers share.
struct SharedState {
    root: PathBuf,
    files: u64,
    /// Inode of each file before the first conversion.
    inodes: Vec<u64>,
    is_over: AtomicBool,
    written: AtomicU64,
    read: AtomicU64,
}

impl SharedState {
    fn new(root: PathBuf, files: u64) -> Self {
        fs::create_dir(&root).unwrap();
        let inode = |number| File::create_new(root.join(name(number))).unwrap().metadata().unwrap().ino();
        let inodes = (0..files).map(inode).collect();
        let (is_over, written, read) = Default::default();
        Self { root, files, inodes, is_over, written, read }
    }

    /// Opens the layout, and retries until it exists.
    fn open(&self) -> Layout {
        let mut layout = None;
        until("a layout", || {
            layout = Layout::open(&self.root).ok();
            layout.is_some()
        });
        layout.unwrap()
    }

    /// Replaces, removes and creates the files of one writer, and checks each of them. Returns the
    /// final content of each file.
    fn write(&self, writer: u64) -> HashMap<u64, Option<String>> {
        let (layout, mut draws, mut mine) = (self.open(), Draws::new(writer), HashMap::new());
        while !self.is_over.load(Ordering::Relaxed) {
            let number = writer + FILES_PER_GROUP * draws.below(self.files / FILES_PER_GROUP);
            let name = name(number);
            let present: &mut Option<String> = mine.entry(number).or_insert_with(|| Some(String::new()));
            if draws.below(3) == 0 {
                assert_eq!(layout.delete(name.as_bytes()).unwrap(), present.is_some(), "{name}");
                *present = None;
                assert!(!layout.exists(name.as_bytes()).unwrap(), "{name} is there after its removal");
            } else {
                let content = draws.drawn.to_string();
                layout.put(name.as_bytes(), content.as_bytes()).unwrap();
                assert_eq!(layout.get(name.as_bytes()).unwrap(), content.as_bytes(), "{name}");
                *present = Some(content);
            }
            self.written.fetch_add(1, Ordering::Relaxed);
        }
        mine
    }

    /// Opens files that exist during the whole test, and checks them.
    fn read(&self, reader: u64) {
        let (layout, mut draws) = (self.open(), Draws::new(100 + reader));
        while !self.is_over.load(Ordering::Relaxed) {
            let number = FILES_PER_GROUP * draws.below(self.files / FILES_PER_GROUP)
                + WRITERS
                + draws.below(FILES_PER_GROUP - WRITERS);
            let file = layout.open_file(name(number).as_bytes()).unwrap();
            assert_eq!(file.metadata().unwrap().ino(), self.inodes[usize::try_from(number).unwrap()]);
            self.read.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Starts a conversion.
fn convert(world: &World, verb: &str, root: &Path, scheme: LayoutScheme) -> Child {
    let (levels, width) = (scheme.levels().to_string(), scheme.width().to_string());
    let root = root.to_str().unwrap();
    let mut args = vec!["-q", "layout", verb, root];
    if verb == "shard" {
        args.extend(["--levels", &levels, "--width", &width]);
    }
    world.command(&args).stdin(Stdio::null()).spawn().unwrap()
}

/// Runs conversions in both directions until `kills` of them were killed. Returns the number of
/// those that completed.
fn kill_conversions(world: &World, shared: &SharedState, scheme: LayoutScheme, kills: u64) -> u64 {
    let (mut draws, mut killed, mut completed, mut verb) = (Draws::new(7), 0, 0, "shard");
    let other = |verb| if verb == "shard" { "unshard" } else { "shard" };
    for attempt in 0.. {
        if killed == kills {
            break;
        }
        let mut child = convert(world, verb, &shared.root, scheme);
        // The delays range from the first milliseconds, in which the layout file is made, to the
        // time of several whole conversions.
        let longest = (1000 << (attempt % 12)) * (shared.files / 100_000).max(1);
        std::thread::sleep(Duration::from_micros(draws.below(longest)));
        child.kill().unwrap();
        let status = child.wait().unwrap();
        match status.code() {
            None => killed += 1,
            Some(code) => {
                // A conversion has nothing to undo until the first one has left a layout file.
                assert!(code == 0 || verb == "unshard", "{verb} ended with {code}");
                completed += u64::from(code == 0);
                verb = other(verb);
            }
        }
        // Sometimes a killed conversion is followed by one in the other direction.
        if draws.below(10) == 0 {
            verb = other(verb);
        }
    }
    completed
}

/// Checks the final state: the content of the files that writers own, and the inodes of all other
/// files.
fn assert_all_there(
    shared: &SharedState,
    mine: &HashMap<u64, Option<String>>,
    present: &BTreeMap<String, PathBuf>,
) {
    let mut expected = 0;
    for number in 0..shared.files {
        let name = name(number);
        match mine.get(&number) {
            Some(None) => assert!(!present.contains_key(&name), "{name} was removed and is there"),
            Some(Some(content)) if !content.is_empty() => {
                assert_eq!(&fs::read_to_string(&present[&name]).unwrap(), content, "{name}");
                expected += 1;
            }
            _ => {
                let inode = fs::metadata(&present[&name]).unwrap().ino();
                assert_eq!(inode, shared.inodes[usize::try_from(number).unwrap()], "{name} is another file");
                expected += 1;
            }
        }
    }
    assert_eq!(present.len(), expected);
}

#[test]
fn killed_conversions_lose_nothing_and_hide_nothing() {
    let (files, kills) = (count("FIRSTBYTE_LAYOUT_FILES", 4000), count("FIRSTBYTE_LAYOUT_KILLS", 12));
    let (world, place) = (World::new(), tempfile::tempdir().unwrap());
    let shared = SharedState::new(place.path().join("files"), files);
    let root = &shared.root;
    let scheme = LayoutScheme::suggest(DigitSource::Xxh3, files, None, None, Leaf::Name).unwrap();
    let mine = std::thread::scope(|scope| {
        let shared = &shared;
        let writers: Vec<_> = (0..WRITERS).map(|number| scope.spawn(move || shared.write(number))).collect();
        let readers: Vec<_> = (0..READERS).map(|number| scope.spawn(move || shared.read(number))).collect();
        let completed = kill_conversions(&world, shared, scheme, kills);
        let last = convert(&world, "shard", root, scheme).wait().unwrap();
        shared.is_over.store(true, Ordering::Relaxed);
        println!("{kills} kills, {completed} conversions came to their end between them");
        assert!(last.success());
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect::<HashMap<_, _>>()
    });
    println!(
        "{} writes and {} reads meanwhile",
        shared.written.load(Ordering::Relaxed),
        shared.read.load(Ordering::Relaxed)
    );
    let checked = world.run(&["--json", "layout", "check", root.to_str().unwrap()]);
    assert_eq!(checked.receipt()["findings"], 0, "{checked:?}");
    let layout = Layout::open(root).unwrap();
    let names = layout.iter().map(|name| String::from_utf8(name.unwrap()).unwrap());
    let sharded: Vec<_> = names.map(|name| (name.clone(), layout.path(name.as_bytes()).unwrap())).collect();
    let count = sharded.len();
    let sharded: BTreeMap<_, _> = sharded.into_iter().collect();
    assert_eq!(sharded.len(), count, "a name came twice");
    assert_all_there(&shared, &mine, &sharded);
    assert!(convert(&world, "unshard", root, scheme).wait().unwrap().success());
    let flat = fs::read_dir(root).unwrap().map(|entry| entry.unwrap());
    let flat = flat.map(|entry| (entry.file_name().into_string().unwrap(), entry.path())).collect();
    assert_all_there(&shared, &mine, &flat);
}

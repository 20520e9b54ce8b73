//! Reads and writes start files. A start file lists the directories and ranges that a job has read,
//! in order, so that they can be cached before the next job needs them.
//!
//! Each line is a JSON value: the first is the location that was mounted, the others are
//! directories and reads. Reads are pinned to versions, so a changed object is never taken for the
//! recorded one. Mounts write start files; [`merge`] joins them; mounts, gateways and clients fetch
//! the ranges in them. Lines of older releases, `START END LOCATION`, can be read too.

mod coverage;
mod line;
mod merge;

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::sync::Arc;

use firstbyte_location::{ByteRange, Location, Strength, Version, may_lead_out};

use self::coverage::Coverage;
pub use self::line::StartLine;
pub use self::merge::{MergedStartFile, merge};
use crate::block::BLOCK;
use crate::wanted::{HydrationItem, HydrationList};

/// Maximum number of reads and directories in a start file, which is some 100 MB of text. A usual
/// start has less than a thousandth of that.
const MAX_LINES: usize = 1_000_000;

/// A start file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StartFile {
    /// The location that was mounted. `None` in files of older releases.
    root: Option<Location>,
    directories: Vec<Location>,
    objects: Vec<StartObject>,
    reads: Vec<StartRead>,
}

/// An object that was read.
#[derive(Clone, Debug, PartialEq)]
struct StartObject {
    location: Location,
    /// The version of the object. `None` if it was not recorded.
    version: Option<Version>,
}

/// A range of blocks of an object that no earlier read contained.
#[derive(Clone, Copy, Debug, PartialEq)]
struct StartRead {
    object: u32,
    range: ByteRange,
}

/// The totals of a start file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartTotals {
    /// Number of objects that were read.
    pub objects: u64,
    /// Number of directories whose names were looked up.
    pub directories: u64,
    /// Number of ranges that were read.
    pub ranges: u64,
    /// Number of bytes that were read, in whole blocks.
    pub bytes: u64,
    /// Total length of the objects that were read, bytes. Objects of unknown length are not
    /// included.
    pub object_bytes: u64,
}

impl StartFile {
    /// Parses a start file. If the writer was killed, the last line may be incomplete; it is then
    /// left out.
    ///
    /// # Errors
    /// The number of the wrong line and the reason, a newer format, too many lines, or no line.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let mut file = Builder::default();
        let (mut reads, mut is_empty) = (Vec::new(), true);
        let last = text.iter().filter(|byte| **byte == b'\n').count();
        for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
            if line.is_empty() {
                continue;
            }
            let is_first = std::mem::replace(&mut is_empty, false);
            match StartLine::parse(line, file.root.as_ref()) {
                // Only the first line names the location: all others are below it.
                Ok(StartLine::Root(_)) if !is_first => {
                    return Err(format!(
                        "line {}: a second location; join files with `profile merge`",
                        number + 1
                    ));
                }
                Ok(StartLine::Root(root)) => file.root = Some(root),
                Ok(StartLine::Directory(location)) => file.add_directory(location),
                Ok(StartLine::Read { location, range, version, at }) => {
                    reads.extend(file.object(location, version).map(|object| (at, object, range)));
                }
                Err(_) if number == last && number > 0 => {}
                Err(why) => return Err(format!("line {}: {why}", number + 1)),
            }
            if reads.len() + file.directories.len() > MAX_LINES {
                return Err(format!("more than {MAX_LINES} reads and directories; record a shorter run"));
            }
        }
        if is_empty {
            return Err("is empty: no start file".to_owned());
        }
        // A line is written when its read ends, but reads are sorted by the time at which they
        // began.
        reads.sort_by_key(|(at, ..)| *at);
        for (_, object, range) in reads {
            file.add_read(object, range);
        }
        Ok(file.into_start_file())
    }

    /// Returns the start file as text.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = Vec::new();
        let root = self.root.as_ref();
        let mut add = |line: StartLine| text.extend(line.to_bytes(root).unwrap_or_default());
        root.into_iter().for_each(|root| add(StartLine::Root(root.clone())));
        self.directories.iter().for_each(|directory| add(StartLine::Directory(directory.clone())));
        for (place, read) in self.reads.iter().enumerate() {
            let StartObject { location, version } = self.objects[read.object as usize].clone();
            add(StartLine::Read { location, version, range: read.range, at: place as u64 });
        }
        text
    }

    /// Fails unless the file was recorded in `served` or below it, and every name in it is below
    /// `served`.
    ///
    /// # Errors
    /// A text with both locations and advice.
    pub fn check(&self, served: &Location) -> Result<(), String> {
        let shown = without_secrets(served);
        let is_below = |location: &Location| {
            let location = without_secrets(location);
            location == shown || is_below(&location, &shown)
        };
        let named = self.directories.iter().chain(self.objects.iter().map(|object| &object.location));
        match self.root.iter().chain(named).find(|location| !is_below(location)) {
            Some(root) => Err(format!("was recorded of {root}, and this is {served}; record one of it")),
            None => Ok(()),
        }
    }

    /// Returns the totals of the file.
    #[must_use]
    pub fn totals(&self) -> StartTotals {
        let size = |object: &StartObject| object.version.as_ref().and_then(|version| version.size);
        StartTotals {
            objects: self.objects.len() as u64,
            directories: self.directories.len() as u64,
            ranges: self.reads.len() as u64,
            bytes: self.reads.iter().map(|read| read.range.len()).fold(0, u64::saturating_add),
            object_bytes: self.objects.iter().filter_map(size).fold(0, u64::saturating_add),
        }
    }

    /// Returns the directories whose names were looked up, in the order of the file.
    #[must_use]
    pub fn directories(&self) -> &[Location] {
        &self.directories
    }

    /// Returns the ranges in order, pinned to the versions of their objects.
    #[must_use]
    pub fn wanted(self: &Arc<Self>) -> HydrationList {
        self.wanted_as(|wanted| wanted)
    }

    /// Returns the same ranges as [`wanted`](Self::wanted), each changed by `change`.
    #[must_use]
    pub fn wanted_as(
        self: &Arc<Self>,
        change: impl Fn(HydrationItem) -> HydrationItem + Send + 'static,
    ) -> HydrationList {
        let file = Arc::clone(self);
        Box::new((0..file.reads.len()).map(move |place| change(file.wanted_at(place))).map(Ok))
    }

    /// Returns the ranges of one object, in order, or none if the object has another version than
    /// the recorded one.
    #[must_use]
    pub fn ranges_of(&self, location: &Location, version: &Version) -> Vec<ByteRange> {
        let is_same = |object: &StartObject| {
            object.location == *location
                && object.version.as_ref().is_none_or(|recorded| recorded.agrees_with(version))
        };
        let reads = self.reads.iter().filter(|read| is_same(&self.objects[read.object as usize]));
        reads.map(|read| read.range).collect()
    }

    fn wanted_at(&self, place: usize) -> HydrationItem {
        let StartRead { object, range } = self.reads[place];
        let StartObject { location, version } = self.objects[object as usize].clone();
        let version = version.filter(|version| version.size.is_some() && version.strength() > Strength::None);
        HydrationItem { location, version, range: Some(range) }
    }
}

/// Returns whether an object is below a location, which may be a prefix, a bucket, or all buckets
/// of a service. A name that may lead out of the location is not below it.
fn is_below(location: &Location, root: &Location) -> bool {
    match (location, root) {
        (Location::Object(object), Location::Object(all)) if all.bucket.is_empty() => {
            object.service == all.service
        }
        _ => location.name_below(root).is_some_and(|name| !may_lead_out(&name)),
    }
}

/// A start file that is being built.
#[derive(Default)]
struct Builder {
    root: Option<Location>,
    directories: Vec<Location>,
    known_directories: HashSet<Location>,
    objects: Vec<(StartObject, Coverage)>,
    by_location: HashMap<Location, u32>,
    reads: Vec<StartRead>,
}

impl Builder {
    fn add_directory(&mut self, location: Location) {
        if self.known_directories.insert(location.clone()) {
            self.directories.push(location);
        }
    }

    /// Returns the index of an object. Returns `None` if the object was recorded with another
    /// version before: only the first version of an object is kept.
    fn object(&mut self, location: Location, version: Option<Version>) -> Option<u32> {
        if let Some(known) = self.by_location.get(&location) {
            return (self.objects[*known as usize].0.version == version).then_some(*known);
        }
        let number = u32::try_from(self.objects.len()).ok()?;
        self.by_location.insert(location.clone(), number);
        self.objects.push((StartObject { location, version }, Coverage::default()));
        Some(number)
    }

    /// Adds those blocks of a read that no earlier read contained.
    fn add_read(&mut self, object: u32, range: ByteRange) {
        let (StartObject { version, .. }, covered) = &mut self.objects[object as usize];
        let size = version.as_ref().and_then(|version| version.size).unwrap_or(u64::MAX);
        let end = range.end.div_ceil(BLOCK).saturating_mul(BLOCK).min(size);
        let blocks = ByteRange::new((range.start / BLOCK * BLOCK).min(end), end);
        for range in covered.add(blocks) {
            self.append(StartRead { object, range });
        }
    }

    /// Appends a read of fresh blocks. If the read continues the last one, joins the two. If it
    /// fills the gap between the last two reads, joins all three: the kernel reads ahead by
    /// parallel requests, which arrive in any order.
    fn append(&mut self, read: StartRead) {
        let follows = |last: &StartRead, next: &StartRead| {
            last.object == next.object && last.range.end == next.range.start
        };
        match &mut self.reads[..] {
            [.., last] if follows(last, &read) => last.range.end = read.range.end,
            [.., before, last] if follows(before, &read) && follows(&read, last) => {
                before.range.end = last.range.end;
                self.reads.pop();
            }
            _ => self.reads.push(read),
        }
    }

    /// Leaves out the reads after the first `max` bytes, in whole blocks, and the objects of which
    /// no read remains. Returns the number of bytes left out.
    fn shorten(&mut self, max: u64) -> u64 {
        let (mut rest, mut left_out) = (max, 0_u64);
        for StartRead { range, .. } in &mut self.reads {
            let length = range.len();
            // The first block that does not fit ends the file.
            let kept = if length <= rest { length } else { rest / BLOCK * BLOCK };
            rest = if kept == length { rest - length } else { 0 };
            range.end = range.start + kept;
            left_out = left_out.saturating_add(length - kept);
        }
        self.reads.retain(|read| !read.range.is_empty());
        let mut places: HashMap<u32, u32> = HashMap::new();
        let mut objects = Vec::new();
        for read in &mut self.reads {
            read.object = *places.entry(read.object).or_insert_with(|| {
                objects.push(self.objects[read.object as usize].clone());
                objects.len() as u32 - 1
            });
        }
        self.objects = objects;
        left_out
    }

    fn into_start_file(self) -> StartFile {
        let objects = self.objects.into_iter().map(|(object, _)| object).collect();
        StartFile { root: self.root, directories: self.directories, objects, reads: self.reads }
    }
}

/// Returns the location without secrets, as start files and messages contain it.
fn without_secrets(shown: &Location) -> Location {
    match shown {
        Location::Http(_) => location(shown.to_string().as_bytes()).unwrap_or_else(|| shown.clone()),
        other => other.clone(),
    }
}

/// Parses a location in the form that start files contain.
fn location(text: &[u8]) -> Option<Location> {
    use std::os::unix::ffi::OsStrExt;
    Location::parse(OsStr::from_bytes(text)).ok()
}

#[cfg(test)]
mod tests {
    use super::line::MAX_OFFSET;
    use super::*;

    fn read(name: &str, from: u64, to: u64, at: u64) -> String {
        let root = location(b"s3://b/run").unwrap();
        let version = Version { size: Some(10 * BLOCK), etag: Some("\"x\"".into()), ..Version::default() };
        let line = StartLine::Read {
            location: root.join(name.as_bytes()),
            version: Some(version),
            range: ByteRange::new(from, to),
            at,
        };
        String::from_utf8(line.to_bytes(Some(&root)).unwrap()).unwrap()
    }

    const HEAD: &str = "{\"start_file\":1,\"root\":\"s3://b/run\"}\n";

    #[test]
    fn reads_are_whole_blocks_in_the_order_in_which_they_began_and_each_is_there_once() {
        let text = [
            HEAD.to_owned(),
            "{\"list\":\"a\"}\n{\"list\":\"a\"}\n".to_owned(),
            read("a/y", 5, 6, 20),
            read("a/x", 0, 1, 10),
            read("a/x", BLOCK, 2 * BLOCK, 30),
            read("a/x", 0, 3 * BLOCK, 40),
            "{\"read\":\"a/z\",\"fr".to_owned(),
        ];
        let file = Arc::new(StartFile::parse(text.concat().as_bytes()).unwrap());
        let found: Vec<_> = file
            .wanted()
            .map(|wanted| wanted.unwrap())
            .map(|wanted| (wanted.location.to_string(), wanted.range.unwrap()))
            .collect();
        let x = || "s3://b/run/a/x".to_owned();
        assert_eq!(
            found,
            [
                (x(), ByteRange::new(0, BLOCK)),
                ("s3://b/run/a/y".to_owned(), ByteRange::new(0, BLOCK)),
                (x(), ByteRange::new(BLOCK, 3 * BLOCK)),
            ]
        );
        let totals =
            StartTotals { objects: 2, directories: 1, ranges: 3, bytes: 4 * BLOCK, object_bytes: 20 * BLOCK };
        assert_eq!(file.totals(), totals);
        let again = Arc::new(StartFile::parse(&file.to_bytes()).unwrap());
        assert_eq!(again.totals(), totals);
        let all = |file: &Arc<StartFile>| file.wanted().map(Result::unwrap).collect::<Vec<_>>();
        assert_eq!(all(&again), all(&file));
    }

    #[test]
    fn reads_that_arrived_in_another_order_are_one_read() {
        let text = [
            HEAD.to_owned(),
            read("x", 0, 2 * BLOCK, 1),
            read("x", 4 * BLOCK, 5 * BLOCK, 2),
            read("x", 2 * BLOCK, 4 * BLOCK, 3),
            read("x", 9 * BLOCK, 10 * BLOCK, 4),
            read("x", 8 * BLOCK, 9 * BLOCK, 5),
        ];
        let file = Arc::new(StartFile::parse(text.concat().as_bytes()).unwrap());
        let found: Vec<_> = file.wanted().map(|wanted| wanted.unwrap().range.unwrap()).collect();
        let run = |start, end| ByteRange::new(start * BLOCK, end * BLOCK);
        assert_eq!(found, [run(0, 5), run(9, 10), run(8, 9)], "a job that reads backwards keeps its order");
    }

    #[test]
    fn files_of_older_releases_are_read() {
        let file = StartFile::parse(b"0 9 s3://b/run/x\n262144 262145 s3://b/run/y z\n").unwrap();
        assert!(file.check(&location(b"s3://b/run").unwrap()).is_ok());
        assert!(file.check(&location(b"s3://b/other").unwrap()).is_err());
        let wanted: Vec<HydrationItem> = Arc::new(file).wanted().map(|wanted| wanted.unwrap()).collect();
        assert_eq!(wanted[1].location.to_string(), "s3://b/run/y z");
        assert_eq!(wanted[1].range, Some(ByteRange::new(2 * BLOCK, 3 * BLOCK)));
        assert!(wanted[1].version.is_none());
    }

    #[test]
    fn nothing_in_a_file_leads_to_another_place() {
        for (lines, fact) in [
            ("{\"start_file\":1,\"root\":\"s3://c\"}\n", "line 2: a second location"),
            ("{\"start_file\":1,\"root\":\"s3://b/run\"}\n", "line 2: a second location"),
            ("0 9 http://h/x\n", "line 2: of an older format"),
            ("{\"read\":\"../x\",\"from\":0,\"to\":1}\n", "line 2: `../x` leads out"),
            ("{\"list\":\"a/..\"}\n", "line 2: `a/..` leads out"),
        ] {
            let why = StartFile::parse(format!("{HEAD}{lines}").as_bytes()).unwrap_err();
            assert!(why.contains(fact), "{lines}: {why}");
        }
        let late = "0 9 s3://b/run/x\n{\"start_file\":1,\"root\":\"s3://b/run\"}\n";
        assert!(StartFile::parse(late.as_bytes()).unwrap_err().contains("line 2: a second location"));
        for (line, served) in [
            ("0 9 s3://b/run/x\n0 9 http://h/x\n", "s3://b/run"),
            ("0 9 /data/../etc/passwd\n", "/data"),
            ("0 9 https://h/d/%2e%2e/x\n", "https://h/d"),
        ] {
            let file = StartFile::parse(line.as_bytes()).unwrap();
            assert!(file.check(&location(served.as_bytes()).unwrap()).is_err(), "{line}");
        }
    }

    #[test]
    fn ranges_are_within_their_objects_and_sums_do_not_overflow() {
        let max = MAX_OFFSET;
        for (lines, fact) in [
            (
                "{\"read\":\"x\",\"from\":0,\"to\":18446744073709551615}\n".to_owned(),
                "line 2: byte 18446744073709551615",
            ),
            (
                "{\"read\":\"x\",\"from\":0,\"to\":1,\"size\":18446744073709551615}\n".to_owned(),
                "line 2: byte 18",
            ),
            (format!("{{\"read\":\"x\",\"from\":0,\"to\":{}}}\n", max + 1), "line 2: byte 92"),
        ] {
            let why = StartFile::parse(format!("{HEAD}{lines}\n").as_bytes()).unwrap_err();
            assert!(why.contains(fact), "{lines}: {why}");
        }
        let huge = |name: &str| format!("{{\"read\":\"{name}\",\"from\":0,\"to\":{max},\"size\":{max}}}\n");
        let text = [HEAD, &huge("x"), &huge("y"), &huge("z")].concat();
        let file = StartFile::parse(text.as_bytes()).unwrap();
        assert_eq!((file.totals().bytes, file.totals().object_bytes), (u64::MAX, u64::MAX));
        let merged = merge(&[file.clone(), file.clone(), file], 3 * BLOCK).unwrap();
        assert_eq!((merged.file.totals().bytes, merged.left_out), (3 * BLOCK, u64::MAX));
    }

    #[test]
    fn a_file_of_another_place_or_of_a_newer_release_is_refused() {
        let file = StartFile::parse(HEAD.as_bytes()).unwrap();
        for served in ["s3://b/run", "s3://b", "s3://"] {
            assert!(file.check(&location(served.as_bytes()).unwrap()).is_ok(), "{served}");
        }
        for served in ["s3://b/run2", "s3://b/run/x", "s3://c", "gs://b/run", "/b/run"] {
            let why = file.check(&location(served.as_bytes()).unwrap()).unwrap_err();
            assert!(why.contains("s3://b/run") && why.contains(served), "{why}");
        }
        for (text, fact) in [
            ("{\"start_file\":2,\"root\":\"s3://b\"}\n{}\n", "line 1: of a newer format"),
            ("hello\n0 1 /x\n", "line 1: "),
            ("0 1 /x\n9 1 /x\n\n", "line 2: "),
            ("", "is empty"),
            ("\n\n", "is empty"),
        ] {
            assert!(StartFile::parse(text.as_bytes()).unwrap_err().contains(fact), "{text}");
        }
    }
}

//! Reads a directory before any file is moved: counts files, finds names that do not suit the
//! layout, and checks that names to be used as hashes are distributed like hashes. A survey is one
//! pass in constant memory.
//!
//! The shape may depend on the number of files, which is known only at the end. So names are
//! checked against every shape that may be chosen.

use std::path::Path;
use std::time::{Duration, Instant};

use firstbyte_listing::{Batch, BatchEntry};
use rustix::fs::FileType;

use crate::error::{Error, Result};
use crate::gate::LayoutGate;
use crate::layout_request::LayoutRequest;
use crate::record::LayoutState;
use crate::reserved;
use crate::root::LayoutRoot;
use crate::scheme::{CALLED_LIKE_A_LEVEL, LayoutScheme, Leaf};
use crate::spread::{NameSpread, to_float};
use crate::tally::{BATCH_BYTES, type_of};

/// Factor by which the directory of the average file may be fuller than with evenly distributed
/// names.
const MAX_CROWDING_RATIO: f64 = 2.0;
/// Bytes of names read at once from a directory of a layout, for each directory level.
const LEVEL_BATCH: usize = 256 << 10;
/// Number of look-ups whose time is measured for an estimate.
const TIMED_LOOK_UPS: usize = 100;
/// Minimum times of a rename and of making a directory, measured on ext4 with a warm cache.
const MIN_RENAME_TIME: Duration = Duration::from_micros(4);
const MIN_DIRECTORY_TIME: Duration = Duration::from_micros(25);

/// The content of a directory, and what a conversion would do with it.
#[derive(Debug)]
pub struct Survey {
    /// The shape that the layout has or would get.
    pub scheme: LayoutScheme,
    /// The state of the layout. `None` if the directory is not a layout yet.
    pub state: Option<LayoutState>,
    /// Number of files that would move.
    pub files: u64,
    /// Number of entries that are not files. They stay in the root.
    pub left: u64,
    /// Number of files that stay in the root of a layout because the layout cannot hold their
    /// names. 0 if the directory is not a layout yet, because such names then prevent the
    /// conversion.
    pub unfit: u64,
    /// Number of directories that would be made or removed. For hashed names, the number to make is
    /// an expected value, and in a layout some of them may exist already.
    pub directories: u64,
    /// Approximate time of a conversion, computed from the latency of look-ups measured here and
    /// the cost of renames measured on another machine. It may be wrong by a factor of a few.
    pub estimate: Duration,
    unsuitable: Option<Error>,
}

impl Survey {
    /// Returns the survey if all names suit the shape.
    ///
    /// # Errors
    /// [`Error::Unfit`] or [`Error::Uneven`] if they do not.
    pub fn fit(self) -> Result<Self> {
        match self.unsuitable {
            None => Ok(self),
            Some(error) => Err(error),
        }
    }

    /// Returns the reason why names do not suit the shape; `None` if all names do.
    #[must_use]
    pub fn unsuitable(&self) -> Option<&Error> {
        self.unsuitable.as_ref()
    }
}

/// Examines the directory `root` and changes nothing.
///
/// # Errors
/// [`Error::Scheme`] if the options exclude each other. [`Error::Differs`] if `root` is a layout of
/// another shape than requested. [`Error::Io`], [`Error::Newer`], [`Error::Malformed`].
pub fn survey(root: &Path, request: &LayoutRequest) -> Result<Survey> {
    survey_of(&LayoutRoot::open(root)?, request)
}

/// Examines the layout in the directory `root` for a later [`unshard`](crate::unshard()), and
/// changes nothing.
///
/// # Errors
/// [`Error::Missing`] if the directory is not a layout. [`Error::Io`], [`Error::Newer`],
/// [`Error::Malformed`].
pub fn survey_back(root: &Path) -> Result<Survey> {
    let root = LayoutRoot::open(root)?;
    let record = LayoutGate::layout(&root)?;
    let mut levels = LevelCounts { root: &root, scheme: record.scheme, files: 0, directories: 0 };
    levels.count(b"", 0)?;
    let LevelCounts { files, directories, .. } = levels;
    let look_up = match root.read(b"", BATCH_BYTES)?.next()? {
        Some(batch) => time_look_ups(&root, batch)?,
        None => Duration::ZERO,
    };
    let estimate = estimate(look_up, files, directories);
    let (scheme, state) = (record.scheme, Some(record.state));
    Ok(Survey { scheme, state, files, left: 0, unfit: 0, directories, estimate, unsuitable: None })
}

pub(crate) fn survey_of(root: &LayoutRoot, request: &LayoutRequest) -> Result<Survey> {
    let record = LayoutGate::enter(root)?.record;
    // A request that no shape satisfies is refused before the directory is read, which may have
    // millions of entries.
    let shapes = match record {
        Some(record) => request.agrees(record.scheme, root.path()).map(|()| vec![record.scheme])?,
        None => request.shapes()?,
    };
    let mut seen = DirectoryFindings::new(shapes, record.is_some());
    seen.read(root)?;
    let files = seen.files;
    let shapes = std::mem::take(&mut seen.shapes);
    let nearest = shapes
        .into_iter()
        .min_by(|a, b| a.scheme.distance_from_ideal(files).total_cmp(&b.scheme.distance_from_ideal(files)));
    let Some(shape) = nearest else { return Err(Error::Scheme { why: "there is no such shape" }) };
    let scheme = shape.scheme;
    // In an existing layout, files with unsuitable names stay in the root and are reported
    // individually.
    let (unfit, unsuitable) = match record {
        Some(_) => (shape.refused, None),
        None => {
            let unsuitable = shape.unfit(root).or_else(|| seen.uneven(root, scheme));
            (0, unsuitable.map_or_else(|| seen.changed_by_case(root, scheme), |error| Ok(Some(error)))?)
        }
    };
    let files = files - unfit;
    let directories = seen.directories(scheme, files);
    Ok(Survey {
        scheme,
        state: record.map(|record| record.state),
        files,
        left: seen.left,
        unfit,
        directories,
        estimate: estimate(seen.look_up, files, directories),
        unsuitable,
    })
}

/// A shape that may be chosen, and the names that it cannot hold.
struct CandidateShape {
    scheme: LayoutScheme,
    refused: u64,
    /// One refused name, and the reason.
    example: Option<(Vec<u8>, &'static str)>,
}

impl CandidateShape {
    fn record_refused(&mut self, name: &[u8], why: &'static str) {
        self.refused += 1;
        self.example.get_or_insert_with(|| (name.to_vec(), why));
    }

    /// Returns the error for names that a layout of this shape cannot hold, or that look like its
    /// directories.
    fn unfit(self, root: &LayoutRoot) -> Option<Error> {
        let (first, why) = self.example?;
        let first = String::from_utf8_lossy(&first).into_owned();
        Some(Error::Unfit { root: root.path().to_owned(), count: self.refused, first, why })
    }
}

/// Findings of one pass over a directory.
struct DirectoryFindings {
    files: u64,
    left: u64,
    shapes: Vec<CandidateShape>,
    /// The distribution of the names, if they are to be used as hashes.
    spread: Option<NameSpread>,
    /// True if the directory is a layout already. Directories whose names look like its levels then
    /// belong to the layout.
    is_layout: bool,
    /// Time of one look-up.
    look_up: Duration,
    /// The letters in the digits of names that are used as hashes.
    letters: DigitLetters,
}

/// Cases of the letters in the digits of names.
#[derive(Default)]
struct DigitLetters {
    /// Number of names with an upper case letter, and one of them.
    upper: u64,
    example: Vec<u8>,
    /// True if a name has a lower case letter.
    has_lower: bool,
}

impl DigitLetters {
    /// Adds a name, of which the first `digits` bytes are digits.
    fn add(&mut self, name: &[u8], digits: usize) {
        let digits = &name[..digits.min(name.len())];
        self.has_lower |= digits.iter().any(u8::is_ascii_lowercase);
        if digits.iter().any(u8::is_ascii_uppercase) {
            self.upper += 1;
            self.example.clear();
            self.example.extend_from_slice(name);
        }
    }
}

impl DirectoryFindings {
    fn new(shapes: Vec<LayoutScheme>, is_layout: bool) -> Self {
        let spread = shapes.iter().any(|scheme| scheme.hash().is_prefix()).then(NameSpread::new);
        let shapes =
            shapes.into_iter().map(|scheme| CandidateShape { scheme, refused: 0, example: None }).collect();
        let letters = DigitLetters::default();
        Self { files: 0, left: 0, shapes, spread, is_layout, look_up: Duration::ZERO, letters }
    }

    fn read(&mut self, root: &LayoutRoot) -> Result<()> {
        let mut pages = root.read(b"", BATCH_BYTES)?;
        while let Some(batch) = pages.next()? {
            if self.files == 0 {
                self.look_up = time_look_ups(root, batch)?;
            }
            for entry in batch.entries().filter(|entry| !reserved::is_reserved(entry.name())) {
                let is_other_case = self.is_level_in_other_case(root, entry.name())?;
                self.note(&entry, type_of(root, entry.name(), &entry)?, is_other_case);
            }
        }
        Ok(())
    }

    /// True if the file system does not distinguish `name` from the name of a directory of the
    /// layout, because letter case does not count.
    fn is_level_in_other_case(&self, root: &LayoutRoot, name: &[u8]) -> Result<bool> {
        let may_be = self.shapes.iter().any(|shape| shape.scheme.is_level_in_other_case(name));
        Ok(may_be && !self.is_layout && root.stat(&name.to_ascii_lowercase())?.is_some())
    }

    fn note(&mut self, entry: &BatchEntry<'_>, kind: FileType, is_other_case: bool) {
        let name = entry.name();
        let is_level = |scheme: &LayoutScheme| {
            scheme.is_level(name) || (is_other_case && scheme.is_level_in_other_case(name))
        };
        match kind {
            // The entry no longer exists.
            FileType::Unknown => {}
            FileType::RegularFile => {
                self.files += 1;
                for shape in &mut self.shapes {
                    if let Err(why) = shape.scheme.suits(name) {
                        shape.record_refused(name, why);
                    } else if is_other_case && is_level(&shape.scheme) {
                        shape.record_refused(name, CALLED_LIKE_A_LEVEL);
                    }
                }
                if let Some(spread) = &mut self.spread {
                    spread.add(name);
                    let digits = self.shapes.iter().map(|shape| shape.scheme.digits()).max();
                    self.letters.add(name, digits.unwrap_or(0));
                }
            }
            kind => {
                let level = |shape: &CandidateShape| is_level(&shape.scheme);
                if self.is_layout {
                    let own = kind == FileType::Directory && self.shapes.iter().any(level);
                    self.left += u64::from(!own);
                    return;
                }
                self.left += 1;
                for shape in self.shapes.iter_mut().filter(|shape| level(shape)) {
                    shape.record_refused(name, CALLED_LIKE_A_LEVEL);
                }
            }
        }
    }

    /// Returns an error if names are not distributed like hashes: if the directory of a random file
    /// would hold far more files than if names were distributed evenly.
    fn uneven(&self, root: &LayoutRoot, scheme: LayoutScheme) -> Option<Error> {
        let crowding = self.spread.as_ref()?.crowding(scheme.digits());
        let (crowding, even) = (crowding.found, crowding.even);
        (crowding > MAX_CROWDING_RATIO * even).then(|| Error::Uneven {
            root: root.path().to_owned(),
            crowding,
            even,
        })
    }

    /// Returns an error if names would change: files are named by the rest of their names, their
    /// digits have letters of both cases, and the file system does not distinguish these. A file
    /// would get the digits of its directory, which another file has named.
    fn changed_by_case(&self, root: &LayoutRoot, scheme: LayoutScheme) -> Result<Option<Error>> {
        let DigitLetters { upper, example, has_lower } = &self.letters;
        let is_at_risk = scheme.leaf() == Leaf::Rest && *has_lower && *upper > 0;
        if !is_at_risk || !root.are_spellings(example, &example.to_ascii_lowercase())? {
            return Ok(None);
        }
        Ok(Some(Error::Unfit {
            root: root.path().to_owned(),
            count: *upper,
            first: String::from_utf8_lossy(example).into_owned(),
            why: "letter case does not count here, so --leaf rest would change the case of some",
        }))
    }

    /// Returns the number of directories on all levels for `files` files.
    fn directories(&self, scheme: LayoutScheme, files: u64) -> u64 {
        let level = |level: u8| {
            let digits = usize::from(level) * usize::from(scheme.width());
            let counted = self.spread.as_ref().and_then(|spread| spread.directories(digits));
            counted.unwrap_or_else(|| expected(digits, files)).min(files)
        };
        (1..=scheme.levels()).map(level).sum()
    }
}

/// Returns the expected number of directories, each named by `digits` digits, that get at least one
/// file if names are hashed.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an expectation, never below zero"
)]
fn expected(digits: usize, files: u64) -> u64 {
    let directories = (0..digits).fold(1.0_f64, |all, _| all * 16.0);
    // A directory stays empty if no file falls into it. `ln_1p` and `exp_m1` keep the result
    // accurate for few files among very many directories.
    let filled = -(to_float(files) * (-directories.recip()).ln_1p()).exp_m1() * directories;
    filled.round() as u64
}

/// Counts of files and directories in a layout.
struct LevelCounts<'a> {
    root: &'a LayoutRoot,
    scheme: LayoutScheme,
    files: u64,
    directories: u64,
}

impl LevelCounts<'_> {
    /// Counts the entries below `path`, which ends in `/` or is empty, and has `digits` hash
    /// digits.
    fn count(&mut self, path: &[u8], digits: usize) -> Result<()> {
        let mut pages = self.root.read(path, LEVEL_BATCH)?;
        while let Some(batch) = pages.next()? {
            for entry in batch.entries().filter(|entry| !reserved::is_reserved(entry.name())) {
                let below = [path, entry.name()].concat();
                match type_of(self.root, &below, &entry)? {
                    FileType::RegularFile if digits > 0 => self.files += 1,
                    FileType::Directory
                        if self.scheme.is_level(entry.name()) && digits < self.scheme.digits() =>
                    {
                        self.directories += 1;
                        self.count(&[&below, b"/".as_slice()].concat(), digits + entry.name().len())?;
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// Returns the average time of a look-up, measured with some names in the root.
fn time_look_ups(root: &LayoutRoot, batch: &Batch) -> Result<Duration> {
    let began = Instant::now();
    let mut count = 0;
    for entry in batch.entries().take(TIMED_LOOK_UPS) {
        root.stat(entry.name())?;
        count += 1;
    }
    Ok(began.elapsed().checked_div(count).unwrap_or_default())
}

/// Estimates the time of a conversion. On a network file system, a rename is a request, like a
/// look-up.
fn estimate(look_up: Duration, files: u64, directories: u64) -> Duration {
    let times = |cost: Duration, count: u64| cost.mul_f64(to_float(count));
    times(look_up.max(MIN_RENAME_TIME), files) + times(look_up.max(MIN_DIRECTORY_TIME), directories)
}

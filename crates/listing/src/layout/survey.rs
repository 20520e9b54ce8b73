//! What is in a directory before anything is moved: counts, names that do not suit, and whether names that are to be
//! used as hashes are spread like hashes. One reading, in constant memory.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::FileType;

use super::convert::{BATCH, type_of};
use super::error::{Error, Result};
use super::gate::Gate;
use super::iterate::Iter;
use super::record::{self, State};
use super::root::Root;
use super::scheme::{Hash, Leaf, Scheme};
use crate::Batch;

/// Digits whose spread is judged, at most: 65,536 counts.
const JUDGED: usize = 4;
/// How much fuller than with evenly spread names the average file's directory may be.
const TOLERANCE: f64 = 2.0;
/// Names shorter than this are counted by length: the shapes a layout's own directories can have, and names too short
/// to be cut.
const SHORT: usize = 17;
/// Look-ups whose latency an estimate rests on.
const SAMPLE: usize = 100;
/// What a rename and a new directory cost at least, as measured on ext4 with a warm cache.
const RENAME: Duration = Duration::from_micros(4);
const DIRECTORY: Duration = Duration::from_micros(25);

/// What a layout is to be like; what is left open is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// What paths are computed from; [`Hash::Xxh3`] unless told.
    pub hash: Option<Hash>,
    /// Directories above a file; as many as leave about 100 files in one unless told.
    pub levels: Option<u8>,
    /// Digits in a directory's name; likewise.
    pub width: Option<u8>,
    /// What files are called in their directories; [`Leaf::Name`] unless told.
    pub leaf: Option<Leaf>,
}

/// What a directory holds, and what a conversion would do.
#[derive(Debug)]
pub struct Survey {
    /// The shape the layout has or would have.
    pub scheme: Scheme,
    /// Which way files move in it, if it is a layout already.
    pub state: Option<State>,
    /// Files in the root.
    pub files: u64,
    /// What is no file and stays in the root.
    pub left: u64,
    /// Directories of the layout that would hold files.
    pub directories: u64,
    /// About how long a conversion takes: from the latency of some look-ups here and the cost of renames elsewhere, so
    /// good to a factor of a few.
    pub estimate: Duration,
    unsuitable: Option<Error>,
}

impl Survey {
    /// The shape, if all names suit it.
    ///
    /// # Errors
    /// [`Error::Unfit`], [`Error::Uneven`].
    pub fn fit(self) -> Result<Scheme> {
        self.unsuitable.map_or(Ok(self.scheme), Err)
    }

    /// Why the names do not suit the shape, if they do not.
    #[must_use]
    pub fn unsuitable(&self) -> Option<&Error> {
        self.unsuitable.as_ref()
    }
}

/// Looks at the directory `root` and changes nothing.
///
/// # Errors
/// [`Error::Scheme`]: the wishes do not go together. [`Error::Io`], [`Error::Newer`], [`Error::Malformed`].
pub fn survey(root: &Path, wish: &Wish) -> Result<Survey> {
    survey_of(&Root::open(root)?, wish)
}

/// Looks at the layout in the directory `root` as [`unshard`](super::unshard) would find it, and changes nothing.
///
/// # Errors
/// [`Error::Missing`]: it is none. [`Error::Io`], [`Error::Newer`], [`Error::Malformed`].
pub fn survey_back(root: &Path) -> Result<Survey> {
    let root = Root::open(root)?;
    let record = Gate::layout(&root)?;
    let mut flat = Seen::new(0);
    flat.read(&root, Hash::Xxh3)?;
    let mut all = 0;
    for name in Iter::new(&root, record.scheme) {
        name?;
        all += 1;
    }
    // What moves during the two readings is counted twice or not at all: this is a forecast.
    let files = u64::saturating_sub(all, flat.files);
    let directories = record.scheme.directories().min(files);
    let seen = Seen { files, ..flat };
    let estimate = seen.estimate(directories);
    let state = Some(record.state);
    Ok(Survey { scheme: record.scheme, state, files, left: 0, directories, estimate, unsuitable: None })
}

pub(super) fn survey_of(root: &Root, wish: &Wish) -> Result<Survey> {
    let hash = wish.hash.unwrap_or_default();
    let leaf = wish.leaf.unwrap_or_default();
    // Wishes that do not go together are told before a directory of millions is read.
    Scheme::suggest(hash, 0, wish.levels, wish.width, leaf)?;
    let record = Gate::enter(root)?.record;
    let judged = wish.levels.zip(wish.width).map_or(JUDGED, |(l, w)| usize::from(l) * usize::from(w));
    let mut seen = Seen::new(judged.min(JUDGED));
    seen.read(root, hash)?;
    let scheme = match record {
        Some(record) => record.scheme,
        None => Scheme::suggest(hash, seen.files, wish.levels, wish.width, leaf)?,
    };
    let directories = scheme.directories().min(seen.files);
    Ok(Survey {
        scheme,
        state: record.map(|record| record.state),
        files: seen.files,
        left: seen.left,
        directories,
        estimate: seen.estimate(directories),
        // In a layout that exists, what does not suit stays in the root and is told file by file.
        unsuitable: if record.is_none() { seen.unsuitable(root, scheme) } else { None },
    })
}

/// Names of one length.
#[derive(Clone, Default)]
struct Group {
    /// All of them, and one of them.
    all: (u64, Vec<u8>),
    /// Those that could be the name of a directory made from a hash.
    hexadecimal: (u64, Vec<u8>),
}

/// What one reading of a directory tells.
struct Seen {
    files: u64,
    left: u64,
    /// Names of everything, by their length.
    short: Vec<Group>,
    /// Files by the first `judged` digits of their names.
    spread: Vec<u32>,
    judged: usize,
    /// How long one look-up takes.
    look_up: Duration,
}

impl Seen {
    fn new(judged: usize) -> Self {
        Self {
            files: 0,
            left: 0,
            short: vec![Group::default(); SHORT],
            spread: vec![0; 1 << (4 * judged)],
            judged,
            look_up: Duration::ZERO,
        }
    }

    fn read(&mut self, root: &Root, hash: Hash) -> Result<()> {
        let mut pages = root.read(b"", BATCH)?;
        while let Some(batch) = pages.next()? {
            if self.files == 0 {
                self.time_look_ups(root, batch)?;
            }
            for entry in batch.entries().filter(|entry| !record::is_reserved(entry.name())) {
                let name = entry.name();
                self.note_shape(name);
                if type_of(root, name, &entry)? != FileType::RegularFile {
                    self.left += 1;
                    continue;
                }
                self.files += 1;
                if hash.is_prefix() {
                    self.spread[bucket(name, self.judged)] += 1;
                }
            }
        }
        Ok(())
    }

    fn time_look_ups(&mut self, root: &Root, batch: &Batch) -> Result<()> {
        let began = Instant::now();
        let mut count = 0;
        for entry in batch.entries().take(SAMPLE) {
            root.stat(entry.name())?;
            count += 1;
        }
        self.look_up = began.elapsed().checked_div(count).unwrap_or_default();
        Ok(())
    }

    fn note_shape(&mut self, name: &[u8]) {
        let Some(group) = self.short.get_mut(name.len()) else { return };
        let hexadecimal = name.iter().all(super::scheme::is_digit);
        for (count, first) in
            [&mut group.all].into_iter().chain(hexadecimal.then_some(&mut group.hexadecimal))
        {
            if *count == 0 {
                *first = name.to_vec();
            }
            *count += 1;
        }
    }

    /// On a network a rename is a request, as a look-up is.
    fn estimate(&self, directories: u64) -> Duration {
        let times = |cost: Duration, count: u64| cost.mul_f64(to_float(count));
        times(self.look_up.max(RENAME), self.files) + times(self.look_up.max(DIRECTORY), directories)
    }

    fn unsuitable(&self, root: &Root, scheme: Scheme) -> Option<Error> {
        self.unfit(root, scheme).or_else(|| self.uneven(root, scheme))
    }

    /// Names a layout of this shape cannot hold, or that stand where its directories would.
    fn unfit(&self, root: &Root, scheme: Scheme) -> Option<Error> {
        let short = &self.short[..=scheme.digits().min(SHORT - 1)];
        let level = usize::from(scheme.width());
        let (groups, why): (Vec<_>, _) = match scheme.hash() {
            Hash::NamePrefix => (short.iter().map(|group| &group.all).collect(), "too short to be cut"),
            _ => (vec![&self.short[level].hexadecimal], "called like a directory of the layout"),
        };
        let count = groups.iter().map(|(count, _)| count).sum();
        let (_, first) = groups.into_iter().find(|(count, _)| *count > 0)?;
        let first = String::from_utf8_lossy(first).into_owned();
        Some(Error::Unfit { root: root.path().to_owned(), count, first, why })
    }

    /// Names that are no hashes crowd: the directory of a file taken at random then holds far more than the average
    /// directory. For names spread evenly over `k` directories both are `n / k`, and one more for the file itself.
    fn uneven(&self, root: &Root, scheme: Scheme) -> Option<Error> {
        if !scheme.hash().is_prefix() || self.files == 0 {
            return None;
        }
        let files = to_float(self.files);
        let squares: f64 = self.spread.iter().map(|count| f64::from(*count) * f64::from(*count)).sum();
        let (crowding, even) =
            (squares / files, files / 16f64.powi(i32::try_from(self.judged).unwrap_or(0)) + 1.0);
        (crowding > TOLERANCE * even).then(|| Error::Uneven { root: root.path().to_owned(), crowding, even })
    }
}

/// The number a name's first digits make. Bytes that are no hexadecimal digits count by their low bits, which serve
/// hashes in other alphabets as well.
fn bucket(name: &[u8], digits: usize) -> usize {
    let value = |byte: u8| (byte as char).to_digit(16).unwrap_or(u32::from(byte & 15)) as usize;
    (0..digits).fold(0, |number, at| number << 4 | name.get(at).map_or(0, |byte| value(*byte)))
}

#[expect(clippy::cast_precision_loss, reason = "an estimate, not an account")]
fn to_float(count: u64) -> f64 {
    count as f64
}

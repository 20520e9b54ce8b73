//! Computes the directory of a file from its name alone, so a file is found without a listing or an
//! index.
//!
//! The digits of a name are the first hexadecimal digits of the name's hash. If names are hashes
//! already, the digits are the name's own first bytes. The digits are cut into levels: with two
//! levels of width two, `sample.bam` of hash `9f86d0…` is `9f/86/sample.bam`. The file keeps its
//! full name, so `ls -R` still shows it. For names that are hashes there is an alternative, as in
//! git: the file keeps only the part of the name that its directories do not have.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::str::FromStr;

use firstbyte_location::{DestinationName, NameFault};
use md5::Md5;
use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::xxh3_64;

use crate::reserved;

/// Maximum number of directories above a file: enough for 10^9 files with 16 directories in each
/// directory. Each level costs a look-up.
const MAX_LEVELS: u8 = 6;
/// Maximum number of digits in a directory's name. With more than 65,536 directories in one
/// directory, look-ups would be as slow as in the flat directory that a layout replaces.
const MAX_WIDTH: u8 = 4;
/// Number of hexadecimal digits of a name's hash, which has 64 bits.
const DIGITS: usize = 16;
/// Number of files that a directory should hold: few enough to be listed at once, and enough to
/// justify a directory.
const IDEAL_FILES_PER_DIRECTORY: f64 = 100.0;
/// Reason to refuse an entry whose name could be that of a directory of the layout. The type of the
/// entry does not matter.
pub(crate) const CALLED_LIKE_A_LEVEL: &str = "called like a directory of the layout";
const RESERVED: &str = "a name that layouts use themselves";
/// Reason to refuse a path, or another text that no directory entry can have as its name.
pub(crate) const NO_NAME: &str = "not the name of a file";

/// Source of the digits in a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DigitSource {
    /// XXH3 of the name, 64 bits. This is the fastest hash.
    #[default]
    Xxh3,
    /// SHA-256 of the name, for use with other programs.
    Sha256,
    /// MD5 of the name, for use with other programs.
    Md5,
    /// The name itself, if names are hashes already.
    NamePrefix,
    /// SHA-256 of the content. It is also the file's name, in 64 digits, so the layout is a
    /// content-addressed store.
    ContentSha256,
}

impl DigitSource {
    /// True if the digits are part of the name.
    #[must_use]
    pub fn is_prefix(self) -> bool {
        matches!(self, Self::NamePrefix | Self::ContentSha256)
    }

    const ALL: [(Self, &'static str); 5] = [
        (Self::Xxh3, "xxh3"),
        (Self::Sha256, "sha256"),
        (Self::Md5, "md5"),
        (Self::NamePrefix, "name-prefix"),
        (Self::ContentSha256, "content-sha256"),
    ];
}

/// Name of a file in its directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leaf {
    /// The full name.
    #[default]
    Name,
    /// The rest of the name after the digits that its directories have, as in git. Allowed only if
    /// the digits are part of the name.
    Rest,
}

impl Leaf {
    const ALL: [(Self, &'static str); 2] = [(Self::Name, "name"), (Self::Rest, "rest")];
}

/// The shape of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutScheme {
    hash: DigitSource,
    levels: u8,
    width: u8,
    leaf: Leaf,
}

/// A shape that cannot exist, or a name that the layout cannot hold.
#[derive(Debug, thiserror::Error)]
pub enum SchemeError {
    /// Options that are out of range or exclude each other.
    #[error("{why}")]
    Options {
        /// The fault of the options.
        why: &'static str,
    },
    /// A name that the layout cannot hold.
    #[error("{name:?}: {why}")]
    Name {
        /// The name. Bytes that are not UTF-8 are replaced.
        name: String,
        /// Why the layout cannot hold it.
        why: &'static str,
    },
}

impl LayoutScheme {
    /// Makes the shape with `levels` directories one below the other, each named by `width` digits.
    ///
    /// # Errors
    /// [`SchemeError::Options`] if a number is out of range, or if `leaf` is [`Leaf::Rest`] but the
    /// digits are not part of the name.
    pub fn new(hash: DigitSource, levels: u8, width: u8, leaf: Leaf) -> Result<Self, SchemeError> {
        if !(1..=MAX_LEVELS).contains(&levels) {
            return Err(SchemeError::Options { why: "--levels: a layout has 1 to 6 levels" });
        }
        if !(1..=MAX_WIDTH).contains(&width) {
            return Err(SchemeError::Options { why: "--width: a directory's name has 1 to 4 digits" });
        }
        if usize::from(levels) * usize::from(width) > DIGITS {
            return Err(SchemeError::Options { why: "--levels, --width: a name has 16 digits in all" });
        }
        if leaf == Leaf::Rest && !hash.is_prefix() {
            let why = "--leaf rest: only with --hash name-prefix or content-sha256, where the directories are part of the name";
            return Err(SchemeError::Options { why });
        }
        Ok(Self { hash, levels, width, leaf })
    }

    /// Chooses the shape in which `files` files would come nearest to 100 per directory. Keeps
    /// `levels` and `width` if they are given.
    ///
    /// # Errors
    /// The same as for [`new`](Self::new).
    pub fn suggest(
        hash: DigitSource,
        files: u64,
        levels: Option<u8>,
        width: Option<u8>,
        leaf: Leaf,
    ) -> Result<Self, SchemeError> {
        let shapes = Self::shapes(hash, levels, width, leaf)?.into_iter();
        let nearest =
            shapes.min_by(|a, b| a.distance_from_ideal(files).total_cmp(&b.distance_from_ideal(files)));
        nearest.map_or_else(|| Self::new(hash, 1, 2, leaf), Ok)
    }

    /// Returns all shapes with the given `levels` and `width`. There is at least one.
    ///
    /// # Errors
    /// The same as for [`new`](Self::new).
    pub(crate) fn shapes(
        hash: DigitSource,
        levels: Option<u8>,
        width: Option<u8>,
        leaf: Leaf,
    ) -> Result<Vec<Self>, SchemeError> {
        // A directory then has 16 or 256 subdirectories. 4,096 would be too many.
        let widths = width.map_or(1..=2, |width| width..=width);
        let all = levels.map_or(1..=MAX_LEVELS, |levels| levels..=levels);
        let pairs = all.flat_map(|levels| widths.clone().map(move |width| (levels, width)));
        let (shapes, refused): (Vec<_>, Vec<_>) =
            pairs.map(|(levels, width)| Self::new(hash, levels, width, leaf)).partition(Result::is_ok);
        match refused.into_iter().next() {
            Some(refused) if shapes.is_empty() => refused.map(|shape| vec![shape]),
            _ => shapes.into_iter().collect(),
        }
    }

    /// Returns by which factor the number of files per directory differs from
    /// [`IDEAL_FILES_PER_DIRECTORY`] if there are `files` files in all, on a logarithmic scale. 0
    /// is best.
    pub(crate) fn distance_from_ideal(&self, files: u64) -> f64 {
        (files_per_directory(files, self.levels, self.width) / IDEAL_FILES_PER_DIRECTORY).ln().abs()
    }

    /// Returns the source of the digits in a path.
    #[must_use]
    pub fn hash(&self) -> DigitSource {
        self.hash
    }

    /// Returns the number of directories above a file.
    #[must_use]
    pub fn levels(&self) -> u8 {
        self.levels
    }

    /// Returns the number of digits in a directory's name.
    #[must_use]
    pub fn width(&self) -> u8 {
        self.width
    }

    /// Returns how a file is named in its directory.
    #[must_use]
    pub fn leaf(&self) -> Leaf {
        self.leaf
    }

    /// Returns the maximum number of directories that hold files, if all digits are hexadecimal.
    #[must_use]
    pub fn directories(&self) -> u64 {
        1 << (4 * self.digits().min(DIGITS - 1))
    }

    /// Returns the path of the file `name`, relative to the root.
    ///
    /// # Errors
    /// [`SchemeError::Name`] if the name is invalid, or if this layout cannot hold the file.
    pub fn path(&self, name: &[u8]) -> Result<PathBuf, SchemeError> {
        let mut path = Vec::new();
        self.place(name, &mut path)?;
        Ok(PathBuf::from(OsString::from_vec(path)))
    }

    /// Returns the number of digits in the path of a file's directory.
    pub(crate) fn digits(&self) -> usize {
        usize::from(self.levels) * usize::from(self.width)
    }

    /// Appends the path of the file `name` below the root to `path`.
    ///
    /// # Errors
    /// [`SchemeError::Name`] if the name is invalid, or if this layout cannot hold the file.
    pub(crate) fn place(&self, name: &[u8], path: &mut Vec<u8>) -> Result<(), SchemeError> {
        self.check(name)
            .map_err(|why| SchemeError::Name { name: String::from_utf8_lossy(name).into_owned(), why })?;
        let hashed;
        let digits = if self.hash.is_prefix() {
            &name[..self.digits()]
        } else {
            hashed = self.hashed(name);
            &hashed[..self.digits()]
        };
        for level in digits.chunks(usize::from(self.width)) {
            path.extend_from_slice(level);
            path.push(b'/');
        }
        path.extend_from_slice(self.leaf_of(name));
        Ok(())
    }

    /// Returns a sort key that puts the names of one directory next to each other.
    pub(crate) fn key(&self, name: &[u8]) -> u64 {
        match self.hash {
            DigitSource::Xxh3 | DigitSource::Sha256 | DigitSource::Md5 => self.hash64(name),
            DigitSource::NamePrefix | DigitSource::ContentSha256 => {
                let mut first = [0; 8];
                let length = name.len().min(8);
                first[..length].copy_from_slice(&name[..length]);
                u64::from_be_bytes(first)
            }
        }
    }

    /// Returns the full name of the file `leaf` below directories with these `digits`.
    pub(crate) fn name_of(&self, digits: &[u8], leaf: &[u8]) -> Vec<u8> {
        match self.leaf {
            Leaf::Name => leaf.to_vec(),
            Leaf::Rest => [digits, leaf].concat(),
        }
    }

    /// True if a directory of this name belongs to the layout.
    pub(crate) fn is_level(&self, name: &[u8]) -> bool {
        name.len() == usize::from(self.width)
            && (self.hash == DigitSource::NamePrefix && name != b"." && name != b".."
                || name.iter().all(is_digit))
    }

    /// True if a directory of this name would be in the way of one of the layout where letter case
    /// does not count, and only there.
    pub(crate) fn is_level_in_other_case(&self, name: &[u8]) -> bool {
        !self.is_level(name) && self.is_level(&name.to_ascii_lowercase())
    }

    fn leaf_of<'a>(&self, name: &'a [u8]) -> &'a [u8] {
        match self.leaf {
            Leaf::Name => name,
            Leaf::Rest => &name[self.digits()..],
        }
    }

    /// Checks that this layout can hold a file called `name`. The error is the reason why it
    /// cannot.
    fn check(&self, name: &[u8]) -> Result<(), &'static str> {
        match DestinationName::check(name) {
            Err(NameFault::TooLong) => return Err("longer than 255 bytes"),
            Err(_) => return Err(NO_NAME),
            Ok(()) => {}
        }
        if reserved::is_reserved(name) {
            return Err(RESERVED);
        }
        self.suits(name)
    }

    /// Checks the part of [`check`](Self::check) that depends on the shape. Must be quick, because
    /// a survey checks each name against many shapes.
    pub(crate) fn suits(&self, name: &[u8]) -> Result<(), &'static str> {
        match self.hash {
            DigitSource::NamePrefix if name.len() <= self.digits() => {
                return Err("too short to be cut into directories and a leaf");
            }
            DigitSource::ContentSha256 if !is_sha256(name) => {
                return Err("not a SHA-256 in 64 digits 0-9a-f");
            }
            DigitSource::Xxh3 | DigitSource::Sha256 | DigitSource::Md5 if self.is_level(name) => {
                return Err(CALLED_LIKE_A_LEVEL);
            }
            _ => {}
        }
        let dotted = |part: &[u8]| part == b"." || part == b"..";
        let leaf = self.leaf_of(name);
        let levels = &name[..self.digits().min(name.len())];
        if self.hash.is_prefix() && (dotted(leaf) || levels.chunks(usize::from(self.width)).any(dotted)) {
            return Err("cut into directories, a part of it would be `.` or `..`");
        }
        if self.leaf == Leaf::Rest && reserved::is_reserved(leaf) {
            return Err(RESERVED);
        }
        Ok(())
    }

    fn hashed(&self, name: &[u8]) -> [u8; DIGITS] {
        let mut number = self.hash64(name);
        let mut digits = [0; DIGITS];
        for digit in &mut digits {
            *digit = b"0123456789abcdef"[(number >> 60) as usize];
            number <<= 4;
        }
        digits
    }

    /// Returns the first 64 bits of the name's hash.
    fn hash64(&self, name: &[u8]) -> u64 {
        let first = |digest: &[u8]| digest.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        match self.hash {
            DigitSource::Sha256 => first(&Sha256::digest(name)),
            DigitSource::Md5 => first(&Md5::digest(name)),
            DigitSource::Xxh3 | DigitSource::NamePrefix | DigitSource::ContentSha256 => xxh3_64(name),
        }
    }
}

/// Returns the number of files in each directory if they are distributed evenly.
#[expect(clippy::cast_precision_loss, reason = "a suggestion, not an account")]
fn files_per_directory(files: u64, levels: u8, width: u8) -> f64 {
    (files.max(1) as f64) / 16f64.powi(i32::from(levels) * i32::from(width))
}

fn is_digit(byte: &u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

fn is_sha256(name: &[u8]) -> bool {
    name.len() == 64 && name.iter().all(is_digit)
}

impl fmt::Display for LayoutScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with levels {}, width {}, leaf {}", self.hash, self.levels, self.width, self.leaf)
    }
}

impl fmt::Display for DigitSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(word(&Self::ALL, *self))
    }
}

impl fmt::Display for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(word(&Self::ALL, *self))
    }
}

impl FromStr for DigitSource {
    type Err = SchemeError;

    fn from_str(text: &str) -> Result<Self, SchemeError> {
        let why = "a hash is xxh3, sha256, md5, name-prefix or content-sha256";
        find_by_word(&Self::ALL, text).ok_or(SchemeError::Options { why })
    }
}

impl FromStr for Leaf {
    type Err = SchemeError;

    fn from_str(text: &str) -> Result<Self, SchemeError> {
        find_by_word(&Self::ALL, text).ok_or(SchemeError::Options { why: "a leaf is name or rest" })
    }
}

fn word<T: PartialEq>(all: &[(T, &'static str)], value: T) -> &'static str {
    all.iter().find(|(one, _)| *one == value).map_or("", |(_, word)| word)
}

fn find_by_word<T: Copy>(all: &[(T, &str)], text: &str) -> Option<T> {
    all.iter().find(|(_, word)| *word == text).map(|(value, _)| *value)
}

#[cfg(test)]
mod tests;

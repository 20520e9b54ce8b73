//! Implements `check`, which finds files of a layout that are in the wrong place, and with `--mend`
//! moves them.
//!
//! A check compares only names, except in content-addressed layouts, where the name is the hash of
//! the content. Mending moves misplaced files and removes temporary files of killed writers. If two
//! files of one name are equal, mending removes the misplaced one. If they differ, it keeps both.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use firstbyte_listing::BatchEntry;
use firstbyte_location::is_full;
use rustix::fs::FileType;

use crate::error::{Error, Result};
use crate::gate::{Conversion, LayoutGate};
use crate::name_places::place_of_files;
use crate::protocol::{FilePlace, MoveResult};
use crate::record::LayoutState;
use crate::reserved;
use crate::root::LayoutRoot;
use crate::scheme::{LayoutScheme, SchemeError};
use crate::stage::{is_abandoned, remove_abandoned};
use crate::tally::{LayoutFailure, MAX_KEPT_FAILURES, type_of, wrong_content};

/// Bytes of names read at once, for each directory level.
const BATCH: usize = 256 << 10;

/// Treatment of the problems that a check finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mend {
    /// Problems are reported.
    #[default]
    Report,
    /// Problems are reported, and repaired if the repair cannot lose data.
    Apply,
}

/// A problem with an entry of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A file in the root that belongs in a directory. It was written by a program that does not
    /// know the layout, or a conversion is unfinished.
    Stray,
    /// A file in a wrong directory.
    Misplaced,
    /// A misplaced file of the same name as a file in the right place.
    Double,
    /// A temporary file whose writer was killed.
    Abandoned,
    /// An entry among the files that is not a regular file.
    Foreign,
    /// A file whose name the layout cannot hold.
    Name,
    /// A file whose content does not match the hash in its name.
    Content,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stray => "stray",
            Self::Misplaced => "misplaced",
            Self::Double => "double",
            Self::Abandoned => "abandoned",
            Self::Foreign => "foreign",
            Self::Name => "name",
            Self::Content => "content",
        })
    }
}

/// A problem that a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutFinding {
    /// The path of the file or directory.
    pub path: PathBuf,
    /// The kind of problem.
    pub trouble: Trouble,
    /// True if the problem was repaired.
    pub mended: bool,
}

/// Result of a check.
#[derive(Debug)]
pub struct Checked {
    /// The layout's shape.
    pub scheme: LayoutScheme,
    /// The state of the layout. It shows whether a conversion is unfinished, and its direction.
    pub state: LayoutState,
    /// Number of files, including misplaced ones. With [`Mend::Apply`], the number after the
    /// repairs.
    pub files: u64,
    /// Number of problems found.
    pub findings: u64,
    /// Number of problems found and repaired.
    pub mended: u64,
    /// Number of directories and files that could not be examined or repaired.
    pub failures: u64,
    /// The first thousand failures.
    pub failed: Vec<LayoutFailure>,
}

/// Checks the layout in the directory `root`, and calls `report` with each finding as it is found.
/// Other programs may use the layout during the check.
///
/// # Errors
/// [`Error::Missing`]; [`Error::Busy`] if the layout is being converted; [`Error::Newer`];
/// [`Error::Malformed`]. [`Error::Io`] if the root itself cannot be read, or if the file system
/// accepts no more writes. An error of one directory or file is only a [`LayoutFailure`].
pub fn check(root: &Path, mend: Mend, report: &mut dyn FnMut(&LayoutFinding)) -> Result<Checked> {
    let root = LayoutRoot::open(root)?;
    let conversion = match mend {
        Mend::Report => Conversion::watch(&root)?,
        Mend::Apply => Conversion::begin(&root)?,
    };
    let Some(conversion) = conversion else {
        return Err(Error::Missing { root: root.path().to_owned() });
    };
    let (scheme, state) = (conversion.record.scheme, conversion.record.state);
    let checked =
        Checked { scheme, state, files: 0, findings: 0, mended: 0, failures: 0, failed: Vec::new() };
    let mut examination = Examination { root: &root, scheme, mend, checked, report };
    examination.examine_directory(b"", b"")?;
    if examination.checked.mended > 0 {
        // Files that moved during the check may have been counted in both places, and some doubles
        // were removed. So the files are counted again.
        examination.checked.files = examination.count(b"", 0)?;
    }
    Ok(examination.checked)
}

struct Examination<'a> {
    root: &'a LayoutRoot,
    scheme: LayoutScheme,
    mend: Mend,
    checked: Checked,
    report: &'a mut dyn FnMut(&LayoutFinding),
}

impl Examination<'_> {
    /// Examines the entries of the directory at `path`, which ends in `/` or is empty. `digits` has
    /// the hash digits in `path`.
    fn examine_directory(&mut self, path: &[u8], digits: &[u8]) -> Result<()> {
        let mut pages = self.root.read(path, BATCH)?;
        while let Some(batch) = pages.next()? {
            for entry in batch.entries() {
                if let Err(error) = self.examine_entry(path, digits, &entry) {
                    self.record_failure(error)?;
                }
            }
        }
        Ok(())
    }

    /// Counts the files in the directory at `path`, which has `digits` hash digits, and in the
    /// layout's directories below it. A directory below that cannot be read counts as empty,
    /// because the check has already reported it.
    fn count(&mut self, path: &[u8], digits: usize) -> Result<u64> {
        let mut files = 0;
        let mut pages = self.root.read(path, BATCH)?;
        while let Some(batch) = pages.next()? {
            for entry in batch.entries().filter(|entry| !reserved::is_reserved(entry.name())) {
                let below = [path, entry.name()].concat();
                files += match type_of(self.root, &below, &entry) {
                    Ok(FileType::RegularFile) => 1,
                    Ok(FileType::Directory)
                        if self.scheme.is_level(entry.name()) && digits < self.scheme.digits() =>
                    {
                        self.count(&[&below, b"/".as_slice()].concat(), digits + entry.name().len())
                            .unwrap_or(0)
                    }
                    _ => 0,
                };
            }
        }
        Ok(files)
    }

    fn examine_entry(&mut self, path: &[u8], digits: &[u8], entry: &BatchEntry<'_>) -> Result<()> {
        let (name, below) = (entry.name(), [path, entry.name()].concat());
        match type_of(self.root, &below, entry)? {
            FileType::Unknown => {}
            FileType::Directory if self.scheme.is_level(name) && digits.len() < self.scheme.digits() => {
                self.examine_directory(&[&below, b"/".as_slice()].concat(), &[digits, name].concat())?;
            }
            FileType::RegularFile => self.examine_file(&below, digits, name)?,
            _ if digits.is_empty() => {}
            _ => self.report_finding(&below, Trouble::Foreign, false),
        }
        Ok(())
    }

    /// Counts a directory or file that could not be examined. Ends the check with an error that
    /// would recur for every other entry: no space, a read-only file system, or an error other than
    /// an I/O error.
    fn record_failure(&mut self, error: Error) -> Result<()> {
        let Error::Io { path, source } = &error else { return Err(error) };
        if is_full(source) || source.kind() == io::ErrorKind::ReadOnlyFilesystem {
            return Err(error);
        }
        self.checked.failures += 1;
        if self.checked.failed.len() < MAX_KEPT_FAILURES {
            self.checked.failed.push(LayoutFailure { path: path.clone(), error });
        }
        Ok(())
    }

    fn examine_file(&mut self, path: &[u8], digits: &[u8], leaf: &[u8]) -> Result<()> {
        if reserved::is_staged(leaf) {
            return self.examine_staged(path);
        }
        if reserved::is_reserved(leaf) {
            return Ok(());
        }
        self.checked.files += 1;
        let name = self.scheme.name_of(digits, leaf);
        let mut right = Vec::new();
        match self.scheme.place(&name, &mut right) {
            Err(SchemeError::Name { .. }) => {
                self.report_finding(path, Trouble::Name, false);
                return Ok(());
            }
            other => other?,
        }
        if wrong_content(self.root, self.scheme, path, &name)?.is_some() {
            self.report_finding(path, Trouble::Content, false);
            return Ok(());
        }
        // While files move back to the root, a file in the root is in its right place.
        let settled = digits.is_empty() && place_of_files(self.checked.state) == FilePlace::Flat;
        if path == right || settled { Ok(()) } else { self.handle_misplaced(path, &right, digits) }
    }

    /// Reports a file at `path` that belongs at `right`. Moves it there if the check repairs.
    fn handle_misplaced(&mut self, path: &[u8], right: &[u8], digits: &[u8]) -> Result<()> {
        let lonely = if digits.is_empty() { Trouble::Stray } else { Trouble::Misplaced };
        if self.root.are_spellings(path, right)? {
            return Ok(());
        }
        if self.mend == Mend::Report {
            let double = self.root.stat(right)?.is_some();
            self.report_finding(path, if double { Trouble::Double } else { lonely }, false);
            return Ok(());
        }
        // While this process holds the gate, no writer can replace either file during the
        // comparison.
        let _gate = LayoutGate::enter(self.root)?;
        // If the move fails, the file is reported as misplaced.
        let moved = self.root.move_exclusively(self.scheme, path, right);
        match moved.inspect_err(|_| self.report_finding(path, lonely, false))? {
            MoveResult::Done => self.report_finding(path, lonely, true),
            MoveResult::Absent => {}
            MoveResult::Taken => {
                let removed = self.remove_double(path, right);
                self.report_finding(path, Trouble::Double, matches!(removed, Ok(true)));
                removed?;
            }
        }
        Ok(())
    }

    /// Removes the file at `path` if there is an equal one at `right`. False if it stays.
    fn remove_double(&self, path: &[u8], right: &[u8]) -> Result<bool> {
        // A path that is not listed may be another spelling of `path`, of the same file.
        Ok(equal(self.root, path, right)? && self.root.is_listed(right)? && self.root.remove(path)?)
    }

    fn examine_staged(&mut self, path: &[u8]) -> Result<()> {
        let (abandoned, removed) = match self.mend {
            Mend::Report => (is_abandoned(self.root, path)?, false),
            Mend::Apply => {
                let removed = remove_abandoned(self.root, path);
                let found = removed.inspect_err(|_| self.report_finding(path, Trouble::Abandoned, false))?;
                (found, found)
            }
        };
        if abandoned {
            self.report_finding(path, Trouble::Abandoned, removed);
        }
        Ok(())
    }

    fn report_finding(&mut self, path: &[u8], trouble: Trouble, mended: bool) {
        self.checked.findings += 1;
        self.checked.mended += u64::from(mended);
        (self.report)(&LayoutFinding { path: self.root.join(path), trouble, mended });
    }
}

/// True if both files exist and have the same content.
fn equal(root: &LayoutRoot, one: &[u8], other: &[u8]) -> Result<bool> {
    let (Some((first, length)), Some((second, other_length))) = (root.regular(one)?, root.regular(other)?)
    else {
        return Ok(false);
    };
    if length.st_size != other_length.st_size {
        return Ok(false);
    }
    let at = |error| root.error(one, error);
    let (mut first, mut second) = (std::io::BufReader::new(first), std::io::BufReader::new(second));
    loop {
        use std::io::BufRead;
        let (left, right) = (first.fill_buf().map_err(at)?, second.fill_buf().map_err(at)?);
        let common = left.len().min(right.len());
        if left[..common] != right[..common] {
            return Ok(false);
        }
        if common == 0 {
            return Ok(left.is_empty() && right.is_empty());
        }
        first.consume(common);
        second.consume(common);
    }
}

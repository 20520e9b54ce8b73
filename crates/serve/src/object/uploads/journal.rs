//! Reads and writes the files of an upload on disk. After a kill, the server loses no finished part
//! and uses no unfinished part.
//!
//! The upload's directory has `upload.json`, its description; `data`, the file being assembled;
//! `apart-*`, parts in separate files; `whole`, the assembled file if it cannot be `data`; and
//! `journal`, one line of JSON for each event, appended *after* the event. The last line for a part
//! states where its bytes are. These bytes are not overwritten until a later line replaces that
//! line. An incomplete last line is cut off.
//!
//! Written bytes survive the kill of a process, but not a power cut. So parts that were recorded
//! before the last reboot are used only after their checksums were verified
//! ([`JournalContent::unverified`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;
use std::time::SystemTime;

use firstbyte_location::Algorithm;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::object::checksum::ChecksumValues;

pub(super) const DATA: &str = "data";
pub(super) const WHOLE: &str = "whole";
pub(super) const DESCRIPTION: &str = "upload.json";
pub(super) const JOURNAL: &str = "journal";

/// The kernel's id of the current boot; empty if unknown. An empty id never matches.
pub(super) static BOOT: LazyLock<String> = LazyLock::new(|| {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_or_else(|_| String::new(), |id| id.trim().into())
});

/// The place of a part's bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PartPlace {
    /// The part is in `data`, at this offset.
    At(u64),
    /// The part is in the file of this name, from its start.
    Apart(String),
}

/// A part that has arrived completely.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ArrivedPart {
    /// Length in bytes.
    pub(crate) length: u64,
    pub(crate) place: PartPlace,
    pub(crate) checksums: ChecksumValues,
    /// The time at which the part was complete.
    pub(crate) arrived: SystemTime,
}

impl ArrivedPart {
    /// Returns the tag of the part: one of its checksums, in a form that no client mistakes for an
    /// MD5.
    pub(crate) fn etag(&self) -> String {
        let sum = self.checksums.get(&Algorithm::Crc64Nvme).map_or("", String::as_str);
        format!("{}-{:x}", hex::encode(sum.trim_end_matches('=')), self.length)
    }
}

/// An event in the journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum JournalLine {
    /// The following lines were written during this boot of the machine.
    Boot(String),
    /// Slots have this length in bytes. See `placement`.
    Slots(u64),
    /// This part has arrived. It replaces an earlier part of the same number.
    Part(u32, ArrivedPart),
    /// The stored bytes of this part do not match its checksum, so the part is lost.
    Lost(u32),
    /// The file of this name is the complete result. Publishing moves it out of the directory.
    Whole(String),
}

/// The content of a journal.
#[derive(Clone, Debug, Default)]
pub(super) struct JournalContent {
    pub(super) parts: BTreeMap<u32, ArrivedPart>,
    /// Parts that were recorded before the last reboot.
    pub(super) unverified: BTreeSet<u32>,
    pub(super) slots: Option<u64>,
    boot: String,
    whole: Option<String>,
}

impl JournalContent {
    fn of(text: &[u8]) -> Self {
        let mut recorded = Self::default();
        // A malformed line is the result of a power failure, and is skipped.
        let lines = text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
        lines.for_each(|line| recorded.follow(line));
        recorded
    }

    fn follow(&mut self, line: JournalLine) {
        match line {
            JournalLine::Boot(boot) => self.boot = boot,
            JournalLine::Slots(length) => self.slots = Some(length),
            JournalLine::Part(number, part) => {
                self.parts.insert(number, part);
                if self.boot.is_empty() || self.boot != *BOOT {
                    self.unverified.insert(number);
                } else {
                    self.unverified.remove(&number);
                }
            }
            JournalLine::Lost(number) => {
                self.parts.remove(&number);
                self.unverified.remove(&number);
            }
            JournalLine::Whole(name) => self.whole = Some(name),
        }
    }

    /// True if the upload in `directory` has ended, so that only the removal of its files is left
    /// to do.
    pub(super) fn has_ended(&self, directory: &OwnedFd) -> bool {
        !exists(directory, DATA) || self.whole.as_deref().is_some_and(|whole| !exists(directory, whole))
    }
}

pub(super) fn exists(directory: &OwnedFd, name: &str) -> bool {
    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// An open journal, locked against all other processes.
#[derive(Debug)]
pub(super) struct PartsJournal {
    file: File,
    /// Length of the complete lines in bytes.
    length: u64,
}

impl PartsJournal {
    pub(super) fn create(directory: &OwnedFd) -> io::Result<()> {
        let mut line = serde_json::to_vec(&JournalLine::Boot(BOOT.clone())).map_err(io::Error::from)?;
        line.push(b'\n');
        open_at(directory, JOURNAL, OFlags::CREATE | OFlags::EXCL)?.write_all_at(&line, 0)
    }

    /// Opens the journal in `directory`. `None` if another process has it open.
    pub(super) fn open(directory: &OwnedFd) -> io::Result<Option<Self>> {
        let file = open_at(directory, JOURNAL, OFlags::APPEND)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Ok(None),
            // This process has the lock, or the file system has no locks. Without locks, only one
            // server at a time may use the directory.
            _ => Ok(Some(Self { length: file.metadata()?.len(), file })),
        }
    }

    /// Returns the length of the complete lines in bytes.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Returns the time at which a line was last added.
    pub(super) fn touched(&self) -> io::Result<SystemTime> {
        self.file.metadata()?.modified()
    }

    pub(super) fn read(&mut self) -> io::Result<JournalContent> {
        let mut text = Vec::new();
        self.file.seek(SeekFrom::Start(0))?;
        self.file.read_to_end(&mut text)?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.length = whole as u64;
        Ok(JournalContent::of(&text[..whole]))
    }

    /// Reads the journal before lines are added. Cuts off an incomplete last line, and records the
    /// current boot if the machine was rebooted.
    pub(super) fn resume(&mut self) -> io::Result<JournalContent> {
        let length = self.length;
        let recorded = self.read()?;
        if self.length < length {
            self.file.set_len(self.length)?;
        }
        if recorded.boot != *BOOT {
            self.append(&JournalLine::Boot(BOOT.clone()))?;
        }
        Ok(recorded)
    }

    /// Appends the whole line, or nothing.
    pub(super) fn append(&mut self, line: &JournalLine) -> io::Result<()> {
        let mut text = serde_json::to_vec(line).map_err(io::Error::from)?;
        text.push(b'\n');
        match self.file.write_all(&text) {
            Ok(()) => {
                self.length += text.len() as u64;
                Ok(())
            }
            Err(error) => {
                self.file.set_len(self.length)?;
                Err(error)
            }
        }
    }
}

pub(super) fn open_at(parent: &OwnedFd, name: &str, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(0o666))?.into())
}

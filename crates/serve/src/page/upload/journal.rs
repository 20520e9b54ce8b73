//! What an upload in progress leaves on disk, so that a killed server loses no finished part.
//!
//! Two files lie beside the destination: the data, written in place, and a journal. Both names begin with a dot and
//! end in `.firstbyte-part`, which no listing shows. The journal is text: a JSON header, then one line per finished
//! part, `NUMBER CRC32C`, appended in one write *after* the part's bytes were written. So a killed process leaves at
//! most one torn last line, which is ignored. The kernel keeps written bytes over a killed process, but not over a
//! power cut: lines written under another boot are believed only after their bytes were read and compared.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, Mode, OFlags};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Error, Result};
use crate::s3::metadata::ObjectMetadata;

/// Smallest part. Large enough that a request per part costs nothing, small enough that a cut costs little.
const SMALLEST_PART: u64 = 8 << 20;
/// Most parts of one upload; beyond `SMALLEST_PART * MOST_PARTS` (78 GiB) parts grow instead. Keeps what a server
/// remembers of an upload, and what it tells the page, under 100 KB.
const MOST_PARTS: u64 = 10_000;
/// Longest journal read back: the header and `MOST_PARTS` lines, each written a few times over, fit well.
const LONGEST_JOURNAL: u64 = 4 << 20;

/// Changes with every start of the machine; empty where the kernel does not tell, which never matches.
static BOOT: LazyLock<String> = LazyLock::new(|| {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_or_else(|_| String::new(), |id| id.trim().into())
});

/// What the browser says of the file it uploads. The same name, size and time after a reload find the upload again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Source {
    /// File name, one path component.
    pub(crate) name: String,
    /// Length in bytes.
    pub(crate) size: u64,
    /// Last modification, milliseconds since 1970, as `File.lastModified` gives it.
    pub(crate) mtime: i64,
    /// Content type, as `File.type` gives it; empty where the browser has no idea.
    #[serde(default, rename = "type", skip_serializing_if = "String::is_empty")]
    pub(crate) content_type: String,
}

impl Source {
    /// Names this upload within its directory: the same file, picked again, finds it without an index.
    pub(super) fn id(&self) -> String {
        let digest = Sha256::digest(format!("{}\0{}\0{}", self.size, self.mtime, self.name));
        hex::encode(&digest[..16])
    }

    /// Bytes in every part but the last.
    pub(super) fn part_size(&self) -> u64 {
        self.size.div_ceil(MOST_PARTS).next_multiple_of(1 << 20).max(SMALLEST_PART)
    }

    /// Number of parts; an empty file has none.
    pub(super) fn part_count(&self) -> usize {
        usize::try_from(self.size.div_ceil(self.part_size())).unwrap_or(usize::MAX)
    }

    /// Where part `number` lies: offset and length.
    pub(super) fn part(&self, number: usize) -> (u64, u64) {
        let offset = number as u64 * self.part_size();
        (offset, self.part_size().min(self.size.saturating_sub(offset)))
    }

    /// What is kept with the file, as S3 clients and plain answers see it.
    pub(super) fn metadata(&self) -> ObjectMetadata {
        let content_type = Some(self.content_type.clone()).filter(|text| !text.is_empty());
        let mtime = u64::try_from(self.mtime).ok();
        let mtime = mtime.map(|ms| ("mtime".to_owned(), format!("{}.{:03}", ms / 1000, ms % 1000)));
        ObjectMetadata { content_type, user: mtime.into_iter().collect(), ..ObjectMetadata::default() }
    }

    /// When the file was last modified, as a time.
    pub(super) fn modified(&self) -> SystemTime {
        let distance = Duration::from_millis(self.mtime.unsigned_abs());
        let epoch = SystemTime::UNIX_EPOCH;
        if self.mtime < 0 { epoch.checked_sub(distance) } else { epoch.checked_add(distance) }
            .unwrap_or(epoch)
    }
}

#[derive(Serialize, Deserialize)]
struct Header {
    #[serde(flatten)]
    source: Source,
    /// Part length the lines below count in: a later version may choose another.
    part_size: u64,
    boot: String,
}

/// The data and the journal of one upload, locked against every other process while open.
#[derive(Debug)]
pub(super) struct Journal {
    pub(super) data: File,
    log: File,
}

/// Name of the file that holds the data of upload `id`.
pub(super) fn data_name(id: &str) -> String {
    format!(".upload-{id}.firstbyte-part")
}

/// Name of the journal of upload `id`.
pub(super) fn journal_name(id: &str) -> String {
    format!(".upload-{id}.journal.firstbyte-part")
}

/// The upload whose journal has this name.
pub(super) fn id_of_journal(name: &[u8]) -> Option<&str> {
    let id = name.strip_prefix(b".upload-")?.strip_suffix(b".journal.firstbyte-part")?;
    std::str::from_utf8(id).ok().filter(|id| is_id(id))
}

/// Whether `id` can name an upload; nothing else ever becomes part of a file name.
pub(super) fn is_id(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

impl Journal {
    /// Opens what an earlier attempt left, or begins anew; gives the parts already held.
    pub(super) fn create(directory: BorrowedFd<'_>, source: &Source) -> Result<(Self, Vec<bool>)> {
        let journal = Self::open_files(directory, &source.id(), OFlags::CREATE)?;
        journal.resume(source)
    }

    /// Opens the upload `id`, which must have been begun; gives what it is of, and the parts held.
    pub(super) fn open(directory: BorrowedFd<'_>, id: &str) -> Result<(Self, Source, Vec<bool>)> {
        let mut journal = Self::open_files(directory, id, OFlags::empty())?;
        let (header, _) = Self::parse(&journal.read_back()?).ok_or_else(|| Error::NoUpload(id.into()))?;
        let (journal, held) = journal.resume(&header.source)?;
        Ok((journal, header.source, held))
    }

    fn open_files(directory: BorrowedFd<'_>, id: &str, create: OFlags) -> Result<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | create;
        let open = |name: String, extra: OFlags| {
            rustix::fs::openat(directory, &name, flags | extra, Mode::from_raw_mode(0o666))
                .map(File::from)
                .map_err(|e| {
                    if e == rustix::io::Errno::NOENT && create.is_empty() {
                        Error::NoUpload(id.into())
                    } else {
                        Error::io(name, e)
                    }
                })
        };
        let log = open(journal_name(id), OFlags::APPEND)?;
        rustix::fs::flock(&log, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| Error::Elsewhere(id.into()))?;
        Ok(Self { data: open(data_name(id), OFlags::empty())?, log })
    }

    fn read_back(&mut self) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        let log = &mut self.log;
        let read =
            log.seek(SeekFrom::Start(0)).and_then(|_| log.take(LONGEST_JOURNAL).read_to_end(&mut text));
        read.map(|_| text).map_err(|e| Error::io("journal", e))
    }

    /// Header and finished parts as the journal's text tells them; nothing when there is no whole header.
    fn parse(text: &[u8]) -> Option<(Header, Vec<(usize, u32)>)> {
        let mut lines = text.split_inclusive(|b| *b == b'\n').filter_map(|line| line.strip_suffix(b"\n"));
        let header = serde_json::from_slice(lines.next()?).ok()?;
        Some((header, lines.filter_map(parse_line).collect()))
    }

    /// Believes what can be believed of an earlier attempt and writes the rest anew.
    fn resume(mut self, source: &Source) -> Result<(Self, Vec<bool>)> {
        let mut held = vec![false; source.part_count()];
        let length = self.data.metadata().map_err(|e| Error::io("partial file", e))?.len();
        let mut finished = Vec::new();
        let before = self.read_back()?;
        if let Some((header, lines)) = Self::parse(&before)
            && header.source == *source
            && header.part_size == source.part_size()
            && length == source.size
        {
            let same_boot = !header.boot.is_empty() && header.boot == *BOOT;
            finished = lines;
            finished.retain(|&(number, crc)| {
                number < held.len() && (same_boot || self.matches(source, number, crc))
            });
        }
        self.data.set_len(source.size).map_err(|e| Error::io("partial file", e))?;
        let header = Header { source: source.clone(), part_size: source.part_size(), boot: BOOT.clone() };
        let mut text =
            serde_json::to_vec(&header).map_err(|e| Error::io("journal", std::io::Error::other(e)))?;
        text.push(b'\n');
        for (number, crc) in finished {
            if !std::mem::replace(&mut held[number], true) {
                text.extend(format!("{number} {crc:08x}\n").bytes());
            }
        }
        if text == before {
            return Ok((self, held));
        }
        // Emptied, then written whole: a kill between the two loses the parts, and never believes a wrong one.
        self.log.set_len(0).and_then(|()| self.log.write_all(&text)).map_err(|e| Error::io("journal", e))?;
        Ok((self, held))
    }

    fn matches(&self, source: &Source, number: usize, expected: u32) -> bool {
        let (mut offset, length) = source.part(number);
        let end = offset + length;
        let mut crc = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
        let mut buffer = vec![0; 256 << 10];
        while offset < end {
            let want = buffer.len().min(usize::try_from(end - offset).unwrap_or(usize::MAX));
            match self.data.read_at(&mut buffer[..want], offset) {
                Ok(0) | Err(_) => return false,
                Ok(got) => {
                    crc.update(&buffer[..got]);
                    offset += got as u64;
                }
            }
        }
        crc.finalize() == u64::from(expected)
    }

    /// Notes that part `number` lies in the data file whole.
    pub(super) fn record(&self, number: usize, crc: u32) -> Result<()> {
        (&self.log).write_all(format!("{number} {crc:08x}\n").as_bytes()).map_err(|e| Error::io("journal", e))
    }

    /// When a part was last recorded.
    pub(super) fn last_change(&self) -> SystemTime {
        self.log.metadata().and_then(|m| m.modified()).unwrap_or_else(|_| SystemTime::now())
    }

    /// Removes both files from `directory`; what is gone already is no error.
    pub(super) fn remove(directory: BorrowedFd<'_>, id: &str) -> Result<()> {
        for name in [data_name(id), journal_name(id)] {
            match rustix::fs::unlinkat(directory.as_fd(), &name, rustix::fs::AtFlags::empty()) {
                Ok(()) | Err(rustix::io::Errno::NOENT) => {}
                Err(e) => return Err(Error::io(name, e)),
            }
        }
        Ok(())
    }
}

fn parse_line(line: &[u8]) -> Option<(usize, u32)> {
    let (number, crc) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    Some((number.parse().ok()?, u32::from_str_radix(crc, 16).ok()?))
}

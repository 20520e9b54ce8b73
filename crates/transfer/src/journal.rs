//! Records in a journal which chunks of a partial file are complete. The journal is a small file
//! beside the partial file, `.NAME.firstbyte-journal`.
//!
//! The first line, in JSON, describes the object (source, version, length, chunk length). A record
//! of fixed size follows for every complete chunk. Each record has a checksum of its own and is
//! written by one append. A chunk is recorded after all of its bytes were given to the kernel. So a
//! process that is killed loses no complete chunk and never records an incomplete one. A record
//! that is torn by the kill does not match its checksum and is cut off.
//!
//! Bytes that were given to the kernel survive the death of the process, but not a power cut, which
//! may lose pages of the file and keep those of the journal. Therefore the header contains the boot
//! id. Records of the same boot are trusted. After a reboot, only chunks with a recorded CRC are
//! used, and only if the bytes on the disk have that CRC.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use firstbyte_location::{FileIdentity, Version};
use firstbyte_store::{Algorithm, Checksum, Hasher};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// The format of the journal, incremented when the meaning of any byte changes. A download with a
/// journal of another format starts over.
const FORMAT: u32 = 2;
/// Length of a record, bytes: index (4), algorithm (1), value (8), CRC-32C of these (4).
const RECORD_SIZE: usize = 17;

/// The end of a journal's file name.
pub(crate) const JOURNAL_SUFFIX: &str = ".firstbyte-journal";

/// A source, and the service from which it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JournalSource<'a> {
    pub(crate) source: &'a str,
    pub(crate) service: &'a str,
}

/// The object of which the partial file is a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JournalHeader {
    format: u32,
    source: String,
    /// The service from which the source is read
    /// ([`Store::service_of`](firstbyte_store::Store::service_of)).
    #[serde(default)]
    service: String,
    size: u64,
    chunk: u64,
    etag: Option<String>,
    version_id: Option<String>,
    last_modified: Option<String>,
    /// The four fields of a [`FileIdentity`].
    file: Option<[String; 4]>,
    boot: String,
}

impl JournalHeader {
    pub(crate) fn new(origin: JournalSource<'_>, version: &Version, size: u64, chunk: u64) -> Self {
        Self {
            format: FORMAT,
            source: origin.source.to_owned(),
            service: origin.service.to_owned(),
            size,
            chunk,
            etag: version.etag.clone(),
            version_id: version.version_id.clone(),
            last_modified: version.last_modified.clone(),
            file: version.file.map(FileIdentity::to_words),
            boot: boot_id(),
        }
    }

    /// Returns the version of the object to which the chunks belong.
    pub(crate) fn version(&self) -> Version {
        Version {
            size: Some(self.size),
            etag: self.etag.clone(),
            version_id: self.version_id.clone(),
            last_modified: self.last_modified.clone(),
            file: self.file.as_ref().and_then(FileIdentity::from_words),
        }
    }

    pub(crate) fn is_of(&self, origin: JournalSource<'_>) -> bool {
        self.format == FORMAT && self.origin() == origin
    }

    pub(crate) fn origin(&self) -> JournalSource<'_> {
        JournalSource { source: &self.source, service: &self.service }
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn chunk(&self) -> u64 {
        self.chunk
    }

    /// Returns whether the journal was written since the machine last started.
    pub(crate) fn is_of_this_boot(&self) -> bool {
        self.boot == boot_id()
    }
}

/// A complete chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkRecord {
    pub(crate) index: u32,
    /// The CRC of the chunk's bytes, if it was computed.
    pub(crate) checksum: Option<Checksum>,
}

impl ChunkRecord {
    fn to_bytes(&self) -> [u8; RECORD_SIZE] {
        let mut bytes = [0; RECORD_SIZE];
        bytes[..4].copy_from_slice(&self.index.to_le_bytes());
        // Other checksums do not fit into a record, and cannot be combined anyway.
        if let Some(checksum) = self.checksum.as_ref().filter(|checksum| checksum.value.len() <= 8) {
            bytes[4] = tag(checksum.algorithm);
            bytes[5..5 + checksum.value.len()].copy_from_slice(&checksum.value);
        }
        let check = Hasher::of(Algorithm::Crc32c, &bytes[..13]);
        bytes[13..].copy_from_slice(&check.value);
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let index = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
        let sound = Hasher::of(Algorithm::Crc32c, bytes.get(..13)?).value == *bytes.get(13..RECORD_SIZE)?;
        let algorithm = Algorithm::ALL.into_iter().find(|algorithm| tag(*algorithm) == bytes[4]);
        let checksum = algorithm.and_then(|algorithm| {
            Checksum::new(algorithm, bytes.get(5..5 + algorithm.value_len().min(8))?.to_vec())
        });
        sound.then_some(Self { index, checksum })
    }
}

fn tag(algorithm: Algorithm) -> u8 {
    match algorithm {
        Algorithm::Crc64Nvme => 1,
        Algorithm::Crc32c => 2,
        Algorithm::Crc32 => 3,
        Algorithm::Sha256 | Algorithm::Sha1 | Algorithm::Md5 => 0,
    }
}

/// An open journal. It stays on disk when this value is dropped, for the next run.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    directory: OwnedFd,
    path: PathBuf,
}

impl Journal {
    /// Returns the path of the journal for `destination`.
    pub(crate) fn path_for(destination: &Path) -> PathBuf {
        let name = destination.file_name().unwrap_or_default();
        destination.with_file_name(firstbyte_store::unfinished_name(name, JOURNAL_SUFFIX))
    }

    /// Creates the journal at `path`. If there is an old journal, it is emptied.
    pub(crate) fn create(
        directory: BorrowedFd<'_>,
        path: PathBuf,
        header: &JournalHeader,
    ) -> io::Result<Self> {
        let mut file = open(directory, &path, OFlags::CREATE)?;
        firstbyte_store::truncate(&file)?;
        let mut line = serde_json::to_vec(header)?;
        line.push(b'\n');
        file.write_all(&line)?;
        Ok(Self { file, directory: directory.try_clone_to_owned()?, path })
    }

    /// Opens the journal at `path` to continue it. Returns `None` if there is no journal or it
    /// cannot be parsed.
    pub(crate) fn load(
        directory: BorrowedFd<'_>,
        path: PathBuf,
    ) -> io::Result<Option<(Self, JournalHeader, Vec<ChunkRecord>)>> {
        let mut file = match open(directory, &path, OFlags::empty()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        let Ok(header) = serde_json::from_slice::<JournalHeader>(&bytes[..end]) else { return Ok(None) };
        let records: Vec<ChunkRecord> =
            bytes[end + 1..].chunks(RECORD_SIZE).map_while(ChunkRecord::from_bytes).collect();
        file.set_len((end + 1 + records.len() * RECORD_SIZE) as u64)?;
        let directory = directory.try_clone_to_owned()?;
        Ok(Some((Self { file, directory, path }, header, records)))
    }

    /// Records a complete chunk with a single write, which the kernel appends as a whole.
    pub(crate) fn append(&self, record: &ChunkRecord) -> io::Result<()> {
        (&self.file).write_all(&record.to_bytes())
    }

    /// Removes the journal, because the object is complete or starts over. If the partial file has
    /// already got its final name, another copy may have created a new journal at this path. That
    /// journal stays.
    pub(crate) fn remove(&self) -> io::Result<()> {
        let name = self.path.file_name().unwrap_or_default();
        let ours = rustix::fs::fstat(&self.file)?;
        match rustix::fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(named) if (named.st_dev, named.st_ino) != (ours.st_dev, ours.st_ino) => Ok(()),
            _ => Self::remove_at(self.directory.as_fd(), &self.path),
        }
    }

    /// Removes a journal that cannot be parsed. Succeeds if the journal is already gone, because
    /// its copy may just have ended.
    pub(crate) fn remove_at(directory: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
        match rustix::fs::unlinkat(directory, path.file_name().unwrap_or_default(), AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            other => Ok(other?),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Opens the journal in the directory of its partial file, which is already open. Links are not
/// followed, and a pipe of this name does not block.
fn open(directory: BorrowedFd<'_>, path: &Path, how: OFlags) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | how;
    let name = path.file_name().unwrap_or_default();
    let file = File::from(rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(0o600))?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("a pipe or device has the name of the journal; remove it")),
    }
}

fn boot_id() -> String {
    // Without `/proc`, each process acts as if the machine had restarted. Resuming is then slower,
    // but still correct.
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_else(|_| format!("unknown {}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ORIGIN: JournalSource<'_> = JournalSource { source: "s3://b/a\nb", service: "http://h" };

    fn header() -> JournalHeader {
        let file = FileIdentity { device: 1, inode: 2, modified_ns: -3, changed_ns: i128::MAX };
        let version =
            Version { size: Some(99), etag: Some("\"a\nb\"".into()), file: Some(file), ..Version::default() };
        JournalHeader::new(ORIGIN, &version, 99, 8)
    }

    #[test]
    fn a_journal_of_another_copy_stays_and_a_missing_one_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("j");
        let place = File::open(directory.path()).unwrap();
        let first = Journal::create(place.as_fd(), path.clone(), &header()).unwrap();
        std::fs::remove_file(&path).unwrap();
        let second = Journal::create(place.as_fd(), path.clone(), &header()).unwrap();
        first.remove().unwrap();
        assert!(path.exists());
        second.remove().unwrap();
        assert!(!path.exists());
        second.remove().unwrap();
    }

    #[test]
    fn the_name_of_a_journal_is_short_and_cut_between_characters() {
        for name in ["é".repeat(120), "x".repeat(125), "字".repeat(79)] {
            let journal = Journal::path_for(Path::new(&name));
            let text = journal.to_str().expect("cut between characters");
            assert!(text.len() <= 143 && text.ends_with(JOURNAL_SUFFIX), "{text}");
            assert_ne!(journal, Journal::path_for(Path::new(&format!("{name}z"))));
        }
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("j");
        let place = File::open(directory.path()).unwrap();
        Journal::create(place.as_fd(), path.clone(), &header()).unwrap();
        let (_, found, records) = Journal::load(place.as_fd(), path).unwrap().unwrap();
        assert_eq!((found.clone(), records.len()), (header(), 0));
        assert_eq!(found.version(), header().version());
        assert!(found.is_of(ORIGIN) && found.is_of_this_boot());
        assert!(!found.is_of(JournalSource { service: "", ..ORIGIN }));
    }

    proptest! {
        #[test]
        fn a_journal_cut_anywhere_has_only_whole_records(count in 1_u32..20, cut in 0_usize..400, flip: bool) {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("j");
            let place = File::open(directory.path()).unwrap();
            let journal = Journal::create(place.as_fd(), path.clone(), &header()).unwrap();
            let head = std::fs::metadata(&path).unwrap().len() as usize;
            let records: Vec<ChunkRecord> = (0..count)
                .map(|index| ChunkRecord { index, checksum: (index % 2 == 0).then(|| Hasher::of(Algorithm::Crc64Nvme, &[index as u8])) })
                .collect();
            records.iter().for_each(|record| journal.append(record).unwrap());
            let mut bytes = std::fs::read(&path).unwrap();
            let cut = cut % (bytes.len() - head);
            if flip { bytes[head + cut] ^= 1 } else { bytes.truncate(head + cut) }
            std::fs::write(&path, &bytes).unwrap();
            let (journal, _, found) = Journal::load(place.as_fd(), path.clone()).unwrap().unwrap();
            prop_assert_eq!(&found[..], &records[..cut / RECORD_SIZE]);
            journal.append(&ChunkRecord { index: 77, checksum: None }).unwrap();
            let (_, _, again) = Journal::load(place.as_fd(), path).unwrap().unwrap();
            prop_assert_eq!(again.last().unwrap().index, 77);
        }
    }
}

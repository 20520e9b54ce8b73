//! Stores one inode in a compact record, because the kernel may hold a hundred thousand inodes.
//!
//! A record is one allocation, with fixed fields, the name, and the identity of the version. It is
//! decoded when the kernel requests the inode. Used by `inodes`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use firstbyte_location::{EntryKind, FileIdentity};

use crate::child::{Child, Permissions, VersionIdentity};

/// Offsets of the fixed fields. Numbers are in native byte order.
const LOOKUPS: usize = 0;
const DIRECTORY: usize = 4;
const IDENTITY: usize = 8;
const SIZE: usize = 16;
const SECONDS: usize = 24;
const NANOSECONDS: usize = 32;
const FLAGS: usize = 36;
const PINNED_BY: usize = 37;
const NAME_LENGTH: usize = 38;
const NAME: usize = 40;

/// Flag: the inode is a directory.
const IS_DIRECTORY: u8 = 2;
/// Flag: the inode has a modification time.
const HAS_TIME: u8 = 4;
/// Flag: the content was given to the kernel.
const CONTENT_GIVEN: u8 = 8;
/// Flag: the last bytes of the record are permissions.
const HAS_PERMISSIONS: u8 = 16;
/// Flag: the permissions include an owner.
const HAS_OWNER: u8 = 32;
/// Length of permissions, bytes.
const PERMISSIONS: usize = 10;

/// Values of the field at [`PINNED_BY`], which say how the bytes after the name identify the
/// version.
const BY_NOTHING: u8 = 0;
const UNKNOWN: u8 = 1;
const BY_TAG: u8 = 2;
const BY_FILE: u8 = 3;
const ELSEWHERE: u8 = 4;

/// The identity of the version, or where it is stored.
pub(crate) enum StoredIdentity {
    /// An identity that is stored in the record.
    Here(VersionIdentity),
    /// The version does not fit into a record. The owner of the record stores it.
    Elsewhere,
}

/// The record of one inode.
#[derive(Debug)]
pub(crate) struct InodeRecord(Box<[u8]>);

impl InodeRecord {
    /// Creates the record of a child with one lookup. `directory` is the number of the directory's
    /// path.
    pub(crate) fn new(directory: u32, child: &Child, identity: u64) -> Self {
        let (pinned_by, pin) = packed(&child.pin);
        let mut bytes = Vec::with_capacity(NAME + child.name.len() + pin.len() + PERMISSIONS);
        bytes.resize(NAME, 0);
        bytes.extend_from_slice(&child.name);
        bytes.extend_from_slice(&pin);
        let mut flags = if child.kind == EntryKind::Directory { IS_DIRECTORY } else { 0 };
        if let Some(Permissions { mode, owner }) = child.permissions {
            flags |= HAS_PERMISSIONS | if owner.is_some() { HAS_OWNER } else { 0 };
            let (user, group) = owner.unwrap_or_default();
            bytes.extend_from_slice(&mode.to_ne_bytes());
            bytes.extend_from_slice(&user.to_ne_bytes());
            bytes.extend_from_slice(&group.to_ne_bytes());
        }
        let mut record = Self(bytes.into());
        record.put(LOOKUPS, &1_u32.to_ne_bytes());
        record.put(DIRECTORY, &directory.to_ne_bytes());
        record.put(IDENTITY, &identity.to_ne_bytes());
        record.put(SIZE, &child.pin.size().unwrap_or(0).to_ne_bytes());
        // A name has at most 255 bytes.
        record.put(NAME_LENGTH, &(child.name.len() as u16).to_ne_bytes());
        record.0[FLAGS] = flags;
        record.0[PINNED_BY] = pinned_by;
        record.update_time(child);
        record
    }

    /// Returns the number of lookups that the kernel has not forgotten.
    pub(crate) fn lookups(&self) -> u32 {
        u32::from_ne_bytes(self.field(LOOKUPS))
    }

    pub(crate) fn set_lookups(&mut self, lookups: u32) {
        self.put(LOOKUPS, &lookups.to_ne_bytes());
    }

    /// Returns the number of the directory's path.
    pub(crate) fn directory(&self) -> u32 {
        u32::from_ne_bytes(self.field(DIRECTORY))
    }

    /// Returns the hash by which the record is found.
    pub(crate) fn identity(&self) -> u64 {
        u64::from_ne_bytes(self.field(IDENTITY))
    }

    /// Returns the length of the object in bytes, or 0 if it is not known.
    pub(crate) fn size(&self) -> u64 {
        u64::from_ne_bytes(self.field(SIZE))
    }

    pub(crate) fn modified(&self) -> Option<SystemTime> {
        let seconds = i64::from_ne_bytes(self.field(SECONDS));
        let whole = Duration::from_secs(seconds.unsigned_abs());
        let start = if seconds < 0 { UNIX_EPOCH - whole } else { UNIX_EPOCH + whole };
        let nanoseconds = u32::from_ne_bytes(self.field(NANOSECONDS));
        (self.0[FLAGS] & HAS_TIME != 0).then(|| start + Duration::from_nanos(nanoseconds.into()))
    }

    pub(crate) fn kind(&self) -> EntryKind {
        if self.0[FLAGS] & IS_DIRECTORY == 0 { EntryKind::File } else { EntryKind::Directory }
    }

    /// Records that the content was given to the kernel. Returns true the first time.
    pub(crate) fn hand_over(&mut self) -> bool {
        let before = self.0[FLAGS];
        self.0[FLAGS] |= CONTENT_GIVEN;
        before & CONTENT_GIVEN == 0
    }

    pub(crate) fn name(&self) -> &[u8] {
        &self.0[NAME..self.name_end()]
    }

    /// Returns the identity of the version.
    pub(crate) fn pin(&self) -> StoredIdentity {
        let bytes = &self.0[self.name_end()..self.pin_end()];
        StoredIdentity::Here(match self.0[PINNED_BY] {
            BY_NOTHING => VersionIdentity::Directory,
            BY_TAG => VersionIdentity::Tagged(self.size(), String::from_utf8_lossy(bytes).into()),
            BY_FILE => VersionIdentity::Local(self.size(), Box::new(unpacked(bytes))),
            UNKNOWN => VersionIdentity::Unknown,
            _ => return StoredIdentity::Elsewhere,
        })
    }

    /// Returns whether this is the record of `child` in `directory`. A version that is stored
    /// outside of this record is not compared.
    pub(crate) fn matches_child(&self, directory: u32, child: &Child) -> bool {
        let (pinned_by, pin) = packed(&child.pin);
        self.directory() == directory
            && self.name() == &*child.name
            && (self.0[PINNED_BY], self.size()) == (pinned_by, child.pin.size().unwrap_or(0))
            && self.0[self.name_end()..self.pin_end()] == *pin
            && self.permissions() == child.permissions
            && (self.kind() == EntryKind::Directory || self.has_time_of(child))
    }

    /// Returns whether the times are equal, or one of them is unknown. A difference of one second
    /// does not count, because a server may round the date up in a stat and down in a listing.
    fn has_time_of(&self, child: &Child) -> bool {
        let apart =
            |one: SystemTime, other| one.duration_since(other).unwrap_or_else(|early| early.duration());
        self.modified().zip(child.modified).is_none_or(|(own, new)| apart(own, new) <= Duration::from_secs(1))
    }

    /// Takes the time of `child`, if it has one.
    pub(crate) fn update_time(&mut self, child: &Child) {
        if let Some((seconds, nanoseconds)) = child.modified.map(split) {
            self.0[FLAGS] |= HAS_TIME;
            self.put(SECONDS, &seconds.to_ne_bytes());
            self.put(NANOSECONDS, &nanoseconds.to_ne_bytes());
        }
    }

    pub(crate) fn permissions(&self) -> Option<Permissions> {
        let at = self.pin_end();
        let word = |at: usize| u32::from_ne_bytes(self.field(at));
        (self.0[FLAGS] & HAS_PERMISSIONS != 0).then(|| Permissions {
            mode: u16::from_ne_bytes(self.field(at)),
            owner: (self.0[FLAGS] & HAS_OWNER != 0).then(|| (word(at + 2), word(at + 6))),
        })
    }

    fn pin_end(&self) -> usize {
        self.0.len() - if self.0[FLAGS] & HAS_PERMISSIONS == 0 { 0 } else { PERMISSIONS }
    }

    fn name_end(&self) -> usize {
        NAME + usize::from(u16::from_ne_bytes(self.field(NAME_LENGTH)))
    }

    fn field<const N: usize>(&self, at: usize) -> [u8; N] {
        self.0[at..].first_chunk().copied().unwrap_or([0; N])
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

/// Splits a time into seconds since 1970, negative before it, and nanoseconds after these seconds.
fn split(time: SystemTime) -> (i64, u32) {
    let signed = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => (signed(since.as_secs()), since.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            match before.subsec_nanos() {
                0 => (-signed(before.as_secs()), 0),
                nanoseconds => (-signed(before.as_secs()) - 1, 1_000_000_000 - nanoseconds),
            }
        }
    }
}

/// Packs the identity of a version. Returns a value for the field at [`PINNED_BY`], and the bytes
/// of the identity without the size.
fn packed(pin: &VersionIdentity) -> (u8, std::borrow::Cow<'_, [u8]>) {
    use std::borrow::Cow;
    match pin {
        VersionIdentity::Directory => (BY_NOTHING, Cow::Borrowed(&[])),
        VersionIdentity::Unknown => (UNKNOWN, Cow::Borrowed(&[])),
        VersionIdentity::Tagged(_, etag) => (BY_TAG, Cow::Borrowed(etag.as_bytes())),
        VersionIdentity::Local(_, file) => {
            let numbers = [file.device.to_ne_bytes(), file.inode.to_ne_bytes()].concat();
            let times = [file.modified_ns.to_ne_bytes(), file.changed_ns.to_ne_bytes()].concat();
            (BY_FILE, Cow::Owned([numbers, times].concat()))
        }
        VersionIdentity::Other(_) => (ELSEWHERE, Cow::Borrowed(&[])),
    }
}

fn unpacked(bytes: &[u8]) -> FileIdentity {
    let long = |at: usize| bytes[at..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
    let wide = |at: usize| bytes[at..].first_chunk().map_or(0, |bytes| i128::from_ne_bytes(*bytes));
    FileIdentity { device: long(0), inode: long(8), modified_ns: wide(16), changed_ns: wide(32) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pins() -> impl Strategy<Value = VersionIdentity> {
        let file = (any::<u64>(), any::<u64>(), any::<i128>(), any::<i128>()).prop_map(
            |(device, inode, modified_ns, changed_ns)| FileIdentity {
                device,
                inode,
                modified_ns,
                changed_ns,
            },
        );
        prop_oneof![
            Just(VersionIdentity::Directory),
            Just(VersionIdentity::Unknown),
            (any::<u64>(), "\\PC{0,40}").prop_map(|(size, etag)| VersionIdentity::Tagged(size, etag.into())),
            (any::<u64>(), file).prop_map(|(size, file)| VersionIdentity::Local(size, Box::new(file))),
        ]
    }

    proptest! {
        #[test]
        fn a_record_returns_what_it_was_made_of(
            name in proptest::collection::vec(any::<u8>(), 0..255),
            pin in pins(),
            seconds in proptest::option::of(-(1_i64 << 40)..1 << 40),
            directory: u32,
            identity: u64,
            mode in proptest::option::of(any::<u16>()),
            owner in proptest::option::of(any::<(u32, u32)>()),
        ) {
            let modified = seconds.map(|seconds| {
                let whole = Duration::from_secs(seconds.unsigned_abs());
                let start = if seconds < 0 { UNIX_EPOCH - whole } else { UNIX_EPOCH + whole };
                start + Duration::from_nanos(7)
            });
            let kind = if pin == VersionIdentity::Directory { EntryKind::Directory } else { EntryKind::File };
            let permissions = mode.map(|mode| Permissions { mode, owner });
            let child = Child { name: name.into(), kind, modified, pin, permissions };
            let mut record = InodeRecord::new(directory, &child, identity);
            prop_assert!(record.matches_child(directory, &child) && !record.matches_child(directory ^ 1, &child));
            prop_assert_eq!((record.lookups(), record.directory(), record.identity()), (1, directory, identity));
            prop_assert_eq!(record.name(), &*child.name);
            prop_assert_eq!(record.permissions(), child.permissions);
            prop_assert_eq!((record.kind(), record.modified()), (kind, modified));
            prop_assert!(matches!(record.pin(), StoredIdentity::Here(pin) if pin == child.pin));
            record.set_lookups(9);
            prop_assert_eq!(record.lookups(), 9);
            let other = Child { pin: VersionIdentity::Tagged(3, "another".into()), ..child };
            prop_assert!(!record.matches_child(directory, &other));
        }
    }
}

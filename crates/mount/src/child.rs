//! Represents one name in a directory, with the attributes that a listing or a stat reports.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use firstbyte_location::{Entry, EntryKind, FileIdentity, Version};
use firstbyte_store::Stat;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

/// One name in a directory. The type is kept small, because wide directories have many names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Child {
    pub(crate) name: Box<[u8]>,
    /// Kind of the entry. A directory and a file may have the same name.
    pub(crate) kind: EntryKind,
    pub(crate) modified: Option<SystemTime>,
    pub(crate) pin: VersionIdentity,
    pub(crate) permissions: Option<Permissions>,
}

/// The permissions of a file, which its source has or which were stored with its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permissions {
    /// The permission bits, within 0o777.
    pub(crate) mode: u16,
    /// User and group. `None` means the user and group of the mount.
    pub(crate) owner: Option<(u32, u32)>,
}

impl Permissions {
    /// Returns the permissions that a stat reports.
    pub(crate) fn of(stat: &Stat) -> Option<Self> {
        let bits = |mode: u32| (mode & 0o777) as u16;
        match stat.metadata.mode {
            Some(mode) => Some(Self { mode: bits(mode), owner: stat.metadata.owner }),
            None => Self::from_user_metadata(&stat.metadata.user),
        }
    }

    /// Reads permissions from the user metadata of an object. rclone and s3fs write `mode`, `uid`
    /// and `gid` (<https://rclone.org/s3/#metadata>, s3fs-fuse/src/metaheader.cpp). AWS DataSync
    /// and FSx write `file-permissions`, `file-owner` and `file-group`
    /// (<https://docs.aws.amazon.com/datasync/latest/userguide/metadata-copied.html>).
    fn from_user_metadata(user: &BTreeMap<String, String>) -> Option<Self> {
        let value = |names: [&str; 2]| names.into_iter().find_map(|name| user.get(name));
        let id = |names| value(names).and_then(|text| text.trim().parse().ok());
        let mode = value(["mode", "file-permissions"]).and_then(|text| parse_mode(text.trim()))?;
        let owner = id(["uid", "file-owner"]).zip(id(["gid", "file-group"]));
        Some(Self { mode, owner })
    }
}

/// Parses a mode. rclone and DataSync write it in octal. s3fs writes it in decimal, including the
/// file type bits of a regular file. No such decimal number is also a valid octal mode.
fn parse_mode(text: &str) -> Option<u16> {
    const FILE_TYPE_BITS: u32 = 0o170_000;
    const REGULAR_FILE: u32 = 0o100_000;
    let is_mode =
        |mode: &u32| *mode <= 0o7777 || mode & FILE_TYPE_BITS == REGULAR_FILE && *mode < 2 * REGULAR_FILE;
    let octal = u32::from_str_radix(text, 8).ok().filter(is_mode);
    let mode = octal.or_else(|| text.parse().ok().filter(is_mode))?;
    Some((mode & 0o777) as u16)
}

/// The attributes of files that a listing provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListedAttributes {
    /// All attributes that are shown of an object.
    Objects,
    /// Only names and kinds. A stat reports permissions and versions.
    NamesOnly,
}

/// Truncates a time to seconds. A listing reports the store's date in milliseconds, and a stat in
/// seconds. So a file has the same time, whether a listing or a stat reported it.
fn whole_seconds(time: SystemTime) -> SystemTime {
    time.duration_since(UNIX_EPOCH).map_or(time, |since| UNIX_EPOCH + Duration::from_secs(since.as_secs()))
}

/// Identifies the version of a file's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum VersionIdentity {
    /// A directory, which has no version.
    Directory,
    /// An object with a length and a strong `ETag`.
    Tagged(u64, Box<str>),
    /// A local file.
    Local(u64, Box<FileIdentity>),
    /// Any other version that a server reports.
    Other(Box<Version>),
    /// A version that the listing does not contain. A stat reports it.
    Unknown,
}

impl VersionIdentity {
    /// Creates the identity of the content that `version` describes. A listing reports the `ETag`
    /// and the length; a stat also reports a version id and times. The identity contains only what
    /// both report. So an object has the same inode, whether a listing or a stat reported it.
    pub(crate) fn of(version: Version) -> Self {
        match (version.size, version.if_match().is_some(), version.file) {
            (Some(size), true, _) => Self::Tagged(size, version.etag.unwrap_or_default().into()),
            (Some(size), false, Some(file)) => Self::Local(size, Box::new(file)),
            _ => Self::Other(Box::new(version)),
        }
    }

    /// Returns the version for the hydration engine. `None` if there is no content to read, or the
    /// version is unknown.
    pub(crate) fn version(&self) -> Option<Version> {
        Some(match self {
            Self::Tagged(size, etag) => {
                Version { size: Some(*size), etag: Some(etag.as_ref().into()), ..Version::default() }
            }
            Self::Local(size, file) => {
                Version { size: Some(*size), file: Some(**file), ..Version::default() }
            }
            Self::Other(version) => version.as_ref().clone(),
            Self::Directory | Self::Unknown => return None,
        })
    }

    /// Returns the length in bytes, if it is known.
    pub(crate) fn size(&self) -> Option<u64> {
        match self {
            Self::Directory => Some(0),
            Self::Tagged(size, _) | Self::Local(size, _) => Some(*size),
            Self::Other(version) => version.size,
            Self::Unknown => None,
        }
    }
}

impl Child {
    pub(crate) fn directory(name: &[u8]) -> Self {
        Self {
            name: name.into(),
            kind: EntryKind::Directory,
            modified: None,
            pin: VersionIdentity::Directory,
            permissions: None,
        }
    }

    /// Creates a child from a listed entry, which has no permissions.
    pub(crate) fn from_entry(entry: Entry, listed: ListedAttributes) -> Self {
        let version = Version { size: entry.size, etag: entry.etag, ..Version::default() };
        let pin = match entry.kind {
            _ if listed == ListedAttributes::NamesOnly => VersionIdentity::Unknown,
            EntryKind::Directory => VersionIdentity::Directory,
            // Some servers list every length as 0. Such a length is left unknown, and the file's
            // attributes are requested when the file is looked up.
            _ if !version.has_credible_length() => VersionIdentity::Unknown,
            _ => Some(VersionIdentity::of(version))
                .filter(|pin| matches!(pin, VersionIdentity::Tagged(..)))
                .unwrap_or(VersionIdentity::Unknown),
        };
        let modified = entry.modified.map(whole_seconds);
        Self { name: entry.name.into(), kind: entry.kind, modified, pin, permissions: None }
    }

    /// Creates the child `name` from a stat.
    pub(crate) fn from_stat(name: &[u8], stat: Stat) -> Self {
        let modified = match &stat.version.last_modified {
            Some(text) => OffsetDateTime::parse(text, &Rfc2822).ok().map(SystemTime::from),
            None => stat.modified,
        };
        let permissions = Permissions::of(&stat);
        let pin = if stat.kind == EntryKind::Directory {
            VersionIdentity::Directory
        } else {
            VersionIdentity::of(stat.version)
        };
        Self { name: name.into(), kind: stat.kind, modified, pin, permissions }
    }

    /// Returns whether the attributes are known.
    pub(crate) fn is_known(&self) -> bool {
        self.pin != VersionIdentity::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_modes_are_octal_or_those_of_s3fs() {
        for (text, mode) in
            [("0100755", 0o755), ("100644", 0o644), ("33261", 0o755), ("33188", 0o644), ("0644", 0o644)]
        {
            assert_eq!(parse_mode(text), Some(mode), "{text}");
        }
        for text in ["", "rwx", "-1", "040755", "99999999"] {
            assert_eq!(parse_mode(text), None, "{text}");
        }
        let stored = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(name, value)| ((*name).into(), (*value).into()));
            Permissions::from_user_metadata(&pairs.collect())
        };
        let owner = Some((1000, 100));
        assert_eq!(
            stored(&[("mode", "33261"), ("uid", "1000"), ("gid", "100")]),
            Some(Permissions { mode: 0o755, owner })
        );
        assert_eq!(
            stored(&[("file-permissions", "0100600"), ("file-owner", "1000"), ("file-group", "100")]),
            Some(Permissions { mode: 0o600, owner })
        );
        assert_eq!(stored(&[("uid", "1000")]), None);
    }
}

//! Shows the state of a file as extended attributes, `user.firstbyte.*`.
//!
//! The attributes are readable by name but not listed. `cp -a`, `rsync -X` and `tar --xattrs` store
//! all listed attributes with a copy, where they would describe the wrong file. The virtual
//! attributes of Ceph are not listed for the same reason
//! (<https://github.com/ceph/ceph/pull/29339>, 2026-11-28).
//!
//! For every file, `ls -l` requests attributes that only other file systems have. Attributes
//! outside `user.` are reported as unsupported and not as missing, so that `ls` stops requesting
//! them.

use std::time::UNIX_EPOCH;

use firstbyte_hydrate::cache::{VersionState, VersionStatus};
use firstbyte_location::EntryKind;

use crate::error::Result;
use crate::filesystem::FileSystem;
use crate::inodes::{Ino, Node};

const PREFIX: &str = "user.firstbyte.";

/// Attributes that files and directories have.
const COMMON_ATTRIBUTES: [&str; 3] = ["location", "control", "cache"];
/// Attributes that only files have.
const FILE_ATTRIBUTES: [&str; 5] = ["version", "state", "percent", "bytes", "last_open"];

/// The result of looking up an attribute.
pub(crate) enum Attribute {
    Value(String),
    /// An attribute of this kind is possible, but this one is not set.
    Missing,
    /// No file below the mount has attributes of this kind.
    Unsupported,
}

impl FileSystem {
    /// Returns one attribute of an inode.
    pub(crate) fn attribute(&self, ino: Ino, name: &[u8]) -> Result<Attribute> {
        if !name.starts_with(b"user.") {
            return Ok(Attribute::Unsupported);
        }
        let name = name.strip_prefix(PREFIX.as_bytes()).and_then(|name| std::str::from_utf8(name).ok());
        let node = self.inodes.get(ino)?;
        let value = name
            .filter(|name| names(&node).any(|known| known == *name))
            .and_then(|name| self.value(&node, name));
        Ok(value.map_or(Attribute::Missing, Attribute::Value))
    }

    fn value(&self, node: &Node, name: &str) -> Option<String> {
        Some(match name {
            "location" => {
                let location = self.source.location(&node.path);
                // A text without secrets names the same object: see `MountSource::with_secrets`.
                location.to_text().unwrap_or_else(|| location.to_string())
            }
            "control" => self.control.as_ref()?.display().to_string(),
            "cache" => self.hydrator.cache()?.directory().display().to_string(),
            "version" => node.pin.version()?.to_string(),
            _ => return self.cache_value(node, name),
        })
    }

    /// Returns the state of a file in the cache, as `status` prints it. Only the cache is read, and
    /// the file is not opened.
    fn cache_value(&self, node: &Node, name: &str) -> Option<String> {
        let (version, size, location) =
            (node.pin.version()?, node.pin.size()?, self.source.location(&node.path));
        let status = self.hydrator.cache_for(&location)?.status_of(&location, &version);
        let here = status.as_ref().map_or(0, |status| status.here);
        Some(match name {
            "state" => state(size, status.as_ref()).word().to_owned(),
            "percent" => VersionStatus::percent(here, size).to_string(),
            "bytes" => here.to_string(),
            "last_open" => {
                let opened = status.and_then(|status| status.last_use.duration_since(UNIX_EPOCH).ok());
                opened.unwrap_or_default().as_secs().to_string()
            }
            _ => return None,
        })
    }
}

fn names(node: &Node) -> impl Iterator<Item = &'static str> {
    let files = if node.kind == EntryKind::File { &FILE_ATTRIBUTES[..] } else { &[] };
    COMMON_ATTRIBUTES.iter().chain(files).copied()
}

fn state(size: u64, status: Option<&VersionStatus>) -> VersionState {
    match status {
        _ if size == 0 => VersionState::Hydrated,
        Some(status) => status.state,
        None => VersionState::Released,
    }
}

//! Represents the names of entries below the served directory, as values.
//!
//! A name is checked once, when it becomes an [`EntryPath`]. Such a path never leads upwards and
//! never names a file that is reserved for the server. `object::root` resolves the path, including
//! links. Used by every module that names a file.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The name of the server's private directory, which contains uploads in progress. Opened by
/// `object::reserved`.
pub(crate) const RESERVED: &str = ".firstbyte";

/// Maximum length of a file name on Linux, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// A path below the served directory: no empty, `.` or `..` component, no NUL, and no hidden name
/// ([`is_hidden`]). The empty path is the directory itself.
///
/// A path may have a fence, a directory that its first components name: links below the fence must
/// not lead out of it. Paths with the same components are equal, whatever their fences.
#[derive(Clone, Debug, Default)]
pub(crate) struct EntryPath {
    path: PathBuf,
    /// Number of leading bytes of `path` that name the fence, the directory that links must not
    /// leave; 0 for the served directory.
    fence: usize,
}

impl PartialEq for EntryPath {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for EntryPath {}

impl std::hash::Hash for EntryPath {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.path.hash(state);
    }
}

impl PartialOrd for EntryPath {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for EntryPath {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.path.cmp(&other.path)
    }
}

/// The reason why bytes are not a valid [`EntryPath`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PathError {
    /// The path has `.`, `..`, an empty component or NUL.
    #[error("no file can have this name: an empty, `.` or `..` component, or a NUL byte")]
    Unnameable,
    /// A component is longer than 255 bytes.
    #[error("no file can have this name: a component is longer than 255 bytes")]
    TooLong,
    /// A component is reserved for the server.
    #[error("this name is reserved for files in the making")]
    Hidden,
}

/// True if `name` belongs to unfinished writes: `.firstbyte`, and temporary files such as
/// `.NAME.firstbyte-part`.
#[must_use]
pub(crate) fn is_hidden(name: &[u8]) -> bool {
    let marker = b".firstbyte-";
    // Compares without regard to case, because some file systems look up names that way.
    name.eq_ignore_ascii_case(RESERVED.as_bytes())
        || (name.first() == Some(&b'.')
            && name.windows(marker.len()).any(|window| window.eq_ignore_ascii_case(marker)))
}

impl EntryPath {
    /// Parses the decoded bytes of a path. Drops one leading and one trailing slash.
    pub(crate) fn parse(path: &[u8]) -> Result<Self, PathError> {
        let path = path.strip_prefix(b"/").unwrap_or(path);
        let path = path.strip_suffix(b"/").unwrap_or(path);
        if path.is_empty() {
            return Ok(Self::default());
        }
        for name in path.split(|byte| *byte == b'/') {
            if name.is_empty() || name == b"." || name == b".." || name.contains(&0) {
                return Err(PathError::Unnameable);
            }
            if name.len() > MAX_NAME_BYTES {
                return Err(PathError::TooLong);
            }
            if is_hidden(name) {
                return Err(PathError::Hidden);
            }
        }
        Ok(Self { path: PathBuf::from(OsStr::from_bytes(path)), fence: 0 })
    }

    /// Sets the fence: links must not lead out of the directory that the first `fence` bytes name.
    pub(crate) fn fenced(mut self, fence: usize) -> Self {
        self.fence = fence;
        self
    }

    /// Returns the number of leading bytes that name the fence, the directory that links must not
    /// leave.
    pub(crate) fn fence(&self) -> usize {
        self.fence
    }

    /// Parses a percent-encoded URL path, decoding it exactly once.
    pub(crate) fn from_url(path: &str) -> Result<Self, PathError> {
        let decoded: Vec<u8> = percent_encoding::percent_decode_str(path).collect();
        Self::parse(&decoded)
    }

    /// Returns the path of the entry `name` in this directory.
    pub(crate) fn join(&self, name: &OsStr) -> Self {
        Self { path: self.path.join(name), fence: self.fence }
    }

    /// True if the path is the served directory itself.
    pub(crate) fn is_root(&self) -> bool {
        self.path.as_os_str().is_empty()
    }

    /// Returns the last component; `None` for the root.
    pub(crate) fn name(&self) -> Option<&OsStr> {
        self.path.file_name()
    }

    /// Returns the first component. For the root, returns the root.
    pub(crate) fn first(&self) -> Self {
        let path = self.path.iter().next().map(PathBuf::from).unwrap_or_default();
        Self { path, fence: 0 }
    }

    /// Returns the parent directory. For the root, returns the root. A parent above the fence has
    /// no fence.
    pub(crate) fn parent(&self) -> Self {
        let path = self.path.parent().map(Path::to_path_buf).unwrap_or_default();
        let fence = if path.as_os_str().len() < self.fence { 0 } else { self.fence };
        Self { path, fence }
    }

    /// Returns the bytes of the path, with `/` between components.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.path.as_os_str().as_bytes()
    }

    /// Returns the bytes of the path followed by `/`; empty for the root.
    pub(crate) fn as_directory(&self) -> Vec<u8> {
        let mut bytes = self.as_bytes().to_vec();
        if !bytes.is_empty() {
            bytes.push(b'/');
        }
        bytes
    }

    pub(crate) fn as_path(&self) -> &Path {
        &self.path
    }

    /// Returns the path for system calls: the root is `.`.
    pub(crate) fn for_kernel(&self) -> &Path {
        if self.is_root() { Path::new(".") } else { &self.path }
    }

    /// Returns the directory that links must not leave, and the path below it. `None` if links must
    /// not leave the served directory, but may lead anywhere in it. The server's owner chose the
    /// fence, so links on the way to the fence are followed anywhere inside the served directory.
    pub(crate) fn at_fence(&self) -> Option<(&Path, &Path)> {
        let bytes = self.as_bytes();
        if self.fence == 0 || self.fence >= bytes.len() {
            return None;
        }
        let (directory, below) = (&bytes[..self.fence], &bytes[self.fence + 1..]);
        Some((Path::new(OsStr::from_bytes(directory)), Path::new(OsStr::from_bytes(below))))
    }
}

impl std::fmt::Display for EntryPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "/{}", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_no_entry_paths() {
        for bad in ["..", "a/../b", "a//b", "./a", "a\0b", "//etc/passwd", "a/."] {
            assert_eq!(EntryPath::parse(bad.as_bytes()), Err(PathError::Unnameable), "{bad:?}");
        }
        assert_eq!(EntryPath::parse(&[b'x'; 256]), Err(PathError::TooLong));
        assert_eq!(EntryPath::parse(b"a/.b.firstbyte-part"), Err(PathError::Hidden));
        assert_eq!(EntryPath::parse(b"/a/b/").unwrap().as_bytes(), b"a/b");
    }

    #[test]
    fn percent_signs_are_decoded_exactly_once() {
        assert_eq!(EntryPath::from_url("/%252e%252e").unwrap().as_bytes(), b"%2e%2e");
        assert_eq!(EntryPath::from_url("/%2e%2e/x"), Err(PathError::Unnameable));
    }
}

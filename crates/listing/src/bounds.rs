//! Limits a walk to a part of a tree: names that the caller does not want are not opened, and
//! places that the caller refuses are errors. Both orders of a [`walk`](crate::walk) ask here
//! before they follow a link or enter a directory.

use std::fmt;
use std::sync::Arc;

use rustix::fs::FileType;

use crate::chain::DirectoryIdentity;

/// A test of names. A name is relative to the root of the walk, without a `/` at its end.
#[derive(Clone)]
pub struct NameTest(Arc<TestFunction>);

type TestFunction = dyn Fn(&[u8]) -> bool + Send + Sync;

impl NameTest {
    /// Creates a test. The threads of a walk have working directories of their own, so a test that
    /// looks at files needs absolute paths.
    pub fn new(test: impl Fn(&[u8]) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(test))
    }

    /// Returns the result for a name.
    #[must_use]
    pub fn is_met(&self, name: &[u8]) -> bool {
        (self.0)(name)
    }
}

impl fmt::Debug for NameTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NameTest")
    }
}

/// The bounds of a walk. The default has none.
#[derive(Clone, Debug, Default)]
pub struct WalkBounds {
    /// Test for names that are wanted. Errors about other names are not reported. `None`: every
    /// name is wanted.
    pub wanted: Option<NameTest>,
    /// Test for directories that may contain wanted names. Other directories are not opened.
    /// `None`: every directory may.
    pub entered: Option<NameTest>,
    /// Test for names of links that are refused, because of their targets. A refused link is an
    /// error, and is not returned. `None`: no link is refused.
    pub refused: Option<NameTest>,
    /// Device and inode number of the directory that is refused wherever it is found.
    pub outside: Option<(u64, u64)>,
}

impl WalkBounds {
    /// True if the walk reports errors about this name, because the caller wants it.
    pub(crate) fn reports_errors_of(&self, name: &[u8]) -> bool {
        self.wanted.as_ref().is_none_or(|wanted| wanted.is_met(bare(name)))
    }

    /// True if the walk enters the directory of this name.
    pub(crate) fn enters(&self, name: &[u8]) -> bool {
        self.entered.as_ref().is_none_or(|entered| entered.is_met(bare(name)))
    }

    /// True if the walk must not follow the link of this name, whose target has this type. A link
    /// is not refused if the walk would neither return its target nor enter it.
    pub(crate) fn refuses_link(&self, name: &[u8], target: FileType) -> bool {
        self.refused
            .as_ref()
            .is_some_and(|refused| self.reports_errors_of_entry(name, target) && refused.is_met(name))
    }

    /// True if the walk must not enter this directory.
    pub(crate) fn refuses(&self, identity: DirectoryIdentity) -> bool {
        self.outside == Some((identity.device, identity.inode))
    }

    /// True if the walk reports errors about an entry of this kind. A link that cannot be resolved
    /// has no names below it.
    pub(crate) fn reports_errors_of_entry(&self, name: &[u8], kind: FileType) -> bool {
        match kind {
            FileType::Directory => self.enters(name),
            FileType::Unknown => self.reports_errors_of(name) || self.enters(name),
            _ => self.reports_errors_of(name),
        }
    }
}

fn bare(name: &[u8]) -> &[u8] {
    name.strip_suffix(b"/").unwrap_or(name)
}

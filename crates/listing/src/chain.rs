//! Defines the chain of directories above a directory. A listing that follows symbolic links uses
//! the chain to detect a link that leads back to a directory above it.

use std::os::fd::AsFd;
use std::sync::Arc;

/// Device and inode number, which identify a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryIdentity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl DirectoryIdentity {
    pub(crate) fn of(directory: impl AsFd) -> rustix::io::Result<Self> {
        let stat = rustix::fs::fstat(directory)?;
        Ok(Self { device: stat.st_dev, inode: stat.st_ino })
    }
}

/// A directory and the directories above it.
#[derive(Debug)]
pub(crate) struct DirectoryChain {
    pub(crate) identity: DirectoryIdentity,
    pub(crate) above: Option<Arc<DirectoryChain>>,
}

impl DirectoryChain {
    pub(crate) fn contains(&self, identity: DirectoryIdentity) -> bool {
        let mut chain = Some(self);
        while let Some(link) = chain {
            if link.identity == identity {
                return true;
            }
            chain = link.above.as_deref();
        }
        false
    }
}

impl Drop for DirectoryChain {
    /// Drops the chain's elements one by one. A recursive drop would overflow the stack for a very
    /// deep tree.
    fn drop(&mut self) {
        let mut above = self.above.take();
        while let Some(link) = above {
            above = Arc::into_inner(link).and_then(|mut link| link.above.take());
        }
    }
}

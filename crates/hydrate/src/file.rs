//! A version of an object, as its users hold it.

use std::sync::{Arc, Weak};

use firstbyte_location::{ByteRange, Location, Version};

use crate::Handle;
use crate::cache::{Backing, Pin, Status};
use crate::node::Node;
use crate::streams::Ahead;

/// One request of what is fetched for somebody expected: most such files are smaller.
const SEGMENT: u64 = 2 << 20;

/// One version of one object. Clones are the same file. Hold it while it is open, and not for every name that is known:
/// from its first read on it holds descriptors.
#[derive(Clone)]
pub struct File {
    pub(crate) node: Arc<Node>,
}

impl File {
    /// Where it is.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.node.location
    }

    /// The version it is pinned to.
    #[must_use]
    pub fn version(&self) -> &Version {
        &self.node.version
    }

    /// Length in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.node.size()
    }

    /// One open of it.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle::new(self.clone())
    }

    /// The whole file on local disk, where it is hydrated and verified; it stays while the backing lives.
    #[must_use]
    pub fn backing(&self) -> Option<Backing> {
        self.node.here.backing()
    }

    /// What is here of it; nothing where there is no cache for it.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        self.node.here.cached()?.status()
    }

    /// Keeps it from eviction, or lets it go again. Returns whether there is a cache for it.
    #[must_use]
    pub fn pin(&self, pin: Pin) -> bool {
        let cached = self.node.here.cached();
        cached.inspect(|cached| cached.pin(pin)).is_some()
    }

    /// Fetches what is not here of `range`, for somebody who is expected to read it soon: after readers who wait, before
    /// hydration. Ends once `interest` has no owner any more.
    pub fn prefetch(&self, range: ByteRange, interest: &Weak<()>) {
        let range = range.intersect(ByteRange::new(0, self.size()));
        if !range.is_empty() {
            let ahead = Ahead { range: range.start..range.end, segment: SEGMENT, reader: range.start };
            self.node.ahead(&ahead, interest);
        }
    }
}

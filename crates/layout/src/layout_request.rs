//! The shape that a caller requests for a layout. Options that are `None` get default values, or
//! values that suit the number of files.

use std::path::Path;

use crate::error::{Error, Result};
use crate::scheme::{Hash, Leaf, Scheme};

/// The shape asked for a layout; an option that is `None` is filled in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayoutRequest {
    /// What paths are computed from; [`Hash::Xxh3`] by default.
    pub hash: Option<Hash>,
    /// Directories above a file; by default as many as leave about 100 files in one.
    pub levels: Option<u8>,
    /// Digits in a directory's name; likewise.
    pub width: Option<u8>,
    /// What files are called in their directories; [`Leaf::Name`] by default.
    pub leaf: Option<Leaf>,
}

impl LayoutRequest {
    /// Fails where the layout that is in `root`, of the shape `found`, is not the one asked for.
    ///
    /// # Errors
    /// [`Error::Differs`]; [`Error::Scheme`]: the options do not go together.
    pub fn agrees(&self, found: Scheme, root: &Path) -> Result<()> {
        let wanted = Scheme::new(
            self.hash.unwrap_or(found.hash()),
            self.levels.unwrap_or(found.levels()),
            self.width.unwrap_or(found.width()),
            self.leaf.unwrap_or(found.leaf()),
        )?;
        if wanted == found { Ok(()) } else { Err(Error::Differs { root: root.to_owned(), found, wanted }) }
    }

    /// The shapes that satisfy it.
    ///
    /// # Errors
    /// [`Error::Scheme`]: no shape does.
    pub(crate) fn shapes(&self) -> Result<Vec<Scheme>> {
        let (hash, leaf) = (self.hash.unwrap_or_default(), self.leaf.unwrap_or_default());
        Ok(Scheme::shapes(hash, self.levels, self.width, leaf)?)
    }
}

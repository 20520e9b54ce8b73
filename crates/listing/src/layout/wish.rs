//! What a layout is to be like, as far as somebody has said so.

use std::path::Path;

use super::error::{Error, Result};
use super::scheme::{Hash, Leaf, Scheme};

/// What a layout is to be like; what is left open is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// What paths are computed from; [`Hash::Xxh3`] unless told.
    pub hash: Option<Hash>,
    /// Directories above a file; as many as leave about 100 files in one unless told.
    pub levels: Option<u8>,
    /// Digits in a directory's name; likewise.
    pub width: Option<u8>,
    /// What files are called in their directories; [`Leaf::Name`] unless told.
    pub leaf: Option<Leaf>,
}

impl Wish {
    /// Fails where the layout that is in `root`, of the shape `found`, is another than the one wished for.
    ///
    /// # Errors
    /// [`Error::Differs`]; [`Error::Scheme`]: the wishes do not go together.
    pub fn agrees(&self, found: Scheme, root: &Path) -> Result<()> {
        let wanted = Scheme::new(
            self.hash.unwrap_or(found.hash()),
            self.levels.unwrap_or(found.levels()),
            self.width.unwrap_or(found.width()),
            self.leaf.unwrap_or(found.leaf()),
        )?;
        if wanted == found { Ok(()) } else { Err(Error::Differs { root: root.to_owned(), found, wanted }) }
    }

    /// The shapes that grant it.
    ///
    /// # Errors
    /// [`Error::Scheme`]: there are none.
    pub(super) fn shapes(&self) -> Result<Vec<Scheme>> {
        let (hash, leaf) = (self.hash.unwrap_or_default(), self.leaf.unwrap_or_default());
        Scheme::shapes(hash, self.levels, self.width, leaf)
    }
}

//! The shape that a caller requests for a layout. Options that are `None` get default values, or
//! values that suit the number of files.

use std::path::Path;

use crate::error::{Error, Result};
use crate::scheme::{Hash, LayoutScheme, Leaf};

/// The requested shape of a layout. Options that are `None` are filled in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayoutRequest {
    /// Source of the digits in a path; [`Hash::Xxh3`] by default.
    pub hash: Option<Hash>,
    /// Number of directories above a file. Default: as many as leave about 100 files in each.
    pub levels: Option<u8>,
    /// Digits in a directory's name. Default: as for `levels`.
    pub width: Option<u8>,
    /// Name of a file in its directory; [`Leaf::Name`] by default.
    pub leaf: Option<Leaf>,
}

impl LayoutRequest {
    /// Checks that `found`, the shape of the layout in `root`, is the requested one.
    ///
    /// # Errors
    /// [`Error::Differs`] if it is another. [`Error::Scheme`] if the options do not go together.
    pub fn agrees(&self, found: LayoutScheme, root: &Path) -> Result<()> {
        let wanted = LayoutScheme::new(
            self.hash.unwrap_or(found.hash()),
            self.levels.unwrap_or(found.levels()),
            self.width.unwrap_or(found.width()),
            self.leaf.unwrap_or(found.leaf()),
        )?;
        if wanted == found { Ok(()) } else { Err(Error::Differs { root: root.to_owned(), found, wanted }) }
    }

    /// Returns the shapes that satisfy the request.
    ///
    /// # Errors
    /// [`Error::Scheme`] if no shape does.
    pub(crate) fn shapes(&self) -> Result<Vec<LayoutScheme>> {
        let (hash, leaf) = (self.hash.unwrap_or_default(), self.leaf.unwrap_or_default());
        Ok(LayoutScheme::shapes(hash, self.levels, self.width, leaf)?)
    }
}

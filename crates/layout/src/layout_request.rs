//! Defines the request for a layout's shape. Options that are `None` get default values, or values
//! that suit the number of files.

use std::path::Path;

use crate::error::{Error, Result};
use crate::scheme::{DigitSource, LayoutScheme, Leaf};

/// The requested shape of a layout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayoutRequest {
    /// Source of the digits in a path; [`DigitSource::Xxh3`] by default.
    pub hash: Option<DigitSource>,
    /// Number of directories above a file. By default, as many as leave about 100 files in each
    /// directory.
    pub levels: Option<u8>,
    /// Number of digits in a directory's name. By default, chosen together with `levels`.
    pub width: Option<u8>,
    /// Name of a file in its directory; [`Leaf::Name`] by default.
    pub leaf: Option<Leaf>,
}

impl LayoutRequest {
    /// Checks that `found`, the shape of the layout in `root`, meets the request.
    ///
    /// # Errors
    /// [`Error::Differs`] if the shape is another one. [`Error::Scheme`] if the options exclude
    /// each other.
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
    /// [`Error::Scheme`] if no shape satisfies it.
    pub(crate) fn shapes(&self) -> Result<Vec<LayoutScheme>> {
        let (hash, leaf) = (self.hash.unwrap_or_default(), self.leaf.unwrap_or_default());
        Ok(LayoutScheme::shapes(hash, self.levels, self.width, leaf)?)
    }
}

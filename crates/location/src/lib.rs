//! Where bytes live, what pins them and how their content is told: the words every other crate speaks.
//!
//! Pure values only. Nothing here opens, resolves or touches anything, so that plans, listings and predictions can be
//! computed and tested without a disk or a network.

mod checksum;
mod entry;
mod location;
mod range;
mod secret;
mod shown;
pub mod units;
mod version;

pub use checksum::{Algorithm, Checksum, ChecksumError, Hasher};
pub use entry::{Entry, Kind};
pub use location::{HttpUrl, Location, LocationError, S3Object};
pub use range::ByteRange;
pub use secret::redacted;
pub use shown::{Escaped, Shown, controls, shown};
pub use version::{FileIdentity, Strength, Version};

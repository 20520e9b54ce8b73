//! Defines the values that every other crate uses: locations, versions, byte ranges, checksums and
//! units.
//!
//! All values are pure: nothing here does I/O. So code that uses them can be tested without a disk
//! or a network.

mod checksum;
mod content_type;
mod directory;
mod disk;
mod entry;
pub mod etag;
mod location;
mod name;
mod range;
mod secret;
mod service;
mod sftp;
mod shown;
pub mod units;
mod version;

pub use checksum::{Algorithm, Checksum, ChecksumError, Hasher};
pub use content_type::content_type;
pub use directory::directory_of;
pub use disk::is_full;
pub use entry::{Entry, EntryKind};
pub use location::{HttpUrl, Location, LocationError, ObjectLocation, PLACES_WITH_COLON};
pub use name::{DestinationName, NameFault, PARTIAL_SUFFIX, is_partial_name, may_lead_out};
pub use range::{ByteRange, to_usize};
pub use secret::{redacted, redacted_operand};
pub use service::{EndpointName, Service};
pub use sftp::SftpPath;
pub use shown::{Escaped, Shown, controls, one_line, shown};
pub use version::{FileIdentity, NULL_VERSION, Strength, Version};

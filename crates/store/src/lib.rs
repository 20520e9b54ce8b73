//! Opens a location, whatever it lives on: stat, list, read a range, write, multipart.
//!
//! One concrete handle, [`Store`], over three private backends (local files, S3, HTTP). The byte path is ours: a
//! request is written to a blocking socket, and [`Body`] hands its bytes to the caller's buffer or file, by splice where
//! nobody needs to see them. Callers bring the threads. No S3 or TLS type leaves this crate.

mod answer;
mod body;
mod cancel;
mod error;
mod header_text;
mod http;
mod local;
mod object;
mod options;
mod retry;
mod s3;
mod sink;
mod store;
mod upload;
mod wire;

pub use body::Body;
pub use cancel::Cancel;
pub use error::{CertificateFault, Error, Result};
pub use firstbyte_listing::Order;
pub use firstbyte_location::{Algorithm, Checksum, Hasher};
pub use firstbyte_pacing::Throttle;
pub use local::{Beneath, Durability, Found, LocalFile, Over, Privacy, empty, local_path, open_regular};
pub use object::{Metadata, Stat};
pub use options::{Keys, Options, Outages, Proxies, Redirects, ServerSideEncryption, Signing, header_value};
pub use sink::Sink;
pub use store::{CounterSnapshot, Directories, Get, Links, ListOptions, Listing, Store};
pub use upload::{Part, Payload, Precondition, PutOptions, Sending, StaleUpload, Upload, Written};

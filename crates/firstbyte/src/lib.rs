//! Opens large remote objects as files, which are read lazily through a cache that outlives the
//! process. Copies objects fast; copies can be resumed and are verified.
//!
//! A [`Client`] opens, lists, copies and hydrates locations, with the settings in its
//! [`ClientOptions`]. Only [`ClientOptions::from_environment`] reads the environment, when the
//! caller requests it.
//!
//! # Open
//!
//! ```no_run
//! use std::io::{Read, Seek, SeekFrom};
//!
//! use firstbyte::{Client, ClientOptions};
//!
//! # fn main() -> firstbyte::Result<()> {
//! let client = Client::new(ClientOptions::from_environment()?)?;
//! // Only bytes that are read are fetched. They are cached for the next time.
//! let mut file = client.open("s3://bucket/big.bam")?;
//! let mut head = [0; 4096];
//! file.read_exact(&mut head)?;
//! file.seek(SeekFrom::End(-28))?;
//! // Threads share a file by reading at offsets.
//! let mut index = vec![0; 1 << 20];
//! let read = file.read_at(&mut index, 7 << 30)?;
//! # Ok(())
//! # }
//! ```
//!
//! # List
//!
//! ```no_run
//! # fn main() -> firstbyte::Result<()> {
//! # let client = firstbyte::Client::new(firstbyte::ClientOptions::default())?;
//! for entry in client.list("s3://bucket/runs/", &Default::default())? {
//!     println!("{}", String::from_utf8_lossy(&entry?.name));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Copy
//!
//! ```no_run
//! # use firstbyte::{Client, ClientOptions, Copy};
//! # fn main() -> firstbyte::Result<()> {
//! let options = ClientOptions::default().endpoint_url("http://127.0.0.1:9000");
//! let options = options.keys("key", "secret", None);
//! let receipt = Client::new(options)?.cp("s3://bucket/db.tar", "/scratch/", &Copy::default())?;
//! println!("{} bytes in {:.1} s", receipt.bytes, receipt.seconds);
//! # Ok(())
//! # }
//! ```
//!
//! # Hydrate
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use firstbyte::{Client, ClientOptions, Hydrate, OperandKind};
//!
//! # fn main() -> firstbyte::Result<()> {
//! let client = Client::new(ClientOptions::default().cache("/scratch/cache"))?;
//! let run = Hydrate { depth: OperandKind::Tree, ..Hydrate::default() };
//! let job = client.hydrate("s3://bucket/run7/", &run)?;
//! while !job.wait(Duration::from_secs(1)).is_over {}
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! | feature | for |
//! | --- | --- |
//! | none | paths, `file://`, `s3://` with keys, region and endpoint from options and variables |
//! | `http`, `google`, `azure`, `sftp` | `http(s)://`, `gs://`, `az://`, `sftp://` |
//! | `aws-config` | profiles, SSO, `credential_process`, web identity and roles of AWS |
//! | `manifest` | copies by many workers |
//! | `events` | the log of the library, as a layer of `tracing` |
//! | `async` | `open_async`, `list_async` and `cp_async` of [`Client`], for any runtime |
//!
//! A location of a store that was left out is refused with the name of its feature.

pub mod account;
#[cfg(feature = "async")]
mod asynchronous;
pub mod billing;
mod builder;
mod cached;
mod client;
mod copy;
pub mod copy_rules;
pub mod environment;
mod error;
#[cfg(feature = "events")]
pub mod events;
mod file;
pub mod filter;
#[cfg(feature = "manifest")]
pub mod manifest;
pub mod moved;
pub mod name_list;
pub mod operand;
mod options;
pub mod pattern;
pub mod receipt;
mod shard_receipt;
pub mod size;
mod start;
pub mod via;

pub use cached::{Hydrate, KeepBlocks, existing_cache, release_matching};
pub use client::Client;
pub use copy::Copy;
pub use error::{Error, Result};
pub use file::LazyFile;
pub use operand::OperandKind;
pub use options::ClientOptions;
pub use receipt::Receipt;
pub use shard_receipt::{Changed, DoneObjects, ShardReceipt};

#[cfg(feature = "async")]
pub use asynchronous::{AsyncFile, EntryStream, Task};
pub use firstbyte_hydrate::HydrationJob;
pub use firstbyte_hydrate::cache::VersionStatus;
pub use firstbyte_location::{ByteRange, Checksum, Entry, EntryKind, Location, Version};
pub use firstbyte_store::{FailureKind, ListOptions, Listing, Trace};
pub use firstbyte_transfer::Stop;

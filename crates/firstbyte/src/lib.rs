//! Large remote objects as files: read lazily through a cache that outlives the process, copied
//! fast, resumed, verified.
//!
//! This is the public library: a thin front of the crates below it, for programs that embed them. A
//! [`Client`] reaches locations (`PATH`, `file://`, `s3://`, `http(s)://`, `sftp://`) as its
//! [`Options`] say; nothing reads the environment but [`Options::from_environment`], which the
//! caller asks for.
//!
//! ```no_run
//! use std::io::{Read, Seek, SeekFrom};
//!
//! use firstbyte::{Client, Copy, Options};
//!
//! # fn main() -> firstbyte::Result<()> {
//! let client = Client::new(Options::from_environment()?)?;
//!
//! // Only bytes that are read are fetched. They are cached for the next time.
//! let mut file = client.open("s3://bucket/big.bam")?;
//! let mut head = [0; 4096];
//! file.read_exact(&mut head)?;
//! file.seek(SeekFrom::End(-28))?;
//!
//! // Threads share a file by reading at offsets.
//! let mut index = vec![0; 1 << 20];
//! let read = file.read_at(&mut index, 7 << 30)?;
//!
//! for entry in client.list("s3://bucket/runs/", &Default::default())? {
//!     println!("{}", String::from_utf8_lossy(&entry?.name));
//! }
//! let summary = client.cp("s3://bucket/db.tar", "/scratch/", &Copy::default())?;
//! println!("{} bytes in {:.1} s", summary.bytes, summary.seconds);
//! # Ok(())
//! # }
//! ```

pub mod account;
pub mod billing;
mod cached;
mod client;
mod copy;
pub mod copy_rules;
pub mod environment;
mod error;
mod file;
pub mod filter;
#[cfg(feature = "manifest")]
pub mod manifest;
pub mod name_list;
pub mod operand;
mod options;
pub mod pattern;
pub mod receipt;
mod shard_receipt;
pub mod size;
mod start;
pub mod via;

pub use cached::{Hydrate, Keep, existing_cache, release_matching};
pub use client::Client;
pub use copy::Copy;
pub use error::{Error, Result};
pub use file::LazyFile;
pub use operand::Depth;
pub use options::Options;
pub use receipt::Receipt;
pub use shard_receipt::{Changed, Done, ShardReceipt};

pub use firstbyte_hydrate as hydrate;
pub use firstbyte_location as location;
pub use firstbyte_store as store;
pub use firstbyte_transfer as transfer;

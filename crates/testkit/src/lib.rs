//! What tests of several crates share: real servers, seeded data, and one conformance suite for every store.
//!
//! A store's contract is written down once, as [`mod@conformance`], and run against every kind of place a [`Store`] can
//! open. What a place cannot do stands in its [`Capabilities`] with the reason, and that it says so is tested too. Nothing is
//! ever skipped: a server that is not installed fails the test with the command that installs it.
//!
//! [`Store`]: firstbyte_store::Store

mod certificate;
pub mod conformance;
mod data;
mod process;
mod scratch;
mod scripted;
mod servers;
mod slow_fs;
mod subject;
mod tls_peer;
mod unprivileged;

pub use certificate::{Certificate, Made};
pub use data::{bytes, bytes_at, write_file};
pub use process::{Process, free_port};
pub use scratch::scratch;
pub use scripted::{Reply, Scripted};
pub use servers::{ACCESS_KEY, BUCKET, SECRET_KEY, minio, nginx, set_credentials, versitygw};
pub use slow_fs::SlowFs;
pub use subject::{Capabilities, Place, Subject, Support};
pub use tls_peer::{Ending, TlsPeer, Unusual};
pub use unprivileged::unprivileged;

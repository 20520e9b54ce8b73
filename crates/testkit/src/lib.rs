//! Provides code that the tests of several crates share: real servers, seeded data, and one
//! conformance suite for every store.
//!
//! [`mod@conformance`] states the contract of a [`Store`] once and runs it against every backend.
//! The [`Capabilities`] of a backend list the operations that it does not support, with the reason.
//! Tests check that these operations are refused. No test is skipped: if a server is not installed,
//! the test fails and names the command that installs it.
//!
//! [`QuirkStore`] is an S3 store in memory that can have any of the [`Quirk`]s seen on real
//! servers. [`Scripted`] sends the responses that a test prescribes.
//!
//! [`Store`]: firstbyte_store::Store

mod certificate;
pub mod conformance;
mod data;
mod process;
mod quirk;
mod quirk_store;
mod scripted;
mod servers;
mod sshd;
mod subject;
mod tls_peer;
mod wait;
mod weak_fs;

pub use certificate::{Certificate, CertificateKind};
pub use data::{bytes, bytes_at, count, scratch, write_file};
pub use process::{Process, free_port, lacks_root, unprivileged};
pub use quirk::Quirk;
pub use quirk_store::QuirkStore;
pub use scripted::{Received, Scripted, ScriptedReply};
pub use servers::{
    ACCESS_KEY, AZURE_ACCOUNT, AZURE_KEY, BUCKET, SECRET_KEY, azure_connection, azurite, fake_gcs_server,
    minio, minio_with, nginx, set_credentials, versitygw,
};
pub use sshd::{SshClientKind, Sshd};
pub use subject::{Backend, Capabilities, Subject, Support};
pub use tls_peer::{BodyEnding, TlsBehaviour, TlsPeer};
pub use wait::{ends_within, holds_within, patience, slowness, until, wait_limit};
pub use weak_fs::{WeakFs, Weakness};

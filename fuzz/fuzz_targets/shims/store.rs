//! Includes the store's modules under the paths that they have in the store, so that their
//! visibility holds.

pub mod sftp;

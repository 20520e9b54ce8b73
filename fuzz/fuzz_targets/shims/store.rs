//! The store's modules where they lie in it, so that their visibility holds.

pub mod sftp;

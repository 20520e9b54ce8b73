//! Handles keys, rights, sessions, signatures, and counts of wrong secrets.

pub(crate) mod attempts;
pub(crate) mod keys;
pub(crate) mod sessions;
pub(crate) mod signing;

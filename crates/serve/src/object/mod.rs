//! Represents files of the served directory as objects: their names, versions, metadata and
//! checksums. Stages, assembles, publishes and deletes them. Shared by all APIs, and independent of
//! them.

pub(crate) mod change_time;
pub(crate) mod checksum;
pub(crate) mod content_type;
pub(crate) mod copying;
pub(crate) mod described;
pub(crate) mod directory;
pub(crate) mod metadata;
pub(crate) mod names;
pub(crate) mod part_checksums;
pub(crate) mod publish;
pub(crate) mod reserved;
pub(crate) mod root;
pub(crate) mod sorted;
pub(crate) mod staging;
pub(crate) mod stated;
pub(crate) mod trash;
pub(crate) mod uploads;
pub(crate) mod writer;

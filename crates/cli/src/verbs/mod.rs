//! The verbs (subcommands), one file each, with their options and their work. `policy` has the
//! options that `cp` and `sync` share, `sharding` those of one worker among many, `listed` the
//! parts that `ls` and `du` share, `cached` the options of a cache.

pub mod advise;
pub mod bench;
mod cached;
pub mod cat;
pub mod completions;
pub mod cp;
pub mod demo;
pub mod doctor;
pub mod du;
pub mod hydrate;
mod input;
pub mod layout;
pub mod link;
mod listed;
pub mod ls;
pub mod manual;
pub mod mb;
pub mod mount;
pub mod plan;
mod policy;
pub mod rb;
pub mod receipts;
pub mod release;
pub mod rm;
pub mod serve;
mod shard_copy;
mod sharding;
pub mod stat;
pub mod status;
pub mod sync;
pub mod unmount;

use std::ffi::OsString;

use firstbyte_location::shown;

/// Operands as a receipt names them.
fn joined(operands: &[OsString]) -> String {
    operands.iter().map(|text| shown(text).to_string()).collect::<Vec<_>>().join(" ")
}

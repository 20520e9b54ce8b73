//! The verbs, one file each: their options, and what they do with them. What several share stands in `operands`
//! (which object goes where), `policy` (the options of `cp` and `sync`) and `report` (how a verb ends); `listed` is what
//! `ls` and `du` share.

mod cached;
pub mod cat;
pub mod completions;
pub mod cp;
pub mod du;
pub mod hydrate;
mod input;
pub mod layout;
pub mod link;
mod listed;
pub mod ls;
pub mod mount;
mod operands;
mod policy;
pub mod release;
mod report;
pub mod serve;
pub mod stat;
pub mod status;
pub mod sync;
pub mod unmount;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use firstbyte_location::shown;

use crate::closed;
use crate::error::{Error, Result};

/// Operands as a receipt names them.
fn joined(operands: &[OsString]) -> String {
    operands.iter().map(|text| shown(text).to_string()).collect::<Vec<_>>().join(" ")
}

/// Standard output as a plain file: std's own looks for line ends in every byte.
fn standard_output() -> Result<File> {
    if closed::standard_output_was() {
        return Err(Error::failed("standard output: it is closed"));
    }
    let descriptor = io::stdout().as_fd().try_clone_to_owned();
    descriptor.map(File::from).map_err(|error| Error::io("standard output", &error))
}

/// Standard input as a plain file, for the same reason and because it can be read from any thread.
fn standard_input() -> Result<File> {
    let descriptor = io::stdin().as_fd().try_clone_to_owned();
    descriptor.map(File::from).map_err(|error| Error::io("standard input", &error))
}

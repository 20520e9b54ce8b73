//! Runs external programs for workloads. A missing program is an error that names its package; a
//! failed one is an error with the last line that it printed.

use std::io;
use std::process::{Child, Command, Output, Stdio};

use super::error::{Error, Result};
use crate::process::exit_description;

/// Debian package of blastn and makeblastdb.
pub(crate) const BLAST_PACKAGE: &str = "ncbi-blast+";

/// Starts a program.
pub(crate) fn spawn(command: &mut Command, program: &'static str, package: &'static str) -> Result<Child> {
    command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::Missing { program, package },
        _ => Error::Io { place: program.into(), cause: error },
    })
}

/// Waits for a program and returns its output.
pub(crate) fn finish(child: Child, program: &str) -> Result<Output> {
    let output = child.wait_with_output().map_err(|cause| Error::Io { place: program.to_owned(), cause })?;
    if output.status.success() {
        return Ok(output);
    }
    Err(Error::Program { program: program.to_owned(), what: exit_description(&output) })
}

/// Runs a program to its end and returns its output.
pub(crate) fn run(command: &mut Command, program: &'static str, package: &'static str) -> Result<Output> {
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    finish(spawn(command, program, package)?, program)
}

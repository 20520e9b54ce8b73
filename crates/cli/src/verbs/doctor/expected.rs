//! Checks that a directory is on the file system that a job expects, and that it is not empty.
//!
//! A job that starts before its file system is mounted would find an empty directory, and work on
//! that. Called by `doctor`.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use firstbyte_bench::machine;

use super::{CheckStatus, DoctorFinding};

/// An expectation from the command line: `DIR=TYPE`.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    directory: PathBuf,
    kind: String,
}

impl FromStr for Expected {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        // The name of a directory may contain `=`, but a type may not.
        match word.rsplit_once('=') {
            Some((directory, kind)) if !directory.is_empty() && !kind.is_empty() => {
                Ok(Self { directory: directory.into(), kind: kind.into() })
            }
            _ => Err("write DIR=TYPE, for example /mnt/data=lustre or /mnt/efs=nfs4".into()),
        }
    }
}

impl Expected {
    pub(super) fn look(&self) -> DoctorFinding {
        let path = self.directory.display();
        let (status, found) = match self.difference() {
            Some(wrong) => (CheckStatus::Fail, wrong),
            None => (CheckStatus::Ok, format!("{path} is on {}", self.kind)),
        };
        DoctorFinding { what: "file system", status, found, advice: None }
    }

    /// Describes how the directory differs from the expectation; `None` if it does not.
    fn difference(&self) -> Option<String> {
        let path = self.directory.display();
        if let Err(error) = machine::expect_file_system(&self.directory, &self.kind) {
            return Some(error);
        }
        match holds_something(&self.directory) {
            Ok(true) => None,
            Ok(false) => Some(format!("{path} is empty: its data is not there yet, or belongs elsewhere")),
            Err(error) => Some(format!("{path}: {error}")),
        }
    }
}

/// Returns whether the directory contains anything besides the `lost+found` that mkfs makes.
fn holds_something(directory: &Path) -> std::io::Result<bool> {
    for entry in std::fs::read_dir(directory)? {
        if entry?.file_name() != "lost+found" {
            return Ok(true);
        }
    }
    Ok(false)
}

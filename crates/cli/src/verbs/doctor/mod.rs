//! `doctor`: reports the capabilities of this machine that matter to transfers, and how to get
//! those that are missing.
//!
//! The verb writes no file and prints no secret. Checks that use the network have deadlines of a
//! few seconds.

pub(crate) mod disk;
mod expected;
mod fuse;
mod location;
mod machine;
mod network;
mod nfs;

use std::borrow::Cow;
use std::ffi::OsString;

use clap::Args;
use firstbyte::environment;
use firstbyte_location::Location;
use serde::Serialize;
use serde_json::json;

use self::expected::Expected;
use crate::globals::Globals;
use crate::render::error::{Exit, Result};
use crate::render::{console, json};

/// Report what this machine supports, and how to get what is missing
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte doctor
  firstbyte doctor s3://bucket/data/    # rights, region and clock of this place, in one line each
  firstbyte doctor /mnt/efs             # the same, and how an NFS is mounted: version, read-ahead
  firstbyte doctor --endpoint-url https://s3.example.org --json
  firstbyte doctor --expect-fs /mnt/db=lustre --expect-fs /scratch=ext4 && run-the-job
Changes nothing. Exit code 0 even with warnings; 1 if --expect-fs finds another file system, or
LOCATION cannot be listed or read.")]
pub struct DoctorArgs {
    /// Check only that this location works: rights, region and clock
    #[arg(value_name = "LOCATION", conflicts_with = "expect_fs")]
    location: Option<OsString>,
    /// Check only that DIR is not empty and on a file system of this type; may be repeated
    #[arg(long, value_name = "DIR=TYPE")]
    expect_fs: Vec<Expected>,
}

/// The status of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CheckStatus {
    /// The check succeeded.
    Ok,
    /// The finding costs speed or makes a feature unusable.
    Warn,
    /// The finding contradicts the command line.
    Fail,
}

/// The result of one check.
#[derive(Debug, Serialize)]
pub(crate) struct DoctorFinding {
    what: &'static str,
    status: CheckStatus,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<Cow<'static, str>>,
}

impl DoctorFinding {
    pub(crate) fn ok(what: &'static str, found: impl Into<String>) -> Self {
        Self { what, status: CheckStatus::Ok, found: found.into(), advice: None }
    }

    pub(crate) fn warn(
        what: &'static str,
        found: impl Into<String>,
        advice: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { what, status: CheckStatus::Warn, found: found.into(), advice: Some(advice.into()) }
    }
}

pub fn run(args: &DoctorArgs, globals: &Globals) -> Result<Exit> {
    let findings = match (&args.location, args.expect_fs.as_slice()) {
        (Some(location), _) => location::look(&Location::parse(location)?, globals)?,
        (None, []) => check_everything(globals),
        (None, expected) => expected.iter().map(Expected::look).collect(),
    };
    let count = |status| findings.iter().filter(|finding| finding.status == status).count();
    if globals.json {
        let fields = json!({ "warnings": count(CheckStatus::Warn), "findings": findings });
        console::print(json::summary("doctor", &fields))?;
    } else {
        console::print_bytes(table(&findings).as_bytes())?;
    }
    Ok(if count(CheckStatus::Fail) == 0 { Exit::Done } else { Exit::Failed })
}

fn check_everything(globals: &Globals) -> Vec<DoctorFinding> {
    let mut findings = machine::look();
    findings.extend(disk::look(&environment::cache_directory(&environment::variable)));
    findings.extend(fuse::look());
    findings.extend(network::look(globals));
    findings
}

/// Formats findings in columns: mark, name, text. The advice of a finding is below it.
fn table(findings: &[DoctorFinding]) -> String {
    let width = findings.iter().map(|finding| finding.what.len()).max().unwrap_or_default();
    let mut table = String::new();
    for DoctorFinding { what, status, found, advice } in findings {
        let mark = match status {
            CheckStatus::Ok => "ok  ",
            CheckStatus::Warn => "warn",
            CheckStatus::Fail => "FAIL",
        };
        table.push_str(&format!("{mark}  {what:width$}  {found}\n"));
        if let Some(advice) = advice {
            table.push_str(&format!("{:1$}-> {advice}\n", "", width + 8));
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_printed_below_its_finding() {
        let findings =
            [DoctorFinding::ok("cpus", "2"), DoctorFinding::warn("open files", "256", "ulimit -n 4096")];
        assert_eq!(
            table(&findings),
            "ok    cpus        2\nwarn  open files  256\n                  -> ulimit -n 4096\n"
        );
    }
}

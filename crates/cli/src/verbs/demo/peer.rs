//! Finds the strongest other tool installed, and builds its command lines.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;

use super::children::Children;
use super::stage::{BUCKET, LARGE, SMALL, Stage};

/// Requests curl makes at once for many files: its own default.
const CURL_PARALLEL: &str = "50";

/// Programs that fetch from S3 or HTTP, strongest first, as measured behind links like the demo's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Program {
    S5cmd,
    Aws,
    Curl,
}

/// A peer and where it is installed.
pub(crate) struct Peer {
    pub(crate) program: Program,
    path: PathBuf,
}

impl Program {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::S5cmd => "s5cmd",
            Self::Aws => "aws",
            Self::Curl => "curl",
        }
    }
}

impl Peer {
    /// The strongest one installed.
    pub(crate) fn strongest(children: &Children) -> Option<Self> {
        let programs = [Program::S5cmd, Program::Aws, Program::Curl];
        programs.into_iter().find_map(|program| Some(Self { program, path: find(program.name(), children)? }))
    }

    /// The command that fetches the large object.
    pub(crate) fn fetch_large(&self, stage: &Stage<'_>, destination: &Path) -> Command {
        let mut command = stage.command(&self.path);
        match self.program {
            Program::S5cmd => {
                command.args(["--no-sign-request", "--endpoint-url"]).arg(stage.endpoint()).arg("cp")
            }
            Program::Aws => {
                command.args(["--no-sign-request", "--endpoint-url"]).arg(stage.endpoint()).args(["s3", "cp"])
            }
            Program::Curl => command.args(["--silent", "--show-error", "--fail", "--output"]),
        };
        match self.program {
            Program::Curl => command.arg(destination).arg(format!("{}/{BUCKET}/{LARGE}", stage.endpoint())),
            Program::S5cmd | Program::Aws => command.arg(format!("s3://{BUCKET}/{LARGE}")).arg(destination),
        };
        command
    }

    /// The command that fetches the small files into an existing directory.
    pub(crate) fn fetch_small(&self, stage: &Stage<'_>, files: u32, destination: &Path) -> Command {
        let mut command = stage.command(&self.path);
        match self.program {
            Program::S5cmd => {
                command.args(["--no-sign-request", "--endpoint-url"]).arg(stage.endpoint()).arg("cp");
                command.arg(format!("s3://{BUCKET}/{SMALL}/*")).arg(format!("{}/", destination.display()));
            }
            Program::Aws => {
                command.args(["--no-sign-request", "--endpoint-url"]).arg(stage.endpoint());
                command.args(["s3", "cp", "--recursive", "--only-show-errors"]);
                command.arg(format!("s3://{BUCKET}/{SMALL}/")).arg(destination);
            }
            Program::Curl => {
                command.args([
                    "--silent",
                    "--show-error",
                    "--fail",
                    "--parallel",
                    "--parallel-max",
                    CURL_PARALLEL,
                ]);
                command.arg("--output").arg(destination.join("#1"));
                command.arg(format!("{}/{BUCKET}/{SMALL}/[00000-{:05}]", stage.endpoint(), files - 1));
            }
        }
        command
    }
}

/// The path of a program on the search path. A pyenv shim is resolved: its start-up time is not the
/// peer's.
pub(super) fn find(name: &str, children: &Children) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found =
        std::env::split_paths(&path).map(|directory| directory.join(name)).find(|path| path.is_file())?;
    if found.parent()?.ends_with("shims") {
        let real = children.run(Command::new("pyenv").args(["which", name])).ok()?;
        return Some(PathBuf::from(real.trim())).filter(|path| path.is_file());
    }
    Some(found)
}

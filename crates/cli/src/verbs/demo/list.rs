//! The section LIST of the demo: lists very many names of one directory into a pipe, beside `ls
//! -f`, which does not sort either. The first listing of each program is not counted, so the names
//! are in memory.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use super::children::Children;
use super::peer::find;
use super::stage::Stage;
use super::text::{Screen, grouped};
use super::{DemoArgs, median};
use crate::render::error::{Error, Result};

/// Names for each small file of SMALL, so that `--files` scales both.
const NAMES_PER_FILE: u32 = 200;
/// Names at most: more would make the making longer than the listing is interesting.
const MOST_NAMES: u32 = 1_000_000;
/// Names of one inode. To a listing hard links are names like any others, and ext4 allows 65,000.
const NAMES_PER_INODE: u32 = 50_000;

/// Median seconds for all the names.
#[derive(Debug, Serialize)]
pub(crate) struct List {
    pub(crate) names: u32,
    /// `ls -f`, where there is one.
    pub(crate) peer: Option<f64>,
    pub(crate) ls: f64,
}

/// Measures, alternating.
pub(crate) fn measure(args: &DemoArgs, stage: &Stage<'_>, screen: &Screen) -> Result<List> {
    let names = args.files.saturating_mul(NAMES_PER_FILE).min(MOST_NAMES);
    let directory = stage.names();
    screen.step("3 LIST: making names");
    make(&directory, names, stage.children)?;
    let peer = find("ls", stage.children);
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for run in 0..=args.runs {
        screen.step(&format!("3 LIST: {run} of {}", args.runs));
        if let Some(peer) = &peer {
            let mut command = stage.command(peer);
            // It gives `.` and `..` too.
            theirs.push(list(stage, command.arg("-f").arg(&directory), names + 2)?);
        }
        ours.push(list(stage, stage.ls().arg(&directory), names)?);
    }
    let counted = |times: Vec<f64>| median(times.into_iter().skip(1).collect());
    Ok(List { names, peer: peer.map(|_| counted(theirs)), ls: counted(ours) })
}

fn make(directory: &Path, names: u32, children: &Children) -> Result<()> {
    let failed = |error: io::Error| Error::io(directory.display(), &error);
    fs::create_dir_all(directory).map_err(failed)?;
    let path = |number: u32| directory.join(format!("image_{number:07}.tif"));
    for number in 0..names {
        let first = number - number % NAMES_PER_INODE;
        if number == first {
            children.check()?;
            File::create(path(number)).map_err(failed)?;
        } else if fs::hard_link(path(first), path(number)).is_err() {
            // A file system without links, or with fewer.
            File::create(path(number)).map_err(failed)?;
        }
    }
    Ok(())
}

/// One listing of all names, from start to end.
fn list(stage: &Stage<'_>, command: &mut std::process::Command, names: u32) -> Result<f64> {
    let began = Instant::now();
    let shown = stage.children.run(command)?;
    let time = began.elapsed().as_secs_f64();
    let lines = shown.lines().count();
    if lines != names as usize {
        let program = command.get_program().display().to_string();
        return Err(Error::failed(format!("{program}: {lines} names, {names} are there")));
    }
    Ok(time)
}

impl List {
    /// The section as text for the terminal.
    pub(crate) fn text(&self) -> String {
        let milliseconds = |time: f64| format!("{:.0} ms", time * 1e3);
        let peer = self.peer.map_or(String::new(), |time| format!("ls -f {}   ", milliseconds(time)));
        format!(
            "3 LIST    {} names in one directory   {peer}firstbyte {}\n",
            grouped(self.names),
            milliseconds(self.ls)
        )
    }
}

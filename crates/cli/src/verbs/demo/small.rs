//! The section SMALL of the demo: fetches very many small files, whose time depends on the number
//! of requests more than on bytes.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde::Serialize;

use super::bytes::same;
use super::peer::Peer;
use super::ready::cold;
use super::stage::{BUCKET, SMALL, Stage};
use super::text::{Screen, grouped, seconds};
use super::{DemoArgs, median};
use crate::render::error::{Error, Result};

/// Median seconds for all the files.
#[derive(Debug, Serialize)]
pub(crate) struct Small {
    pub(crate) files: u32,
    pub(crate) bytes: u64,
    pub(crate) peer: Option<(&'static str, f64)>,
    pub(crate) cp: f64,
}

/// Measures, alternating.
pub(crate) fn measure(
    args: &DemoArgs,
    stage: &Stage<'_>,
    peer: Option<&Peer>,
    screen: &Screen,
) -> Result<Small> {
    let bytes = total(&stage.small())?;
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for run in 1..=args.runs {
        if let Some(peer) = peer {
            screen.step(&format!("2 SMALL: {}, {run} of {}", peer.program.name(), args.runs));
            theirs.push(fetch(stage, bytes, |to| peer.fetch_small(stage, args.files, to))?);
        }
        screen.step(&format!("2 SMALL: firstbyte, {run} of {}", args.runs));
        ours.push(fetch(stage, bytes, |to| {
            let mut command = stage.cp();
            command.arg("-r").arg(format!("s3://{BUCKET}/{SMALL}/")).arg(to);
            command
        })?);
    }
    let peer = peer.map(|peer| (peer.program.name(), median(theirs)));
    Ok(Small { files: args.files, bytes, peer, cp: median(ours) })
}

fn names(directory: &Path) -> Result<Vec<std::ffi::OsString>> {
    let entries = fs::read_dir(directory).and_then(|entries| entries.map(|e| Ok(e?.file_name())).collect());
    entries.map_err(|error| Error::io(directory.display(), &error))
}

fn total(directory: &Path) -> Result<u64> {
    let length = |name| {
        fs::metadata(directory.join(name))
            .map(|file| file.len())
            .map_err(|e| Error::io(directory.display(), &e))
    };
    names(directory)?.into_iter().map(length).sum()
}

/// One copy of all files to a fresh directory, compared with the source; returns its time.
fn fetch(stage: &Stage<'_>, bytes: u64, command: impl FnOnce(&Path) -> Command) -> Result<f64> {
    let destination = stage.fresh()?;
    let before = stage.counters().bytes_to_client;
    let began = Instant::now();
    stage.children.run(&mut command(&destination))?;
    let time = began.elapsed().as_secs_f64();
    cold(stage, before, bytes)?;
    let source = stage.small();
    for name in names(&source)? {
        stage.children.check()?;
        let arrived = destination.join(&name);
        if !same(&source.join(&name), &arrived).map_err(|error| Error::io(arrived.display(), &error))? {
            return Err(Error::failed(format!("{}: not what was served", arrived.display())));
        }
    }
    stage.clear()?;
    Ok(time)
}

impl Small {
    /// The section as text for the terminal.
    pub(crate) fn text(&self) -> String {
        let peer = self.peer.map_or(String::new(), |(name, time)| format!("{name} {}   ", seconds(time)));
        format!(
            "2 SMALL   {} files of 10-100 KB   {peer}firstbyte {}\n",
            grouped(self.files),
            seconds(self.cp)
        )
    }
}

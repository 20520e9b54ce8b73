//! The workload `command`: runs any program on the target. In its words, `{target}` stands for the
//! directory or file through which the target is accessible, or for its location.

use std::process::{Command, Stdio};

use crate::access::Session;
use crate::job::{Error, Job, Metrics, Result, Watch, program};

/// Placeholder for the target.
const TARGET: &str = "{target}";

pub(super) fn run(job: &Job, session: &Session<'_>, watch: &Watch) -> Result<Metrics> {
    let target = match session.root() {
        Some(_) => session.object_path()?.to_string_lossy().into_owned(),
        None => job.target.clone(),
    };
    let mut words = job.command.iter().map(|word| word.replace(TARGET, &target));
    let name = words.next().ok_or_else(|| Error::job("command is missing"))?;
    let mut command = Command::new(&name);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|cause| Error::Io { place: name.clone(), cause })?;
    let output = program::finish(child, &name)?;
    let mut metrics = Metrics::new();
    watch.note(&mut metrics, "all_seconds");
    // The last line of the output may be metrics of the program.
    let text = String::from_utf8_lossy(&output.stdout);
    let own = text.lines().last().and_then(|line| serde_json::from_str::<Metrics>(line).ok());
    metrics.extend(own.unwrap_or_default());
    Ok(metrics)
}

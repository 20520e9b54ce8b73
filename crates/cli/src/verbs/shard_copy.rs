//! Copies one shard of a manifest. Called by `cp --manifest` and `sync --manifest`.

use firstbyte::manifest::{ShardRun, ShardTarget};
use firstbyte_location::shown;

use super::policy::Policy;
use crate::globals::Globals;
use crate::render::error::{Exit, Result};
use crate::render::progress::{FailureReporting, ProgressDisplay};
use crate::render::report::{Output, RunReport};
use crate::signals::stop_on_signal;

/// Copies a shard, and reports the result as one of `verb`.
pub fn run(
    verb: &'static str,
    shard: &ShardRun,
    target: ShardTarget<'_>,
    policy: &Policy,
    globals: &Globals,
) -> Result<Exit> {
    let destination = match target {
        ShardTarget::Copy(text) => shown(text).to_string(),
        ShardTarget::Contents(location) => location.to_string(),
    };
    let sources = shard.sources();
    let stop = stop_on_signal(policy.transfer_args().deadline(sources.as_ref()))?;
    let settings = policy.settings(globals, stop.clone());
    let engine = policy.transfer_args().client(globals, None)?.transfers(settings);
    let mut report = RunReport::new(verb, sources.clone(), Some(destination)).counting(engine.store());
    policy.sharding().open_receipt(&mut report, &[])?;
    report.receipt().left_out = Some(0);
    let progress = ProgressDisplay::new(globals, FailureReporting::Printed).stopping(&stop);
    let copied = shard.copy(&engine, target, policy.transfer_args().effect(), &progress, &mut |summary| {
        report.add(summary);
        !report.has_ended()
    });
    copied?;
    report.receipt().shard = Some(shard.receipt());
    report.end_progress(progress);
    report.end(globals, Output::Free)
}

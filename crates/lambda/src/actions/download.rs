//! Implements `download`, which copies one object, by default to a file below the function's
//! directory.
//!
//! A download that the deadline stops keeps its partial file and journal. The next call in this
//! environment resumes from these files. A call in another environment starts again, and reports
//! this.

use firstbyte::copy_rules::refuse_onto_itself;
use firstbyte_location::{EntryKind, Location};

use crate::answer::Answer;
use crate::call::InvocationContext;
use crate::error::{InvocationFailure, Result};
use crate::event::DownloadAction;
use crate::frontier::Frontier;
use crate::run::RunProgress;
use crate::tmp;
use crate::token::ResumeToken;
use crate::written::WrittenPath;

const VERB: &str = "download";

pub(super) fn run(call: &InvocationContext<'_>, event: &DownloadAction) -> Result<Answer> {
    let source = Location::parse(event.source.as_ref())?;
    let token = ResumeToken::decode(event.r#continue.as_deref(), VERB, &source)?;
    let stated =
        event.destination.as_deref().or(token.as_ref().and_then(|token| token.destination.as_deref()));
    let destination = call.destination(stated, &source)?;
    refuse_onto_itself(&source, &destination).map_err(|error| InvocationFailure::of_library(&error))?;
    let run = call.run(None)?;
    let mut answer = call.answer(VERB, &source, Some(&destination));

    let stat = run.store().stat(&source).map_err(|error| InvocationFailure::of_store(&error))?;
    if stat.kind == EntryKind::Directory {
        return Err(InvocationFailure::event(format!(
            "{source}: is a directory; copy what is in it with action `copy-many`"
        )));
    }
    answer.stages.opened_seconds = call.now();
    if let Some(path) = call.below_directory(&destination) {
        call.remove_with_answer(WrittenPath::new(path));
    }
    if let Some(token) = &token {
        token.check(&source, &stat.version)?;
    }
    if let Some(path) = destination.as_local() {
        let unchanged = run.engine.is_unchanged(&source, &destination);
        if unchanged.map_err(|error| InvocationFailure::of_transfer(&error))? {
            answer.receipt.skipped = 1;
            answer.receipt.version = Some(stat.version.to_string());
            answer.stages.all_seconds = call.now();
            return Ok(answer);
        }
        stat.size().map_or(Ok(()), |size| tmp::check_room(path, size))?;
    }

    let progress = RunProgress { meter: &run.meter, frontier: &Frontier::default() };
    let mut summary = run
        .engine
        .copy_until_stopped(&source, &destination, &progress)
        .map_err(|error| InvocationFailure::of_transfer(&error))?;
    answer.receipt.add(&summary);
    answer.stages.first_byte_seconds =
        run.meter.first_byte().map(|at| at.saturating_duration_since(call.deadline.started()).as_secs_f64());
    answer.began_anew = summary.resumed_bytes == 0 && token.as_ref().is_some_and(|token| token.bytes > 0);
    if let Some(failure) = summary.failed.pop() {
        return Err(InvocationFailure::of_transfer(&failure.error));
    }
    if let Some(error) = summary.ended.take() {
        if !run.is_stopped() {
            return Err(InvocationFailure::of_transfer(&error));
        }
        if summary.kept_bytes == 0 {
            return Err(InvocationFailure::no_progress(&source));
        }
        let next = ResumeToken::new(VERB, &source).with_version(&stat.version)?;
        let next =
            ResumeToken { bytes: summary.kept_bytes, destination: Some(destination.to_string()), ..next };
        answer.done_bytes = Some(summary.kept_bytes);
        answer.token = Some(next.encode());
        return Ok(answer);
    }
    if let (Some(token), Some(version)) = (&token, &summary.version) {
        token.check(&source, version)?;
    }
    answer.stages.all_seconds = call.now();
    Ok(answer)
}

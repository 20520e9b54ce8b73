//! Implements `list`, which counts the objects below a location and sums their lengths.

use firstbyte_location::{EntryKind, Location};
use firstbyte_store::{EntryOrder, Error as StoreError, ListOptions};

use crate::answer::Answer;
use crate::call::InvocationContext;
use crate::error::{InvocationFailure, Result};
use crate::event::ListAction;
use crate::token::ResumeToken;

const VERB: &str = "list";

pub(super) fn run(call: &InvocationContext<'_>, event: &ListAction) -> Result<Answer> {
    let source = Location::parse(event.source.as_ref())?;
    let token = ResumeToken::decode(event.r#continue.as_deref(), VERB, &source)?;
    let run = call.run(None)?;
    let before = run.store().counters();
    let mut answer = call.answer(VERB, &source, None);
    let mut through = token.and_then(|token| token.through);
    // Objects are listed in order, so that the last name states where the next call continues.
    let options = ListOptions {
        recursive: true,
        order: EntryOrder::Bytes,
        start_after: through.clone(),
        ..ListOptions::default()
    };

    let failed = |error: &StoreError| InvocationFailure::of_store(error);
    let listing = run.store().list(&source, &options).map_err(|error| failed(&error))?;
    for entry in listing {
        let entry = match entry {
            Err(StoreError::Cancelled) if run.is_stopped() => break,
            entry => entry.map_err(|error| failed(&error))?,
        };
        answer.stages.first_byte_seconds = answer.stages.first_byte_seconds.or_else(|| call.now());
        if entry.kind != EntryKind::Directory {
            answer.receipt.objects += 1;
            answer.receipt.bytes += entry.size.unwrap_or(0);
        }
        if let Ok(name) = String::from_utf8(entry.name) {
            through = Some(name);
        }
        if run.is_stopped() {
            break;
        }
    }
    let after = run.store().counters();
    answer.receipt.requests = after.requests - before.requests;
    answer.receipt.retries = after.retries - before.retries;
    answer.receipt.first_byte_seconds = answer.stages.first_byte_seconds;
    if run.is_stopped() {
        if answer.stages.first_byte_seconds.is_none() {
            return Err(InvocationFailure::no_progress(&source));
        }
        answer.token = Some(ResumeToken { through, ..ResumeToken::new(VERB, &source) }.encode());
    } else {
        answer.stages.all_seconds = call.now();
    }
    Ok(answer)
}

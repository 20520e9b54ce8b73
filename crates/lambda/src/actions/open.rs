//! Implements `open`, which opens an object lazily and reads a part of it, or all of it. The bytes
//! are checksummed and then dropped.

use std::ops::ControlFlow;

use firstbyte_location::{Algorithm, Checksum, Location};

use crate::answer::Answer;
use crate::call::InvocationContext;
use crate::error::{InvocationFailure, Result};
use crate::event::{OpenAction, ReadRange};
use crate::reader::{self, ReadProgress};
use crate::token::ResumeToken;

const VERB: &str = "open";

pub(super) fn run(call: &InvocationContext<'_>, event: &OpenAction) -> Result<Answer> {
    let source = Location::parse(event.source.as_ref())?;
    let token = ResumeToken::decode(event.r#continue.as_deref(), VERB, &source)?;
    let client = call.client()?;
    let before = client.store().counters();
    let mut answer = call.answer(VERB, &source, None);
    let file = reader::open(&client, &source, call.deadline)?;
    answer.stages.opened_seconds = call.now();
    if let Some(token) = &token {
        token.check(&source, file.version())?;
    }
    let pinned = token.as_ref().and_then(ResumeToken::range);
    let range = pinned.map_or_else(|| event.read.of(file.size()), Ok)?;
    let (mut done, mut crc) = (0, None);
    if let Some(token) = &token {
        (done, crc) = (token.bytes.min(range.len()), token.crc32c.as_deref().and_then(parse_crc));
    }

    let rest = range.skip(done);
    let reading = reader::read(&file, rest, &call.deadline, &mut |_, _| ControlFlow::Continue(()))?;
    let crc =
        crc.and_then(|crc| crc.combine(&reading.crc32c, reading.bytes)).unwrap_or(reading.crc32c.clone());
    record_reading(&mut answer, &reading);
    let after = client.store().counters();
    answer.receipt.requests = after.requests - before.requests;
    answer.receipt.retries = after.retries - before.retries;
    answer.receipt.resumed_bytes = done;
    answer.receipt.version = Some(file.version().to_string());
    answer.crc32c = Some(crc.to_hex());
    done += reading.bytes;
    answer.done_bytes = Some(done);
    if done < range.len() {
        if reading.bytes == 0 {
            return Err(InvocationFailure::no_progress(&source));
        }
        let next = ResumeToken::new(VERB, &source).with_version(file.version())?;
        let next = ResumeToken {
            bytes: done,
            range: Some((range.start, range.len())),
            crc32c: Some(crc.to_hex()),
            ..next
        };
        answer.token = Some(next.encode());
    } else {
        record_finished(&mut answer, event.read, call);
    }
    Ok(answer)
}

/// Copies the bytes and times of a reading into the answer.
pub(super) fn record_reading(answer: &mut Answer, reading: &ReadProgress) {
    answer.receipt.bytes = reading.bytes;
    let first = reading.first_byte.map(|at| at.as_secs_f64());
    answer.receipt.first_byte_seconds = first;
    answer.stages.first_byte_seconds = first;
}

/// Records in the answer that the range was read.
pub(super) fn record_finished(answer: &mut Answer, read: ReadRange, call: &InvocationContext<'_>) {
    answer.receipt.objects = 1;
    match read {
        ReadRange::All => answer.stages.all_seconds = call.now(),
        _ => answer.stages.part_seconds = call.now(),
    }
}

fn parse_crc(hex: &str) -> Option<Checksum> {
    Checksum::parse(&format!("{}:{hex}", Algorithm::Crc32c.name())).ok()
}

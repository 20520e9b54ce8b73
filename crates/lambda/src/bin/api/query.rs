//! Implements the query: reads a part of one object and computes figures from it.

use std::ops::ControlFlow;

use firstbyte_lambda::reader::{self, ReadProgress};
use firstbyte_lambda::{Deadline, ExecutionEnvironment, InvocationFailure, ReadRange, Result};
use firstbyte_location::{ByteRange, Location};
use serde_json::{Value, json};

use crate::estimate::{Estimate, LargestFittingPart};

/// The parameters of a request.
#[derive(Debug)]
pub(crate) struct ApiQuery {
    source: Location,
    read: ReadRange,
}

/// The result of a query.
pub(crate) enum QueryResult {
    /// The figures that were computed.
    Read(Value),
    /// The part does not fit. The value states the largest part that fits.
    TooLarge(Value),
}

impl ApiQuery {
    /// Parses `source` and `share`, or `from` and `length`. An unknown parameter is an error,
    /// because a misspelt `share` would read everything.
    pub(crate) fn parse(parameters: &[(&str, &str)]) -> Result<Self> {
        let known = ["source", "share", "from", "length"];
        if let Some((name, _)) = parameters.iter().find(|(name, _)| !known.contains(name)) {
            let why = format!("`{name}` is no parameter; the parameters are {}", known.join(", "));
            return Err(InvocationFailure::event(why));
        }
        let parameter = |name: &str| {
            let found = parameters.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let missing =
            || InvocationFailure::event("give `source`, as in /query?source=s3://bucket/key&share=1%");
        let source = parse_source(&parameter("source").ok_or_else(missing)?)?;
        let number = |name: &str| {
            let text = parameter(name);
            let parsed = text.map(|text| text.parse::<u64>().map_err(|_| (name, text))).transpose();
            parsed.map_err(|(name, text)| {
                InvocationFailure::event(format!("`{name}` is {text}; write a number of bytes"))
            })
        };
        let read = match (parameter("share"), number("from")?, number("length")?) {
            (Some(share), None, None) => ReadRange::parse(&share).map_err(InvocationFailure::event)?,
            (None, from, Some(length)) => ReadRange::Range(ByteRange::at(from.unwrap_or(0), length)),
            (None, None, None) => ReadRange::All,
            _ => return Err(InvocationFailure::event("give either `share`, or `length` with `from`")),
        };
        Ok(Self { source, read })
    }

    /// Reads the part if it fits.
    pub(crate) fn run(&self, environment: &ExecutionEnvironment, deadline: &Deadline) -> Result<QueryResult> {
        let invocation = environment.invoked();
        let client = environment.client(None)?;
        let file = reader::open(&client, &self.source, *deadline)?;
        let opened = deadline.elapsed();
        let range = self.read.of(file.size())?;
        let estimate = Estimate::new(file.size(), range.len(), deadline);
        let mut lines = 0_usize;
        let reading = reader::read(&file, range, deadline, &mut |bytes, reading| {
            lines += bytes.iter().filter(|byte| **byte == b'\n').count();
            if estimate.refuses(reading, deadline.elapsed()) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        let elapsed = deadline.elapsed();
        if reading.bytes < range.len() {
            let fits = estimate.fits(&reading, elapsed);
            return Ok(QueryResult::TooLarge(self.refusal(range, &fits)));
        }
        let ReadProgress { bytes, first_byte, crc32c, .. } = reading;
        Ok(QueryResult::Read(json!({
            "source": self.source.to_string(),
            "version": file.version().to_string(),
            "size": file.size(),
            "from": range.start,
            "length": bytes,
            "lines": lines,
            "crc32c": crc32c.to_hex(),
            "opened_seconds": opened.as_secs_f64(),
            "first_byte_seconds": first_byte.map(|at| at.as_secs_f64()),
            "seconds": elapsed.as_secs_f64(),
            "remaining_seconds": deadline.remaining().as_secs_f64(),
            "environment": environment.id(),
            "environment_started": environment.started(),
            "invocation": invocation,
        })))
    }

    fn refusal(&self, range: ByteRange, fits: &LargestFittingPart) -> Value {
        let message = format!(
            "{}: {} bytes cannot be read within {:.1} s at {:.1} MB/s; ask for share={} or less",
            self.source,
            range.len(),
            fits.budget_seconds,
            fits.bytes_per_second / 1e6,
            fits.largest_share
        );
        json!({"errorType": "TooLarge", "errorMessage": message, "length": range.len(), "fits": fits})
    }
}

/// Parses the location of an object in a store. Files of the function and addresses in its network
/// are not for the callers of the API.
fn parse_source(text: &str) -> Result<Location> {
    match Location::parse(text.as_ref())? {
        source @ Location::Object(_) => Ok(source),
        _ => {
            Err(InvocationFailure::event(format!("{text}: is not in an object store; write s3://BUCKET/KEY")))
        }
    }
}

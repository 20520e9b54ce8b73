//! `cat`: writes objects, or ranges of them, to standard output.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::str::FromStr;

use clap::Args;
use firstbyte_location::{ByteRange, Location, Version};
use firstbyte_store::{Error as StoreError, Store, Traced};
use firstbyte_transfer::Error as Transfer;

use super::stat_version;
use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};
use crate::render::progress::{FailureReporting, ProgressDisplay};
use crate::render::report::{Output, RunReport};
use crate::signals::stop_on_signal;

/// Write objects, or a range of them, to standard output
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte cat s3://bucket/table.csv.gz | zcat | head
  firstbyte cat s3://bucket/big.bam --range 0-65535      # the first 64 KiB, both ends included
  firstbyte cat part-1 part-2 --range -100               # the last 100 bytes of each")]
pub struct CatArgs {
    /// Objects to write, one after the other
    #[arg(required = true, value_name = "LOC")]
    locations: Vec<OsString>,
    /// Range to write: START-END (both included, as in HTTP), START- or -LAST
    #[arg(long, value_name = "RANGE", allow_hyphen_values = true)]
    range: Option<RangeSpec>,
    /// Write this version of the one object, as `ls --versions` shows it
    #[arg(long, value_name = "ID")]
    version_id: Option<String>,
}

/// A range as the user wrote it. The object's length is not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RangeSpec {
    /// Bytes from one offset up to, but not including, another.
    Span(ByteRange),
    /// The last bytes, by their number.
    Last(u64),
}

impl FromStr for RangeSpec {
    type Err = &'static str;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        const FORM: &str = "write START-END, START- or -LAST, in bytes";
        let (start, end) = text.split_once('-').ok_or(FORM)?;
        let number = |digits: &str| digits.parse::<u64>().map_err(|_| FORM);
        match (start, end) {
            ("", last) => Ok(Self::Last(number(last)?)),
            (start, "") => Ok(Self::Span(ByteRange::new(number(start)?, u64::MAX))),
            (start, end) => {
                let (start, end) = (number(start)?, number(end)?);
                if end < start {
                    Err("the range ends before it starts")
                } else {
                    Ok(Self::Span(ByteRange::new(start, end.saturating_add(1))))
                }
            }
        }
    }
}

impl fmt::Display for RangeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Span(range) if range.end == u64::MAX => write!(f, "{}-", range.start),
            Self::Span(range) => write!(f, "{}-{}", range.start, range.end - 1),
            Self::Last(count) => write!(f, "-{count}"),
        }
    }
}

impl RangeSpec {
    fn resolve(self, location: &Location, version: Option<&str>, store: &Store) -> Result<ByteRange> {
        match self {
            Self::Span(range) => Ok(range),
            Self::Last(count) => {
                let size = stat_version(location, version, store)?.size();
                let unknown = || Error::failed(format!("{location}: the server does not tell its length"));
                let size = size.ok_or_else(|| unknown().advise("give a range from its start"))?;
                Ok(ByteRange::new(size.saturating_sub(count), size))
            }
        }
    }
}

pub fn run(args: &CatArgs, globals: &Globals) -> Result<Exit> {
    let locations =
        args.locations.iter().map(|text| Ok(Location::parse(text)?)).collect::<Result<Vec<_>>>()?;
    if args.version_id.is_some() && locations.len() > 1 {
        return Err(Error::usage("--version-id: names a version of one object"));
    }
    let id = args.version_id.as_deref();
    let version = id.map(Version::of_id);
    let engine = globals.client()?.transfers(globals.settings(stop_on_signal(None)?));
    let mut report =
        RunReport::new("cat", super::join_operands(&args.locations), None).counting(engine.store());
    let progress = ProgressDisplay::new(globals, FailureReporting::Returned);
    let mut out = console::standard_output()?;
    for location in &locations {
        let range = args.range.map(|range| range.resolve(location, id, engine.store())).transpose();
        let cat = |range| engine.cat_version(location, version.as_ref(), range, &mut out, &progress);
        match range.map(cat) {
            // A closed pipe is not a failure: the reader has seen enough (`| head`).
            Ok(Err(error)) if is_closed_pipe(&error) => break,
            Ok(Err(Transfer::Store(StoreError::PastEnd { size, trace, .. }))) => {
                report.fail(past_end(args.range, location, size, trace));
            }
            Ok(Err(error @ Transfer::Stream { .. })) => report.add_stream(Err(error), "standard output"),
            Ok(run) => super::add_of_object(&mut report, run, location, engine.store()),
            Err(error) => report.fail(error),
        }
        if locations.len() > 1 {
            report.continue_after(location);
        }
        if report.has_ended() {
            break;
        }
    }
    drop(progress);
    // The output is the data, so no summary follows it.
    let globals = Globals { quiet: true, ..globals.clone() };
    report.end(&globals, Output::Data)
}

/// Returns whether a run ended because the reader of its output has closed the pipe.
pub fn is_closed_pipe(error: &Transfer) -> bool {
    matches!(error, Transfer::Stream { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
}

/// Makes the error for a range that begins past the end of an object.
fn past_end(range: Option<RangeSpec>, location: &Location, size: Option<u64>, trace: Traced) -> Error {
    let option = range.map_or_else(String::new, |range| format!("--range {range}: "));
    let length = size.map_or_else(String::new, |size| format!(" ({size} bytes)"));
    let error = Error::usage(format!("{option}begins past the end of {location}{length}"));
    let error = Error { trace, ..error };
    match size.and_then(|size| size.checked_sub(1)) {
        Some(last) => error.advise(format!("its last byte is {last}")),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_written_as_in_http() {
        assert_eq!("0-9".parse(), Ok(RangeSpec::Span(ByteRange::new(0, 10))));
        assert_eq!("5-".parse(), Ok(RangeSpec::Span(ByteRange::new(5, u64::MAX))));
        assert_eq!("-7".parse(), Ok(RangeSpec::Last(7)));
        for text in ["0-9", "5-", "-7", "9-9"] {
            assert_eq!(text.parse::<RangeSpec>().unwrap().to_string(), text);
        }
        for wrong in ["9-0", "", "-", "a-b", "5"] {
            assert!(wrong.parse::<RangeSpec>().is_err(), "{wrong}");
        }
    }
}

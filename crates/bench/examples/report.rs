//! Writes a report of results files, for tests and for looking at it.
//!
//! `report FORM FILE...` prints the form `html`, `markdown`, a terminal's width in columns, or
//! `compare` of two files.

use std::process::ExitCode;

use firstbyte_advise::compare::{THRESHOLD, compare};
use firstbyte_advise::result::Results;
use firstbyte_bench::report;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let form = arguments.next().unwrap_or_default();
    let mut results = Vec::new();
    for path in arguments {
        let text = std::fs::read_to_string(&path).map_err(|error| error.to_string());
        match text.and_then(|text| Results::parse(&text).map_err(|error| error.to_string())) {
            Ok(found) => results.push(found),
            Err(error) => {
                eprintln!("report: {path}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    let text = match (form.as_str(), results.as_slice()) {
        ("html", _) => report::html(&results),
        ("markdown", _) => report::markdown(&results),
        ("compare", [a, b]) => report::compared(&compare(a, b, THRESHOLD)),
        (width, _) => match width.parse() {
            Ok(width) => report::terminal(&results, width),
            Err(_) => {
                eprintln!("usage: report html|markdown|WIDTH FILE... or report compare FILE FILE");
                return ExitCode::from(2);
            }
        },
    };
    print!("{text}");
    ExitCode::SUCCESS
}

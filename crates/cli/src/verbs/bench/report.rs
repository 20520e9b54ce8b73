//! `bench report`: renders results files.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use firstbyte_bench::result::Results;
use firstbyte_bench::{report, results};

use crate::render::console;
use crate::render::error::{Error, Exit, Result};
use crate::render::output_file;

/// Width of a report, in columns, if the width of the terminal is unknown.
const DEFAULT_COLUMNS: u16 = 100;

/// Render results as an HTML page that needs no network, as Markdown or as text
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte bench report results.jsonl                        # on the terminal
  firstbyte bench report results.jsonl --out report.html      # one file, to show
  firstbyte bench report a.jsonl b.jsonl --format markdown")]
pub struct ReportArgs {
    /// Results files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write the report into this file instead of standard output
    #[arg(long, value_name = "PAGE")]
    out: Option<PathBuf>,
    /// Format of the report [default: html for --out *.html, markdown for *.md, else text]
    #[arg(long, value_enum)]
    format: Option<Form>,
}

/// The form of a report.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Form {
    Html,
    Markdown,
    Text,
}

pub fn run(args: &ReportArgs) -> Result<Exit> {
    if let Some(path) = args.out.as_ref().filter(|path| holds_results(path)) {
        return Err(Error::usage(format!("--out {}: it is a file of results", path.display()))
            .advise("name another file"));
    }
    let all = args.files.iter().map(|path| results::read(path));
    let all = results::join(all.collect::<firstbyte_bench::Result<Vec<_>>>()?);
    let text = match args.format.unwrap_or_else(|| form_of(args.out.as_ref())) {
        Form::Html => report::html(&all),
        Form::Markdown => report::markdown(&all),
        Form::Text => on_terminal(&all),
    };
    match &args.out {
        Some(path) => output_file::write(path, &[], &text)?,
        None => console::print(text.trim_end())?,
    }
    Ok(Exit::Done)
}

/// Returns true for a file of results, which a report must not replace.
fn holds_results(path: &Path) -> bool {
    path.is_file() && results::read(path).is_ok()
}

/// Formats the report for a terminal.
pub fn on_terminal(all: &[Results]) -> String {
    report::terminal(all, usize::from(columns()))
}

fn form_of(out: Option<&PathBuf>) -> Form {
    match out.and_then(|path| path.extension()).and_then(|extension| extension.to_str()) {
        Some("html" | "htm") => Form::Html,
        Some("md") => Form::Markdown,
        _ => Form::Text,
    }
}

/// Returns the width of the terminal at standard output, in columns.
fn columns() -> u16 {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout());
    size.map_or(DEFAULT_COLUMNS, |size| if size.ws_col == 0 { DEFAULT_COLUMNS } else { size.ws_col })
}

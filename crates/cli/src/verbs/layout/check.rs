//! `layout check`: finds files that are in the wrong directory. With `--mend`, moves them.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use clap::Args;
use firstbyte::receipt::Receipt;
use firstbyte_layout::{self as layout, Checked, LayoutFinding, Mend, Trouble};
use serde_json::{Map, json};

use super::{Directory, end_with_error, place, print_failures, set_name, shape_of, with_fields};
use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};
use crate::render::json;
use crate::render::rows::{NameEscaping, push_name};

/// Find misplaced files, files of the same name, and files that killed writers left behind
#[derive(Args)]
pub struct LayoutCheckArgs {
    #[command(flatten)]
    target: Directory,
    /// Repair what can be repaired without losing data
    #[arg(long)]
    mend: bool,
    /// Separate lines by NUL instead of line feeds, since names may contain those
    #[arg(short = '0', long)]
    null: bool,
}

pub fn run(args: &LayoutCheckArgs, globals: &Globals) -> Result<Exit> {
    if args.null && globals.json {
        return Err(Error::usage("-0 is for text; with --json a line is an object"));
    }
    let began = Instant::now();
    let root = &args.target.directory;
    let (names, end) = (NameEscaping::on(&io::stdout()), if args.null { 0 } else { b'\n' });
    let mut written = Ok(());
    let mut tell = |finding: &LayoutFinding| {
        let line = if globals.json { object(finding) } else { line(finding, names) };
        written = std::mem::replace(&mut written, Ok(()))
            .and_then(|()| console::print_bytes(&[&line[..], &[end]].concat()));
    };
    let mend = if args.mend { Mend::Apply } else { Mend::Report };
    let receipt = Receipt::new("layout check", place(root), None);
    let checked = match layout::check(root, mend, &mut tell) {
        Ok(checked) => checked,
        Err(error) => return Err(end_with_error(receipt, began, globals, error)),
    };
    written?;
    let mut receipt = Receipt { objects: checked.files, failed: print_failures(&checked.failed), ..receipt };
    receipt.finish(began);
    if globals.json {
        let fields = json!({
            "findings": checked.findings, "mended": checked.mended,
            "left": checked.findings - checked.mended, "failures": checked.failures,
            "state": checked.state.to_string(), "shape": shape_of(checked.scheme),
        });
        console::print(json::line(&with_fields(&receipt, &fields)?))?;
    } else if !globals.quiet {
        console::print_bytes(format!("{}{}", summary(&checked), char::from(end)).as_bytes())?;
    }
    let done = checked.findings == checked.mended && checked.failures == 0;
    Ok(if done { Exit::Done } else { Exit::Partial })
}

/// Formats the last line of text output.
fn summary(checked: &Checked) -> String {
    let failures = match checked.failures {
        0 => String::new(),
        count => format!(", {count} could not be checked"),
    };
    let Checked { files, findings, mended, state, scheme, .. } = checked;
    let found = format!("{findings} problem{}", if *findings == 1 { "" } else { "s" });
    let problems = match (findings, mended) {
        (0, _) => "no problems".to_owned(),
        (_, 0) => found,
        (all, mended) if all == mended => format!("{found}, all repaired"),
        (all, mended) => format!("{found}, {mended} repaired, {} left", all - mended),
    };
    format!("{files} files: {problems}{failures}; {state}, {scheme}")
}

/// Formats a finding as a line of text. `names` decides how the file name is escaped.
fn line(finding: &LayoutFinding, names: NameEscaping) -> Vec<u8> {
    let mut line = Vec::new();
    push_name(b"", finding.path.as_os_str().as_bytes(), names, &mut line);
    let outcome = if finding.mended { " (repaired)" } else { "" };
    line.extend_from_slice(format!(": {}{outcome}", describe(finding.trouble)).as_bytes());
    line
}

/// Formats a finding as JSON. Findings are printed before the receipt.
fn object(finding: &LayoutFinding) -> Vec<u8> {
    let mut fields = Map::new();
    set_name(&mut fields, "path", finding.path.as_os_str());
    fields.insert("trouble".into(), finding.trouble.to_string().into());
    fields.insert("mended".into(), finding.mended.into());
    json::line(&fields).into_bytes()
}

fn describe(trouble: Trouble) -> &'static str {
    match trouble {
        Trouble::Stray => "in the root, should be in a directory",
        Trouble::Misplaced => "in the wrong directory",
        Trouble::Double => "another file of this name is already in the right directory",
        Trouble::Abandoned => "left by a writer that was killed",
        Trouble::Foreign => "not a regular file",
        Trouble::Name => "a name this layout cannot hold",
        Trouble::Content => "its content does not match the hash in its name",
    }
}

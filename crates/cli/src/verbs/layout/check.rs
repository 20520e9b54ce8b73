//! `layout check`: is everything where it belongs?

use std::time::Instant;

use clap::Args;
use firstbyte_listing::layout::{self, Finding, Mend, Trouble};
use serde_json::json;

use super::{Directory, place, shape_of, with_fields};
use crate::args::Globals;
use crate::error::{Exit, Result};
use crate::receipt::Receipt;

/// Find files in wrong places, files of one name, and what killed writers left
#[derive(Args)]
pub struct CheckArgs {
    #[command(flatten)]
    target: Directory,
    /// Put right what can be without losing anything
    #[arg(long)]
    mend: bool,
}

/// Runs it.
pub fn run(args: &CheckArgs, globals: &Globals) -> Result<Exit> {
    let began = Instant::now();
    let root = &args.target.directory;
    let mend = if args.mend { Mend::Apply } else { Mend::Report };
    let checked = layout::check(root, mend, &mut |finding| tell(finding, globals))?;
    let unmended = checked.findings - checked.mended;
    let mut receipt =
        Receipt { verb: "layout check", source: place(root), objects: checked.files, ..Receipt::default() };
    receipt.finish(began);
    if globals.json {
        let fields = json!({
            "findings": checked.findings, "mended": checked.mended, "state": checked.state.to_string(),
            "shape": shape_of(checked.scheme),
        });
        println!("{}", with_fields(&receipt, &fields)?);
    } else if !globals.quiet {
        println!(
            "{} files, {} findings, {} mended; {}, {}",
            checked.files, checked.findings, checked.mended, checked.state, checked.scheme
        );
    }
    Ok(if unmended == 0 { Exit::Done } else { Exit::Partial })
}

/// One finding: a line, or with `--json` an object before the receipt.
fn tell(finding: &Finding, globals: &Globals) {
    let path = place(&finding.path);
    if globals.json {
        let trouble = finding.trouble.to_string();
        println!("{}", json!({ "path": path, "trouble": trouble, "mended": finding.mended }));
    } else {
        let outcome = if finding.mended { " (mended)" } else { "" };
        println!("{}: {}{outcome}", path.escape_debug(), told(finding.trouble));
    }
}

fn told(trouble: Trouble) -> &'static str {
    match trouble {
        Trouble::Stray => "in the root, belongs in a directory",
        Trouble::Misplaced => "in another directory than its own",
        Trouble::Double => "another file of its name lies where it belongs",
        Trouble::Abandoned => "left by a writer that was killed",
        Trouble::Foreign => "no file, and among files",
        Trouble::Name => "a name this layout cannot hold",
        Trouble::Content => "its content is not what its name says",
    }
}

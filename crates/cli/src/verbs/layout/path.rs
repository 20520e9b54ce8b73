//! `layout path`: prints the path that a name has in a layout, or the path of its file.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::Args;
use firstbyte_layout::{self as layout, DigitSource, Layout, LayoutRequest, LayoutScheme, Leaf};
use firstbyte_location::shown;
use serde_json::{Map, Value};

use super::{Directory, set_name};
use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};
use crate::render::json;
use crate::render::rows::{NameEscaping, push_name};

/// Print where a file belongs
#[derive(Args)]
pub struct PathArgs {
    #[command(flatten)]
    target: Directory,
    /// Names of files
    #[arg(required = true, value_name = "NAME")]
    names: Vec<OsString>,
    /// Print where the file is now instead. DIR may also be flat, or in conversion. If the file has
    /// moved by the time you open it, run the command again
    #[arg(long, conflicts_with_all = ["hash", "levels", "width", "leaf"])]
    find: bool,
    /// Separate paths by NUL instead of line feeds
    #[arg(short = '0', long)]
    null: bool,
    #[command(flatten)]
    assumed: NewLayoutArgs,
}

/// The shape of a layout that does not exist yet. The shape of an existing layout must agree with
/// it.
#[derive(Args)]
struct NewLayoutArgs {
    /// Hash that paths are computed from, as for `shard` [default: that of the layout, or xxh3 if
    /// there is no layout yet]
    #[arg(long, value_name = "HASH")]
    hash: Option<DigitSource>,
    /// Levels of directories above a file [default: those of the layout; required if there is no
    /// layout yet]
    #[arg(long, value_name = "N")]
    levels: Option<u8>,
    /// Digits in a directory's name [default: those of the layout; required if there is no layout
    /// yet]
    #[arg(long, value_name = "N")]
    width: Option<u8>,
    /// Name of a file in its directory [default: that of the layout, or name if there is no layout
    /// yet]
    #[arg(long, value_name = "name|rest")]
    leaf: Option<Leaf>,
}

pub fn run(args: &PathArgs, globals: &Globals) -> Result<Exit> {
    if args.null && globals.json {
        return Err(Error::usage("-0 is for text; with --json a line is an object"));
    }
    let names = NameEscaping::on(&io::stdout());
    let mut paths = Vec::new();
    let mut missing = 0;
    for name in &args.names {
        let path = if args.find { find(&args.target.directory, name)? } else { Some(belongs(args, name)?) };
        let Some(path) = path else {
            missing += 1;
            let place = args.target.directory.join(name);
            let error = Error::failed(format!("{}: no such file", shown(&place)));
            console::print_error(&error);
            continue;
        };
        if globals.json {
            json::push(&object(name, &path), &mut paths);
        } else {
            push_name(b"", path.as_os_str().as_bytes(), names, &mut paths);
        }
        paths.push(if args.null { 0 } else { b'\n' });
    }
    console::print_bytes(&paths)?;
    Ok(match missing {
        0 => Exit::Done,
        all if all == args.names.len() => Exit::Failed,
        _ => Exit::Partial,
    })
}

fn object(name: &OsStr, path: &Path) -> Map<String, Value> {
    let mut fields = Map::new();
    set_name(&mut fields, "name", name);
    set_name(&mut fields, "path", path.as_os_str());
    fields
}

fn belongs(args: &PathArgs, name: &OsStr) -> Result<PathBuf> {
    let root = &args.target.directory;
    let NewLayoutArgs { hash, levels, width, leaf } = args.assumed;
    let wish = LayoutRequest { hash, levels, width, leaf };
    let scheme = match (Layout::open(root), levels, width) {
        (Ok(layout), ..) => {
            wish.agrees(layout.scheme(), root)?;
            layout.scheme()
        }
        (Err(layout::Error::Missing { .. }), Some(levels), Some(width)) => {
            LayoutScheme::new(hash.unwrap_or_default(), levels, width, leaf.unwrap_or_default())
                .map_err(layout::Error::from)?
        }
        (Err(layout::Error::Missing { .. }), ..) if wish != LayoutRequest::default() => {
            return Err(Error::usage(format!(
                "{}: not a layout yet: --levels and --width are both needed to say where a file would be",
                shown(root)
            )));
        }
        (Err(error), ..) => return Err(error.into()),
    };
    Ok(root.join(scheme.path(name.as_bytes()).map_err(layout::Error::from)?))
}

fn find(root: &Path, name: &OsStr) -> Result<Option<PathBuf>> {
    Ok(layout::find(root, name.as_bytes())?)
}

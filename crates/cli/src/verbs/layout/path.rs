//! `layout path`: where a name belongs, or where it is.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::Args;
use firstbyte_listing::layout::{self, Layout, Scheme};
use firstbyte_location::shown;

use super::{Directory, Shape};
use crate::error::{Error, Exit, Result};

/// Print where a file belongs
#[derive(Args)]
pub struct PathArgs {
    #[command(flatten)]
    target: Directory,
    /// Names of files
    #[arg(required = true, value_name = "NAME")]
    names: Vec<OsString>,
    /// Print where it is now instead, also in a directory being converted or not converted at all. If it has moved by
    /// the time it is opened, ask again
    #[arg(long)]
    find: bool,
    /// End each path with a zero byte instead of a line end
    #[arg(short = '0', long)]
    null: bool,
    /// The shape to assume where the directory is no layout yet
    #[command(flatten)]
    shape: Shape,
}

/// Runs it.
pub fn run(args: &PathArgs) -> Result<Exit> {
    let mut paths = Vec::new();
    let mut missing = 0;
    for name in &args.names {
        let path = if args.find { find(&args.target.directory, name)? } else { Some(belongs(args, name)?) };
        match path {
            Some(path) => {
                paths.extend_from_slice(path.as_os_str().as_bytes());
                paths.push(if args.null { 0 } else { b'\n' });
            }
            None => {
                missing += 1;
                let place = args.target.directory.join(name);
                eprintln!("firstbyte: {}", Error::failed(format!("{}: no such file", shown(&place))));
            }
        }
    }
    io::stdout().write_all(&paths).map_err(|error| Error::io("standard output", &error))?;
    Ok(match missing {
        0 => Exit::Done,
        all if all == args.names.len() => Exit::Failed,
        _ => Exit::Partial,
    })
}

fn belongs(args: &PathArgs, name: &OsString) -> Result<PathBuf> {
    let (root, shape) = (&args.target.directory, &args.shape);
    let scheme = match (Layout::open(root), shape.levels, shape.width) {
        (Ok(layout), ..) => layout.scheme(),
        (Err(layout::Error::Missing { .. }), Some(levels), Some(width)) => {
            Scheme::new(shape.hash.unwrap_or_default(), levels, width, shape.leaf.unwrap_or_default())?
        }
        (Err(error), ..) => return Err(error.into()),
    };
    Ok(root.join(scheme.path(name.as_bytes())?))
}

fn find(root: &Path, name: &OsString) -> Result<Option<PathBuf>> {
    Ok(layout::find(root, name.as_bytes())?)
}

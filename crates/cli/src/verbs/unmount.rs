//! `unmount`: detaches a mount and waits for its daemon to end.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use firstbyte_location::shown;
use firstbyte_mount::{Control, RemainingMounts, UnmountMode};
use serde_json::json;

use super::mount::MountPaths;
use super::mount_counts;
use crate::globals::Globals;
use crate::render::error::{Error, Exit, Result};
use crate::render::{console, json};

/// Maximum time to wait for the daemon to end. The daemon only has to close its cache.
const MAX_DAEMON_WAIT: Duration = Duration::from_secs(30);

/// Maximum time to wait for the daemon's counts. A daemon that does not answer is unmounted without
/// its counts.
const MAX_COUNTS_WAIT: Duration = Duration::from_secs(1);

/// End a mount, and return when its daemon has ended
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte unmount /mnt/data
  firstbyte unmount --lazy /mnt/data   # at once; open files stay readable until they are closed")]
pub struct UnmountArgs {
    /// Mount point
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Detach immediately, even if files are open
    #[arg(long)]
    lazy: bool,
}

/// Connects to the daemon of the mount at `directory`; `None` if the daemon does not answer.
fn daemon(directory: &Path) -> Option<Control> {
    let directory = firstbyte_mount::mounted_directory(directory).ok()?;
    let only = MountPaths::only_daemon(&directory).ok().flatten();
    only.or_else(|| Control::of(&directory).ok().flatten())
}

pub fn run(args: &UnmountArgs, globals: &Globals) -> Result<Exit> {
    let started = Instant::now();
    // A lazy unmount does not contact the daemon, which may be stopped or hang. For the same
    // reason, other unmounts first try the control socket at its usual path, and access the mount
    // itself only if that fails.
    let daemon = if args.lazy { None } else { daemon(&args.directory) };
    let ending = if args.lazy { UnmountMode::Lazy } else { UnmountMode::Clean };
    let (daemon, counts) = match daemon {
        Some(mut daemon) => {
            let counts = mount_counts::ask(&mut daemon, MAX_COUNTS_WAIT);
            (Some(daemon), counts)
        }
        None => (None, None),
    };
    let left = firstbyte_mount::unmount(&args.directory, ending)?;
    if let Some(daemon) = daemon.filter(|_| left == RemainingMounts::Nothing)
        && !daemon.wait_for_end(MAX_DAEMON_WAIT)
    {
        return Err(Error::failed(format!(
            "{}: unmounted, but its daemon has not ended within {} s",
            shown(&args.directory),
            MAX_DAEMON_WAIT.as_secs()
        )));
    }
    let seconds = started.elapsed().as_secs_f64();
    if globals.json {
        let mut receipt = json!({ "source": args.directory, "seconds": seconds });
        if let Some(counts) = &counts {
            mount_counts::add(&mut receipt, counts);
        }
        console::print(json::summary("unmount", &receipt))?;
    } else if let Some(counts) = counts.filter(|_| !globals.quiet) {
        console::print(mount_counts::line(&counts))?;
    }
    Ok(Exit::Done)
}

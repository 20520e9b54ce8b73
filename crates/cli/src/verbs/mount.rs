//! `mount`: makes a location available as a read-only file system, which a daemon serves.

mod daemon;
mod place;
mod share;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use firstbyte::Client;
use firstbyte_hydrate::HydrationSettings;
use firstbyte_location::units::PositiveDuration;
use firstbyte_location::{EntryKind, Location, shown, units};
use firstbyte_mount::{
    AllowedUsers, Mount, MountOptions, OccupiedAction, PassthroughUse, ShownModes, StoredModes,
};
use firstbyte_store::{Outages, Store};
use rustix_futex_sync::Mutex;
use serde_json::{Value, json};

use super::account::AccountArgs;
use super::address;
use super::cached::CacheArgs;
use super::start;
use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};
use crate::signals::{self, ForcedEnd};
pub use place::MountPaths;
use share::ShareArgs;

/// The end of a mount after a signal. After SIGTERM, the signal that ends services, open files stay
/// readable for a while.
const FORCED_END: ForcedEnd =
    ForcedEnd { interrupted: signals::GRACE, terminated: Duration::from_secs(10), exit: Exit::Done };

/// Maximum time that an ending process waits while a mount is still being made.
const MAX_ATTACH_WAIT: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Mount a location as a read-only file system, and return when it is ready
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte mount s3://bucket/prefix /mnt/data
  firstbyte mount s3://bucket /mnt/data --cache /scratch/cache --cache-size 200GB
  firstbyte mount /nfs/share /mnt/fast                     # a cache in front of slow storage
  firstbyte mount https://host/dir/ /mnt/web --foreground  # ends with Ctrl-C
  firstbyte mount s3://bucket/db /mnt/db --record start    # what a run reads, and in which order
  firstbyte mount s3://bucket/db /mnt/db --replay start    # the next run finds it in the cache
  firstbyte unmount /mnt/data
docs/mount.md says what is guaranteed.")]
pub struct MountArgs {
    /// Location to mount: an S3 bucket or prefix, a URL with a directory listing, a directory, or
    /// one object
    #[arg(value_name = "SRC")]
    source: OsString,
    /// Empty directory for the mount
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Run in the foreground until unmounted or interrupted, instead of returning when ready
    #[arg(long)]
    foreground: bool,
    /// Cache names and attributes for this long. New, overwritten and deleted objects show up
    /// within this time
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = units::parse_duration)]
    metadata_ttl: Duration,
    /// Longest time of a read before it fails with an input/output error
    #[arg(long, value_name = "TIME", default_value = "30s", alias = "deadline")]
    read_deadline: PositiveDuration,
    /// Fetch files of at most SIZE completely on open, which waits for it. The kernel then reads
    /// them without the daemon, also when mapped
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = units::parse_size)]
    eager: u64,
    /// Let other users access the mount, as far as modes and owners permit
    #[arg(long)]
    allow_other: bool,
    /// Permission bits of all files, such as 555, instead of the source's [default for objects:
    /// 444]
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    file_mode: Option<u16>,
    /// Permission bits of all directories [default for objects: 555]
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    dir_mode: Option<u16>,
    /// User that owns everything, by number [default: the source's, or the one who mounts]
    #[arg(long, value_name = "UID")]
    uid: Option<u32>,
    /// Group of everything, by number
    #[arg(long, value_name = "GID")]
    gid: Option<u32>,
    /// Show modes and owners that were stored with objects, at one request more for each file
    #[arg(long)]
    stored_modes: bool,
    /// Mount even if DIR is not empty or is already a mount point. What is there is hidden until it
    /// is unmounted
    #[arg(long)]
    nonempty: bool,
    /// Record directories and reads in this start file, with versions, for --replay
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Fetch first what a start file names, in its order, and say how long that takes. A location:
    /// the file may lie beside the data. Objects that changed since are fetched on demand
    #[arg(long, value_name = "LOC")]
    replay: Option<OsString>,
    /// Let the kernel read hydrated files without the daemon (FUSE passthrough)
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Passthrough::Auto)]
    passthrough: Passthrough,
    /// Serve counters at http://HOST:PORT/metrics
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
    /// Log file of the daemon, which is continued [default: a file in $XDG_RUNTIME_DIR/firstbyte,
    /// printed when it is mounted]
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    #[command(flatten)]
    account: AccountArgs,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    share: ShareArgs,
}

/// Use of FUSE passthrough.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Passthrough {
    /// Where the kernel and the cache allow it.
    Auto,
    /// Never.
    Never,
}

impl From<Passthrough> for PassthroughUse {
    fn from(asked: Passthrough) -> Self {
        match asked {
            Passthrough::Auto => Self::WherePossible,
            Passthrough::Never => Self::Never,
        }
    }
}

impl MountArgs {
    fn place(&self) -> Result<MountPaths> {
        MountPaths::unused(&self.directory, self.log.as_deref())
    }

    /// Returns the location, with an absolute path if it is local, because a daemon leaves the
    /// current directory.
    fn location(&self) -> Result<Location> {
        Ok(match Location::parse(&self.source)? {
            Location::Local(path) => {
                Location::Local(std::path::absolute(&path).map_err(|e| Error::io(shown(&path), &e))?)
            }
            other => other,
        })
    }

    fn modes(&self) -> ShownModes {
        ShownModes {
            file: self.file_mode,
            directory: self.dir_mode,
            user: self.uid,
            group: self.gid,
            stored: if self.stored_modes { StoredModes::Show } else { StoredModes::Ignore },
        }
    }

    fn metrics(&self) -> Result<Option<SocketAddr>> {
        self.metrics.as_ref().map(|text| address::resolve("--metrics", text)).transpose()
    }

    /// Returns the options of the mount that follow from the arguments alone.
    fn options(&self, globals: &Globals) -> Result<MountOptions> {
        Ok(MountOptions {
            metadata_ttl: self.metadata_ttl,
            deadline: self.read_deadline.get(),
            eager: self.eager,
            memory: globals.memory_ceiling(),
            access: if self.allow_other { AllowedUsers::Everyone } else { AllowedUsers::Owner },
            occupied: if self.nonempty { OccupiedAction::Hide } else { OccupiedAction::Refuse },
            modes: self.modes(),
            passthrough: self.passthrough.into(),
            record: self.record.clone(),
            metrics: self.metrics()?,
            ..MountOptions::default()
        })
    }

    /// Returns the settings of a reader without a cache.
    fn uncached_settings(&self, globals: &Globals) -> HydrationSettings {
        HydrationSettings { cache: None, deadline: self.read_deadline.get(), ..self.cache.settings(globals) }
    }

    /// Returns the settings of a reader with the cache.
    fn cached_settings(&self, globals: &Globals) -> Result<HydrationSettings> {
        let cache = self.cache.directory();
        let cache = std::path::absolute(&cache).map_err(|e| Error::io(shown(&cache), &e))?;
        let whole = self.uncached_settings(globals);
        // The other half of the memory is for inodes, names and listings. A reader without a cache
        // gets the whole memory, for read-ahead data.
        Ok(HydrationSettings { cache: Some(cache), memory: whole.memory / 2, ..whole })
    }

    /// Makes the client. If the default cache cannot be used, warns, and makes a client that reads
    /// from the store each time. If a cache directory was given and cannot be used, fails.
    fn client_or_uncached(&self, store: &Store, globals: &Globals) -> Result<Client> {
        match Client::reading(store.clone(), self.cached_settings(globals)?) {
            Ok(client) => Ok(client),
            Err(error) if self.cache.named().is_none() => {
                tracing::warn!("reading without a cache: {error}");
                Ok(Client::over(store.clone(), self.uncached_settings(globals))?)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Parses permission bits, which are given in octal.
fn parse_mode(text: &str) -> std::result::Result<u16, String> {
    let mode = u16::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "write permission bits in octal, such as 555".into())
}

pub fn run(args: &MountArgs, globals: &Globals) -> Result<Exit> {
    if !args.foreground {
        return daemon::start(args, globals);
    }
    serve(args, globals, &args.place()?, &mut |receipt| {
        if globals.json {
            console::print(receipt)?;
        } else if !globals.quiet {
            console::print(describe(receipt))?;
        }
        Ok(())
    })
}

/// Mounts, calls `ready`, and serves until the location is unmounted or a signal arrives.
fn serve(
    args: &MountArgs,
    globals: &Globals,
    place: &MountPaths,
    ready: &mut dyn FnMut(&Value) -> Result<()>,
) -> Result<Exit> {
    let started = Instant::now();
    super::faults::log_faults().map_err(|error| Error::io("signals", &error))?;
    let location = args.location()?;
    let account = args.account.open(std::slice::from_ref(&location), globals)?;
    let given = globals.options().store;
    let store_options = firstbyte_store::StoreOptions {
        read_deadline: globals.read_timeout.min(args.read_deadline).get(),
        outages: Outages::FailFast,
        spending: account.spending(),
        gateways: args.share.gateways(given.gateways.clone())?,
        ..given
    };
    let store = globals.store_of(store_options.clone())?;
    let read = |file: &OsString| start::read_checked(file, &location, &store);
    let start = args.replay.as_ref().map(read).transpose()?;
    let brought = start.as_ref().map(|start| start::receipt(start, &location, &store, &account));
    let options = MountOptions {
        replay: start,
        control: Some(place.control.clone()),
        prices: account.prices(),
        ..args.options(globals)?
    };
    // The lock is held while mounting, so that a signal either comes before the mount or finds a
    // mount to unmount.
    let slot: Arc<Mutex<Option<Arc<Mount>>>> = Arc::default();
    let reported = Arc::new(AtomicBool::new(false));
    end_by_signals(&slot, &reported)?;
    let prepared = Mount::prepare(store.clone(), &location, &args.directory, &options)
        .map_err(|error| explain_error(error, &store, &location))?;
    args.share.try_out(&location, store_options.clone(), args.uncached_settings(globals), globals)?;
    // The cache is opened after all checks, so that a refused mount creates no cache.
    let client = args.client_or_uncached(&store, globals)?;
    let cache = client.hydrator().cache().map(|cache| cache.directory().to_owned());
    // The gateway runs until this variable is dropped, at the end of the mount.
    let _shared = args.share.start(&location, store_options, args.cached_settings(globals)?, globals)?;
    let mut held = slot.lock();
    let mount = Arc::new(prepared.attach(client.hydrator().clone())?);
    *held = Some(Arc::clone(&mount));
    drop(held);
    let announced = ready(&json!({
        "verb": "mount",
        "source": shown(&args.source).to_string(),
        "destination": mount.directory(),
        "seconds": started.elapsed().as_secs_f64(),
        "pid": std::process::id(),
        "cache": cache,
        "log": (!args.foreground).then_some(&place.log),
        "control": place.control,
        "metrics": mount.metrics().map(|address| format!("http://{address}/metrics")),
        "start": brought,
    }));
    reported.store(true, Ordering::Relaxed);
    if announced.is_err() {
        // The starting process ended before the mount was ready. The user does not know of the
        // mount, so it is unmounted.
        mount.stop()?;
    }
    mount.wait()?;
    // A mount ends only by being unmounted, so a signal does not count as an interruption.
    announced.map(|()| Exit::Done)
}

/// Converts an error. If the missing directory is actually a single object, the error says so.
fn explain_error(error: firstbyte_mount::Error, store: &Store, location: &Location) -> Error {
    let is_missing = matches!(error, firstbyte_mount::Error::NoDirectory { .. });
    let is_object = || store.stat(location).is_ok_and(|stat| stat.kind != EntryKind::Directory);
    let error = Error::from(error);
    if is_missing && is_object() {
        return error.advise(format!("{location} is an object, and would be the only file in it"));
    }
    error
}

/// Makes signals unmount the mount in `slot`. If nothing is mounted yet, a signal ends the process.
fn end_by_signals(slot: &Arc<Mutex<Option<Arc<Mount>>>>, reported: &Arc<AtomicBool>) -> Result<()> {
    let (slot, reported) = (Arc::clone(slot), Arc::clone(reported));
    let at_last = Arc::clone(&slot);
    // A second signal may arrive before the first is handled: the kernel announces the death of a
    // parent once for each of the parent's threads that had the child (`forget_original_parent` in
    // kernel/exit.c). Even then the mount must be detached, because a mount without a daemon
    // answers every access with an error.
    let undo = move || {
        // Usually `ask_to_end` has already unmounted the mount, and the error is ignored.
        let _ = mounted_in(&at_last).map(|mount| mount.stop());
    };
    let ask_to_end = move || {
        let held = slot.lock();
        let Some(mount) = held.clone() else {
            // The lock is held here, so no mount can be made before the process ends.
            std::process::exit(Exit::Interrupted as i32);
        };
        drop(held);
        if let Err(error) = mount.stop() {
            tracing::warn!("{error}");
        }
        if !reported.load(Ordering::Relaxed) {
            // The starting process has not read the daemon's report yet, so the mount has no users
            // to wait for.
            std::process::exit(Exit::Done as i32);
        }
    };
    signals::on_service_signal(FORCED_END, ask_to_end, undo)
}

/// Returns the mount in `slot`. `None` if there is no mount, or if mounting hangs, as it may with a
/// helper program.
fn mounted_in(slot: &Mutex<Option<Arc<Mount>>>) -> Option<Arc<Mount>> {
    let until = Instant::now() + MAX_ATTACH_WAIT;
    loop {
        if let Some(held) = slot.try_lock() {
            return held.clone();
        }
        if Instant::now() > until {
            return None;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Closes the descriptors that were inherited from the starting process, except the standard ones.
/// A mount outlives the starting process, and would otherwise keep the locks and pipes of that
/// process. Called before any file is opened.
pub fn close_inherited() {
    // SAFETY: this process has not opened any descriptor yet that it still uses.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) } == 0;
    if closed {
        return;
    }
    // Linux before 5.9 has no `close_range`.
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let open: Vec<i32> = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        // SAFETY: as above. The directory listing has been dropped, which closed its descriptor.
        unsafe { libc::close(descriptor) };
    }
}

/// Formats a receipt as text.
fn describe(receipt: &Value) -> String {
    let text = |name: &str| receipt[name].as_str().unwrap_or_default().to_owned();
    let mut line = format!("{} at {}, process {}", text("source"), text("destination"), receipt["pid"]);
    for (name, words) in [("log", "log"), ("metrics", "counters")] {
        if receipt[name].is_string() {
            line.push_str(&format!(", {words} {}", text(name)));
        }
    }
    if receipt["start"].is_object() {
        line.push_str(&format!("\n{}", start::describe(&receipt["start"])));
    }
    line
}

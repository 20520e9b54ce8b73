//! The setup of the demo: generated content, a server, a link in front of it, and a directory for
//! copies.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use firstbyte::size::human;
use firstbyte_link::{CounterSnapshot, Link, LinkConfig, Running as RunningLink};
use firstbyte_serve::{Config, Running as RunningServer, Server};

use super::DemoArgs;
use super::bytes::{Random, write_random};
use super::children::Children;
use super::text::Screen;
use crate::render::error::{Error, Result};
use crate::verbs::doctor::disk;

/// The bucket: the one directory that is served.
pub(crate) const BUCKET: &str = "demo";
/// Key of the large object.
pub(crate) const LARGE: &str = "large.bin";
/// Prefix of the small ones.
pub(crate) const SMALL: &str = "small";

/// Sizes of the small files: those that thumbnails, documents and tiles have.
const SMALL_SIZES: std::ops::Range<u64> = 10_000..100_001;

/// The stage; struck when dropped.
pub(crate) struct Stage<'a> {
    pub(crate) children: &'a Children,
    pub(crate) size: u64,
    binary: PathBuf,
    link: RunningLink,
    _server: RunningServer,
    // After the link and the server, which use the files: fields drop in order.
    scratch: Scratch,
}

impl<'a> Stage<'a> {
    /// Makes the content, starts server and link.
    pub(crate) fn set(args: &DemoArgs, children: &'a Children, screen: &Screen) -> Result<Self> {
        let scratch = Scratch::new(args)?;
        screen.step("making content");
        make_content(args, &scratch, children)?;
        let server = Server::start(Config::new(scratch.path.join("served")))
            .map_err(|e| Error::failed(e.to_string()))?;
        let config = LinkConfig::new(
            ([127, 0, 0, 1], 0).into(),
            server.url().trim_start_matches("http://").trim_end_matches('/'),
        )
        .with_preset(args.link);
        let link = Link::start(config).map_err(|error| Error::failed(error.to_string()))?;
        let binary = std::env::current_exe().map_err(|error| Error::io("this program's own path", &error))?;
        Ok(Self { children, size: args.size, binary, link, _server: server, scratch })
    }

    /// The endpoint of clients: the link.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.link.address())
    }

    /// The counters of the link.
    pub(crate) fn counters(&self) -> CounterSnapshot {
        self.link.counters()
    }

    /// The file served as the large object.
    pub(crate) fn large(&self) -> PathBuf {
        self.scratch.bucket().join(LARGE)
    }

    /// The directory served as the small objects.
    pub(crate) fn small(&self) -> PathBuf {
        self.scratch.bucket().join(SMALL)
    }

    /// A directory that nothing was written to yet.
    pub(crate) fn fresh(&self) -> Result<PathBuf> {
        let path = self.scratch.path.join("arrived");
        self.clear()?;
        fs::create_dir_all(&path).map_err(|error| Error::io(path.display(), &error))?;
        Ok(path)
    }

    /// Removes what arrived, so that one copy at a time takes space.
    pub(crate) fn clear(&self) -> Result<()> {
        for name in ["arrived", "cache"] {
            let path = self.scratch.path.join(name);
            match fs::remove_dir_all(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::io(path.display(), &error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A program with nothing of the user's settings: everyone fetches with their defaults,
    /// anonymously, from the link.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("AWS_")
                || text.starts_with("FIRSTBYTE_")
                || text.to_ascii_lowercase().ends_with("_proxy")
            {
                command.env_remove(&name);
            }
        }
        command.env("AWS_REGION", "us-east-1").env("AWS_EC2_METADATA_DISABLED", "true");
        command.env("AWS_CONFIG_FILE", "/dev/null").env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null");
        command.env("XDG_CACHE_HOME", self.scratch.path.join("cache"));
        command
    }

    /// This binary's `cp`, printing a receipt.
    pub(crate) fn cp(&self) -> Command {
        let mut command = self.command(&self.binary);
        command.args(["--json", "--no-sign-request", "--endpoint-url"]).arg(self.endpoint()).arg("cp");
        command
    }

    /// This binary's `ls`.
    pub(crate) fn ls(&self) -> Command {
        let mut command = self.command(&self.binary);
        command.arg("ls");
        command
    }

    /// The directory whose names are listed.
    pub(crate) fn names(&self) -> PathBuf {
        self.scratch.path.join("names")
    }

    /// The file system it plays on.
    pub(crate) fn place(&self) -> String {
        let parent = self.scratch.path.parent().unwrap_or(&self.scratch.path);
        format!("{} at {}", disk::file_system(&self.scratch.path), parent.display())
    }

    /// Keeps the files after the demo. Returns their directory.
    pub(crate) fn keep(&mut self) -> PathBuf {
        self.scratch.keep = true;
        self.scratch.path.clone()
    }
}

fn make_content(args: &DemoArgs, scratch: &Scratch, children: &Children) -> Result<()> {
    let mut random = Random::new(0x0066_6972_7374);
    let small = scratch.bucket().join(SMALL);
    fs::create_dir_all(&small).map_err(|error| Error::io(small.display(), &error))?;
    let large = scratch.bucket().join(LARGE);
    write_random(&large, args.size, &mut random).map_err(|error| Error::io(large.display(), &error))?;
    for number in 0..args.files {
        children.check()?;
        let path = small.join(format!("{number:05}"));
        let length = random.between(SMALL_SIZES.start, SMALL_SIZES.end);
        write_random(&path, length, &mut random).map_err(|error| Error::io(path.display(), &error))?;
    }
    Ok(())
}

/// A directory of the demo's own, removed when dropped.
struct Scratch {
    path: PathBuf,
    keep: bool,
}

impl Scratch {
    fn new(args: &DemoArgs) -> Result<Self> {
        let temporary = std::env::temp_dir();
        let moment = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let path = temporary.join(format!("firstbyte-demo-{}-{moment:x}", std::process::id()));
        let needed = args.size * 2 + u64::from(args.files) * 2 * SMALL_SIZES.end;
        if let Ok(free) = disk::free_space(&temporary)
            && free < needed
        {
            let message =
                format!("{}: {} free, the demo needs {}", temporary.display(), human(free), human(needed));
            return Err(Error::failed(message).advise("set TMPDIR to a larger file system, or lower --size"));
        }
        // Not `create_dir_all`: an existing directory of that name belongs to another process.
        fs::create_dir(&path).map_err(|error| Error::io(path.display(), &error))?;
        Ok(Self { path, keep: false })
    }

    fn bucket(&self) -> PathBuf {
        self.path.join("served").join(BUCKET)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep {
            // A leftover in a temporary directory is no reason to fail at the end.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

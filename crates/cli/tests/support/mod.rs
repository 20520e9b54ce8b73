//! Runs the real binary as a user would, in a world of its own: a directory for files, a home, and
//! no settings from outside. All tests of this crate use it.
//!
//! The servers are real, listen on free loopback ports, and end with the test. Random content
//! follows from seeds.

pub mod disk;
pub mod kills;
pub mod moves;
pub mod place;
pub mod refusals;
pub mod rogue;
pub mod servers;
pub mod standard_streams;
pub mod trouble;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use firstbyte_testkit::{ACCESS_KEY, SECRET_KEY, holds_within, scratch, until};
use rustix::process::{Pid, Signal};
use serde_json::Value;

/// Path of the program. The path may contain blanks, so shell lines must use `"$PROGRAM"`, which
/// [`shell`] sets.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_firstbyte");

/// Makes a command for a shell, or for a program that starts a shell. Sets `$PROGRAM`.
pub fn shell(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("PROGRAM", PROGRAM);
    command
}

/// Waits until a run has installed handlers for SIGINT and SIGTERM. Gives up after half a second,
/// because some runs install none.
pub fn wait_for_handlers(child: &Child) {
    // The mask has one bit per signal. The lowest bit is signal 1.
    let interrupts = [Signal::INT, Signal::TERM].map(|signal| 1_u64 << (signal.as_raw() - 1));
    holds_within(Duration::from_millis(500), || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
        let caught = u64::from_str_radix(caught.trim(), 16).unwrap();
        interrupts.iter().all(|bit| caught & bit != 0)
    });
}

/// Waits until no thread of a process runs. A thread that still runs could take a request from the
/// kernel, and the process that made the request could then not even be killed.
pub fn wait_until_stopped(process: Pid) {
    let tasks = format!("/proc/{}/task", process.as_raw_nonzero());
    let stopped = |task: std::io::Result<fs::DirEntry>| {
        let stat = fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
        stat.rsplit(')').next().unwrap().trim_start().starts_with('T')
    };
    until("all threads stop", || fs::read_dir(&tasks).unwrap().all(stopped));
}

/// A directory in which the program is run, with its files and settings.
pub struct World {
    directory: tempfile::TempDir,
    environment: Vec<(String, String)>,
}

impl World {
    pub fn new() -> Self {
        Self { directory: scratch(), environment: Vec::new() }
    }

    /// Makes a world that uses `server` as its S3 service.
    pub fn with_s3(server: &servers::S3) -> Self {
        let mut world = Self::new();
        world.set("FIRSTBYTE_ENDPOINT_URL", &server.url);
        world.set("AWS_ACCESS_KEY_ID", ACCESS_KEY);
        world.set("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
        world.set("AWS_REGION", "us-east-1");
        world
    }

    pub fn set(&mut self, name: &str, value: &str) {
        self.environment.retain(|(known, _)| known != name);
        self.environment.push((name.into(), value.into()));
    }

    /// Returns the path of a name in the directory of files.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("files").join(name)
    }

    /// Writes a file, and creates the directories that it needs.
    pub fn write(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// Sets the time of all files below a directory to one minute ago. Later writes are then newer,
    /// even for stores that date objects in whole seconds.
    pub fn age(&self, directory: &str) {
        let then = SystemTime::now() - Duration::from_secs(60);
        for name in names_below(&self.path(directory)) {
            let file = fs::File::options().write(true).open(self.path(directory).join(name)).unwrap();
            file.set_modified(then).unwrap();
        }
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        let path = self.path(name);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Makes a command that runs in the directory of files.
    pub fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        self.command_of(Path::new(PROGRAM), args)
    }

    /// Makes a command to which file permissions apply even if root runs the tests. The command
    /// runs as another user, with a copy of the program, because the original may be reachable only
    /// for root.
    pub fn unprivileged<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let (root, copy) = (self.directory.path(), self.directory.path().join("firstbyte"));
        if !rustix::process::geteuid().is_root() {
            return self.command(args);
        }
        if !copy.exists() {
            fs::copy(PROGRAM, &copy).unwrap();
            fs::set_permissions(root, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let mut command = self.command_of(&copy, args);
        command.uid(65_534).gid(65_534);
        command
    }

    fn command_of<S: AsRef<OsStr>>(&self, program: &Path, args: &[S]) -> Command {
        let files = self.directory.path().join("files");
        fs::create_dir_all(&files).unwrap();
        let mut command = Command::new(program);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.directory.path().join("home")).env("AWS_EC2_METADATA_DISABLED", "true");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.args(args).current_dir(files);
        refusals::refuse_as_asked(&mut command);
        command
    }

    pub fn run<S: AsRef<OsStr>>(&self, args: &[S]) -> Ran {
        Ran::from(self.command(args).stdin(Stdio::null()).output().unwrap())
    }

    /// Runs the program, with `input` on its standard input.
    pub fn run_with_input(&self, args: &[&str], input: &[u8]) -> Ran {
        let mut child = self.spawn(args);
        let mut pipe = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || std::io::Write::write_all(&mut pipe, &input));
        let output = child.wait_with_output().unwrap();
        // A program that fails may end before it has read everything. Its exit code shows that.
        let _ = writer.join().unwrap();
        Ran::from(output)
    }

    /// Starts the program, with pipes as all of its standard streams.
    pub fn spawn(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Returns the names of all files below the directory of files, as [`names_below`] does.
    pub fn names(&self) -> Vec<String> {
        names_below(&self.directory.path().join("files"))
    }
}

/// Returns the names of all entries below a directory that are no directories, including hidden
/// ones, sorted, and relative to that directory. Returns none if the directory does not exist.
pub fn names_below(root: &Path) -> Vec<String> {
    fn walk(directory: &Path, root: &Path, names: &mut Vec<String>) {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                walk(&entry.path(), root, names);
            } else {
                names.push(entry.path().strip_prefix(root).unwrap().to_string_lossy().into_owned());
            }
        }
    }
    let mut names = Vec::new();
    if root.exists() {
        walk(root, root, &mut names);
    }
    names.sort();
    names
}

/// A run that has ended.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let stderr = String::from_utf8(output.stderr).expect("standard error is text");
        Self { code: output.status.code(), stdout: output.stdout, stderr }
    }
}

impl Ran {
    /// Asserts that the run ended with exit code 0.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }

    /// Asserts that the run ended with exit code `code` and printed exactly one line on standard
    /// error, which contains all `facts` in any letter case.
    #[track_caller]
    pub fn fails(self, code: i32, facts: &[&str]) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        let lines: Vec<&str> = self.stderr.lines().collect();
        assert_eq!(lines.len(), 1, "one clear line: {self:?}");
        assert!(lines[0].starts_with("error: "), "{self:?}");
        for fact in facts {
            assert!(
                lines[0].to_lowercase().contains(&fact.to_lowercase()),
                "{fact:?} is not in {:?}",
                lines[0]
            );
        }
        self
    }

    /// Asserts that the run ended with exit code 2, and that its message contains `option`.
    #[track_caller]
    pub fn fails_usage(self, option: &str) -> Self {
        assert!(self.code == Some(2) && self.stderr.contains(option), "{self:?}");
        self
    }

    /// Returns the receipt: the last line of standard output or, if that is empty, the first line
    /// of standard error.
    #[track_caller]
    pub fn receipt(&self) -> Value {
        let text = String::from_utf8_lossy(&self.stdout);
        let line = text.lines().last().or_else(|| self.stderr.lines().next());
        let line = line.unwrap_or_else(|| panic!("no receipt: {self:?}"));
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

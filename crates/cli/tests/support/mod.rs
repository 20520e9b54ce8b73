//! Runs the real binary as users do, in a world of its own: a directory for files, a home, no
//! settings from outside.
//!
//! Servers are real ones, on free loopback ports, and end with the test. Content comes from seeds.

pub mod disk;
pub mod kills;
pub mod moves;
pub mod place;
pub mod rogue;
pub mod servers;
pub mod streams;
pub mod trouble;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use firstbyte_testkit::{ACCESS_KEY, SECRET_KEY, scratch};
use serde_json::Value;

/// How long something may take that happens at once on an idle machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until something holds.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A directory, and the binary run in it.
pub struct World {
    directory: tempfile::TempDir,
    environment: Vec<(String, String)>,
}

impl World {
    pub fn new() -> Self {
        Self { directory: scratch(), environment: Vec::new() }
    }

    /// The same world with `server` as its S3 service.
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

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("files").join(name)
    }

    /// Writes a file, with its directories.
    pub fn write(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        let path = self.path(name);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// A command, ready to run in the directory of files.
    pub fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let files = self.directory.path().join("files");
        fs::create_dir_all(&files).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_firstbyte"));
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.directory.path().join("home")).env("AWS_EC2_METADATA_DISABLED", "true");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.args(args).current_dir(files);
        command
    }

    pub fn run<S: AsRef<OsStr>>(&self, args: &[S]) -> Ran {
        Ran::from(self.command(args).stdin(Stdio::null()).output().unwrap())
    }

    /// Runs it with these bytes on standard input.
    pub fn run_with_input(&self, args: &[&str], input: &[u8]) -> Ran {
        let mut child = self.spawn(args);
        let mut pipe = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || std::io::Write::write_all(&mut pipe, &input));
        let output = child.wait_with_output().unwrap();
        // A program that failed may have left before it read everything: its exit code says so.
        let _ = writer.join().unwrap();
        Ran::from(output)
    }

    /// Starts it with pipes for all its streams.
    pub fn spawn(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Names of everything in the directory of files, sorted, relative to it.
    pub fn names(&self) -> Vec<String> {
        names_below(&self.directory.path().join("files"))
    }
}

/// Names of all files below a directory, sorted, relative to it; hidden ones as well.
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

/// A run that is over.
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
    /// All done, and nothing to complain about.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }

    /// Ended with `code` and exactly one line on standard error, which names every one of `facts`.
    #[track_caller]
    pub fn fails(self, code: i32, facts: &[&str]) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        let lines: Vec<&str> = self.stderr.lines().collect();
        assert_eq!(lines.len(), 1, "one clear line: {self:?}");
        assert!(lines[0].starts_with("firstbyte: "), "{self:?}");
        for fact in facts {
            assert!(
                lines[0].to_lowercase().contains(&fact.to_lowercase()),
                "{fact:?} is not in {:?}",
                lines[0]
            );
        }
        self
    }

    /// The receipt on standard output.
    #[track_caller]
    pub fn receipt(&self) -> Value {
        let text = String::from_utf8_lossy(&self.stdout);
        let line = text.lines().last().unwrap_or_else(|| panic!("no receipt: {self:?}"));
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

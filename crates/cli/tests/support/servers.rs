//! The S3 services of the tests: our own `serve`, and servers of others.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use firstbyte_testkit::{BUCKET, Process, minio, scratch, versitygw};

/// An S3 service that stores its objects in a directory of its own and has one bucket, [`BUCKET`].
pub struct S3 {
    pub url: String,
    /// The directory that contains the bucket.
    pub root: PathBuf,
    process: Service,
    _directory: tempfile::TempDir,
}

enum Service {
    Ours(Serve),
    Stranger(#[allow(dead_code, reason = "held for its drop")] Process),
}

/// A process of our own server. Dropping it ends the process.
struct Serve(Child);

impl Drop for Serve {
    fn drop(&mut self) {
        // The process may already have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl S3 {
    /// Starts our own `serve --write`.
    pub fn ours() -> Self {
        Self::ours_with(&["--write"])
    }

    /// Starts our own server, `serve`, with these options.
    pub fn ours_with(options: &[&str]) -> Self {
        Self::ours_logging(options, Stdio::inherit())
    }

    /// Starts our own server with these options. Its standard error goes to `log`.
    pub fn ours_logging(options: &[&str], log: impl Into<Stdio>) -> Self {
        let directory = scratch();
        std::fs::create_dir(directory.path().join(BUCKET)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_firstbyte"));
        command.arg("serve").arg(directory.path()).args(["--listen", "127.0.0.1:0"]).args(options);
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let process = Service::Ours(Serve(child));
        assert!(url.starts_with("http"), "serve said {url:?}");
        let url = url.trim().trim_end_matches('/').to_owned();
        Self { url, root: directory.path().to_owned(), process, _directory: directory }
    }

    pub fn minio() -> Self {
        let directory = scratch();
        Self::stranger(minio(directory.path()), directory)
    }

    pub fn versitygw() -> Self {
        let directory = scratch();
        Self::stranger(versitygw(directory.path()), directory)
    }

    fn stranger(process: Process, directory: tempfile::TempDir) -> Self {
        let (url, root) = (process.url(), directory.path().to_owned());
        Self { url, root, process: Service::Stranger(process), _directory: directory }
    }

    /// Returns the address of the service as `HOST:PORT`.
    pub fn address(&self) -> &str {
        self.url.split("://").nth(1).unwrap()
    }

    /// Returns the process id of the service. Panics if the service is not our own server.
    pub fn pid(&self) -> u32 {
        match &self.process {
            Service::Ours(serve) => serve.0.id(),
            Service::Stranger(_) => panic!("only our own server is looked into"),
        }
    }
}

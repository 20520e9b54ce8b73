//! Listens on the control socket, and answers each connection in a thread of its own.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread;

use super::address::ControlAddress;
use super::jobs::MountJobs;
use super::protocol::{ControlRequest, ControlResponse, MountCounts};
use crate::error::{Error, Result};
use crate::filesystem::FileSystem;

/// Maximum length of a request, bytes. The longest contains a path of 4,096 bytes, written as JSON.
const MAX_REQUEST_LENGTH: u64 = 64 << 10;
/// Stack size of a connection's thread, bytes.
const STACK: usize = 256 << 10;

/// A socket on which the daemon listens. The socket is removed when this value is dropped.
pub(crate) struct ControlListener {
    path: PathBuf,
}

impl ControlListener {
    /// Starts to answer requests about `core` on a socket at `path`.
    pub(crate) fn start(path: &Path, core: &Arc<FileSystem>) -> Result<Self> {
        let failed = |error: io::Error| Error::io(path, "cannot listen for requests", error);
        // If there is a socket, its daemon has died, because the caller has chosen a path where no
        // daemon answers.
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let address = ControlAddress::of(path).map_err(failed)?;
        let listener = UnixListener::bind(address.path()).map_err(failed)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
        let (core, jobs) = (Arc::downgrade(core), Arc::new(MountJobs::default()));
        let accept = move || {
            for connection in listener.incoming().flatten() {
                let (core, jobs) = (core.clone(), Arc::clone(&jobs));
                let thread = thread::Builder::new().name("control".into()).stack_size(STACK);
                if let Err(error) = thread.spawn(move || answer(&connection, &core, &jobs)) {
                    tracing::warn!("a request could not be answered: {error}");
                }
            }
        };
        // The thread is not joined. It runs until the process ends, and has no strong reference to
        // the file system.
        thread::Builder::new().name("control".into()).stack_size(STACK).spawn(accept).map_err(failed)?;
        Ok(Self { path: path.to_owned() })
    }
}

impl Drop for ControlListener {
    fn drop(&mut self) {
        // The socket may have been removed already.
        let _ = fs::remove_file(&self.path);
    }
}

fn answer(connection: &UnixStream, core: &Weak<FileSystem>, jobs: &MountJobs) {
    let mut reader = BufReader::new(connection);
    let mut line = Vec::new();
    loop {
        line.clear();
        match io::Read::take(&mut reader, MAX_REQUEST_LENGTH).read_until(b'\n', &mut line) {
            Ok(read) if read > 0 && line.ends_with(b"\n") => {}
            _ => return,
        }
        // The reference is dropped before the next wait: `unmount` keeps its connection open until
        // the daemon has ended, and the daemon ends only without references.
        let Some(core) = core.upgrade() else { return };
        let response = match serde_json::from_slice(&line) {
            Ok(request) => respond(&core, jobs, request),
            Err(error) => ControlResponse::Error { error: format!("not a request: {error}") },
        };
        drop(core);
        let Ok(response) = serde_json::to_string(&response) else { return };
        let mut writer = connection;
        if writeln!(writer, "{response}").is_err() {
            return;
        }
    }
}

fn counts(core: &FileSystem) -> MountCounts {
    let counters = core.source.store().counters();
    MountCounts {
        requests_by_kind: counters.requests_by_kind,
        retries: counters.retries,
        received_bytes: counters.received,
        usd: core.prices.and_then(|prices| prices.usd(&counters)),
    }
}

fn respond(core: &FileSystem, jobs: &MountJobs, request: ControlRequest) -> ControlResponse {
    match request {
        ControlRequest::About => {
            ControlResponse::About { source: core.source.root().to_string(), pid: std::process::id() }
        }
        ControlRequest::Counts => ControlResponse::Counts(counts(core)),
        ControlRequest::Hydrate(request) => jobs.begin(core, request),
        ControlRequest::Progress { job, known_failures } => jobs.progress(job, known_failures),
        ControlRequest::Cancel { job } => jobs.cancel(job),
    }
}

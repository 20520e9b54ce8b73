//! Runs one session: an `ssh` process, a thread that writes requests to the process, and a thread
//! that passes replies to the waiting callers.
//!
//! Any number of callers share a session, each by its own [`Exchange`]. Neither thread ever waits
//! for a caller: the bytes in flight are limited by [`WINDOW_BYTES`], and replies to a caller that
//! no longer exists are dropped.

use std::collections::HashMap;
use std::io::{self, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::process::{ChildStdin, ChildStdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use firstbyte_location::{SftpPath, one_line, to_usize};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix_futex_sync::Mutex;

use super::packet::{self, Extensions, SftpReply, SftpRequest, code, kind};
use super::ssh::{SessionEnd, Ssh};
use crate::cancel::Cancel;
use crate::error::{Error, RequestAuthentication, Result};
use crate::limits::{POLL_INTERVAL, STACK};
use crate::options::StoreOptions;

/// Maximum bytes of reads and writes in flight in a session: the window of OpenSSH's channels.
const WINDOW_BYTES: usize = 2 << 20;
/// Maximum length of a read or write, in bytes, if the server does not state its limits. Every
/// server supports this length.
const DEFAULT_MAX_BYTES: usize = 32 << 10;
/// Maximum length of a read, in bytes. After longer reads, other packets would wait longer.
pub(super) const MAX_READ_BYTES: usize = 128 << 10;
/// Maximum length of a write, in bytes. The server replies to each write, and these replies show
/// that a slow link works.
const MAX_WRITE_BYTES: usize = 64 << 10;
/// Smallest length of data, in bytes, whose buffer is reused.
const MIN_REUSED_BYTES: usize = 16 << 10;
/// Time after which an unused session ends. At some hosts, a login takes seconds.
const IDLE_TIMEOUT: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

/// A connection to a host. Its callers share it.
pub(super) struct SftpSession {
    shared: Arc<Shared>,
    requests: Sender<Vec<u8>>,
    next_number: AtomicU32,
    pub(super) greeting: Greeting,
    deadline: Duration,
}

/// The extensions and limits that the server states.
pub(super) struct Greeting {
    pub(super) extensions: Extensions,
    /// Maximum length of a read to send, in bytes.
    pub(super) longest_read: usize,
    /// Maximum length of a write to send, in bytes.
    pub(super) longest_write: usize,
}

/// The state that the callers share with the reading thread.
struct Shared {
    waiting: Mutex<Waiting>,
    ssh: Mutex<Option<Ssh>>,
    /// Buffers for data that can be reused.
    spare: Mutex<Vec<Vec<u8>>>,
    /// Bytes of reads and writes in flight, and of data that was not passed to its caller yet.
    in_flight: AtomicUsize,
    /// Number of callers that use the session.
    users: AtomicUsize,
    began: Instant,
    /// Milliseconds from `began` to the last received byte.
    heard: AtomicU64,
}

/// The requests that wait for a reply, by the number of the request.
enum Waiting {
    Open(HashMap<u32, Sender<Answer>>),
    Ended(SessionEnd),
}

/// Message from the reading thread to a caller.
enum Answer {
    Reply(u32, SftpReply),
    Ended(SessionEnd),
}

impl SftpSession {
    pub(super) fn open(options: &StoreOptions, place: &SftpPath, cancel: &Cancel) -> Result<Arc<Self>> {
        let (ssh, input, output) = Ssh::start(options, place)?;
        let shared = Arc::new(Shared {
            waiting: Mutex::new(Waiting::Open(HashMap::new())),
            ssh: Mutex::new(Some(ssh)),
            spare: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            users: AtomicUsize::new(0),
            began: Instant::now(),
            heard: AtomicU64::new(0),
        });
        let (requests, queue) = channel();
        let (greet, greeting) = channel();
        let begun = spawn(move || write(input, &queue))
            .and_then(|()| {
                let (shared, requests) = (Arc::clone(&shared), requests.clone());
                spawn(move || read(&shared, output, &requests, &greet))
            })
            .and_then(|()| requests.send(SftpRequest::greeting()).map_err(io::Error::other));
        let location = || place.to_string();
        begun.map_err(|source| Error::Io { location: location(), source })?;
        let deadline = options.connect_deadline + options.read_deadline;
        let greeting =
            await_greeting(&greeting, deadline, cancel, &location).inspect_err(|_| shared.stop())?;
        let (next_number, deadline) = (AtomicU32::new(1), options.read_deadline);
        Ok(Arc::new(Self { shared, requests, next_number, greeting, deadline }))
    }

    pub(super) fn is_live(&self) -> bool {
        matches!(*self.shared.waiting.lock(), Waiting::Open(_))
    }

    /// Returns the number of callers that use the session.
    pub(super) fn users(&self) -> usize {
        self.shared.users.load(Ordering::Relaxed)
    }

    fn stop(&self) {
        self.shared.stop();
    }

    /// Returns the time since the server sent its last byte.
    fn silence(&self) -> Duration {
        let heard = Duration::from_millis(self.shared.heard.load(Ordering::Relaxed));
        self.shared.began.elapsed().saturating_sub(heard)
    }
}

impl Drop for SftpSession {
    fn drop(&mut self) {
        self.stop();
    }
}

fn await_greeting(
    greeting: &Receiver<std::result::Result<Greeting, SessionEnd>>,
    deadline: Duration,
    cancel: &Cancel,
    location: &dyn Fn() -> String,
) -> Result<Greeting> {
    let began = Instant::now();
    loop {
        match greeting.recv_timeout(POLL_INTERVAL) {
            Ok(greeted) => return greeted.map_err(|lost| lost.at_start(location())),
            Err(_) if cancel.is_cancelled() => return Err(Error::Cancelled),
            Err(_) if began.elapsed() < deadline => {}
            Err(_) => return Err(Error::TimedOut { location: location(), after: deadline, trace: None }),
        }
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name("sftp".into()).stack_size(STACK).spawn(work).map(drop)
}

/// Writes requests until the session ends or is dropped.
fn write(mut input: ChildStdin, queue: &Receiver<Vec<u8>>) {
    while let Ok(packet) = queue.recv() {
        // After the end of `ssh`, the write fails, and the reading thread reports the end.
        if input.write_all(&packet).is_err() {
            return;
        }
    }
}

/// Reads replies until the session ends, and reports its end.
fn read(
    shared: &Arc<Shared>,
    output: ChildStdout,
    requests: &Sender<Vec<u8>>,
    greet: &Sender<std::result::Result<Greeting, SessionEnd>>,
) {
    let mut input = BufReader::with_capacity(MIN_REUSED_BYTES, TimedOutput { output, shared });
    // Sending the greeting fails if the caller has given up, which is not an error here.
    let mut ended = read_greeting(&mut input, requests).map(|greeting| drop(greet.send(Ok(greeting))));
    while ended.is_ok() {
        if input.buffer().is_empty() && shared.is_idle(&input.get_ref().output) {
            break;
        }
        ended = packet::read_reply(&mut input, |length| shared.buffer(length))
            .map(|(number, reply)| shared.deliver(number, reply, requests));
    }
    let Some(ssh) = shared.ssh.lock().take() else { return };
    let garbled = ended.err().filter(|error| error.kind() == io::ErrorKind::InvalidData);
    let lost = ssh.end();
    let lost = match garbled {
        Some(error) => lost.garbled(&error.to_string()),
        None => lost,
    };
    // // If a greeting was read, the caller no longer waits for this message, and the send fails.
    let _ = greet.send(Err(lost.clone()));
    shared.end(&lost);
}

/// Reads the greeting of the server. Requests the limits of the server if it announces that
/// extension.
fn read_greeting(input: &mut impl Read, requests: &Sender<Vec<u8>>) -> io::Result<Greeting> {
    let extensions = packet::read_greeting(input)?;
    let mut limits = (0, 0);
    if extensions.has_limits && requests.send(SftpRequest::extended("limits@openssh.com").numbered(0)).is_ok()
    {
        // No caller has the session yet, so the next reply answers this request.
        if let (0, SftpReply::Extended(reply)) = packet::read_reply(input, |length| vec![0; length])? {
            limits = packet::limits(&reply)?;
        }
    }
    let most = |limit: u64, most: usize| match to_usize(limit) {
        0 => DEFAULT_MAX_BYTES,
        limit => limit.min(most),
    };
    let (longest_read, longest_write) = (most(limits.0, MAX_READ_BYTES), most(limits.1, MAX_WRITE_BYTES));
    Ok(Greeting { extensions, longest_read, longest_write })
}

/// The output of `ssh`. Records the time of the last byte.
struct TimedOutput<'a> {
    output: ChildStdout,
    shared: &'a Shared,
}

impl Read for TimedOutput<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.output.read(buffer)?;
        let now = u64::try_from(self.shared.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.shared.heard.store(now, Ordering::Relaxed);
        Ok(read)
    }
}

impl Shared {
    /// Ends the `ssh` process. The reading thread then finds the end of its input.
    fn stop(&self) {
        if let Some(ssh) = &*self.ssh.lock() {
            ssh.stop();
        }
    }

    /// Waits for input. Returns true if none came for a long time while no caller used the session.
    fn is_idle(&self, output: &ChildStdout) -> bool {
        loop {
            match poll(&mut [PollFd::from_borrowed_fd(output.as_fd(), PollFlags::IN)], Some(&IDLE_TIMEOUT)) {
                Ok(0) if self.users.load(Ordering::Relaxed) == 0 => return true,
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                // If this is an error, the next read reports it.
                _ => return false,
            }
        }
    }

    /// Returns a buffer for at least `length` bytes of data.
    fn buffer(&self, length: usize) -> Vec<u8> {
        if length < MIN_REUSED_BYTES {
            return vec![0; length];
        }
        let spare = self.spare.lock().pop().filter(|buffer| buffer.len() >= length);
        spare.unwrap_or_else(|| vec![0; length.max(MAX_READ_BYTES)])
    }

    fn deliver(&self, number: u32, reply: SftpReply, requests: &Sender<Vec<u8>>) {
        let waiting = match &mut *self.waiting.lock() {
            Waiting::Open(waiting) => waiting.remove(&number),
            Waiting::Ended(_) => None,
        };
        let undelivered = match waiting {
            Some(caller) => caller.send(Answer::Reply(number, reply)).err().map(|error| error.0),
            None => Some(Answer::Reply(number, reply)),
        };
        // The caller no longer exists. If the server has opened a handle for it, the handle is
        // closed.
        if let Some(Answer::Reply(_, SftpReply::Handle(handle))) = undelivered {
            let _ = requests.send(SftpRequest::of(kind::CLOSE, &handle).numbered(number));
        }
    }

    fn end(&self, lost: &SessionEnd) {
        let before = std::mem::replace(&mut *self.waiting.lock(), Waiting::Ended(lost.clone()));
        if let Waiting::Open(waiting) = before {
            for caller in waiting.into_values() {
                // The send fails if the caller no longer exists.
                let _ = caller.send(Answer::Ended(lost.clone()));
            }
        }
    }
}

/// The use of a session by one caller. The session counts its users by these values.
pub(super) struct SessionLease(Arc<SftpSession>);

impl SessionLease {
    pub(super) fn new(session: Arc<SftpSession>) -> Self {
        session.shared.users.fetch_add(1, Ordering::Relaxed);
        Self(session)
    }
}

impl Drop for SessionLease {
    fn drop(&mut self) {
        self.0.shared.users.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The requests of one caller in a session, and the replies to them.
pub(super) struct Exchange {
    lease: SessionLease,
    send: Sender<Answer>,
    receive: Receiver<Answer>,
    /// Replies that arrived before the reply for which the caller waits, by request number.
    early_replies: HashMap<u32, SftpReply>,
    /// Bytes in flight for this caller.
    in_flight: usize,
    /// The location, for errors.
    pub(super) place: String,
    cancel: Cancel,
}

impl Exchange {
    pub(super) fn new(lease: SessionLease, place: String, cancel: Cancel) -> Self {
        let (send, receive) = channel();
        Self { lease, send, receive, early_replies: HashMap::new(), in_flight: 0, place, cancel }
    }

    /// Returns another exchange in the same session, which cannot be cancelled. It sends the
    /// requests that clean up after this exchange was cancelled.
    pub(super) fn after_cancel(&self) -> Self {
        Self::new(SessionLease::new(Arc::clone(&self.lease.0)), self.place.clone(), Cancel::new())
    }

    pub(super) fn session(&self) -> &SftpSession {
        &self.lease.0
    }

    /// Sends a request. Returns the number of the request.
    pub(super) fn send(&self, request: SftpRequest) -> Result<u32> {
        let session = self.session();
        let number = session.next_number.fetch_add(1, Ordering::Relaxed);
        match &mut *session.shared.waiting.lock() {
            Waiting::Open(waiting) => waiting.insert(number, self.send.clone()),
            Waiting::Ended(lost) => return Err(lost.clone().under_way(self.place.clone())),
        };
        // If this fails, the session has ended, and the reading thread reports that.
        let _ = session.requests.send(request.numbered(number));
        Ok(number)
    }

    /// Sends a request without waiting for the reply.
    pub(super) fn send_last(&self, request: SftpRequest) {
        let session = self.session();
        let number = session.next_number.fetch_add(1, Ordering::Relaxed);
        // If the session has ended, the server has already closed everything.
        let _ = session.requests.send(request.numbered(number));
    }

    /// Waits for the reply to the request `number`.
    pub(super) fn reply(&mut self, number: u32) -> Result<SftpReply> {
        self.reply_within(number, self.session().deadline)
    }

    /// Waits for the reply to the request `number`. Fails if the server sends no byte for the time
    /// `deadline`.
    pub(super) fn reply_within(&mut self, number: u32, deadline: Duration) -> Result<SftpReply> {
        let began = Instant::now();
        loop {
            if let Some(reply) = self.early_replies.remove(&number) {
                return Ok(reply);
            }
            if self.cancel.is_cancelled() {
                return Err(Error::Cancelled);
            }
            match self.receive.recv_timeout(POLL_INTERVAL) {
                Ok(Answer::Reply(found, reply)) => {
                    self.early_replies.insert(found, reply);
                }
                Ok(Answer::Ended(lost)) => return Err(lost.under_way(self.place.clone())),
                Err(_) if began.elapsed().min(self.session().silence()) < deadline => {}
                Err(_) => {
                    // The session is ended, because all other callers would wait for the same time.
                    self.session().stop();
                    return Err(Error::TimedOut {
                        location: self.place.clone(),
                        after: deadline,
                        trace: None,
                    });
                }
            }
        }
    }

    /// Sends a request and waits for its reply.
    pub(super) fn call(&mut self, request: SftpRequest) -> Result<SftpReply> {
        let number = self.send(request)?;
        self.reply(number)
    }

    /// Sends a request that the server answers by a status. Returns the code and the message.
    pub(super) fn status(&mut self, request: SftpRequest) -> Result<(u32, String)> {
        let number = self.send(request)?;
        self.reply_status(number)
    }

    pub(super) fn reply_status(&mut self, number: u32) -> Result<(u32, String)> {
        match self.reply(number)? {
            SftpReply::Status { code, message } => Ok((code, message)),
            _ => Err(self.unexpected()),
        }
    }

    /// Returns true if `bytes` more may be in flight. Always true for a caller without a request in
    /// flight, so that every caller makes progress.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.in_flight == 0
            || self.session().shared.in_flight.load(Ordering::Relaxed).saturating_add(bytes) <= WINDOW_BYTES
    }

    /// Counts additional bytes in flight.
    pub(super) fn add_in_flight(&mut self, bytes: usize) {
        self.in_flight += bytes;
        self.session().shared.in_flight.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Subtracts bytes that are no longer in flight.
    pub(super) fn remove_in_flight(&mut self, bytes: usize) {
        self.in_flight -= bytes;
        self.session().shared.in_flight.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns a data buffer to the session for reuse.
    pub(super) fn return_buffer(&self, buffer: Vec<u8>) {
        if buffer.len() >= MAX_READ_BYTES {
            self.session().shared.spare.lock().push(buffer);
        }
    }

    /// Returns the error for a status other than success. `what` names the failed operation.
    pub(super) fn status_error(&self, what: &str, code: u32, message: &str) -> Error {
        refusal(&self.place, what, code, message)
    }

    /// Returns the error for a reply of the wrong kind.
    pub(super) fn unexpected(&self) -> Error {
        let detail = "a reply of another kind than the request asks for".to_owned();
        Error::Protocol { location: self.place.clone(), detail, trace: None }
    }

    /// Returns the error for a reply that is a failure or has the wrong kind. `what` names the
    /// failed operation.
    pub(super) fn reply_error(&self, what: &str, reply: &SftpReply) -> Error {
        match reply {
            SftpReply::Status { code, message } if *code != code::OK => {
                self.status_error(what, *code, message)
            }
            _ => self.unexpected(),
        }
    }

    pub(super) fn cancel_handle(&self) -> &Cancel {
        &self.cancel
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.session().shared.in_flight.fetch_sub(self.in_flight, Ordering::Relaxed);
    }
}

/// Returns the error for a status. `what` names the failed operation.
fn refusal(place: &str, what: &str, status: u32, message: &str) -> Error {
    let location = place.to_owned();
    match status {
        code::NO_SUCH_FILE => Error::NotFound { location, trace: None },
        code::PERMISSION_DENIED => Error::Denied {
            location,
            detail: message.to_owned(),
            request: RequestAuthentication::Login,
            trace: None,
        },
        _ => Error::Server {
            location,
            status: u16::try_from(status).unwrap_or(u16::MAX),
            code: one_line(message),
            message: format!("it could not {what}"),
            trace: None,
        },
    }
}

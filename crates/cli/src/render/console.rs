//! Writes to standard output and standard error. Results go to standard output, everything else to
//! standard error.
//!
//! A run fails if its results cannot be written, unless the reader has closed the pipe (`| head`).
//! Standard error never makes a run fail or wait longer than [`MAX_WRITE_WAIT`]: a line that cannot
//! be written within that time is dropped, and the number of dropped lines is printed later. Unlike
//! the macros of the standard library, the functions in this module do not panic.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use firstbyte_location::{one_line, redacted};
use indicatif::{ProgressDrawTarget, TermLike};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use rustix_futex_sync::{Mutex, MutexGuard};

use crate::render::error::{Error, Result};
use crate::render::log_line;

/// Maximum time that a line waits while standard error accepts nothing. After one line has waited
/// that long, later lines are tried without waiting, until standard error accepts one again.
const MAX_WRITE_WAIT: Duration = Duration::from_millis(200);
/// Maximum number of bytes per write: `PIPE_BUF` on Linux. POSIX guarantees that a pipe which polls
/// as writable accepts this many bytes without blocking.
const MAX_WRITE_BYTES: usize = 4096;
/// Pause after the kernel has reported that standard error is writable but has accepted nothing.
const RETRY_PAUSE: Duration = Duration::from_millis(5);

/// The lines for standard error that could not be written.
struct Lines {
    dropped: u64,
    stuck: bool,
}

static LINES: Mutex<Lines> = Mutex::new(Lines { dropped: 0, stuck: false });

/// True if standard output was closed when the program started. Rust's start-up code opens
/// `/dev/null` in place of a closed standard output, so rows would vanish without an error. A
/// constructor, which runs before the start-up code, sets the flag.
static OUTPUT_CLOSED: AtomicBool = AtomicBool::new(false);
/// True if standard input was closed when the program started. Without this flag, a closed input
/// would be read as an empty object.
static INPUT_CLOSED: AtomicBool = AtomicBool::new(false);

// SAFETY: libc calls the functions in this section of the program before `main`, like functions
// with C's `__attribute__((constructor))`. This function only asks the kernel about two descriptors
// and stores the answers.
#[used]
#[unsafe(link_section = ".init_array")]
static CHECK_AT_START: extern "C" fn() = check_standard_streams;

extern "C" fn check_standard_streams() {
    let is_closed = |stream| rustix::io::fcntl_getfd(stream) == Err(rustix::io::Errno::BADF);
    OUTPUT_CLOSED.store(is_closed(rustix::stdio::stdout()), Ordering::Relaxed);
    INPUT_CLOSED.store(is_closed(rustix::stdio::stdin()), Ordering::Relaxed);
}

/// True once anything was written to standard output, or standard output was opened for content.
static USED: AtomicBool = AtomicBool::new(false);

/// Returns whether results or content were written to standard output, or are about to be.
pub fn output_is_used() -> bool {
    USED.load(Ordering::Relaxed)
}

/// Returns whether standard output was closed when the program began.
pub fn output_is_closed() -> bool {
    OUTPUT_CLOSED.load(Ordering::Relaxed)
}

/// Returns standard output as a plain file. `std::io::Stdout` would search every byte for line
/// ends.
pub fn standard_output() -> Result<File> {
    if output_is_closed() {
        return Err(Error::failed("standard output: it is closed"));
    }
    USED.store(true, Ordering::Relaxed);
    let descriptor = io::stdout().as_fd().try_clone_to_owned();
    descriptor.map(File::from).map_err(|error| Error::io("standard output", &error))
}

/// Returns standard input as a plain file, which any thread can read and which has no buffer of its
/// own. Every verb that reads standard input calls this.
///
/// # Errors
/// Standard input was closed when the program started, or cannot be read.
pub fn standard_input() -> Result<File> {
    if INPUT_CLOSED.load(Ordering::Relaxed) {
        return Err(Error::failed("standard input: it is closed").advise("name a file, or open it (< FILE)"));
    }
    let opened = rustix::fs::fcntl_getfl(io::stdin()).unwrap_or(OFlags::RDWR);
    if opened & OFlags::ACCMODE == OFlags::WRONLY {
        return Err(Error::failed("standard input: it is open for writing alone"));
    }
    let descriptor = io::stdin().as_fd().try_clone_to_owned();
    descriptor.map(File::from).map_err(|error| Error::io("standard input", &error))
}

/// Prints a line on standard error.
pub fn say(line: impl Display) {
    let line = if log_line::is_json() { log_line::message_line(&line.to_string()) } else { line.to_string() };
    StandardError.write_redacted(format!("{line}\n").as_bytes());
}

/// Returns whether standard error is a terminal with colours and the user wants them.
pub fn has_colours() -> bool {
    io::stderr().is_terminal() && wants_colours()
}

/// Returns whether the user wants colours on a terminal: `NO_COLOR` is not set
/// (<https://no-color.org>), and `TERM` is not `dumb`.
pub fn wants_colours() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !refused && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Prints an error on standard error.
pub fn print_error(error: &Error) {
    let line = match (log_line::is_json(), has_colours()) {
        (true, _) => log_line::error_line(error),
        (false, true) => format!("\x1b[1;31merror:\x1b[0m {error}"),
        (false, false) => format!("error: {error}"),
    };
    StandardError.write_redacted(format!("{line}\n").as_bytes());
}

/// Prints a note on standard error. A note does not change the exit code.
pub fn note(line: impl Display) {
    say(format_args!("note: {line}"));
}

/// A writer for a log that writes one whole line per event to the inner writer. It escapes control
/// characters, because the names in events may contain them.
pub struct LogLines<W>(pub W);

impl<W: Write> Write for LogLines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A single write, because the inner writer expects whole lines.
        self.0.write_all(format!("{}\n", one_line(&String::from_utf8_lossy(bytes))).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Writes text to standard error. The text has its own line ends.
pub fn log(text: &str) {
    StandardError.write_redacted(text.as_bytes());
}

/// Prints a line of results.
///
/// # Errors
/// Standard output accepts no more. A closed pipe is not an error.
pub fn print(line: impl Display) -> Result<()> {
    print_bytes(format!("{line}\n").as_bytes())
}

/// Prints bytes of results unchanged.
///
/// # Errors
/// The errors of [`print`].
pub fn print_bytes(bytes: &[u8]) -> Result<()> {
    match write_output(bytes) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Error::io("standard output", &error)),
        _ => Ok(()),
    }
}

/// Writes to standard output. A closed pipe is an error here.
pub fn write_output(mut bytes: &[u8]) -> io::Result<()> {
    if output_is_closed() {
        return Err(io::Error::other("it is closed"));
    }
    USED.fetch_or(!bytes.is_empty(), Ordering::Relaxed);
    let out = rustix::stdio::stdout();
    while !bytes.is_empty() {
        match rustix::io::write(out, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            // A program that shares the descriptor may have made it non-blocking.
            Err(Errno::AGAIN) => drop(poll(&mut [PollFd::new(&out, PollFlags::OUT)], None)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// A writer to standard error that never returns an error.
#[derive(Clone, Copy, Debug)]
pub struct StandardError;

impl Write for StandardError {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_redacted(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl StandardError {
    /// Writes lines, after removing the secrets of URLs, which any library may have put into the
    /// lines.
    fn write_redacted(self, bytes: &[u8]) {
        let shown = std::str::from_utf8(bytes).ok().map(redacted);
        let bytes = shown.as_ref().map_or(bytes, |text| text.as_bytes());
        let until = Instant::now() + MAX_WRITE_WAIT;
        // The wait for the lock is limited, because another thread holds the lock while it writes,
        // possibly to a file system that hangs.
        let Some(mut lines) = lock(until) else { return };
        let until = if lines.stuck { Instant::now() } else { until };
        if lines.dropped > 0 {
            let note = format!("note: {} lines were not taken by standard error\n", lines.dropped);
            if write_error(note.as_bytes(), until) {
                lines.dropped = 0;
            }
        }
        lines.stuck = lines.dropped > 0 || !write_error(bytes, until);
        lines.dropped += u64::from(lines.stuck);
    }
}

fn lock(until: Instant) -> Option<MutexGuard<'static, Lines>> {
    loop {
        match LINES.try_lock() {
            None if Instant::now() < until => std::thread::sleep(Duration::from_micros(100)),
            lines => return lines,
        }
    }
}

/// Writes to standard error. Returns false if standard error did not accept the bytes by `until`.
/// If standard error is closed, full or has no reader, the bytes are dropped and count as written.
fn write_error(mut bytes: &[u8], until: Instant) -> bool {
    let descriptor = rustix::stdio::stderr();
    while !bytes.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        let time = Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::new(&descriptor, PollFlags::OUT)], Some(&time)) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => return true,
        }
        match write_some(descriptor, &bytes[..bytes.len().min(MAX_WRITE_BYTES)]) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if Instant::now() >= until => return false,
            Err(Errno::AGAIN) => std::thread::sleep(RETRY_PAUSE),
            Err(_) => return true,
        }
    }
    true
}

/// Writes as many bytes as fit. Another process may fill a shared pipe between poll and write, so a
/// write to a pipe is explicitly non-blocking.
fn write_some(descriptor: BorrowedFd<'_>, bytes: &[u8]) -> rustix::io::Result<usize> {
    static IS_PIPE: OnceLock<bool> = OnceLock::new();
    let kind = || rustix::fs::fstat(descriptor).map(|stat| FileType::from_raw_mode(stat.st_mode));
    if *IS_PIPE.get_or_init(|| kind() == Ok(FileType::Fifo)) {
        let now = [io::IoSlice::new(bytes)];
        match rustix::io::pwritev2(descriptor, &now, u64::MAX, ReadWriteFlags::NOWAIT) {
            // Older kernels support `RWF_NOWAIT` only for files.
            Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS | Errno::SPIPE) => {}
            other => return other,
        }
    }
    rustix::io::write(descriptor, bytes)
}

/// Returns a target that draws progress bars on standard error `hz` times a second. Like lines,
/// drawings never make a run fail or wait.
pub fn progress_target(hz: u8) -> ProgressDrawTarget {
    ProgressDrawTarget::term_like_with_hz(Box::new(Screen::default()), hz)
}

/// A terminal on standard error. It collects the drawn text and writes the text on
/// [`flush`](TermLike::flush).
#[derive(Debug, Default)]
struct Screen(Mutex<String>);

impl Screen {
    #[expect(clippy::unnecessary_wraps, reason = "what every method of the trait returns")]
    fn push(&self, text: &str) -> io::Result<()> {
        self.0.lock().push_str(text);
        Ok(())
    }

    /// Moves the cursor by `count` in the direction of `letter`. A count of 0 moves nothing.
    fn escape(&self, count: usize, letter: char) -> io::Result<()> {
        if count == 0 { Ok(()) } else { self.push(&format!("\x1b[{count}{letter}")) }
    }
}

/// Returns the width of the terminal at standard error, in columns.
pub fn width() -> u16 {
    size().0
}

fn size() -> (u16, u16) {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stderr());
    size.ok().filter(|size| size.ws_col > 0).map_or((80, 24), |size| (size.ws_col, size.ws_row))
}

impl TermLike for Screen {
    fn width(&self) -> u16 {
        size().0
    }

    fn height(&self) -> u16 {
        size().1
    }

    fn move_cursor_up(&self, count: usize) -> io::Result<()> {
        self.escape(count, 'A')
    }

    fn move_cursor_down(&self, count: usize) -> io::Result<()> {
        self.escape(count, 'B')
    }

    fn move_cursor_right(&self, count: usize) -> io::Result<()> {
        self.escape(count, 'C')
    }

    fn move_cursor_left(&self, count: usize) -> io::Result<()> {
        self.escape(count, 'D')
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.push(text).and_then(|()| self.push("\n"))
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.push(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.push("\r\x1b[2K")
    }

    fn flush(&self) -> io::Result<()> {
        let text = std::mem::take(&mut *self.0.lock());
        StandardError.write_all(text.as_bytes())
    }
}

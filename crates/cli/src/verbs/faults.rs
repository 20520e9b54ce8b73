//! Logs the signal that ends the daemon of a mount or gateway when a file of its cache was
//! truncated. The daemon maps these files into memory. If another program truncates a file,
//! accessing its memory makes the kernel send SIGBUS (mmap(2)). Called by the daemons of `mount`
//! and `serve`.

use std::io;
use std::mem::zeroed;
use std::ptr::null_mut;

/// The text that the handler writes.
const SIGBUS_MESSAGE: &[u8] =
    b"error: ended by SIGBUS: a file of the cache was truncated by another program, \
    or its disk failed; start it again\n";

/// Makes SIGBUS write a line to standard error. The signal still ends the process.
///
/// # Errors
/// The operating system's error.
pub(super) fn log_faults() -> io::Result<()> {
    // SAFETY: the structure consists of integers and an optional function pointer, for which zero
    // is valid.
    let mut action: libc::sigaction = unsafe { zeroed() };
    action.sa_sigaction = report as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // After the handler returns, the instruction is repeated. It faults again, and the default
    // action then ends the process.
    action.sa_flags = libc::SA_RESETHAND | libc::SA_NODEFER | libc::SA_ONSTACK;
    // SAFETY: the handler makes one system call, `write`, which is allowed in a handler.
    match unsafe { libc::sigaction(libc::SIGBUS, &raw const action, null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn report(_: libc::c_int) {
    // SAFETY: the written bytes are static. The result is ignored, because a handler cannot report
    // it.
    let _ = unsafe { libc::write(libc::STDERR_FILENO, SIGBUS_MESSAGE.as_ptr().cast(), SIGBUS_MESSAGE.len()) };
}

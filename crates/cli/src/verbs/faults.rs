//! Logs the fault that ends the daemon of a mount or gateway. Memory of a cache file that another
//! program has truncated cannot be accessed: the kernel sends SIGBUS (mmap(2)).

use std::io;
use std::mem::zeroed;
use std::ptr::null_mut;

/// Text for the log.
const LINE: &[u8] = b"error: ended by SIGBUS: a file of the cache was truncated by another program, \
    or its disk failed; start it again\n";

/// Begins to log SIGBUS. The signal then still ends the process.
///
/// # Errors
/// The operating system's error.
pub(super) fn log_faults() -> io::Result<()> {
    // SAFETY: a structure of integers and an optional function pointer, for which zero is valid.
    let mut action: libc::sigaction = unsafe { zeroed() };
    action.sa_sigaction = report as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // After the handler, the instruction is repeated and faults with the default action.
    action.sa_flags = libc::SA_RESETHAND | libc::SA_NODEFER | libc::SA_ONSTACK;
    // SAFETY: the handler makes one system call, which a handler may.
    match unsafe { libc::sigaction(libc::SIGBUS, &raw const action, null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn report(_: libc::c_int) {
    // SAFETY: the bytes are static. The result is ignored, because a handler cannot report it.
    let _ = unsafe { libc::write(libc::STDERR_FILENO, LINE.as_ptr().cast(), LINE.len()) };
}

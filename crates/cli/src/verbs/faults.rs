//! Logs a fault that ends the daemon of a mount or gateway. A file of the cache that another
//! program truncates faults when it is accessed in memory: the kernel sends SIGBUS (mmap(2)).

use std::io;
use std::mem::zeroed;
use std::ptr::null_mut;

/// The line in the log.
const LINE: &[u8] = b"error: ended by SIGBUS: a file of the cache was truncated by another program, \
    or its disk failed; start it again\n";

/// Logs SIGBUS from here on. The signal then ends the process as it would without this.
///
/// # Errors
/// The operating system's.
pub(super) fn log_faults() -> io::Result<()> {
    // SAFETY: a structure of integers and an optional function pointer, for which zero is valid.
    let mut action: libc::sigaction = unsafe { zeroed() };
    action.sa_sigaction = report as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // The instruction is repeated after the handler, and faults with the default action.
    action.sa_flags = libc::SA_RESETHAND | libc::SA_NODEFER | libc::SA_ONSTACK;
    // SAFETY: the handler makes one system call, which a handler may.
    match unsafe { libc::sigaction(libc::SIGBUS, &raw const action, null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn report(_: libc::c_int) {
    // SAFETY: the bytes are static. A result is of no use here.
    let _ = unsafe { libc::write(libc::STDERR_FILENO, LINE.as_ptr().cast(), LINE.len()) };
}

//! Recognises errors by which the kernel or a file system refuses a call that it does not support.
//! The caller then does the work in another way. Files, bodies and sockets share this rule.

use rustix::io::Errno;

/// Returns whether an error says that a call is unsupported here, rather than that it failed.
pub(crate) fn is_refusal(error: Errno) -> bool {
    matches!(
        error,
        Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOTTY | Errno::NOLCK
    )
}

/// Returns whether an error of the standard library says that a call is unsupported.
#[must_use]
pub fn is_refused(error: &std::io::Error) -> bool {
    Errno::from_io_error(error).is_some_and(is_refusal)
}

/// Returns whether the kernel cannot copy between two files, because they are on different file
/// systems or on one without support for it.
pub(crate) fn cannot_copy_in_kernel(error: Errno) -> bool {
    matches!(error, Errno::XDEV | Errno::BADF | Errno::TXTBSY) || is_refusal(error)
}

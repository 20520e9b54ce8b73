//! Recognises errors that mean that the kernel or a file system does not support a call. The caller
//! then does the work in another way. Files, bodies and sockets share this rule.

use rustix::io::Errno;

/// Returns true if an error means that a call is not supported here, rather than that the call
/// failed.
pub(crate) fn is_refusal(error: Errno) -> bool {
    matches!(
        error,
        Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOTTY | Errno::NOLCK
    )
}

/// Returns true if an error of the standard library means that a call is not supported.
#[must_use]
pub fn is_refused(error: &std::io::Error) -> bool {
    Errno::from_io_error(error).is_some_and(is_refusal)
}

/// Returns true if an error means that the kernel cannot copy between two files: they are on
/// different file systems, or their file system does not support such copies.
pub(crate) fn cannot_copy_in_kernel(error: Errno) -> bool {
    matches!(error, Errno::XDEV | Errno::BADF | Errno::TXTBSY) || is_refusal(error)
}

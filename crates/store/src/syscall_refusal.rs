//! Errors by which the kernel or a file system says that it does not have a call. The caller then
//! does the work in another way. Files, bodies and sockets share this rule.

use rustix::io::Errno;

/// Whether an error says that a call does not exist here, rather than that it failed.
pub(crate) fn is_refusal(error: Errno) -> bool {
    matches!(
        error,
        Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOTTY | Errno::NOLCK
    )
}

/// Like `is_refusal`, for an error of the standard library.
#[must_use]
pub fn is_refused(error: &std::io::Error) -> bool {
    Errno::from_io_error(error).is_some_and(is_refusal)
}

/// Whether the kernel cannot copy between two files: of two file systems, or of one without this.
pub(crate) fn cannot_copy_in_kernel(error: Errno) -> bool {
    matches!(error, Errno::XDEV | Errno::BADF | Errno::TXTBSY) || is_refusal(error)
}

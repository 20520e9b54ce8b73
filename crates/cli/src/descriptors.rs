//! The limit of open descriptors. `main` raises it before verbs that open many files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one. The usual 1,024 are meant for programs that wait with
/// `select`; a request takes up to six, and an open file of a mount three.
pub fn raise() {
    let limit = getrlimit(Resource::Nofile);
    // If this fails, fewer requests run at once, and fewer files can be open.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

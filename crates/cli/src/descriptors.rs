//! Raises the limit of open file descriptors. `main` calls this before it runs a verb that opens
//! many files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard limit. The usual soft limit, 1,024, is meant for programs that
/// wait with `select`. A request takes up to six descriptors, and an open file of a mount takes
/// three.
pub fn raise() {
    let limit = getrlimit(Resource::Nofile);
    // If the limit cannot be raised, fewer requests run at once, and fewer files can be open.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

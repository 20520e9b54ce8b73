//! The limit on descriptors. `main` raises it before verbs that open many files or connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one: the usual 1,024 are meant for programs that wait by
/// `select`. A request holds up to six descriptors, a file open below a mount three.
pub fn raise() {
    let limit = getrlimit(Resource::Nofile);
    // If it cannot be raised, fewer requests run at once, and fewer files can be open.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

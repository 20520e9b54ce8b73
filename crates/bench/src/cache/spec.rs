//! Values that the engine passes to [`cache`](super): the required state, the files and objects of
//! the run, and the traffic that was counted during the run.

use std::path::PathBuf;

use crate::result::CacheState;

/// A required cache state, and the files and objects that must be in it.
#[derive(Clone, Debug, Default)]
pub struct Spec {
    /// The required state.
    pub state: CacheState,
    /// Files that the run reads by path, also below a mount. A directory stands for all files below
    /// it; links are not followed.
    pub files: Vec<PathBuf>,
    /// Directories whose names the run lists.
    pub names: Vec<PathBuf>,
    /// Objects that the run reads, each with its block cache.
    pub objects: Vec<CachedObject>,
    /// Bytes of content that the run needs; a cold run must fetch them.
    pub expected_bytes: Option<u64>,
}

/// An object and its block cache.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CachedObject {
    /// Location. One that ends in `/` stands for everything below it.
    pub location: String,
    /// The directory given to `--cache`.
    pub cache: PathBuf,
}

/// The programs that establish a state.
#[derive(Clone, Debug, Default)]
pub struct Tools {
    /// The firstbyte program.
    pub firstbyte: PathBuf,
    /// Global options of that program, with which it reaches the objects.
    pub options: Vec<String>,
    /// Environment variables of that program, in addition to this process's.
    pub env: Vec<(String, String)>,
}

/// Traffic during the run. A field is `None` if it was not counted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Traffic {
    /// Bytes over the network, counted by a link or a server.
    pub wire_bytes: Option<u64>,
    /// Number of requests.
    pub requests: Option<u64>,
    /// Bytes read from block devices.
    pub storage_bytes: Option<u64>,
}

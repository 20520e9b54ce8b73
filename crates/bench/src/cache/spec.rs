//! Values that the engine passes to [`cache`](super): the required state, the files and objects of
//! the run, and the traffic that was counted during the run.

use std::path::PathBuf;

use crate::result::CacheState;

/// The state that a run is to have, and of what.
#[derive(Clone, Debug, Default)]
pub struct Spec {
    /// The state.
    pub state: CacheState,
    /// Files that the run reads by path, below a mount as well. Of a directory all files below it
    /// are meant, without following links.
    pub files: Vec<PathBuf>,
    /// Directories whose names the run lists.
    pub names: Vec<PathBuf>,
    /// Objects that the run reads, with the cache of blocks that it uses.
    pub objects: Vec<Object>,
    /// Bytes of content that the run needs; a cold run must fetch them.
    pub expected_bytes: Option<u64>,
}

/// An object and the directory of blocks that is used for it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Object {
    /// Its location; one that ends in `/` means everything below it.
    pub location: String,
    /// The directory given to `--cache`.
    pub cache: PathBuf,
}

/// The programs that bring a state about.
#[derive(Clone, Debug, Default)]
pub struct Tools {
    /// The firstbyte program.
    pub firstbyte: PathBuf,
    /// Global options that it gets: how the objects are reached.
    pub options: Vec<String>,
    /// Variables that it gets beside those of this process.
    pub env: Vec<(String, String)>,
}

/// Traffic during the run. A field is `None` if nothing counted it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Traffic {
    /// Bytes that came over the network, as a link or a server counted them.
    pub wire_bytes: Option<u64>,
    /// Requests.
    pub requests: Option<u64>,
    /// Bytes read from block devices.
    pub storage_bytes: Option<u64>,
}

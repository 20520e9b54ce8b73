//! Implements `firstbyte._native`, the native half of the Python package.
//!
//! Each verb has a file here. The verb's types and documentation are in `python/firstbyte`, mostly
//! in a file of the same name. All verbs share the conversion of paths ([`place`]), names
//! ([`name`]) and errors ([`error`]). Directories and objects are read without the interpreter's
//! lock, and no thread of this module touches Python. The module is built against the stable ABI of
//! Python 3.11, so one wheel serves all later versions.

mod arguments;
mod arrow;
mod client;
mod columns;
mod copy;
mod entry;
mod error;
mod fork;
mod hydrate;
mod layout;
mod lazy;
mod listdir;
mod logging;
mod many;
mod name;
mod objects;
mod place;
mod progress;
mod reading;
mod safetensors;
mod scandir;
mod shard;
mod target;
mod verbs;
mod wait;
mod walk;
mod writer;

use pyo3::prelude::*;

/// The module as Python imports it.
#[pymodule]
mod _native {
    use pyo3::prelude::*;

    use crate::entry::DirEntry as Entry;

    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "what Python calls it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// Removes `is_junction` before Python 3.12, in which `os.DirEntry` got it.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let py = module.py();
        if py.version_info() < (3, 12) {
            py.get_type::<Entry>().delattr("is_junction")?;
        }
        Ok(())
    }

    #[pymodule_export]
    use crate::client::{PyClient, connect, disconnect};
    #[pymodule_export]
    use crate::columns::{
        Batches, PyListing, RecordBatch, iter_batches, iter_stored, list_arrow, list_stored,
    };
    #[pymodule_export]
    use crate::copy::{copy_many, cp, sync};
    #[pymodule_export]
    use crate::entry::DirEntry;
    #[pymodule_export]
    use crate::hydrate::{hydrate, release, status};
    #[pymodule_export]
    use crate::layout::{PyLayout, PyNames};
    #[pymodule_export]
    use crate::lazy::{PyLazyFile, open, open_version};
    #[pymodule_export]
    use crate::listdir::listdir;
    #[pymodule_export]
    use crate::logging::{log_begin, log_end, log_level, log_next};
    #[pymodule_export]
    use crate::many::{PyObjects, read_many};
    #[pymodule_export]
    use crate::objects::{delete, glob, join, list, put, stat};
    #[pymodule_export]
    use crate::safetensors::safetensors_header;
    #[pymodule_export]
    use crate::scandir::Scandir;
    #[pymodule_export]
    use crate::shard::{cp_shard, hydrate_shard, merge, plan};
    #[pymodule_export]
    use crate::verbs::{check, mv, presign, rm};
    #[pymodule_export]
    use crate::wait::{Cancellation, Cancelled};
    #[pymodule_export]
    use crate::walk::Ahead;
    #[pymodule_export]
    use crate::writer::{PyWriter, writer};
}

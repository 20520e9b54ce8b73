//! Reads maps of cached objects and records of packs. Damaged or foreign bytes are not accepted,
//! and written bytes are read back unchanged.
#![no_main]

#[path = "shims/cache.rs"]
mod cache;

mod block {
    //! The unit of maps.
    pub(crate) const BLOCK: u64 = 128 << 10;
}

mod limits {
    //! Limits of locks, which this target does not test.
    pub(crate) const POLL_INTERVAL: std::time::Duration = std::time::Duration::from_millis(5);
}

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    cache::read_map(bytes);
    cache::packs::read_record(bytes);
});

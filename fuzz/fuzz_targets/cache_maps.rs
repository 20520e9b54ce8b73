//! Maps of cached objects, and the records of packs: a torn or foreign one is no map, and what is
//! written is read again.
#![no_main]

#[path = "shims/cache.rs"]
mod cache;

mod block {
    //! The unit of maps.
    pub(crate) const BLOCK: u64 = 128 << 10;
}

mod limits {
    //! Of locks, which are not tried.
    pub(crate) const POLL_INTERVAL: std::time::Duration = std::time::Duration::from_millis(5);
}

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    cache::read_map(bytes);
    cache::packs::read_record(bytes);
});

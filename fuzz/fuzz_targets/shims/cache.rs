//! Includes the cache's formats under the paths that they have in the cache, so that their
//! visibility holds.

#[allow(dead_code, reason = "only reading is tested")]
#[path = "../../../crates/hydrate/src/cache/block_map.rs"]
mod block_map;
#[allow(dead_code, reason = "maps need it")]
#[path = "../../../crates/hydrate/src/cache/lock.rs"]
mod lock;
#[allow(dead_code, reason = "maps need it")]
#[path = "../../../crates/hydrate/src/cache/mapping.rs"]
mod mapping;
pub mod packs;

use std::io::Write;

/// Reads a header. Then writes a header with these bytes as its text, and reads it back.
pub fn read_map(bytes: &[u8]) {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(bytes).expect("written");
    if let Ok(Some(header)) = block_map::MapHeader::read(&file) {
        assert!(header.text.len() <= bytes.len());
        // Sizes of a damaged map that passes its check must not overflow.
        let _ = header.map_len();
    }
    let size = bytes.first_chunk().map_or(0, |first| u64::from_le_bytes(*first)) >> 8;
    if let Some(written) = block_map::MapHeader::to_bytes(size, bytes, 7, 8, 9) {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&written).expect("written");
        let header = block_map::MapHeader::read(&file).expect("read").expect("a map");
        assert_eq!((header.size, header.text.as_slice()), (size, bytes));
    }
}

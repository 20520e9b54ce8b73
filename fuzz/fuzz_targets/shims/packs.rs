//! Includes the records of packs.

#[allow(dead_code, reason = "only reading is tested")]
#[path = "../../../crates/hydrate/src/cache/packs/place.rs"]
mod place;
#[allow(dead_code, reason = "only reading is tested")]
#[path = "../../../crates/hydrate/src/cache/packs/record.rs"]
mod record;

use std::io::Write;

/// Reads these bytes as a record. Then writes a record with these bytes as its text and content,
/// and reads it back if it is short enough.
pub fn read_record(bytes: &[u8]) {
    let mut buffer = Vec::new();
    let place = place::RecordPlace::new(0, 0, 200 << 10);
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(bytes).expect("written");
    if let Some(record) = record::read(&file, place, &mut buffer) {
        assert!(record.text.len() + record.content.len() <= bytes.len());
    }
    let (text, content) = bytes.split_at(bytes.len().min(9));
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(&record::PackRecord::encode(text, content)).expect("written");
    if record::PackRecord::length(text.len(), content.len()) < 200 << 10 {
        let record = record::read(&file, place, &mut buffer).expect("the record");
        assert_eq!((record.text, record.content), (text, content));
    }
}

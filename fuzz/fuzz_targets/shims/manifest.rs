//! Includes the tables of manifests.

#[allow(dead_code, reason = "only reading is tested")]
#[path = "../../../crates/firstbyte/src/manifest/table.rs"]
mod table;

/// Reads a header and all rows.
pub fn read(file: std::fs::File) {
    let Ok(reader) = table::ManifestReader::new(file) else { return };
    let _ = reader.header();
    for row in reader.rows(|shard| shard == 1).take(10_000) {
        if row.is_err() {
            return;
        }
    }
}

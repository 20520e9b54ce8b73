//! Reads journals of downloads. A damaged journal is ignored or cut. A record that is appended to
//! the rest is read back together with the records before it.
#![no_main]

#[allow(dead_code, reason = "only reading is tested")]
#[path = "../../crates/transfer/src/journal.rs"]
mod journal;

use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static DIRECTORY: LazyLock<PathBuf> = LazyLock::new(|| {
    let directory = std::env::temp_dir().join(format!("firstbyte-fuzz-journals-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    directory
});

fuzz_target!(|bytes: &[u8]| {
    let directory = File::open(&*DIRECTORY).expect("the directory");
    let path = DIRECTORY.join("journal");
    std::fs::write(&path, bytes).expect("a journal");
    let Ok(Some((journal, header, records))) = journal::Journal::load(directory.as_fd(), path.clone()) else {
        return;
    };
    let _ = (header.version(), header.size(), header.chunk(), header.is_of_this_boot(), header.origin());
    journal.append(&journal::ChunkRecord { index: 7, checksum: None }).expect("appended");
    drop(journal);
    let again = journal::Journal::load(directory.as_fd(), path).expect("read").expect("a journal").2;
    assert_eq!(again.len(), records.len() + 1, "what was sound is kept");
});

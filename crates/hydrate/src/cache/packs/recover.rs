//! Repairs the packs after a process was killed or the machine restarted: removes records that are
//! not in the table, and recounts the bytes. Runs while no other process has the packs open.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use firstbyte_store::{FileAccess, PrivateDirectory};

use super::super::punch::punch_range;
use super::super::usage::{CacheUsage, on_disk};
use super::place::RecordPlace;
use super::state::{PackState, UncleanStop};
use super::table::PackTable;

pub(super) fn recover(
    dir: &PrivateDirectory,
    state: &PackState,
    unclean: UncleanStop,
    usage: &CacheUsage,
) -> io::Result<()> {
    let page = state.page();
    page.replacing.store(0, Ordering::SeqCst);
    let number = page.table.load(Ordering::SeqCst);
    let table = PackTable::open(dir, number).ok();
    if table.is_none() {
        page.table.store(0, Ordering::SeqCst);
    }
    let is_lost = table.is_none() && number != 0;
    if unclean == UncleanStop::No && !is_lost {
        return Ok(());
    }
    let mut bytes = table.as_ref().map_or(0, PackTable::on_disk);
    let records = by_pack(table.as_ref());
    for name in dir.names(Path::new("."))? {
        let path = PathBuf::from(name);
        let stem = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<u64>().ok());
        let (Some(found), Some(kind)) = (stem, path.extension()) else { continue };
        if kind == "pack" {
            page.next_pack.fetch_max(found + 1, Ordering::SeqCst);
            let known = u32::try_from(found).ok().and_then(|found| records.get(&found));
            match known {
                Some(records) => bytes += keep_only(dir, &path, records)?,
                None => dir.remove(&path)?,
            }
        } else if kind == "table" && (found != number || is_lost) {
            dir.remove(&path)?;
        }
    }
    let before = page.charged.load(Ordering::SeqCst);
    if unclean == UncleanStop::Restarted {
        page.first_open_pack.store(page.next_pack.load(Ordering::SeqCst), Ordering::SeqCst);
        page.charged.store(bytes, Ordering::SeqCst);
    } else if bytes < before {
        let freeing = usage.begin_freeing(before - bytes);
        page.charged.store(bytes, Ordering::SeqCst);
        freeing.complete();
    }
    Ok(())
}

/// Groups the records of a table by pack, in order of their offsets.
fn by_pack(table: Option<&PackTable>) -> HashMap<u32, Vec<RecordPlace>> {
    let mut packs: HashMap<u32, Vec<RecordPlace>> = HashMap::new();
    let all = table.map(|table| table.sample(0, usize::MAX, |_| true).0).unwrap_or_default();
    for seen in all {
        packs.entry(seen.place.pack()).or_default().push(seen.place);
    }
    packs.values_mut().for_each(|records| records.sort_by_key(|place| place.offset()));
    packs
}

/// Punches the gaps between the records of a pack, if the gaps take disk space. Such gaps remain
/// when a process is killed before it has published a record, or after it has cleared a record's
/// place. Returns the bytes on disk.
fn keep_only(dir: &PrivateDirectory, name: &Path, records: &[RecordPlace]) -> io::Result<u64> {
    let file = dir.file(name, FileAccess::Write)?;
    if on_disk(&file) > records.iter().map(|place| place.bytes()).sum() {
        let mut end = 0;
        for place in records {
            if place.offset() > end {
                let _ = punch_range(&file, end..place.offset());
            }
            end = place.offset() + place.bytes();
        }
        let len = file.metadata()?.len();
        if len > end {
            file.set_len(end)?;
        }
    }
    Ok(on_disk(&file))
}

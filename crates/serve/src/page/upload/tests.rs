//! Tests uploads without HTTP: which parts are valid after crashes, truncation, damage and a
//! reboot.

use std::fs;
use std::path::Path;

use super::*;
use crate::object::checksum::MultiHasher;
use crate::object::writer::{ByteDigest, WriteAt};

/// Returns the served directory of a server that was just started.
fn serve(place: &Path) -> UploadDirectory {
    let root = ServedRoot::open(place).unwrap();
    let uploads = Arc::new(Uploads::new(root.clone()));
    UploadDirectory { root, uploads, buckets: Buckets::FirstLevel, path: EntryPath::default() }
}

fn content(size: usize) -> Vec<u8> {
    (0..size).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn source(size: usize) -> BrowserFile {
    BrowserFile {
        name: "data.bin".into(),
        size: size as u64,
        mtime: 1_700_000_000_123,
        content_type: String::new(),
    }
}

fn part_of(whole: &[u8], number: usize) -> &[u8] {
    let start = number * part_size(&source(whole.len())) as usize;
    &whole[start..start + part_length(&source(whole.len()), number) as usize]
}

fn finish(claim: &Claim, number: usize, bytes: &[u8], crc: u32) -> Result<()> {
    let mut checksums = MultiHasher::only(Algorithm::Crc32c);
    let mut offset = 0;
    for piece in bytes.chunks(100_000) {
        claim.write_all_at(piece, offset).unwrap();
        checksums.update(piece);
        offset += piece.len() as u64;
    }
    record(claim, number, offset, checksums.finish(), crc)
}

fn send(directory: &UploadDirectory, id: &str, whole: &[u8], number: usize) {
    let bytes = part_of(whole, number);
    let upload = directory.find(id).unwrap();
    let claim = claim(&upload, number, bytes.len() as u64, crc_fast::crc32_iscsi(bytes))
        .unwrap()
        .expect("it is not held");
    finish(&claim, number, bytes, crc_fast::crc32_iscsi(bytes)).unwrap();
}

fn staged_path(place: &Path, id: &str, name: &str) -> std::path::PathBuf {
    place.join(".firstbyte/uploads").join(id).join(name)
}

const SIZE: usize = (20 << 20) + 5;

#[test]
fn parts_recorded_before_a_crash_are_held_after_it() {
    let place = tempfile::tempdir().unwrap();
    let whole = content(SIZE);
    let first = serve(place.path());
    let id = first.begin(source(SIZE)).unwrap().id;
    send(&first, &id, &whole, 2);
    send(&first, &id, &whole, 0);
    drop(first);
    let journal = staged_path(place.path(), &id, "journal");
    let mut torn = fs::read(&journal).unwrap();
    torn.extend(b"{\"Part\":[2,");
    fs::write(&journal, torn).unwrap();

    let second = serve(place.path());
    assert_eq!(second.begin(source(SIZE)).unwrap().held, [0, 2]);
    send(&second, &id, &whole, 1);
    assert_eq!(serve(place.path()).begin(source(SIZE)).unwrap().held, [0, 1, 2]);
    assert_eq!(second.complete(&id, ExistingFilePolicy::Refuse, None).unwrap(), "data.bin");
    assert_eq!(fs::read(place.path().join("data.bin")).unwrap(), whole);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn after_another_boot_only_parts_whose_bytes_are_there_are_held() {
    let place = tempfile::tempdir().unwrap();
    let whole = content(SIZE);
    let first = serve(place.path());
    let id = first.begin(source(SIZE)).unwrap().id;
    send(&first, &id, &whole, 0);
    send(&first, &id, &whole, 1);
    drop(first);
    let journal = staged_path(place.path(), &id, "journal");
    let text = fs::read_to_string(&journal).unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    fs::write(&journal, text.replace(boot.trim(), "another")).unwrap();
    let data = fs::OpenOptions::new().write(true).open(staged_path(place.path(), &id, "data")).unwrap();
    data.write_all_at(&[0; 4096], 9 << 20).unwrap();

    assert_eq!(serve(place.path()).begin(source(SIZE)).unwrap().held, [0]);
    assert_eq!(serve(place.path()).begin(source(SIZE)).unwrap().held, [0]);
}

#[test]
fn a_part_cut_short_or_damaged_is_missing_again() {
    let place = tempfile::tempdir().unwrap();
    let whole = content(SIZE);
    let directory = serve(place.path());
    let id = directory.begin(source(SIZE)).unwrap().id;
    let upload = directory.find(&id).unwrap();
    let last = part_of(&whole, 2);
    let ask = || claim(&upload, 2, last.len() as u64, crc_fast::crc32_iscsi(last));
    let part = ask().unwrap().unwrap();
    assert!(matches!(ask(), Err(Error::InUse(_))));
    assert!(matches!(finish(&part, 2, &last[..1000], 0), Err(Error::Short { number: 2, .. })));
    drop(part);
    let part = ask().unwrap().unwrap();
    assert!(matches!(finish(&part, 2, last, 0), Err(Error::Checksum(2))));
    drop(part);
    let refused = directory.complete(&id, ExistingFilePolicy::Refuse, None);
    assert!(matches!(refused, Err(Error::Incomplete(missing)) if missing == [0, 1, 2]));
}

#[test]
fn an_existing_file_is_replaced_kept_or_refused_as_requested() {
    let place = tempfile::tempdir().unwrap();
    let directory = serve(place.path());
    let existing = place.path().join("data.bin");
    fs::write(&existing, "old").unwrap();
    let whole = content(1000);
    let status = directory.begin(source(1000)).unwrap();
    assert_eq!(status.existing.unwrap().size, 3);
    send(&directory, &status.id, &whole, 0);
    let complete = |existing| directory.complete(&status.id, existing, None);
    assert!(matches!(complete(ExistingFilePolicy::Refuse), Err(Error::Exists(name)) if name == "data.bin"));
    assert_eq!(fs::read(&existing).unwrap(), b"old");
    assert_eq!(complete(ExistingFilePolicy::KeepBoth).unwrap(), "data (1).bin");
    assert_eq!(fs::read(&existing).unwrap(), b"old");
    assert_eq!(fs::read(place.path().join("data (1).bin")).unwrap(), whole);
    directory.begin(source(1000)).unwrap();
    send(&directory, &status.id, &whole, 0);
    assert_eq!(complete(ExistingFilePolicy::Replace).unwrap(), "data.bin");
    assert_eq!(fs::read(&existing).unwrap(), whole);
}

#[test]
fn abandoned_uploads_are_listed_until_they_expire_or_are_removed() {
    let place = tempfile::tempdir().unwrap();
    let directory = serve(place.path());
    let id = directory.begin(source(SIZE)).unwrap().id;
    let other = directory.begin(BrowserFile { name: "b".into(), ..source(9) }).unwrap().id;
    assert_eq!(directory.list().unwrap().len(), 2);
    directory.discard(&other).unwrap();
    assert_eq!(directory.list().unwrap().len(), 1);
    let journal = fs::File::open(staged_path(place.path(), &id, "journal")).unwrap();
    journal.set_modified(SystemTime::now() - Duration::from_secs(13 * 24 * 3600)).unwrap();
    directory.uploads.sweep(&EntryPath::default(), Duration::ZERO).unwrap();
    assert_eq!(directory.list().unwrap().len(), 1);
    journal.set_modified(SystemTime::now() - Duration::from_secs(15 * 24 * 3600)).unwrap();
    directory.uploads.sweep(&EntryPath::default(), Duration::ZERO).unwrap();
    assert!(directory.list().unwrap().is_empty());
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn a_part_whose_number_is_far_beyond_the_last_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let directory = serve(place.path());
    let upload = directory.find(&directory.begin(source(SIZE)).unwrap().id).unwrap();
    for number in [3, usize::MAX / 2, usize::MAX] {
        assert!(matches!(claim(&upload, number, 5, 0), Err(Error::NoPart { .. })), "{number}");
    }
}

#[test]
fn the_extreme_time_of_an_existing_file_is_reported() {
    let place = tempfile::tempdir_in("/dev/shm").unwrap();
    let there = fs::File::create(place.path().join("data.bin")).unwrap();
    let last = SystemTime::UNIX_EPOCH + Duration::new(i64::MAX as u64, 999_999_999);
    there.set_modified(last).unwrap();
    let status = serve(place.path()).begin(source(SIZE)).unwrap();
    assert_eq!(status.existing.unwrap().mtime, i64::MAX);
}

#[test]
fn a_content_type_that_cannot_be_kept_is_refused_before_any_part_is_sent() {
    let place = tempfile::tempdir().unwrap();
    let long = BrowserFile { content_type: "x".repeat(3000), ..source(SIZE) };
    let refused = serve(place.path()).begin(long).unwrap_err();
    assert_eq!(refused.code().1, "metadata", "{refused}");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}

//! Uploads without HTTP: what is held after crashes, cuts, damage and another boot.

use std::fs;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::*;

fn open(directory: &Path) -> OwnedFd {
    rustix::fs::open(directory, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
}

fn content(size: usize) -> Vec<u8> {
    (0..size).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn source(size: usize) -> Source {
    Source {
        name: "data.bin".into(),
        size: size as u64,
        mtime: 1_700_000_000_123,
        content_type: String::new(),
    }
}

fn send(uploads: &Uploads, directory: &Path, id: &str, whole: &[u8], number: usize) {
    let (offset, length) = source(whole.len()).part(number);
    let bytes = &whole[offset as usize..(offset + length) as usize];
    let Claim::Write(mut part) = uploads.find(open(directory), id).unwrap().claim(number, length).unwrap()
    else {
        panic!("part {number} is held")
    };
    for piece in bytes.chunks(100_000) {
        part.write(piece).unwrap();
    }
    part.finish(crc_fast::crc32_iscsi(bytes)).unwrap();
}

const SIZE: usize = (20 << 20) + 5;

#[test]
fn parts_recorded_before_a_crash_are_held_after_it() {
    let place = tempfile::tempdir().unwrap();
    let whole = content(SIZE);
    let uploads = Uploads::default();
    let id = uploads.begin(open(place.path()), source(SIZE)).unwrap().id;
    send(&uploads, place.path(), &id, &whole, 2);
    send(&uploads, place.path(), &id, &whole, 0);
    drop(uploads);
    let log = place.path().join(journal::journal_name(&id));
    let mut torn = fs::read(&log).unwrap();
    torn.extend(b"1 abc");
    fs::write(&log, torn).unwrap();

    let uploads = Uploads::default();
    assert_eq!(uploads.begin(open(place.path()), source(SIZE)).unwrap().held, [0, 2]);
    send(&uploads, place.path(), &id, &whole, 1);
    assert_eq!(uploads.complete(open(place.path()), &id, Existing::Refuse).unwrap(), "data.bin");
    assert_eq!(fs::read(place.path().join("data.bin")).unwrap(), whole);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn after_another_boot_only_parts_whose_bytes_are_there_are_held() {
    let place = tempfile::tempdir().unwrap();
    let whole = content(SIZE);
    let uploads = Uploads::default();
    let id = uploads.begin(open(place.path()), source(SIZE)).unwrap().id;
    send(&uploads, place.path(), &id, &whole, 0);
    send(&uploads, place.path(), &id, &whole, 1);
    drop(uploads);
    let log = place.path().join(journal::journal_name(&id));
    let text = fs::read_to_string(&log).unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    fs::write(&log, text.replace(boot.trim(), "another")).unwrap();
    let data = fs::OpenOptions::new().write(true).open(place.path().join(journal::data_name(&id))).unwrap();
    data.write_all_at(&[0; 4096], 9 << 20).unwrap();

    assert_eq!(Uploads::default().begin(open(place.path()), source(SIZE)).unwrap().held, [0]);
}

#[test]
fn a_part_cut_short_or_damaged_is_missing_again() {
    let place = tempfile::tempdir().unwrap();
    let whole = content(SIZE);
    let uploads = Uploads::default();
    let id = uploads.begin(open(place.path()), source(SIZE)).unwrap().id;
    let upload = uploads.find(open(place.path()), &id).unwrap();
    let claim = || match upload.claim(2, 4 << 20 | 5).unwrap() {
        Claim::Write(part) => part,
        Claim::Held => panic!("held"),
    };
    let mut part = claim();
    part.write(&whole[16 << 20..18 << 20]).unwrap();
    assert!(matches!(upload.claim(2, 4 << 20 | 5), Err(Error::InUse(_))));
    assert!(matches!(part.finish(0), Err(Error::Short { number: 2, .. })));
    let mut part = claim();
    part.write(&whole[16 << 20..]).unwrap();
    assert!(matches!(part.finish(0), Err(Error::Checksum(2))));
    assert!(
        matches!(upload.finish(Existing::Refuse), Err(Error::Incomplete(missing)) if missing == [0, 1, 2])
    );
}

#[test]
fn what_is_there_is_replaced_kept_or_refused_as_asked() {
    let place = tempfile::tempdir().unwrap();
    let uploads = Uploads::default();
    let existing = place.path().join("data.bin");
    fs::write(&existing, "old").unwrap();
    let whole = content(1000);
    let status = uploads.begin(open(place.path()), source(1000)).unwrap();
    assert_eq!(status.existing.unwrap().size, 3);
    send(&uploads, place.path(), &status.id, &whole, 0);
    let complete = |existing| uploads.complete(open(place.path()), &status.id, existing);
    assert!(matches!(complete(Existing::Refuse), Err(Error::Exists(_))));
    assert_eq!(fs::read(&existing).unwrap(), b"old");
    assert_eq!(complete(Existing::KeepBoth).unwrap(), "data (1).bin");
    assert_eq!(fs::read(&existing).unwrap(), b"old");
    assert_eq!(fs::read(place.path().join("data (1).bin")).unwrap(), whole);
    uploads.begin(open(place.path()), source(1000)).unwrap();
    send(&uploads, place.path(), &status.id, &whole, 0);
    assert_eq!(complete(Existing::Replace).unwrap(), "data.bin");
    assert_eq!(fs::read(&existing).unwrap(), whole);
}

#[test]
fn abandoned_uploads_are_listed_until_they_expire_or_are_removed() {
    let place = tempfile::tempdir().unwrap();
    let uploads = Uploads::default();
    let id = uploads.begin(open(place.path()), source(SIZE)).unwrap().id;
    let other = uploads.begin(open(place.path()), Source { name: "b".into(), ..source(9) }).unwrap().id;
    assert_eq!(uploads.list(&open(place.path())).unwrap().len(), 2);
    uploads.discard(&open(place.path()), &other).unwrap();
    assert_eq!(uploads.list(&open(place.path())).unwrap().len(), 1);
    let log = fs::File::open(place.path().join(journal::journal_name(&id))).unwrap();
    log.set_modified(SystemTime::now() - EXPIRES_AFTER - Duration::from_secs(1)).unwrap();
    drop(uploads);
    assert!(Uploads::default().list(&open(place.path())).unwrap().is_empty());
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}

//! Tests actions of other programs: entries that are not regular files, errors, and foreign locks
//! in a layout's directory.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};

use firstbyte_testkit::{lacks_root, unprivileged};
use rustix::fs::{FlockOperation, flock};

use super::*;

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Makes links, pipes and a socket under names of files in a new layout, some in the root and some
/// in the files' directories. Returns their names.
fn make_special_entries(layout: &Layout) -> Vec<&'static [u8]> {
    let names = [b"link".as_slice(), b"pipe", b"socket", b"link below", b"pipe below"];
    for name in names {
        let below = layout.path(name).unwrap();
        let path = if name.ends_with(b"below") { below } else { join(layout.root(), name) };
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match name[0] {
            b'l' => symlink(layout.path(b"file").unwrap(), path).unwrap(),
            b'p' => make_fifo(&path),
            _ => drop(std::os::unix::net::UnixListener::bind(path).unwrap()),
        }
    }
    names.to_vec()
}

#[test]
fn a_layout_holds_regular_files_only() {
    let directory = tempfile::tempdir().unwrap();
    let scheme = LayoutScheme::new(DigitSource::Xxh3, 1, 1, Leaf::Name).unwrap();
    let layout = Layout::create(directory.path(), scheme).unwrap();
    layout.put(b"file", b"content").unwrap();
    let names = make_special_entries(&layout);
    for name in &names {
        assert!(!layout.exists(name).unwrap());
        assert!(matches!(layout.get(name), Err(Error::NotFound { .. })));
        assert!(matches!(layout.open_file(name), Err(Error::NotFound { .. })));
        assert!(matches!(layout.put(name, b""), Err(Error::NoFile { .. })));
        assert!(!layout.delete(name).unwrap());
    }
    assert_eq!(layout.iter().map(Result::unwrap).collect::<Vec<_>>(), [b"file"]);
    assert_eq!(layout.count().unwrap(), 1);
    let below = fs::symlink_metadata(layout.path(b"link below").unwrap()).unwrap();
    assert!(below.is_symlink() && fs::symlink_metadata(directory.path().join("pipe")).is_ok());
    let done = unsharded(directory.path()).unwrap();
    assert_eq!((done.moved, done.failures), (1, 2), "what lies among the files is left alone");
    assert!(done.failed.iter().all(|failure| matches!(failure.error, Error::NoFile { .. })));
    assert_eq!(find(directory.path(), b"pipe").unwrap(), None);
}

#[test]
fn a_removed_file_that_is_open_over_nfs_stays_and_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let scheme = LayoutScheme::new(DigitSource::Xxh3, 1, 1, Leaf::Name).unwrap();
    let layout = Layout::create(directory.path(), scheme).unwrap();
    layout.put(b"file", b"content").unwrap();
    let open = layout.path(b"file").unwrap().with_file_name(".nfs000000000006de0300000016");
    fs::write(&open, "old content").unwrap();
    let done = unsharded(directory.path()).unwrap();
    assert_eq!((done.moved, done.failures), (1, 1));
    assert!(matches!(&done.failed[0].error, Error::StillOpen { path } if *path == open));
    assert_eq!(fs::read(&open).unwrap(), b"old content");
    fs::remove_file(open).unwrap();
    assert_eq!(unsharded(directory.path()).unwrap().failures, 0);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "the flat directory again");
}

#[test]
fn an_error_of_the_source_names_the_source() {
    let directory = tempfile::tempdir().unwrap();
    for hash in [DigitSource::Xxh3, DigitSource::ContentSha256] {
        let root = directory.path().join(hash.to_string());
        let layout = Layout::create(&root, LayoutScheme::new(hash, 1, 1, Leaf::Name).unwrap()).unwrap();
        for source in [directory.path(), Path::new("/proc/self/mem")] {
            let error = layout.put_file(&[b'a'; 64], source).unwrap_err();
            assert!(error.to_string().starts_with(&format!("{}: ", source.display())), "{error}");
        }
    }
}

#[test]
fn an_error_of_the_new_file_names_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("layout");
    let layout =
        Layout::create(&root, LayoutScheme::new(DigitSource::Xxh3, 1, 1, Leaf::Name).unwrap()).unwrap();
    layout.put(b"file", b"").unwrap();
    let path = layout.path(b"file").unwrap();
    mode(path.parent().unwrap(), 0o555);
    mode(directory.path(), 0o755);
    let error = unprivileged(|| layout.put(b"file", b"")).unwrap_err();
    assert!(error.to_string().starts_with(&format!("{}: Permission", path.display())), "{error}");
    let flat = flat(3);
    // The owner gets no write permission either, because the owner may be the user of the test.
    mode(flat.path(), 0o555);
    let error = unprivileged(|| sharded(flat.path(), &LayoutRequest::default())).unwrap_err();
    let place = flat.path().join(reserved::NAME);
    assert!(error.to_string().starts_with(&format!("{}: Permission", place.display())), "{error}");
    for writable in [path.parent().unwrap(), flat.path()] {
        mode(writable, 0o755);
    }
}

#[test]
fn a_file_in_place_of_a_directory_is_an_error_and_no_endless_loop() {
    let directory = tempfile::tempdir().unwrap();
    let layout =
        Layout::create(directory.path(), LayoutScheme::new(DigitSource::Xxh3, 1, 1, Leaf::Name).unwrap())
            .unwrap();
    let path = layout.path(b"file").unwrap();
    fs::write(path.parent().unwrap(), "").unwrap();
    let error = layout.put(b"file", b"").unwrap_err();
    assert!(error.to_string().starts_with(&format!("{}: Not a directory", path.display())), "{error}");
}

#[test]
fn unreadable_directories_are_reported_and_the_rest_is_checked() {
    let directory = flat(100);
    sharded(directory.path(), &two_levels()).unwrap();
    mode(directory.path(), 0o755);
    fs::write(directory.path().join("stray"), "").unwrap();
    let closed = directory.path().join("7");
    mode(&closed, 0);
    let mut findings = Vec::new();
    let checked = unprivileged(|| {
        check(directory.path(), Mend::Report, &mut |finding| findings.push(finding.trouble)).unwrap()
    });
    mode(&closed, 0o755);
    let inside = check(&directory.path().join("7"), Mend::Report, &mut |_| {});
    assert!(matches!(inside, Err(Error::Missing { .. })));
    assert_eq!(findings, [Trouble::Stray]);
    assert!(checked.files > 80 && checked.files < 106, "{}", checked.files);
    assert_eq!(checked.failures, 1);
    let failure = &checked.failed[0];
    assert_eq!(failure.path, closed);
    assert!(failure.error.to_string().starts_with(&format!("{}: Permission", closed.display())));
}

#[test]
fn a_lock_of_others_on_the_directory_is_an_error_after_a_while() {
    let directory = flat(3);
    let held = fs::File::open(directory.path()).unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    let error = sharded(directory.path(), &LayoutRequest::default()).unwrap_err();
    assert!(error.to_string().contains("holds a lock on this directory"), "{error}");
    assert!(!directory.path().join(reserved::NAME).exists());
    assert_eq!(listing(directory.path()).len(), 8, "no draft of a layout file is left");
    drop(held);
    sharded(directory.path(), &LayoutRequest::default()).unwrap();
}

/// The user of [`unprivileged`].
const NOBODY: u32 = 65_534;

#[test]
fn a_file_that_may_not_move_keeps_no_other_from_moving() {
    if lacks_root() {
        return;
    }
    let directory = flat(50);
    // In a sticky directory, only the owner of a file may move it.
    mode(directory.path(), 0o1777);
    sharded(directory.path(), &two_levels()).unwrap();
    let layout = Layout::open(directory.path()).unwrap();
    let kept = layout.path(name_of(3).as_bytes()).unwrap();
    for name in &layout {
        let path = layout.path(&name.unwrap()).unwrap();
        chown(&path, Some(if path == kept { 0 } else { NOBODY }), None).unwrap();
    }
    let done = unprivileged(|| unsharded(directory.path()).unwrap());
    assert_eq!(done.moved, 54);
    let failed = |path: &Path| done.failed.iter().any(|failure| failure.path == path);
    assert!(failed(&kept) && failed(kept.parent().unwrap()), "{:?}", done.failed);
    assert_eq!(layout.count().unwrap(), 55, "still a layout, in which every file is found");
    assert_eq!((unsharded(directory.path()).unwrap().moved, listing(directory.path()).len()), (1, 55));
}

#[test]
fn an_unfinished_file_of_another_user_stops_no_conversion() {
    if lacks_root() {
        return;
    }
    let directory = flat(20);
    mode(directory.path(), 0o777);
    let staged = directory.path().join(".put-0123.firstbyte-part");
    fs::write(&staged, "half").unwrap();
    mode(&staged, 0o600);
    symlink("nowhere", directory.path().join(".put-4567.firstbyte-part")).unwrap();
    let moved = |conversion: fn(&Path) -> Result<Converted>| {
        unprivileged(|| conversion(directory.path()).map(|done| (done.moved, done.failures)).unwrap())
    };
    assert_eq!(moved(|root| sharded(root, &LayoutRequest::default())), (25, 0));
    assert_eq!(moved(unsharded), (25, 0));
    assert_eq!(fs::read(&staged).unwrap(), b"half");
}

#[test]
fn a_pipe_with_the_name_of_the_layout_file_is_an_error_and_not_waited_for() {
    let directory = flat(1);
    let root = directory.path();
    make_fifo(&root.join(reserved::NAME));
    let refused = |error: Error| assert!(matches!(error, Error::Malformed { .. }), "{error}");
    refused(Layout::open(root).unwrap_err());
    refused(sharded(root, &LayoutRequest::default()).unwrap_err());
    refused(unsharded(root).unwrap_err());
    refused(check(root, Mend::Report, &mut |_| {}).unwrap_err());
}

#[test]
fn errors_of_one_entry_differ_from_those_that_every_entry_would_meet() {
    let error = |errno| Error::io(Path::new("x"), errno);
    for errno in [Errno::PERM, Errno::BUSY, Errno::XDEV] {
        assert!(error(errno).concerns_one_entry(), "{errno}");
    }
    for errno in [Errno::ACCESS, Errno::NOSPC, Errno::ROFS, Errno::IO] {
        assert!(!error(errno).concerns_one_entry(), "{errno}");
    }
}

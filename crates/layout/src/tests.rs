mod spellings;
mod strangers;
mod surveys;

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use rustix::fs::FileType;
use tempfile::TempDir;

use super::protocol::DiskSteps;
use super::stage::StagedFile;
use super::*;

/// Makes a flat directory with `files` numbered files and five files with unusual names.
fn flat(files: usize) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..files {
        fs::write(directory.path().join(name_of(number)), number.to_string()).unwrap();
    }
    for odd in [b"line\nend".as_slice(), b"\xff\xfe", b"-rf", b" ", b".hidden"] {
        fs::write(join(directory.path(), odd), odd).unwrap();
    }
    directory
}

fn name_of(number: usize) -> String {
    format!("file-{number:05}.txt")
}

fn join(root: &Path, name: &[u8]) -> std::path::PathBuf {
    root.join(std::ffi::OsStr::from_bytes(name))
}

fn make_fifo(path: &Path) {
    rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, 0o644.into(), 0).unwrap();
}

/// Returns the names and inodes of the entries that are directly in a directory.
fn listing(root: &Path) -> BTreeMap<Vec<u8>, u64> {
    let entries = fs::read_dir(root).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().as_bytes().to_vec(), entry.metadata().unwrap().ino())).collect()
}

fn sharded(root: &Path, request: &LayoutRequest) -> Result<Converted> {
    shard(root, request, &mut |_| ControlFlow::Continue(()))
}

fn unsharded(root: &Path) -> Result<Converted> {
    unshard(root, &mut |_| ControlFlow::Continue(()))
}

fn two_levels() -> LayoutRequest {
    LayoutRequest { levels: Some(2), width: Some(1), ..LayoutRequest::default() }
}

fn found(root: &Path, mend: Mend) -> Vec<(Trouble, bool)> {
    let mut findings = Vec::new();
    check(root, mend, &mut |finding| findings.push((finding.trouble, finding.mended))).unwrap();
    findings.sort_by_key(|(trouble, _)| trouble.to_string());
    findings
}

#[test]
fn sharded_and_unsharded_again_a_directory_is_what_it_was() {
    let directory = flat(3000);
    fs::create_dir(directory.path().join("sub")).unwrap();
    fs::write(directory.path().join("sub/file"), "below").unwrap();
    symlink("sub/file", directory.path().join("link")).unwrap();
    let before = listing(directory.path());
    let done = sharded(directory.path(), &two_levels()).unwrap();
    assert_eq!((done.moved, done.left, done.failures, done.directories), (3005, 2, 0, 256 + 16));
    assert_eq!(listing(directory.path()).len(), 16 + 2 + 1, "levels, what is no file, and the layout file");
    assert_eq!(found(directory.path(), Mend::Report), []);
    let layout = Layout::open(directory.path()).unwrap();
    assert_eq!(layout.get(b"\xff\xfe").unwrap(), b"\xff\xfe");
    assert_eq!(layout.get(name_of(17).as_bytes()).unwrap(), b"17");
    assert_eq!(
        fs::read(directory.path().join("link")).unwrap(),
        b"below",
        "links stay and lead where they led"
    );
    let done = unsharded(directory.path()).unwrap();
    assert_eq!((done.moved, done.failures, done.directories), (3005, 0, 256 + 16));
    assert_eq!(listing(directory.path()), before);
}

#[test]
fn file_systems_without_exclusive_rename_are_converted_by_links() {
    let directory = flat(500);
    let before = listing(directory.path());
    let root = LayoutRoot::open(directory.path()).unwrap();
    root.use_links_only();
    let scheme = LayoutScheme::new(DigitSource::Xxh3, 1, 1, Leaf::Name).unwrap();
    for name in before.keys() {
        let place = scheme.path(name).unwrap();
        let place = place.as_os_str().as_bytes();
        assert_eq!(root.move_exclusively(scheme, name, place).unwrap(), protocol::MoveResult::Done);
        assert_eq!(root.move_exclusively(scheme, name, place).unwrap(), protocol::MoveResult::Absent);
        assert_eq!(fs::metadata(join(directory.path(), place)).unwrap().ino(), before[name]);
        // A kill between link and unlink leaves one file with two names. The next attempt removes
        // one of the names.
        fs::hard_link(join(directory.path(), place), join(directory.path(), name)).unwrap();
        assert_eq!(root.move_exclusively(scheme, name, place).unwrap(), protocol::MoveResult::Done);
        assert_eq!(fs::metadata(join(directory.path(), place)).unwrap().nlink(), 1);
        // A different file at the destination is left unchanged.
        fs::write(join(directory.path(), name), "other").unwrap();
        assert_eq!(root.move_exclusively(scheme, name, place).unwrap(), protocol::MoveResult::Taken);
        assert_eq!(fs::read(join(directory.path(), name)).unwrap(), b"other");
    }
}

#[test]
fn a_layout_keeps_what_is_put_into_it() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("new");
    let layout =
        Layout::create(&root, LayoutScheme::new(DigitSource::Md5, 2, 2, Leaf::Name).unwrap()).unwrap();
    let layout = layout.with_durability(LayoutDurability::Full);
    assert!(!layout.exists(b"a.txt").unwrap());
    layout.put(b"a.txt", b"one").unwrap();
    layout.put(b"a.txt", b"two").unwrap();
    layout.put_file(b"b.txt", &layout.path(b"a.txt").unwrap()).unwrap();
    assert_eq!(layout.get(b"a.txt").unwrap(), b"two");
    assert_eq!(layout.get(b"b.txt").unwrap(), b"two");
    assert_eq!(layout.find(b"a.txt").unwrap(), Some(layout.path(b"a.txt").unwrap()));
    assert_eq!(layout.count().unwrap(), 2);
    let mut names: Vec<_> = layout.iter().map(Result::unwrap).collect();
    names.sort();
    assert_eq!(names, [b"a.txt", b"b.txt"]);
    assert!(layout.delete(b"a.txt").unwrap());
    assert!(!layout.delete(b"a.txt").unwrap());
    assert!(matches!(layout.get(b"a.txt"), Err(Error::NotFound { .. })));
    assert!(matches!(layout.put(b"../x", b""), Err(Error::Name { .. })));
    assert_eq!(found(&root, Mend::Report), []);
}

#[test]
fn a_content_addressed_layout_names_files_by_their_content_and_checks_it() {
    let directory = tempfile::tempdir().unwrap();
    let scheme = LayoutScheme::new(DigitSource::ContentSha256, 1, 2, Leaf::Rest).unwrap();
    let layout = Layout::create(directory.path(), scheme).unwrap();
    let name = layout.put_content(b"abc").unwrap();
    assert_eq!(name, b"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!(layout.get(&name).unwrap(), b"abc");
    assert!(matches!(layout.put(&name, b"abd"), Err(Error::Content { .. })));
    assert_eq!(layout.iter().map(Result::unwrap).collect::<Vec<_>>(), std::slice::from_ref(&name));
    fs::write(layout.path(&name).unwrap(), "damaged").unwrap();
    assert_eq!(found(directory.path(), Mend::Apply), [(Trouble::Content, false)]);
    assert_eq!(unsharded(directory.path()).unwrap().moved, 1);
    let request = LayoutRequest {
        hash: Some(DigitSource::ContentSha256),
        leaf: Some(Leaf::Rest),
        ..LayoutRequest::default()
    };
    let done = sharded(directory.path(), &request).unwrap();
    assert_eq!((done.moved, done.failures), (0, 1), "what is not what its name says stays where it is");
}

#[test]
fn only_a_new_or_empty_directory_becomes_an_empty_layout() {
    let directory = flat(1);
    let scheme = LayoutScheme::new(DigitSource::Xxh3, 1, 2, Leaf::Name).unwrap();
    assert!(matches!(Layout::create(directory.path(), scheme), Err(Error::NotEmpty { .. })));
    assert!(matches!(Layout::open(directory.path()), Err(Error::Missing { .. })));
}

#[test]
fn a_stopped_conversion_goes_on_either_way() {
    let directory = flat(200);
    let before = listing(directory.path());
    let request = two_levels();
    assert!(matches!(
        shard(directory.path(), &request, &mut |_| ControlFlow::Break(())),
        Err(Error::Stopped { .. })
    ));
    fs::write(directory.path().join("late"), "by a stranger").unwrap();
    let done = sharded(directory.path(), &LayoutRequest::default()).unwrap();
    assert!(done.resumed && done.moved == 1, "{done:?}");
    assert!(matches!(unshard(directory.path(), &mut |_| ControlFlow::Break(())), Err(Error::Stopped { .. })));
    let layout = Layout::open(directory.path()).unwrap();
    assert_eq!(layout.count().unwrap(), 206);
    sharded(directory.path(), &request).unwrap();
    assert_eq!(found(directory.path(), Mend::Report), []);
    unsharded(directory.path()).unwrap();
    fs::remove_file(directory.path().join("late")).unwrap();
    assert_eq!(listing(directory.path()), before);
}

#[test]
fn a_handle_goes_on_when_the_layout_comes_to_an_end() {
    let directory = flat(20);
    sharded(directory.path(), &two_levels()).unwrap();
    let layout = Layout::open(directory.path()).unwrap();
    unsharded(directory.path()).unwrap();
    layout.put(b"after", b"new").unwrap();
    assert_eq!(fs::read(directory.path().join("after")).unwrap(), b"new");
    assert_eq!(layout.get(b"after").unwrap(), b"new");
    assert_eq!(layout.count().unwrap(), 26);
    assert!(layout.delete(b"after").unwrap());
    sharded(directory.path(), &LayoutRequest { levels: Some(1), width: Some(2), ..LayoutRequest::default() })
        .unwrap();
    assert!(matches!(layout.put(b"after", b"new"), Err(Error::Differs { .. })));
}

#[test]
fn a_file_in_the_way_is_never_overwritten() {
    let directory = flat(50);
    sharded(directory.path(), &two_levels()).unwrap();
    let name = name_of(3);
    fs::write(directory.path().join(&name), "another").unwrap();
    let done = sharded(directory.path(), &two_levels()).unwrap();
    assert_eq!(done.failures, 1);
    assert!(matches!(done.failed[0].error, Error::Taken { .. }));
    assert_eq!(found(directory.path(), Mend::Apply), [(Trouble::Double, false)]);
    let layout = Layout::open(directory.path()).unwrap();
    assert_eq!(fs::read(layout.path(name.as_bytes()).unwrap()).unwrap(), b"3");
    assert_eq!(fs::read(directory.path().join(&name)).unwrap(), b"another");
    let done = unsharded(directory.path()).unwrap();
    assert_eq!((done.moved, done.failures), (54, 1));
    assert!(Layout::open(directory.path()).is_ok(), "still a layout, as not everything could be moved");
    layout.put(name.as_bytes(), b"newest").unwrap();
    unsharded(directory.path()).unwrap();
    assert_eq!(fs::read(directory.path().join(&name)).unwrap(), b"newest");
}

#[test]
fn misplaced_files_are_found_and_mended() {
    let directory = flat(50);
    sharded(directory.path(), &two_levels()).unwrap();
    let layout = Layout::open(directory.path()).unwrap();
    let root = directory.path();
    let place = |number| layout.path(name_of(number).as_bytes()).unwrap();
    fs::write(root.join("stray"), "").unwrap();
    let elsewhere = place(1).parent().unwrap().join(name_of(2));
    assert!(!elsewhere.exists(), "the two names must be of different directories");
    fs::rename(place(2), elsewhere).unwrap();
    fs::write(root.join(name_of(3)), "3").unwrap();
    fs::write(place(4).with_file_name(".put-0123.firstbyte-part"), "half").unwrap();
    fs::create_dir(place(5).with_file_name("directory")).unwrap();
    let wrong = [Trouble::Abandoned, Trouble::Double, Trouble::Foreign, Trouble::Misplaced, Trouble::Stray];
    assert_eq!(found(root, Mend::Report), wrong.map(|trouble| (trouble, false)));
    assert_eq!(found(root, Mend::Apply), wrong.map(|trouble| (trouble, trouble != Trouble::Foreign)));
    assert_eq!(found(root, Mend::Report), [(Trouble::Foreign, false)]);
    assert_eq!(layout.count().unwrap(), 56);
    let done = unsharded(root).unwrap();
    assert!(matches!(done.failed[0].error, Error::NoFile { .. }));
}

#[test]
fn a_file_being_written_is_taken_along_and_a_dead_writers_removed() {
    let directory = flat(5);
    sharded(directory.path(), &two_levels()).unwrap();
    let layout = Layout::open(directory.path()).unwrap();
    let places = layout.places(b"slow").unwrap();
    let mut staged = places.gated(|target| StagedFile::create(&layout.root, places.path(target))).unwrap();
    staged.write(b"content").unwrap();
    let dead = layout.path(b"dead").unwrap().with_file_name(".put-dead.firstbyte-part");
    fs::create_dir_all(dead.parent().unwrap()).unwrap();
    fs::write(dead, "half").unwrap();
    unsharded(directory.path()).unwrap();
    protocol::put(&places.with_staged(&staged)).unwrap();
    drop(staged);
    assert_eq!(fs::read(directory.path().join("slow")).unwrap(), b"content");
    unsharded_leaves(directory.path(), 11);
}

/// Asserts that a directory has this many entries.
#[track_caller]
fn unsharded_leaves(root: &Path, files: usize) {
    let left = listing(root);
    assert_eq!(
        left.len(),
        files,
        "{:?}",
        left.keys().map(|name| String::from_utf8_lossy(name)).collect::<Vec<_>>()
    );
}

#[test]
fn an_unfinished_put_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let scheme = LayoutScheme::new(DigitSource::Xxh3, 1, 1, Leaf::Name).unwrap();
    let layout = Layout::create(directory.path(), scheme).unwrap();
    assert!(matches!(layout.put_file(b"copy", Path::new("/nowhere/at/all")), Err(Error::Io { .. })));
    assert!(matches!(layout.put_file(b"copy", directory.path()), Err(Error::Io { .. })));
    assert_eq!(layout.count().unwrap(), 0);
    assert_eq!(found(directory.path(), Mend::Report), []);
}

#[test]
fn two_conversions_at_once_are_refused() {
    let directory = flat(5);
    let root = directory.path();
    let busy = |refused: Result<Converted>| assert!(matches!(refused, Err(Error::Busy { .. })));
    shard(root, &two_levels(), &mut |_| {
        busy(sharded(root, &two_levels()));
        busy(unsharded(root));
        assert!(matches!(check(root, Mend::Report, &mut |_| {}), Err(Error::Busy { .. })));
        ControlFlow::Continue(())
    })
    .unwrap();
}

#[test]
fn another_shape_than_the_layouts_is_refused() {
    let directory = flat(5);
    sharded(directory.path(), &two_levels()).unwrap();
    let other = LayoutRequest { hash: Some(DigitSource::Md5), ..LayoutRequest::default() };
    assert!(matches!(sharded(directory.path(), &other), Err(Error::Differs { .. })));
}

#[test]
fn a_newer_layout_file_is_refused_by_all() {
    let directory = flat(5);
    fs::write(directory.path().join(reserved::NAME), "firstbyte-layout 2\n").unwrap();
    let before = listing(directory.path());
    let root = directory.path();
    assert!(matches!(Layout::open(root), Err(Error::Newer { .. })));
    assert!(matches!(sharded(root, &LayoutRequest::default()), Err(Error::Newer { .. })));
    assert!(matches!(unsharded(root), Err(Error::Newer { .. })));
    assert!(matches!(check(root, Mend::Apply, &mut |_| {}), Err(Error::Newer { .. })));
    assert!(matches!(survey(root, &LayoutRequest::default()), Err(Error::Newer { .. })));
    assert_eq!(listing(root), before);
}

#[test]
fn a_name_is_found_before_while_and_after_a_directory_is_a_layout() {
    let directory = flat(5);
    let name = name_of(2);
    let find = || find(directory.path(), name.as_bytes()).unwrap().map(|path| fs::read(path).unwrap());
    assert_eq!(find(), Some(b"2".to_vec()));
    sharded(directory.path(), &two_levels()).unwrap();
    assert_eq!(find(), Some(b"2".to_vec()));
    unsharded(directory.path()).unwrap();
    assert_eq!(find(), Some(b"2".to_vec()));
    assert_eq!(super::find(directory.path(), b"nothing").unwrap(), None);
    // A path is no name, also where it leads to a file.
    let path = [b"../", directory.path().file_name().unwrap().as_bytes(), b"/", name.as_bytes()].concat();
    assert!(matches!(super::find(directory.path(), &path), Err(Error::Name { .. })));
}

#[test]
fn directories_and_the_layout_file_have_the_access_of_the_root() {
    use std::os::unix::fs::{PermissionsExt, chown};
    let directory = flat(100);
    let root = directory.path();
    fs::set_permissions(root, fs::Permissions::from_mode(0o1770)).unwrap();
    // Only the superuser can give the directory away.
    let given = chown(root, Some(12_345), Some(23_456)).is_ok();
    sharded(root, &two_levels()).unwrap();
    let of_root = fs::metadata(root).unwrap();
    let first = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let level = first.into_iter().find(|path| path.is_dir()).unwrap();
    let below = fs::read_dir(&level).unwrap().next().unwrap().unwrap().path();
    for (path, mask) in [(level, 0o7777), (below, 0o7777), (root.join(".firstbyte-layout"), 0o666)] {
        let found = fs::metadata(&path).unwrap();
        assert_eq!(found.mode() & 0o7777, of_root.mode() & mask, "{}", path.display());
        assert_eq!((found.uid(), found.gid()), (of_root.uid(), of_root.gid()), "{}", path.display());
    }
    assert!(!given || of_root.uid() == 12_345);
    unsharded(root).unwrap();
}

/// Makes the attribute of an access control list from tags, permissions and users.
fn access_list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let entry = |(tag, rights, id): &(u16, u16, u32)| {
        [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    [&2_u32.to_le_bytes()[..], &entries.iter().flat_map(entry).collect::<Vec<_>>()].concat()
}

#[test]
fn an_access_control_list_of_the_root_gives_no_group_more_rights_below_it() {
    use rustix::fs::{XattrFlags, getxattr, setxattr};
    const ATTRIBUTE: &str = "system.posix_acl_access";
    let directory = flat(100);
    let root = directory.path();
    // The owning group may not write. The mask has the rights of the named user.
    let list = |rights: [u16; 5]| {
        let [owner, user, group, mask, other] = rights;
        let none = u32::MAX;
        access_list(&[
            (1, owner, none),
            (2, user, 12_345),
            (4, group, none),
            (16, mask, none),
            (32, other, none),
        ])
    };
    let given = setxattr(root, ATTRIBUTE, &list([7, 7, 5, 7, 0]), XattrFlags::empty()).is_ok();
    sharded(root, &two_levels()).unwrap();
    let first = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let level = first.into_iter().find(|path| path.is_dir()).unwrap();
    let read = |path: &Path| {
        let mut value = vec![0; 1024];
        getxattr(path, ATTRIBUTE, &mut value[..]).map(|length| value[..length].to_vec()).ok()
    };
    // A file system without such lists has permission bits only.
    assert_eq!(read(&level), given.then(|| list([7, 7, 5, 7, 0])));
    assert_eq!(read(&root.join(reserved::NAME)), given.then(|| list([6, 6, 4, 6, 0])));
    unsharded(root).unwrap();
}

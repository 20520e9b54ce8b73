use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use firstbyte_listing::EntryOrder;
use firstbyte_location::{ByteRange, EntryKind};

use super::*;
use crate::cancel::Cancel;
use crate::object::Metadata;
use crate::query::{Get, Links, ListOptions};
use crate::upload::{Payload, Precondition, PutOptions};

fn temp() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn write(path: &Path, bytes: &[u8]) {
    put(path, Payload::Bytes(bytes), &PutOptions::default()).unwrap();
}

fn names_in(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn an_invalid_file_name_is_refused_with_the_reason() {
    let long = "x".repeat(256);
    let deep = "d/".repeat(2100) + "x";
    for (name, reason) in [
        ("", "empty"),
        ("/etc/passwd", "begins or ends"),
        ("dir/", "begins or ends"),
        ("a//b", "two in a row"),
        ("../x", "lead to another directory"),
        ("a/../../x", "lead to another directory"),
        ("a/..", "lead to another directory"),
        ("./x", "lead to another directory"),
        ("a\0b", "a zero byte"),
        (long.as_str(), "more than 255 bytes"),
        (deep.as_str(), "a path of"),
        ("d/.x.firstbyte-part", "unfinished copies"),
    ] {
        let error = local_path(Path::new("/root"), name.as_bytes()).unwrap_err();
        assert!(matches!(error, Error::InvalidName { .. }), "{name}");
        let text = error.to_string();
        assert!(text.contains(reason) && !text.contains('\0') && !text.contains('\n'), "{text}");
    }
}

#[test]
fn every_other_name_is_used_unchanged() {
    for name in ["a", "a/b", "...", "..a", "a b?#%+&", "ü/\u{1F600}", "-", "~", "a\\b", "\n"] {
        let path = local_path(Path::new("/root"), name.as_bytes()).unwrap();
        assert_eq!(path, PathBuf::from(format!("/root/{name}")));
        assert_eq!(local_path(Path::new("/"), name.as_bytes()).unwrap(), PathBuf::from(format!("/{name}")));
    }
    local_path(Path::new("/root"), "x".repeat(255).as_bytes()).unwrap();
}

#[test]
fn names_too_long_to_extend_have_distinct_partial_files() {
    let root = temp();
    let names = ["x".repeat(255), "x".repeat(254) + "y", "ü".repeat(127), "x".repeat(240), "x".repeat(239)];
    let open: Vec<LocalFile> = names
        .iter()
        .map(|name| LocalFile::open(&root.path().join(name), PartialPermissions::Usual).unwrap())
        .collect();
    let partials: std::collections::BTreeSet<_> = open.iter().map(|file| file.path().clone()).collect();
    assert_eq!(partials.len(), names.len());
    for path in partials {
        let name = path.file_name().unwrap().to_str().expect("cut at the start of a character");
        assert!(name.len() <= 143 && name.starts_with('.') && name.ends_with(".firstbyte-part"), "{name}");
    }
    for file in open {
        file.commit(&Metadata::default(), Durability::None).unwrap();
    }
    assert_eq!(names_in(root.path()).len(), names.len());
}

#[test]
fn a_second_writer_fails_and_the_first_finishes() {
    let root = temp();
    let path = root.path().join("file");
    let first = LocalFile::open(&path, PartialPermissions::Usual).unwrap();
    let error = LocalFile::open(&path, PartialPermissions::Usual).unwrap_err();
    assert!(matches!(&error, Error::Io { source, .. } if source.kind() == io::ErrorKind::WouldBlock));
    assert!(error.to_string().contains("another copy is writing it"), "{error}");
    first.commit(&Metadata::default(), Durability::Full).unwrap();
    LocalFile::open(&path, PartialPermissions::Usual).unwrap().discard().unwrap();
    assert_eq!(names_in(root.path()), ["file"]);
}

#[test]
fn a_dropped_partial_file_keeps_its_bytes_and_is_not_listed() {
    use std::os::unix::fs::FileExt;
    let root = temp();
    let path = root.path().join("file");
    LocalFile::open(&path, PartialPermissions::Usual).unwrap().file().write_all_at(b"half", 0).unwrap();
    assert!(!path.exists());
    assert_eq!(list(root.path(), &ListOptions::default(), Cancel::new()).unwrap().count(), 0);
    let again = LocalFile::open(&path, PartialPermissions::Usual).unwrap();
    assert_eq!(fs::read(again.path()).unwrap(), b"half");
    drop(again);
    write(&path, b"new");
    assert_eq!(fs::read(&path).unwrap(), b"new", "what an interrupted writer left is no part of a new file");
    assert_eq!(names_in(root.path()), ["file"]);
}

#[test]
fn committing_keeps_the_time_and_a_private_file_private() {
    let root = temp();
    let path = root.path().join("file");
    write(&path, b"old");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    for modified in [UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789), UNIX_EPOCH - Duration::new(5, 1)]
    {
        let metadata = Metadata { modified: Some(modified), ..Metadata::default() };
        put(&path, Payload::Bytes(b"new"), &PutOptions { metadata, ..PutOptions::default() }).unwrap();
        let stat = stat(&path).unwrap();
        assert_eq!((stat.modified, stat.metadata.modified), (Some(modified), Some(modified)));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn directories_devices_and_dangling_links_are_refused_as_destinations() {
    let root = temp();
    fs::create_dir(root.path().join("dir")).unwrap();
    symlink("nowhere", root.path().join("dangling")).unwrap();
    symlink("/dev/null", root.path().join("device")).unwrap();
    fs::write(root.path().join("plain"), "").unwrap();
    let open = |name: &str| {
        LocalFile::open(&root.path().join(name), PartialPermissions::Usual).unwrap_err().to_string()
    };
    assert!(open("dir").contains("is a directory"), "{}", open("dir"));
    assert!(open("dangling").contains("No such file"), "{}", open("dangling"));
    assert!(open("device").contains("firstbyte cat"), "{}", open("device"));
    assert!(open("plain/below").contains("Not a directory"), "{}", open("plain/below"));
    assert!(open(&"x".repeat(300)).contains("name too long"), "{}", open(&"x".repeat(300)));
    assert_eq!(names_in(root.path()), ["dangling", "device", "dir", "plain"]);
}

#[test]
fn a_link_to_a_file_stays_a_link() {
    let root = temp();
    fs::create_dir(root.path().join("dir")).unwrap();
    write(&root.path().join("dir/real"), b"old");
    symlink("dir/real", root.path().join("link")).unwrap();
    write(&root.path().join("link"), b"new");
    assert!(fs::symlink_metadata(root.path().join("link")).unwrap().is_symlink());
    assert_eq!(fs::read(root.path().join("dir/real")).unwrap(), b"new");
}

#[test]
fn after_a_failed_write_the_destination_is_unchanged_and_no_partial_file_remains() {
    let root = temp();
    let path = root.path().join("file");
    write(&path, b"old");
    let short = root.path().join("short");
    write(&short, b"12345");
    let source = fs::File::open(&short).unwrap();
    let payload = Payload::File(&source, ByteRange::new(2, 9));
    let error = put(&path, payload, &PutOptions::default()).unwrap_err();
    assert!(error.to_string().contains("4 bytes short"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(names_in(root.path()), ["file", "short"]);
}

#[test]
fn a_full_disk_is_reported_and_the_destination_is_unchanged() {
    // Writes to /dev/full fail with ENOSPC.
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let error = backend::fill_from_start(&full, Payload::Bytes(b"x")).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert!(io_error(Path::new("/x"), error).advice().unwrap().contains("free some space"));
}

#[test]
fn a_longer_file_is_replaced_by_exactly_the_given_range() {
    let root = temp();
    let (source, path) = (root.path().join("source"), root.path().join("file"));
    write(&source, b"0123456789");
    write(&path, b"something longer than that");
    let file = fs::File::open(&source).unwrap();
    let written = put(&path, Payload::File(&file, ByteRange::new(3, 7)), &PutOptions::default()).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"3456");
    assert_eq!(written.version, stat(&path).unwrap().version);
}

#[test]
fn writes_honour_their_preconditions() {
    let root = temp();
    let path = root.path().join("file");
    let when = |precondition| PutOptions { precondition, ..PutOptions::default() };
    let version = put(&path, Payload::Bytes(b"1"), &when(Precondition::Absent)).unwrap().version;
    let refused = |precondition| put(&path, Payload::Bytes(b"no"), &when(precondition)).unwrap_err();
    assert!(matches!(refused(Precondition::Absent), Error::Precondition { .. }));
    write(&path, b"2");
    assert!(matches!(refused(Precondition::Matches(version)), Error::Precondition { .. }));
    let version = stat(&path).unwrap().version;
    put(&path, Payload::Bytes(b"3"), &when(Precondition::Matches(version.clone()))).unwrap();
    delete(&path).unwrap();
    assert!(matches!(refused(Precondition::Matches(version)), Error::Precondition { .. }));
    assert!(names_in(root.path()).is_empty());
}

#[test]
fn every_rewrite_is_a_new_version_even_with_the_same_length_and_time() {
    let root = temp();
    let path = root.path().join("file");
    let metadata = Metadata { modified: Some(UNIX_EPOCH), ..Metadata::default() };
    let options = PutOptions { metadata, ..PutOptions::default() };
    let first = put(&path, Payload::Bytes(b"a"), &options).unwrap().version;
    put(&path, Payload::Bytes(b"b"), &options).unwrap();
    let pinned = Get { version: Some(first), ..Get::default() };
    assert!(matches!(get(&path, &pinned, Cancel::new()).map(drop), Err(Error::Changed { .. })));
}

#[test]
fn devices_pipes_and_sockets_are_refused_without_blocking() {
    let root = temp();
    let pipe = root.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
        .unwrap();
    assert!(matches!(get(&pipe, &Get::default(), Cancel::new()).map(drop), Err(Error::InvalidName { .. })));
    assert!(matches!(get(root.path(), &Get::default(), Cancel::new()).map(drop), Err(Error::Io { .. })));
    assert!(matches!(
        get(&pipe.join("x"), &Get::default(), Cancel::new()).map(drop),
        Err(Error::NotFound { .. })
    ));
    assert_eq!(stat(&pipe).unwrap().kind, EntryKind::Other);
    symlink("loop", root.path().join("loop")).unwrap();
    assert!(stat(&root.path().join("loop")).unwrap_err().to_string().contains("symbolic links"));
}

#[test]
fn listings_follow_links_and_honour_start_after() {
    let root = temp();
    write(&root.path().join("d/x"), b"12");
    write(&root.path().join("a"), b"1");
    symlink("d", root.path().join("e")).unwrap();
    let options = ListOptions { recursive: true, order: EntryOrder::Bytes, ..ListOptions::default() };
    let names = |options: &ListOptions| -> Vec<String> {
        list(root.path(), options, Cancel::new())
            .unwrap()
            .map(|e| String::from_utf8(e.unwrap().name).unwrap())
            .collect()
    };
    assert_eq!(names(&options), ["a", "d/x", "e/x"]);
    assert_eq!(names(&ListOptions { start_after: Some("d".into()), ..options.clone() }), ["d/x", "e/x"]);
    assert_eq!(names(&ListOptions { start_after: Some("d/x".into()), ..options }), ["e/x"]);
    assert!(matches!(
        list(&root.path().join("no"), &ListOptions::default(), Cancel::new()).map(drop),
        Err(Error::NotFound { .. })
    ));
}

#[test]
fn a_link_without_a_target_is_an_entry_or_an_error_of_its_own_and_hides_no_other_name() {
    let root = temp();
    write(&root.path().join("d/x"), b"12");
    write(&root.path().join("a"), b"1");
    symlink("nowhere", root.path().join("d/dangling")).unwrap();
    symlink("x", root.path().join("d/link")).unwrap();
    for order in [EntryOrder::Any, EntryOrder::Bytes] {
        let options = ListOptions { recursive: true, order, links: Links::Follow, ..ListOptions::default() };
        let existing = ListOptions { links: Links::FollowExisting, ..options.clone() };
        let listed = list(root.path(), &existing, Cancel::new()).unwrap();
        let mut entries: Vec<_> = listed.map(|entry| entry.unwrap()).collect();
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        let shown: Vec<_> = entries.iter().map(|entry| (entry.name.as_slice(), entry.kind)).collect();
        assert_eq!(
            shown,
            [
                (&b"a"[..], EntryKind::File),
                (b"d/dangling", EntryKind::Symlink),
                (b"d/link", EntryKind::File),
                (b"d/x", EntryKind::File),
            ]
        );
        let followed: Vec<_> = list(root.path(), &options, Cancel::new()).unwrap().collect();
        assert_eq!(followed.iter().filter(|entry| entry.is_ok()).count(), 3);
        assert!(followed.iter().any(|entry| matches!(entry, Err(Error::NotFound { .. }))));
    }
}

#[test]
fn private_content_is_never_written_to_a_file_that_others_could_open() {
    let place = temp();
    let path = place.path().join("file");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    // The partial file of an object that every user may read.
    let left = LocalFile::open(&path, PartialPermissions::Usual).unwrap();
    let partial = left.path().clone();
    fs::set_permissions(&partial, fs::Permissions::from_mode(0o644)).unwrap();
    let opened = fs::File::open(&partial).unwrap();
    drop(left);
    let file = LocalFile::open(&path, PartialPermissions::Owner).unwrap();
    assert_eq!(mode(&partial), 0o600);
    std::io::Write::write_all(&mut file.file(), b"secret").unwrap();
    assert_eq!(opened.metadata().unwrap().len(), 0);
    file.commit(&Metadata { mode: Some(0o640), ..Metadata::default() }, Durability::None).unwrap();
    assert_eq!(mode(&path), 0o640);
}

#[test]
fn a_partial_file_that_another_user_planted_gets_no_content() {
    use std::os::unix::fs::MetadataExt;
    let place = temp();
    let (path, other) = (place.path().join("file"), place.path().join("other"));
    let partial = LocalFile::partial_path(&path);
    let write = |file: &LocalFile| std::io::Write::write_all(&mut file.file(), b"secret").unwrap();
    // The name of the partial file is a hard link to a file that must not change.
    fs::write(&other, b"kept").unwrap();
    fs::hard_link(&other, &partial).unwrap();
    let file = LocalFile::open(&path, PartialPermissions::Usual).unwrap();
    write(&file);
    file.discard().unwrap();
    assert_eq!(fs::read(&other).unwrap(), b"kept");
    // Only root can change a file's owner.
    if rustix::process::geteuid().is_root() {
        fs::write(&partial, b"").unwrap();
        std::os::unix::fs::chown(&partial, Some(12_345), None).unwrap();
        let planted = fs::File::open(&partial).unwrap();
        let file = LocalFile::open(&path, PartialPermissions::Usual).unwrap();
        write(&file);
        assert_eq!((planted.metadata().unwrap().len(), fs::metadata(&partial).unwrap().uid()), (0, 0));
    }
}

#[test]
fn a_private_partial_file_ends_with_the_usual_permission_bits() {
    let place = temp();
    let path = place.path().join("file");
    drop(LocalFile::open(&path, PartialPermissions::Owner).unwrap());
    let file = LocalFile::open(&path, PartialPermissions::Usual).unwrap();
    file.commit(&Metadata::default(), Durability::None).unwrap();
    fs::write(place.path().join("other"), b"").unwrap();
    let mode = |name: &str| fs::metadata(place.path().join(name)).unwrap().permissions().mode();
    assert_eq!(mode("file"), mode("other"));
    assert_eq!(names_in(place.path()), ["file", "other"]);
}

#[test]
fn a_partial_file_has_no_right_that_its_source_or_the_file_it_replaces_lacks() {
    let place = temp();
    let path = place.path().join("file");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for (source, before, most) in
        [(0o640, None, 0o640), (0o644, Some(0o600), 0o600), (0o444, Some(0o664), 0o644), (0o400, None, 0o600)]
    {
        if let Some(before) = before {
            fs::write(&path, b"old").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(before)).unwrap();
        }
        let partial = LocalFile::open(&path, PartialPermissions::Source(source)).unwrap();
        assert_eq!(mode(partial.path()) & !most, 0, "{source:o} over {before:?}");
        partial.commit(&Metadata { mode: Some(source), ..Metadata::default() }, Durability::None).unwrap();
        assert_eq!(mode(&path), source & before.unwrap_or(0o777), "{source:o} over {before:?}");
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn no_name_beneath_a_directory_leads_out_of_it() {
    let place = temp();
    let (root, outside) = (place.path().join("root"), place.path().join("outside"));
    fs::create_dir_all(root.join("d")).unwrap();
    write(&outside.join("d/file"), b"precious");
    symlink("../outside", root.join("link")).unwrap();
    symlink("../../outside/d", root.join("d/link")).unwrap();
    let beneath = Beneath::new(&root, None);
    for name in ["link/d/file", "d/link/file", "../outside/d/file"] {
        let name = Path::new(name);
        // Some calls fail and others do nothing. What matters is that the outside files remain.
        let _ = beneath.remove_file(name);
        let _ = beneath.remove_tree(name.parent().unwrap(), &|_| true);
        assert!(
            LocalFile::open_beneath(&beneath, name, ReplaceKind::File, PartialPermissions::Usual).is_err(),
            "{name:?}"
        );
        assert!(beneath.find(name).is_ok_and(|found| found.is_none()) || name.starts_with(".."), "{name:?}");
    }
    let message = beneath.create_directory(Path::new("d/link/new")).unwrap_err().to_string();
    assert!(message.contains("d/link") && message.contains("symbolic link"), "{message}");
    assert_eq!(fs::read(outside.join("d/file")).unwrap(), b"precious");
    assert_eq!(names_in(&outside.join("d")), ["file"]);
    beneath.remove_file(Path::new("link")).unwrap();
    assert_eq!(beneath.remove_tree(Path::new("d"), &|name| name == b"d/link").unwrap(), 1);
    assert!(names_in(&root).is_empty());
}

#[test]
fn the_content_of_an_interrupted_writer_is_discarded() {
    let place = temp();
    let path = place.path().join("file");
    let file = LocalFile::open(&path, PartialPermissions::Usual).unwrap();
    fs::write(file.path(), b"a longer one").unwrap();
    file.truncate().unwrap();
    assert_eq!(file.file().metadata().unwrap().len(), 0);
    file.truncate().unwrap();
    file.commit(&Metadata::default(), Durability::None).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"");
}

#[test]
fn only_the_version_that_was_seen_is_removed() {
    let place = temp();
    let path = |name: &str| place.path().join(name);
    let beneath = Beneath::new(place.path(), None);
    let remove = |name: &str, version| beneath.remove_version(Path::new(name), version);
    write(&path("file"), b"seen");
    let seen = stat(&path("file")).unwrap().version;
    // Now `file` is a new file, `link` is a link to the old file, and `directory/file` leads
    // through a link.
    fs::rename(path("file"), path("aside")).unwrap();
    write(&path("file"), b"seen");
    symlink("aside", path("link")).unwrap();
    symlink(".", path("directory")).unwrap();
    for name in ["file", "link"] {
        assert!(matches!(remove(name, &seen), Err(Error::Changed { .. })), "{name}");
    }
    let now = stat(&path("file")).unwrap().version;
    assert!(matches!(remove("directory/file", &now), Err(Error::InvalidName { .. })));
    assert_eq!(names_in(place.path()), ["aside", "directory", "file", "link"]);
    remove("file", &now).unwrap();
    remove("file", &now).unwrap();
    assert_eq!(names_in(place.path()), ["aside", "directory", "link"]);
    assert_eq!(fs::read(path("aside")).unwrap(), b"seen");
}

#[test]
fn a_rename_replaces_nothing_and_moves_a_link_itself() {
    let place = temp();
    let path = |name: &str| place.path().join(name);
    let (from, to) = (Beneath::new(place.path(), None), Beneath::new(&path("to"), None));
    let rename = |name: &str, new: &str| from.rename(Path::new(name), &to, Path::new(new)).unwrap();
    write(&path("file"), b"one");
    symlink("file", path("link")).unwrap();
    assert!(rename("file", "deep/new") && rename("link", "link"));
    write(&path("file"), b"two");
    assert!(!rename("file", "deep/new") && !rename("missing", "x"));
    assert_eq!(fs::read(path("to/deep/new")).unwrap(), b"one");
    assert_eq!(fs::read(path("file")).unwrap(), b"two");
    assert!(path("to/link").is_symlink());
}

#[test]
fn attributes_of_a_copy_whose_time_was_not_kept_are_set_and_those_of_another_file_are_not() {
    let root = temp();
    let at = |name: &str| root.path().join(name);
    for name in ["from", "to"] {
        std::fs::write(at(name), "1").unwrap();
    }
    let bits = |name: &str| std::fs::metadata(at(name)).unwrap().permissions().mode() & 0o7777;
    let set =
        |name: &str, mode| std::fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
    std::fs::File::options().write(true).open(at("from")).unwrap().set_modified(UNIX_EPOCH).unwrap();
    let beneath = Beneath::new(root.path(), None);
    let (from, to) = (Path::new("from"), Path::new("to"));
    set("from", 0o640);
    set("to", 0o600);
    beneath.take_attributes(to, &beneath, from, CopyState::Perhaps).unwrap();
    assert_eq!(bits("to"), 0o600);
    beneath.take_attributes(to, &beneath, from, CopyState::Complete).unwrap();
    assert_eq!(bits("to"), 0o640);
    // Other users can write to the directory.
    std::fs::set_permissions(root.path(), fs::Permissions::from_mode(0o777)).unwrap();
    set("from", 0o600);
    let error = beneath.take_attributes(to, &beneath, from, CopyState::Complete).unwrap_err();
    assert!(error.to_string().contains("another user can write"), "{error}");
    assert_eq!(bits("to"), 0o640);
}

#[test]
fn a_tree_deeper_than_the_longest_path_is_removed() {
    let root = temp();
    let beneath = Beneath::new(root.path(), None);
    let part = "d".repeat(200);
    let deep: PathBuf = std::iter::repeat_n(part.as_str(), 22).collect();
    beneath.create_directory(&deep).unwrap();
    assert!(deep.as_os_str().len() > 4096);
    for directory in deep.ancestors().filter(|directory| !directory.as_os_str().is_empty()) {
        beneath.remove_empty_directory(directory).unwrap();
    }
    assert!(names_in(root.path()).is_empty());
}

#[test]
fn the_other_name_of_a_file_is_still_its_version_after_one_name_was_removed() {
    let root = temp();
    write(&root.path().join("a"), b"1");
    fs::hard_link(root.path().join("a"), root.path().join("b")).unwrap();
    let copied = stat(&root.path().join("a")).unwrap().version;
    let get_b = || {
        get(&root.path().join("b"), &Get { version: Some(copied.clone()), ..Get::default() }, Cancel::new())
    };
    let mut open = get_b().unwrap();
    let beneath = Beneath::new(root.path(), None);
    beneath.remove_version(Path::new("a"), &copied).unwrap();
    let mut read = [0; 2];
    assert_eq!((open.read(&mut read).unwrap(), open.read(&mut read).unwrap()), (1, 0));
    get_b().unwrap();
    fs::write(root.path().join("b"), "22").unwrap();
    assert!(get_b().is_err() && beneath.remove_version(Path::new("b"), &copied).is_err());
    let copied = stat(&root.path().join("b")).unwrap().version;
    beneath.remove_version(Path::new("b"), &copied).unwrap();
    assert!(names_in(root.path()).is_empty());
}

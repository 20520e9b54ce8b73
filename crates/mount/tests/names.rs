//! Tests the names of directories: their order, their sizes, and the time for which they are valid.

use crate::support;

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, FileExt, MetadataExt};
use std::time::Duration;

use firstbyte_mount::MountOptions;
use firstbyte_testkit::{Backend, bytes, scratch, until};
use rustix::fs::{Dir, Mode, OFlags};
use support::keys::Keys;
use support::{Mounted, counter, options, tree};

/// Number of names in a wide directory. It is more than are kept in memory, and several pages of
/// S3.
const WIDE: usize = 20_000;

fn names(mounted: &Mounted, directory: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(mounted.path(directory)).unwrap();
    let names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let set: BTreeSet<String> = names.iter().cloned().collect();
    assert_eq!(set.len(), names.len(), "a name is listed twice");
    set
}

#[test]
fn keys_that_cannot_be_file_names_are_left_out_and_the_others_shown() {
    let (longest, too_long) = ("y".repeat(255), "y".repeat(256));
    let below = format!("{too_long}/below");
    let keys = [
        "good", "d/good", "e//empty", "/lead", "e/./dot", "e/../up", "e/f/", "e/g/h/", "nul\0l", &longest,
        &too_long, &below,
    ];
    let (place, directory) = (Keys::start(&keys), scratch());
    let mount = support::mount(&place.store, &place.base, directory.path(), &options()).unwrap();
    let shown: BTreeSet<String> = tree(directory.path()).into_keys().collect();
    assert_eq!(shown, ["good", "d/good", &longest].map(String::from).into());
    assert!(directory.path().join("e/f").is_dir(), "the object `e/f/` stands for a directory");
    assert!(directory.path().join("e/g/h").is_dir());
    assert!(!directory.path().join(&too_long).exists());
    mount.stop().unwrap();
    mount.wait().unwrap();
}

#[test]
fn a_directory_hides_an_object_of_its_name_in_listings_and_lookups() {
    let wide: Vec<String> = (0..2000).map(|number| format!("name-{number}")).collect();
    for others in [&[][..], &wide] {
        let keys = ["a", "a!", "a-1", "a-1/x", "a.txt", "a/b", "z"];
        let keys: Vec<&str> = keys.into_iter().chain(others.iter().map(String::as_str)).collect();
        let (place, directory) = (Keys::start(&keys), scratch());
        let mount = support::mount(&place.store, &place.base, directory.path(), &options()).unwrap();
        // Names are found first by lookups only, and then by a listing.
        assert!(directory.path().join("a").is_dir());
        assert!(directory.path().join("a-1").is_dir());
        assert!(directory.path().join("a.txt").is_file());
        assert_eq!(fs::read(directory.path().join("a/b")).unwrap(), b"a/b");
        let shown: BTreeSet<String> =
            tree(directory.path()).into_keys().filter(|name| !name.starts_with("name")).collect();
        assert_eq!(shown, ["a!", "a-1/x", "a.txt", "a/b", "z"].map(String::from).into());
        mount.stop().unwrap();
        mount.wait().unwrap();
    }
}

#[test]
fn a_directory_of_any_width_is_listed_whole_and_a_file_in_it_is_found() {
    let wanted: Vec<String> = (0..WIDE).map(|number| format!("wide/name-{number:06}")).collect();
    for place in [Backend::ServeS3, Backend::Local, Backend::ServeHttp] {
        let mounted = Mounted::start(place, |subject| subject.place_many(&wanted));
        assert_eq!(mounted.read("wide/name-017321"), b"wide/name-017321");
        let expected: BTreeSet<String> = wanted.iter().map(|name| name["wide/".len()..].to_owned()).collect();
        assert!(names(&mounted, "wide") == expected, "{place:?}");
        assert_eq!(mounted.read("wide/name-000000"), b"wide/name-000000");
        assert!(!mounted.path("wide/name-1").exists());
    }
}

#[test]
fn names_of_a_wide_directory_are_listed_once_and_then_looked_up_without_a_request() {
    let mounted = Mounted::start(Backend::ServeS3, |subject| {
        (0..WIDE)
            .for_each(|number| drop(fs::File::create(subject.file(&format!("name-{number:06}"))).unwrap()));
    });
    // Works like `find -size`: reads all names first, and then the size of each.
    let before = mounted.requests();
    let mut listed: Vec<_> =
        fs::read_dir(mounted.directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let listing = mounted.requests() - before;
    listed.sort();
    assert!(listed.iter().all(|path| fs::metadata(path).unwrap().is_file()));
    assert_eq!((listed.len(), mounted.requests() - before - listing), (WIDE, 0));
}

#[test]
fn files_of_a_wide_directory_opened_in_their_order_are_fetched_ahead_and_a_page_names_a_thousand() {
    const FILES: u64 = 4000;
    let metrics = Some("127.0.0.1:0".parse().unwrap());
    // With these options no listing is kept, and no directory of more than 1,536 names.
    let options = MountOptions { metrics, memory: 0, ..options() };
    let wanted: Vec<String> = (0..FILES).map(|number| format!("name-{number:06}")).collect();
    let mounted = Mounted::with(Backend::ServeS3, &options, |subject| subject.place_many(&wanted));
    let before = mounted.requests();
    for name in &wanted {
        assert_eq!(mounted.read(name), name.as_bytes());
    }
    // Each file takes one request. The first few names take two each, until a page of a listing is
    // worth a request. A reader and the read-ahead may both request a page, and a silent request is
    // repeated; both happen more often on a busy machine. Without pages, each file would take one
    // more request.
    let others = mounted.requests() - before - FILES;
    assert!(others <= FILES / 20, "{others} requests for names");
    let waits = counter(&mounted, "engine_waits_total");
    assert!(waits < FILES / 2, "{waits} files were waited for");
    // A missing name among existing ones, and a name out of order.
    assert!(!mounted.path("name-000500x").exists());
    assert_eq!(mounted.read("name-000017"), b"name-000017");
}

#[test]
fn the_kernel_never_holds_more_inodes_than_memory_has_room_for_and_what_is_open_stays() {
    const FILES: usize = 40_000;
    // Number of inodes of 160 bytes in half of the 8 MiB.
    const BOUND: u64 = 26_214;
    let metrics = Some("127.0.0.1:0".parse().unwrap());
    let options = MountOptions { metrics, memory: 8 << 20, ..options() };
    let mounted = Mounted::with(Backend::ServeS3, &options, |subject| {
        for number in 0..FILES {
            fs::File::create(subject.file(&format!("name-{number:06}"))).unwrap();
        }
        subject.place("directory/below/file", b"content");
    });
    let held = fs::File::open(mounted.path("name-000000")).unwrap();
    let below = fs::File::open(mounted.path("directory/below")).unwrap();
    let number = |path: &str| fs::metadata(mounted.path(path)).unwrap().ino();
    let (file, directory) = (held.metadata().unwrap().ino(), below.metadata().unwrap().ino());
    let mut most = 0;
    for (index, entry) in fs::read_dir(mounted.directory.path()).unwrap().enumerate() {
        let entry = entry.unwrap();
        let found = entry.metadata().unwrap();
        assert_eq!(found.is_file(), entry.file_name() != "directory");
        if index % 2000 == 0 {
            most = most.max(counter(&mounted, "inodes"));
        }
    }
    assert!(most <= BOUND + 100, "{most} at most");
    // Entries in use keep their inodes: an open file, an open directory, and entries that are
    // looked up through them.
    assert_eq!((held.metadata().unwrap().len(), held.metadata().unwrap().ino()), (0, file));
    assert_eq!(below.metadata().unwrap().ino(), directory);
    assert_eq!((number("name-000000"), number("directory/below")), (file, directory));
    let reached = fs::read(format!("/proc/self/fd/{}/file", below.as_raw_fd())).unwrap();
    assert_eq!(reached, b"content");
    // Every file can be found again by its name.
    for index in [1, FILES / 2, FILES - 1] {
        assert!(mounted.path(&format!("name-{index:06}")).is_file());
    }
}

#[test]
fn a_rewound_directory_gives_the_same_names_in_the_same_order() {
    let wanted: Vec<String> = (0..5000).map(|number| format!("name-{number:06}")).collect();
    let mounted = Mounted::start(Backend::ServeS3, |subject| subject.place_many(&wanted));
    let open = rustix::fs::open(mounted.directory.path(), OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty())
        .unwrap();
    let mut directory = Dir::new(open).unwrap();
    let mut read = || {
        let mut names = Vec::new();
        while let Some(entry) = directory.read() {
            names.push(entry.unwrap().file_name().to_owned());
        }
        directory.rewind();
        names
    };
    let (first, again) = (read(), read());
    assert_eq!(first.len(), wanted.len() + 2);
    assert_eq!(first, again);
}

#[test]
fn numbers_of_inodes_follow_the_listing_and_are_those_of_the_files() {
    let wanted: Vec<String> = (0..500).map(|number| format!("name-{number:06}")).collect();
    let mounted = Mounted::start(Backend::ServeS3, |subject| subject.place_many(&wanted));
    let mut listed: Vec<(u64, String)> = fs::read_dir(mounted.directory.path())
        .unwrap()
        .map(Result::unwrap)
        .map(|entry| (entry.ino(), entry.file_name().into_string().unwrap()))
        .collect();
    for (number, name) in &listed {
        assert_eq!(fs::metadata(mounted.path(name)).unwrap().ino(), *number, "{name}");
    }
    listed.sort();
    assert!(listed.iter().map(|(_, name)| name).is_sorted());
}

#[test]
fn a_file_has_the_same_time_and_inode_however_it_was_found() {
    for place in [Backend::Local, Backend::ServeS3, Backend::ServeHttp, Backend::Minio] {
        let mut mounted = Mounted::start(place, |subject| subject.place("d/x", b"content"));
        let looked_up = fs::metadata(mounted.path("d/x")).unwrap();
        mounted.again(&options());
        let listed = fs::read_dir(mounted.path("d")).unwrap().next().unwrap().unwrap().metadata().unwrap();
        assert_eq!(listed.modified().unwrap(), looked_up.modified().unwrap(), "{place:?}");
        assert_eq!(listed.len(), 7);
    }
}

#[test]
fn files_of_five_tebibytes_have_their_size_and_are_read_at_any_offset() {
    const SIZE: u64 = 5 << 40;
    let mounted = Mounted::start(Backend::ServeS3, |subject| {
        subject.place("sparse", b"start");
        let file = fs::File::options().write(true).open(subject.file("sparse")).unwrap();
        file.set_len(SIZE).unwrap();
        file.write_all_at(b"end", SIZE - 3).unwrap();
    });
    assert_eq!(fs::metadata(mounted.path("sparse")).unwrap().len(), SIZE);
    let file = fs::File::open(mounted.path("sparse")).unwrap();
    let mut buffer = [1; 8];
    for (offset, expected) in [(0, &b"start\0\0\0"[..]), (SIZE / 2, &[0; 8]), (SIZE - 3, b"end"), (SIZE, b"")]
    {
        assert_eq!(file.read_at(&mut buffer, offset).unwrap(), expected.len(), "{offset}");
        assert_eq!(&buffer[..expected.len()], expected, "{offset}");
    }
}

#[test]
fn an_overwritten_object_is_another_inode_and_an_open_handle_never_sees_a_mixture() {
    let (old, new) = (bytes(1, 4 << 20), bytes(2, 4 << 20));
    let options = MountOptions { metadata_ttl: Duration::ZERO, ..options() };
    let mounted = Mounted::with(Backend::ServeS3, &options, |subject| subject.place("x", &old));
    let before = fs::File::open(mounted.path("x")).unwrap();
    let mut start = vec![0; 4096];
    before.read_exact_at(&mut start, 0).unwrap();
    assert_eq!(start, old[..4096]);

    mounted.subject.place("x", &new);
    let after = fs::File::open(mounted.path("x")).unwrap();
    assert_ne!(after.metadata().unwrap().ino(), before.metadata().unwrap().ino());
    assert!(mounted.read("x") == new);

    // The new object has replaced the bytes that the old handle has not read. The handle gets an
    // error or, if the old bytes are cached, the old bytes.
    before.read_exact_at(&mut start, 0).unwrap();
    assert_eq!(start, old[..4096]);
    match before.read_exact_at(&mut start, 3 << 20) {
        Ok(()) => assert!(start == old[3 << 20..][..4096]),
        Err(error) => assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::STALE.raw_os_error())),
    }
}

#[test]
fn a_name_believed_too_long_heals_with_the_first_read_that_fails() {
    let (old, new) = (bytes(1, 4 << 20), bytes(2, 5 << 20));
    let mounted = Mounted::start(Backend::ServeS3, |subject| subject.place("x", &old));
    assert_eq!(fs::metadata(mounted.path("x")).unwrap().len(), old.len() as u64);
    mounted.subject.place("x", &new);
    let error = fs::read(mounted.path("x")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::STALE.raw_os_error()));
    assert!(mounted.read("x") == new);
}

#[test]
fn new_and_deleted_names_are_seen_when_the_time_of_the_old_is_over() {
    for place in [Backend::ServeS3, Backend::Local] {
        let options = MountOptions { metadata_ttl: Duration::ZERO, ..options() };
        let mounted = Mounted::with(place, &options, |subject| subject.place("a", b"1"));
        assert!(!mounted.path("b").exists());
        assert_eq!(names(&mounted, ""), ["a"].map(String::from).into());
        mounted.subject.place("b", b"2");
        mounted.subject.store.delete(&mounted.subject.at("a")).unwrap();
        assert_eq!(mounted.read("b"), b"2");
        assert!(!mounted.path("a").exists());
        assert_eq!(names(&mounted, ""), ["b"].map(String::from).into());
    }
}

#[test]
fn a_listing_after_a_lookup_has_the_names_that_the_lookup_saw() {
    let options = MountOptions { metadata_ttl: Duration::from_secs(2), ..options() };
    let mounted = Mounted::with(Backend::ServeS3, &options, |subject| subject.place("a", b"1"));
    // The kernel keeps the names that it reads.
    assert_eq!(names(&mounted, ""), ["a"].map(String::from).into());
    mounted.subject.place("b", b"2");
    mounted.subject.store.delete(&mounted.subject.at("a")).unwrap();
    // The lookup fetches a new listing. The kernel still keeps the names of the old one, and must
    // not answer from them.
    until("the new name is seen", || mounted.path("b").exists());
    assert_eq!(names(&mounted, ""), ["b"].map(String::from).into());
    assert_eq!(names(&mounted, ""), ["b"].map(String::from).into());
}

#[test]
fn a_tree_with_links_to_directories_above_them_has_an_end() {
    let mounted = Mounted::start(Backend::Local, |subject| {
        subject.place("a/f", b"f");
        subject.place("b/g", b"g");
        let root = subject.file("");
        for (target, link) in
            [("..", "a/up"), ("..", "b/up"), ("../b", "a/b"), ("../a", "b/a"), (".", "here")]
        {
            std::os::unix::fs::symlink(target, root.join(link)).unwrap();
        }
        std::os::unix::fs::symlink("itself", root.join("itself")).unwrap();
    });
    let shown: Vec<String> = tree(mounted.directory.path()).into_keys().collect();
    assert_eq!(shown, ["a/b/g", "a/f", "b/a/f", "b/g"]);
}

#[test]
fn a_mount_in_its_own_source_is_refused() {
    let mounted = Mounted::start(Backend::Local, |subject| subject.place("a/f", b"f"));
    let source = mounted.subject.file("");
    fs::create_dir(source.join("mnt")).unwrap();
    std::os::unix::fs::symlink(&source, mounted.directory.path().with_extension("link")).unwrap();
    let link = mounted.directory.path().with_extension("link");
    for directory in [source.join("mnt"), link.join("mnt")] {
        let refused = support::mount(&mounted.subject.store, &mounted.subject.base, &directory, &options());
        assert!(refused.err().unwrap().to_string().contains("overlap"), "{}", directory.display());
    }
    fs::remove_file(link).unwrap();
}

#[test]
fn a_name_that_no_file_can_have_is_too_long() {
    let mounted = Mounted::start(Backend::ServeS3, |subject| subject.place("x", b"x"));
    let error = fs::metadata(mounted.path(&"n".repeat(256))).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::NAMETOOLONG.raw_os_error()));
    assert!(!mounted.path(&"n".repeat(255)).exists());
}

#[test]
fn times_of_a_local_source_are_shown_as_they_are_and_as_they_become() {
    let options = MountOptions { metadata_ttl: Duration::from_millis(1), ..options() };
    let at = |seconds: i64| {
        let whole = Duration::from_secs(seconds.unsigned_abs());
        let start = std::time::UNIX_EPOCH;
        if seconds < 0 { start - whole } else { start + whole }
    };
    let set = |path: &std::path::Path, seconds| {
        fs::File::open(path).unwrap().set_modified(at(seconds)).unwrap();
    };
    let mounted = Mounted::with(Backend::Local, &options, |subject| {
        subject.place("d/old", b"x");
        set(&subject.file("d/old"), -1);
        set(&subject.file("d"), 1_000_000_000);
    });
    let shown = |name: &str| fs::metadata(mounted.path(name)).unwrap().modified().unwrap();
    assert_eq!((shown("d/old"), shown("d")), (at(-1), at(1_000_000_000)));
    set(&mounted.subject.file("d"), 1_600_000_000);
    until("the new time is shown", || shown("d") == at(1_600_000_000));
}

#[test]
fn known_names_cause_no_request() {
    let wanted: Vec<String> = (0..300).map(|number| format!("d/name-{number:06}")).collect();
    let mounted = Mounted::start(Backend::ServeS3, |subject| subject.place_many(&wanted));
    assert!(mounted.path("d/name-000123").exists());
    let asked = mounted.requests();
    for name in &wanted {
        assert!(mounted.path(name).exists());
    }
    assert!(!mounted.path("d/nothing").exists());
    assert_eq!(names(&mounted, "d").len(), wanted.len());
    assert_eq!(mounted.requests(), asked, "one page has all of it");
}

#[test]
fn names_of_any_bytes_are_shown_where_the_place_has_them() {
    let mounted = Mounted::start(Backend::Local, |subject| {
        let directory = subject.file("");
        fs::write(directory.join(std::ffi::OsStr::from_bytes(b"\xff\xfe bytes\n")), b"content").unwrap();
    });
    let found: Vec<_> =
        fs::read_dir(mounted.directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].file_name().unwrap().as_bytes(), b"\xff\xfe bytes\n");
    assert_eq!(fs::read(&found[0]).unwrap(), b"content");
}

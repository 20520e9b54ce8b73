//! Tests that cached files are read without the store: complete files are passed through, which
//! takes root. Also tests the extended attributes that describe them.

use crate::support;

use std::fs;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use firstbyte_mount::{MountOptions, PassthroughUse};
use firstbyte_testkit::{Backend, bytes, lacks_root, until};
use rustix::fs::{Advice, OFlags, fadvise};
use support::{Mounted, counter, options};

fn counted() -> MountOptions {
    MountOptions { metrics: Some("127.0.0.1:0".parse().unwrap()), ..options() }
}

fn attribute(path: &Path, name: &str) -> String {
    let mut value = vec![0; 4096];
    let length = rustix::fs::getxattr(path, format!("user.firstbyte.{name}"), &mut value)
        .unwrap_or_else(|error| panic!("{name} of {}: {error}", path.display()));
    String::from_utf8(value[..length].to_vec()).unwrap()
}

/// Waits until a file is complete and verified. Verification follows after the last block.
fn until_hydrated(path: &Path) {
    until(&format!("{} is hydrated", path.display()), || attribute(path, "state") == "hydrated");
}

#[test]
fn a_hydrated_file_is_read_by_the_kernel_itself() {
    if lacks_root() {
        return;
    }
    let content = bytes(5, 3_000_001);
    let mounted = Mounted::with(Backend::ServeS3, &counted(), |subject| subject.place("x", &content));
    assert!(mounted.read("x") == content);
    until_hydrated(&mounted.path("x"));
    let (requests, asked) = (mounted.requests(), counter(&mounted, "read_bytes_total"));
    assert!(mounted.read("x") == content);
    let file = fs::File::open(mounted.path("x")).unwrap();
    let mut some = vec![0; 5000];
    file.read_exact_at(&mut some, 2_000_000).unwrap();
    assert!(some == content[2_000_000..][..5000]);
    assert_eq!(counter(&mounted, "passed_through_opens_total"), 2);
    assert_eq!((mounted.requests(), counter(&mounted, "read_bytes_total")), (requests, asked));
}

#[test]
fn a_file_small_enough_to_be_waited_for_is_whole_when_it_is_open_and_a_larger_one_comes_as_it_is_read() {
    if lacks_root() {
        return;
    }
    let (small, large) = (bytes(7, 3_000_001), bytes(8, 3_000_002));
    let options = MountOptions { eager: 3_000_001, ..counted() };
    let mounted = Mounted::with(Backend::ServeS3, &options, |subject| {
        subject.place("small", &small);
        subject.place("large", &large);
        subject.place("empty", b"");
    });
    let first = fs::File::open(mounted.path("small")).unwrap();
    assert_eq!(attribute(&mounted.path("small"), "state"), "hydrated");
    let second = fs::File::open(mounted.path("small")).unwrap();
    let requests = mounted.requests();
    for file in [first, second] {
        let mut read = vec![0; small.len()];
        file.read_exact_at(&mut read, 0).unwrap();
        assert!(read == small);
    }
    assert_eq!((mounted.requests(), counter(&mounted, "passed_through_opens_total")), (requests, 2));
    let file = fs::File::open(mounted.path("large")).unwrap();
    assert_eq!(attribute(&mounted.path("large"), "bytes"), "0");
    drop(file);
    assert!(mounted.read("large") == large);
    assert_eq!(counter(&mounted, "passed_through_opens_total"), 2);
    assert!(mounted.read("empty").is_empty());
}

#[test]
fn the_third_file_of_a_series_is_fetched_after_the_second() {
    if lacks_root() {
        return;
    }
    let size = 2_000_000;
    let mounted =
        Mounted::with(Backend::ServeS3, &MountOptions { eager: size + 3, ..counted() }, |subject| {
            (1..=5).for_each(|number| {
                subject.place(&format!("d/v{number:02}.x"), &bytes(number, 2_000_000 + number as usize))
            });
        });
    let open = |name: &str| fs::File::open(mounted.path(name)).unwrap();
    let here = |name: &str| attribute(&mounted.path(name), "bytes");
    let _first = open("d/v01.x");
    let _second = open("d/v02.x");
    until_hydrated(&mounted.path("d/v03.x"));
    assert_eq!(here("d/v04.x"), "0");
    // The next file is too large for an open to wait for it.
    let requests = mounted.requests();
    let third = open("d/v03.x");
    let mut read = vec![0; 1000];
    third.read_exact_at(&mut read, 1_999_000).unwrap();
    assert!(read == bytes(3, 2_000_003)[1_999_000..][..1000]);
    assert_eq!((here("d/v04.x").as_str(), mounted.requests()), ("0", requests));
    assert_eq!(counter(&mounted, "passed_through_opens_total"), 3);
}

#[test]
fn handles_opened_before_hydration_go_on_and_keep_others_with_them() {
    if lacks_root() {
        return;
    }
    let content = bytes(6, 1 << 20);
    let mounted = Mounted::with(Backend::ServeS3, &counted(), |subject| subject.place("x", &content));
    let before = fs::File::open(mounted.path("x")).unwrap();
    assert!(mounted.read("x") == content);
    until_hydrated(&mounted.path("x"));
    assert!(mounted.read("x") == content);
    let mut read = vec![0; content.len()];
    before.read_exact_at(&mut read, 0).unwrap();
    assert!(read == content);
    assert_eq!(counter(&mounted, "passed_through_opens_total"), 0);
    drop(before);
    // The kernel reports the close with a delay. Until then, new handles are opened in the mode of
    // the first one: the mount itself answers their reads, and the kernel reads no file directly.
    until("the file is closed", || counter(&mounted, "open_files") == 0);
    assert!(mounted.read("x") == content);
    assert_eq!(counter(&mounted, "passed_through_opens_total"), 1);
}

#[test]
fn what_is_cached_is_read_right_at_any_place_where_the_kernel_has_to_ask() {
    let content = bytes(10, (3 << 20) + 5000);
    let options = MountOptions { passthrough: PassthroughUse::Never, ..counted() };
    let mut mounted = Mounted::with(Backend::ServeS3, &options, |subject| subject.place("x", &content));
    assert!(mounted.read("x") == content);
    until_hydrated(&mounted.path("x"));
    mounted.again(&options);
    assert!(mounted.read("x") == content);
    // Direct reads bypass the kernel's page cache, so the mount gets exactly these requests.
    let direct = i32::try_from(OFlags::DIRECT.bits()).unwrap();
    let file = fs::File::options().read(true).custom_flags(direct).open(mounted.path("x")).unwrap();
    for (at, length) in [(0, 1 << 20), (1, 200_000), (4095, 131_073), (131_071, 65_536), (3 << 20, 70_000)] {
        let mut read = vec![0; length];
        let expected = &content[at..content.len().min(at + length)];
        assert_eq!(file.read_at(&mut read, at as u64).unwrap(), expected.len());
        assert!(read[..expected.len()] == *expected, "{length} bytes at {at}");
    }
    assert_eq!(counter(&mounted, "fetched_bytes_total{class=\"demand\"}"), 0);
}

#[test]
fn a_file_mapped_while_it_is_passed_through_reads_the_same() {
    let content = bytes(8, 1 << 20);
    let mounted = Mounted::start(Backend::ServeS3, |subject| subject.place("x", &content));
    assert!(mounted.read("x") == content);
    until_hydrated(&mounted.path("x"));
    let output = std::process::Command::new("python3")
        .args(["-c", "import mmap,sys; f=open(sys.argv[1],'rb'); sys.stdout.buffer.write(mmap.mmap(f.fileno(),0,prot=mmap.PROT_READ))"])
        .arg(mounted.path("x"))
        .output()
        .unwrap();
    assert!(output.stdout == content, "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn attributes_tell_what_is_here() {
    let content = bytes(9, 10 * (128 << 10));
    let mounted = Mounted::start(Backend::ServeS3, |subject| {
        subject.place("d/x", &content);
        subject.place("empty", b"");
    });
    let path = mounted.path("d/x");
    assert_eq!(attribute(&path, "state"), "released");
    assert_eq!((attribute(&path, "percent"), attribute(&path, "bytes")), ("0".into(), "0".into()));
    assert_eq!(attribute(&path, "location"), "s3://bucket/d/x");
    assert!(attribute(&path, "version").contains("etag"));
    assert_eq!(attribute(&mounted.path("empty"), "state"), "hydrated");
    fs::File::open(&path).unwrap().read_exact_at(&mut [0; 10], 0).unwrap();
    let (percent, here) = (attribute(&path, "percent"), attribute(&path, "bytes"));
    assert!(here.parse::<usize>().unwrap() >= 128 << 10, "{here}");
    assert!(percent.parse::<u32>().unwrap() >= 10, "{percent}");
    assert!(attribute(&path, "last_open").parse::<u64>().unwrap() > 1_700_000_000);
    assert!(mounted.read("d/x") == content);
    until_hydrated(&path);
    assert_eq!(
        (attribute(&path, "percent"), attribute(&path, "bytes")),
        ("100".into(), content.len().to_string())
    );
    // Programs that copy attributes find none.
    assert_eq!(rustix::fs::listxattr(&path, &mut [0; 4096]), Ok(0));
    let none = |name: &str| rustix::fs::getxattr(&path, name, &mut [0; 10]).unwrap_err();
    assert_eq!(none("user.other"), rustix::io::Errno::NODATA);
    assert_eq!(none("system.posix_acl_access"), rustix::io::Errno::OPNOTSUPP);
}

#[test]
fn small_files_read_in_order_are_fetched_before_they_are_opened() {
    let files: Vec<(String, Vec<u8>)> = (0..200)
        .map(|number| (format!("d/name-{number:04}"), bytes(number, 1000 + 37 * number as usize)))
        .collect();
    let mounted = Mounted::start(Backend::ServeS3, |subject| {
        files.iter().for_each(|(name, content)| subject.place(name, content));
    });
    assert_eq!(fs::read_dir(mounted.path("d")).unwrap().count(), files.len());
    for (name, content) in &files[..3] {
        assert!(mounted.read(name) == *content);
    }
    // Three files were opened in order, so the files after them are fetched ahead.
    until_hydrated(&mounted.path("d/name-0010"));
    assert_eq!(
        attribute(&mounted.path("d/name-0199"), "state"),
        "released",
        "not all of a directory at once"
    );
    for (name, content) in &files[3..] {
        assert!(mounted.read(name) == *content, "{name}");
    }
}

#[test]
fn a_second_mount_finds_what_the_first_left() {
    if lacks_root() {
        return;
    }
    let content = bytes(10, 1 << 20);
    let mut mounted = Mounted::with(Backend::ServeS3, &counted(), |subject| subject.place("x", &content));
    assert!(mounted.read("x") == content);
    until_hydrated(&mounted.path("x"));
    mounted.again(&counted());
    let requests = mounted.requests();
    assert_eq!(attribute(&mounted.path("x"), "state"), "hydrated");
    assert!(mounted.read("x") == content);
    assert_eq!(counter(&mounted, "passed_through_opens_total"), 1);
    assert!(mounted.requests() <= requests + 1, "names are asked for, bytes are not");
}

#[test]
fn the_kernel_gets_a_small_cached_file_with_its_first_open() {
    let content = bytes(12, 100_001);
    let mut mounted = Mounted::with(Backend::ServeS3, &counted(), |subject| subject.place("x", &content));
    assert!(mounted.read("x") == content);
    mounted.again(&counted());
    let handed = |mounted: &Mounted| counter(mounted, "handed_over_opens_total");
    assert!(mounted.read("x") == content);
    assert_eq!(
        (handed(&mounted), counter(&mounted, "read_bytes_total")),
        (1, 0),
        "the kernel asks for nothing"
    );
    // The kernel requests the pages that it has dropped. The content is not given to the kernel
    // again, because the kernel may still have other pages.
    let file = fs::File::open(mounted.path("x")).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    assert!(mounted.read("x") == content);
    assert_eq!(handed(&mounted), 1);
    assert!(counter(&mounted, "read_bytes_total") > 90_000);
    assert_eq!(counter(&mounted, "passed_through_opens_total"), 0);
}

#[test]
fn a_file_that_was_evicted_and_fetched_again_is_passed_through_again() {
    if lacks_root() {
        return;
    }
    let (first, second) = (bytes(1, 300_000), bytes(2, 300_001));
    let mounted = Mounted::with(Backend::ServeS3, &counted(), |subject| {
        subject.place("d/a", &first);
        subject.place("d/b", &second);
    });
    // When files are read in order, the next file is fetched ahead, and the daemon holds that file
    // open.
    assert_eq!(fs::read_dir(mounted.path("d")).unwrap().count(), 2);
    assert!(mounted.read("d/a") == first);
    let path = mounted.path("d/b");
    let through = || counter(&mounted, "passed_through_opens_total");
    for round in 0..3 {
        until_hydrated(&path);
        let before = through();
        assert!(mounted.read("d/b") == second);
        assert_eq!(through(), before + 1, "round {round}");
        // The kernel reports the close with a delay, and a verified file may still be syncing to
        // the disk. Until both have happened, no block is evicted.
        let release = || mounted.cache().release(&mounted.subject.at("d/b")).unwrap();
        until("the file is released", || release().busy == 0);
        assert_ne!(attribute(&path, "state"), "hydrated", "round {round}");
        let file = fs::File::open(&path).unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        let mut read = vec![0; second.len()];
        file.read_exact_at(&mut read, 0).unwrap();
        assert!(read == second);
    }
}

#[test]
fn the_other_files_of_a_database_are_fetched_with_the_first() {
    const LARGE: usize = 24 << 20;
    let sizes = [("d/db.nhr", 300_000), ("d/db.nin", 200_001), ("d/db.nsq", LARGE), ("d/other.nhr", 1000)];
    let mounted = Mounted::with(Backend::ServeS3, &counted(), |subject| {
        sizes.iter().for_each(|(name, size)| subject.place(name, &bytes(4, *size)));
    });
    assert!(mounted.read("d/db.nin") == bytes(4, 200_001));
    until_hydrated(&mounted.path("d/db.nhr"));
    let cached = |name: &str| {
        let percent = attribute(&mounted.path(name), "percent");
        percent.trim_end_matches('%').parse::<f64>().unwrap()
    };
    until("the large one begins", || cached("d/db.nsq") > 0.0);
    assert!(cached("d/db.nsq") < 10.0, "only its head is fetched before it is opened");
    assert_eq!(cached("d/other.nhr"), 0.0);
}

#[test]
fn a_file_larger_than_the_cache_is_opened_at_once_and_each_byte_of_it_fetched_once() {
    let content = bytes(3, 24 << 20);
    let options = MountOptions { eager: 64 << 20, ..counted() };
    let mounted =
        Mounted::limited(Backend::ServeS3, &options, Some(4 << 20), |subject| subject.place("x", &content));
    assert_eq!(fs::metadata(mounted.path("x")).unwrap().len(), 24 << 20);
    let before = mounted.received();
    let file = fs::File::open(mounted.path("x")).unwrap();
    assert!(mounted.received() - before < 100_000, "{} bytes for an open", mounted.received() - before);
    let mut read = vec![0; 1 << 20];
    for (index, expected) in content.chunks(1 << 20).enumerate() {
        file.read_exact_at(&mut read, (index as u64) << 20).unwrap();
        assert!(read == *expected);
    }
    let fetched = mounted.received() - before;
    assert!(fetched <= 28 << 20, "{fetched} bytes on the wire");
}

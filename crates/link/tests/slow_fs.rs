//! Tests the slow file system through real mounts: it shows the content of the directory, counts
//! requests, and leaves nothing mounted.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;
use std::time::Duration;

use firstbyte_link::{BurstBucket, Error, LinkRate, SlowFs, SlowFsConfig};
use firstbyte_testkit::wait_limit;
use tempfile::TempDir;

/// Length of the large file, in bytes: several of the kernel's largest requests, and a part of a
/// page.
const FILE_LENGTH: usize = 3 * (1 << 20) + 12_345;

/// A directory to mirror, and the mount points for it.
struct World {
    source: TempDir,
    mounts: Vec<TempDir>,
}

impl World {
    fn new(mounts: usize) -> Self {
        let source = tempfile::tempdir().unwrap();
        let at = source.path();
        fs::write(at.join("big"), content(1, FILE_LENGTH)).unwrap();
        fs::write(at.join("empty"), b"").unwrap();
        fs::create_dir_all(at.join("deep/er")).unwrap();
        for number in 0..300 {
            fs::write(at.join(format!("deep/er/{number:03}")), number.to_string()).unwrap();
        }
        symlink("../big", at.join("deep/link")).unwrap();
        Self {
            source,
            mounts: std::iter::repeat_with(|| tempfile::tempdir().unwrap()).take(mounts).collect(),
        }
    }

    fn config(&self) -> SlowFsConfig {
        SlowFsConfig::new(self.source.path(), self.mounts.iter().map(TempDir::path))
    }

    fn at(&self, mount: usize, name: &str) -> std::path::PathBuf {
        self.mounts[mount].path().join(name)
    }
}

/// Returns pseudo-random bytes that depend on `seed`.
fn content(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

fn rate(megabytes: u64) -> Option<LinkRate> {
    Some(LinkRate::bytes_per_second(megabytes * 1_000_000))
}

/// Describes everything below a directory: path, kind and mode, length, owner, time, link target.
fn tree(root: &Path) -> Vec<String> {
    let (mut found, mut left) = (Vec::new(), vec![root.to_owned()]);
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let path = entry.path();
            let of = fs::symlink_metadata(&path).unwrap();
            assert_eq!(entry.file_type().unwrap(), of.file_type());
            let name = path.strip_prefix(root).unwrap().to_owned();
            let target = fs::read_link(&path).ok();
            let (times, owner) = ((of.mtime(), of.mtime_nsec(), of.ctime()), (of.uid(), of.gid()));
            found.push(format!(
                "{name:?} {:o} {} {} {owner:?} {times:?} {target:?}",
                of.mode(),
                of.len(),
                of.nlink()
            ));
            if of.is_dir() {
                left.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn names_attributes_and_content_are_those_of_the_directory() {
    let world = World::new(1);
    let limits = SlowFsConfig { rtt: Duration::from_millis(1), rate: rate(200), ..world.config() };
    for config in [world.config(), limits] {
        let mut fs = SlowFs::start(&config).unwrap();
        assert_eq!(tree(world.mounts[0].path()), tree(world.source.path()));
        let expected = content(1, FILE_LENGTH);
        let file = File::open(world.at(0, "big")).unwrap();
        // Reads parts of the file first, in no order and beyond its end. Then reads the whole file.
        let mut offset = 7;
        for _ in 0..100 {
            offset = offset * 48_271 % 0x7fff_ffff;
            let (from, length) = (offset % FILE_LENGTH, 1 + offset % 70_000);
            let mut part = vec![0; length];
            let read = file.read_at(&mut part, from as u64).unwrap();
            assert_eq!(read, length.min(FILE_LENGTH - from));
            assert!(part[..read] == expected[from..from + read], "{length} bytes at {from}");
        }
        assert!(fs::read(world.at(0, "deep/link")).unwrap() == expected);
        assert_eq!(fs::read(world.at(0, "empty")).unwrap(), b"");
        assert_eq!(fs::read(world.at(0, "deep/er/042")).unwrap(), b"42");
        assert_eq!(fs::read(world.at(0, "none")).unwrap_err().kind(), std::io::ErrorKind::NotFound);
        assert_eq!(
            fs::write(world.at(0, "new"), b"").unwrap_err().kind(),
            std::io::ErrorKind::ReadOnlyFilesystem
        );
        drop(file);
        fs.unmount().unwrap();
        assert_eq!(fs::read_dir(world.mounts[0].path()).unwrap().count(), 0, "still mounted");
    }
}

#[test]
fn each_mount_has_a_page_cache_of_its_own_and_counts_what_it_is_asked() {
    let world = World::new(4);
    let fs =
        SlowFs::start(&SlowFsConfig { rate: rate(400), per_client: rate(300), ..world.config() }).unwrap();
    let read = |mount: usize| assert!(fs::read(world.at(mount, "big")).unwrap() == content(1, FILE_LENGTH));
    std::thread::scope(|scope| (0..4).for_each(|mount| drop(scope.spawn(move || read(mount)))));
    let first = fs.counters();
    for (mount, counted) in first.iter().enumerate() {
        assert_eq!(counted.directory, world.mounts[mount].path());
        assert_eq!(counted.bytes_to_client, FILE_LENGTH as u64, "{counted:?}");
        assert!(counted.reads > 0 && counted.requests > counted.reads, "{counted:?}");
    }
    // The second open reads from the page cache, but looks up the name again.
    read(2);
    let second = fs.counters();
    assert_eq!(second[2].bytes_to_client, FILE_LENGTH as u64, "not cached");
    assert!(second[2].requests > first[2].requests);
    assert_eq!([&second[0], &second[1], &second[3]], [&first[0], &first[1], &first[3]]);
}

#[test]
fn a_file_that_was_changed_is_read_anew_when_it_is_opened() {
    let world = World::new(1);
    let _fs = SlowFs::start(&world.config()).unwrap();
    assert!(fs::read(world.at(0, "big")).unwrap() == content(1, FILE_LENGTH));
    fs::write(world.source.path().join("big"), content(2, FILE_LENGTH)).unwrap();
    assert!(fs::read(world.at(0, "big")).unwrap() == content(2, FILE_LENGTH));
}

#[test]
fn a_slow_file_system_ends_when_another_program_has_unmounted_it() {
    let world = World::new(2);
    let mut fs = SlowFs::start(&world.config()).unwrap();
    assert!(!fs.wait(Duration::ZERO));
    for mount in &world.mounts {
        let done = std::process::Command::new("fusermount3").arg("-u").arg(mount.path()).status().unwrap();
        assert!(done.success());
    }
    assert!(fs.wait(wait_limit()));
    fs.unmount().unwrap();
}

#[test]
fn a_file_that_is_open_does_not_keep_a_mount() {
    let world = World::new(1);
    let mut fs = SlowFs::start(&world.config()).unwrap();
    let open = File::open(world.at(0, "big")).unwrap();
    fs.unmount().unwrap();
    assert_eq!(fs::read_dir(world.mounts[0].path()).unwrap().count(), 0, "still mounted");
    drop(open);
    assert!(fs.wait(wait_limit()));
}

#[test]
fn what_cannot_be_shown_or_mounted_at_is_named_and_nothing_stays_mounted() {
    let world = World::new(1);
    let (source, mount) = (world.source.path().to_owned(), world.mounts[0].path().to_owned());
    let full = tempfile::tempdir().unwrap();
    fs::write(full.path().join("file"), b"").unwrap();
    let none = full.path().join("none");
    let file = full.path().join("file");
    for (to, mounts, place, why) in [
        (&none, vec![&mount], &none, "cannot be shown"),
        (&file, vec![&mount], &file, "give a directory"),
        (&source, vec![&mount, &none], &none, "mkdir -p"),
        (&source, vec![&file], &file, "use an empty directory"),
        (&source, vec![&mount, &full.path().to_owned()], &full.path().to_owned(), "not empty"),
        (&source, vec![&mount, &mount], &mount, "given twice"),
        (&source, vec![&source.join("deep/er")], &source.join("deep/er"), "outside"),
    ] {
        let error = SlowFs::start(&SlowFsConfig::new(to, mounts)).unwrap_err().to_string();
        assert!(error.starts_with(&*place.to_string_lossy()) && error.contains(why), "{error}");
        assert_eq!(fs::read_dir(&mount).unwrap().count(), 0, "still mounted");
    }
    let burst = Some(BurstBucket { bytes: 1, rate: LinkRate::bytes_per_second(1) });
    let error = SlowFs::start(&SlowFsConfig { burst, ..world.config() }).unwrap_err();
    assert!(matches!(error, Error::Burst { .. }), "{error}");
}

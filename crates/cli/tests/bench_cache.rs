//! Another process warms a cache after `bench` has emptied it and before the run. Such a run must
//! be marked, and an undisturbed run must not.

use crate::support;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use firstbyte_bench::cache::{self, CachedObject, Spec, Tools, Traffic};
use firstbyte_bench::data;
use firstbyte_bench::mounts::{self, Mounts};
use firstbyte_bench::result::CacheState;
use firstbyte_testkit::{ACCESS_KEY, BUCKET, SECRET_KEY};
use support::World;
use support::place::Place;
use support::servers::S3;

const SIZE: u64 = 3 << 20;

/// Observes the cache around a run that itself reads nothing. Returns true if the cache kept its
/// state, and the marks of the run. `adversary` is called after the cache was emptied and before it
/// is observed.
fn marks(spec: &Spec, tools: &Tools, adversary: impl FnOnce()) -> (Option<bool>, Vec<String>) {
    let mut prepared = cache::prepare(spec, tools).unwrap();
    adversary();
    prepared.observe_before();
    let traffic = Traffic { wire_bytes: Some(SIZE), requests: Some(1), storage_bytes: None };
    let (evidence, marks) = cache::conclude(prepared, &traffic);
    (evidence.held, marks)
}

#[track_caller]
fn assert_only_the_adversary_is_seen(spec: &Spec, tools: &Tools, adversary: impl FnOnce()) {
    let (held, quiet) = marks(spec, tools, || {});
    assert_eq!((held, quiet), (Some(true), vec![]));
    let (held, warmed) = marks(spec, tools, adversary);
    assert_eq!(held, Some(false));
    assert!(
        warmed.iter().all(|mark| mark.starts_with("meant to be cold, but")) && !warmed.is_empty(),
        "{warmed:?}"
    );
}

/// Makes a directory on a disk. A directory in memory does not suffice, because files on tmpfs are
/// always in memory; the build directory may be on tmpfs too.
fn on_a_disk() -> tempfile::TempDir {
    const TMPFS: i64 = 0x0102_1994;
    let is_disk = |place: &&str| rustix::fs::statfs(*place).is_ok_and(|found| found.f_type != TMPFS);
    let place = [env!("CARGO_TARGET_TMPDIR"), "/var/tmp"].into_iter().find(is_disk);
    tempfile::tempdir_in(place.expect("/var/tmp on a disk")).unwrap()
}

fn cold(files: Vec<PathBuf>) -> Spec {
    Spec { state: CacheState::Cold, files, expected_bytes: Some(SIZE), ..Spec::default() }
}

fn read(path: &Path) {
    assert_eq!(fs::read(path).unwrap().len() as u64, SIZE);
}

#[test]
fn a_path_that_was_read() {
    let directory = on_a_disk();
    let path = directory.path().join("data");
    data::file(&path, SIZE, 1).unwrap();
    File::open(&path).unwrap().sync_all().unwrap();
    assert_only_the_adversary_is_seen(&cold(vec![path.clone()]), &Tools::default(), || read(&path));
}

#[test]
fn a_file_of_a_mount_that_was_read() {
    let server = S3::ours();
    data::file(&server.root.join(BUCKET).join("data"), SIZE, 1).unwrap();
    let place = Place::new(World::with_s3(&server));
    place.mount(&format!("s3://{BUCKET}"), &[]);
    let path = place.directory.join("data");
    assert_only_the_adversary_is_seen(&cold(vec![path.clone()]), &Tools::default(), || read(&path));
}

#[test]
fn an_object_that_was_hydrated() {
    let server = S3::ours();
    data::file(&server.root.join(BUCKET).join("data"), SIZE, 1).unwrap();
    let directory = on_a_disk();
    let (location, cache) = (format!("s3://{BUCKET}/data"), directory.path().join("cache"));
    let env = [
        ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
        ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
        ("AWS_REGION", "us-east-1"),
    ];
    let env: Vec<(String, String)> = env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let firstbyte = PathBuf::from(env!("CARGO_BIN_EXE_firstbyte"));
    let options = vec!["--endpoint-url".to_owned(), server.url.clone()];
    let tools = Tools { firstbyte: firstbyte.clone(), options: options.clone(), env: env.clone() };
    let spec = Spec {
        objects: vec![CachedObject { location: location.clone(), cache: cache.clone() }],
        ..cold(vec![])
    };
    assert_only_the_adversary_is_seen(&spec, &tools, || {
        let mut command = Command::new(firstbyte);
        command.args(&options).args(["hydrate", "--wait", "--cache"]).arg(&cache).arg(&location).envs(env);
        assert!(command.status().unwrap().success());
    });
}

/// The kernel does not report which names it has cached. On ext4, the number of reads from the
/// device shows it.
#[test]
fn names_that_were_listed() {
    let directory = on_a_disk();
    let names = directory.path().join("names");
    data::names(&names, 20_000).unwrap();
    let size = fs::metadata(&names).unwrap().len();
    let judged = |state, from_device| {
        let spec = Spec { state, names: vec![names.clone()], ..Spec::default() };
        let mut prepared = cache::prepare(&spec, &Tools::default()).unwrap();
        prepared.observe_before();
        let (evidence, marks) =
            cache::conclude(prepared, &Traffic { storage_bytes: from_device, ..Traffic::default() });
        (evidence.held, marks.concat())
    };
    let mounts = Mounts::current().unwrap();
    if mounts.of(&mounts::real(&names)).is_none_or(|mount| mount.kind != "ext4") {
        assert_eq!(judged(CacheState::Cold, Some(0)), (None, String::new()));
        return;
    }
    assert_eq!(judged(CacheState::Cold, Some(size)), (Some(true), String::new()));
    let (held, mark) = judged(CacheState::Cold, Some(0));
    assert!(held == Some(false) && mark.contains(&format!("only 0 of {size} bytes came")), "{mark}");
    assert_eq!(judged(CacheState::Cold, None), (None, String::new()));
    assert_eq!(judged(CacheState::Warm, Some(0)), (Some(true), String::new()));
    let (held, mark) = judged(CacheState::Warm, Some(size));
    assert!(held == Some(false) && mark.contains("came from block devices during"), "{mark}");
}

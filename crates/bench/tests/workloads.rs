//! Runs the workloads with each access that needs no mount, on local files and against a server of
//! firstbyte. Checks the content, and that wrong bytes are errors.

use std::fs;
use std::path::{Path, PathBuf};

use firstbyte_bench::data::{self, FileSizes, Spread};
use firstbyte_bench::job::{Error, Job, Metrics, Watch};
use firstbyte_bench::run_job as run;
use firstbyte_testkit::{Backend, Subject, scratch};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Size of the large object: a few blocks and a remainder.
const SIZE: u64 = (3 << 20) + 12_345;
/// Number of small files.
const FILES: u64 = 24;
const SIZES: FileSizes = FileSizes { min: 0, max: 20_000, spread: Spread::Uniform };
const SEED: u64 = 11;

/// A server with the object `big` and the files `small/file_00000`, ..., and the same files as
/// local paths.
struct World {
    server: Subject,
    scratch: TempDir,
    small: u64,
}

impl World {
    fn new() -> Self {
        let server = Subject::start(Backend::ServeS3);
        let scratch = scratch();
        data::file(&server.file("big"), SIZE, SEED).unwrap();
        let small = data::files(&server.file("small"), FILES, &SIZES, SEED).unwrap();
        Self { server, scratch, small }
    }

    fn local(&self, name: &str) -> String {
        self.server.file(name).to_str().unwrap().to_owned()
    }

    fn new_path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Makes a job for each access, with the target and the options that this access needs. Returns
    /// each job with the path of its destination.
    fn jobs(&self, name: &str, accesses: &[&str], parameters: &Value) -> Vec<(Job, PathBuf)> {
        let mut jobs = Vec::new();
        for access in accesses {
            let destination = self.new_path(&format!("to-{access}-{}", jobs.len()));
            let mut job = parameters.as_object().unwrap().clone();
            job.insert("access".into(), json!(access));
            match *access {
                "path" => {
                    job.insert("target".into(), json!(self.local(name)));
                }
                _ => {
                    job.insert("target".into(), json!(format!("s3://bucket/{name}")));
                    job.insert("options".into(), json!(["--endpoint-url", self.server.url]));
                }
            }
            if *access == "cp" {
                job.insert("destination".into(), json!(destination));
            }
            jobs.push((Job::parse(&Value::from(job).to_string()).unwrap(), destination));
        }
        jobs
    }

    /// Runs a workload with each access, and passes the figures to `check`.
    #[track_caller]
    fn check_each(&self, name: &str, accesses: &[&str], parameters: &Value, check: impl Fn(&str, &Metrics)) {
        for (job, _) in self.jobs(name, accesses, parameters) {
            let what = format!("{} by {}", job.workload, job.access);
            let metrics = run(&job, &Watch::start()).unwrap_or_else(|error| panic!("{what}: {error}"));
            let at = |name: &str| metrics.get(name).copied().unwrap_or_default();
            assert!(at("seconds") > 0.0 && at("all_seconds") >= at("ready_seconds"), "{what}: {metrics:?}");
            check(&what, &metrics);
        }
    }

    /// Runs a job that must fail. Returns its error.
    #[track_caller]
    fn error_of(&self, name: &str, access: &str, parameters: &Value) -> Error {
        let (job, destination) = self.jobs(name, &[access], parameters).remove(0);
        let result = run(&job, &Watch::start());
        let _ = fs::remove_dir_all(destination);
        result.err().unwrap_or_else(|| panic!("{parameters} by {access} succeeds"))
    }

    /// Changes one byte of a file. The server and local jobs read the same file.
    fn spoil(&self, name: &str, at: usize) {
        let path = self.server.file(name);
        let mut bytes = fs::read(&path).unwrap();
        bytes[at] ^= 1;
        fs::write(path, bytes).unwrap();
    }
}

const ALL: &[&str] = &["path", "open", "cp"];

#[test]
fn a_probe_reports_what_limits_the_target() {
    let world = World::new();
    world.check_each(
        "small",
        &["open"],
        &json!({"workload": "probe", "limit_seconds": 2}),
        |what, metrics| {
            // On a busy machine the probe may have time for these figures only.
            for name in ["first_byte_seconds", "disk_write_bytes_per_second", "bytes"] {
                assert!(metrics.get(name).is_some_and(|value| *value > 0.0), "{what}: {name} of {metrics:?}");
            }
        },
    );
}

#[test]
fn one_object_is_read_by_every_access_and_wrong_bytes_are_found() {
    let world = World::new();
    let expect = json!({"seed": SEED, "compare": "all"});
    world.check_each("big", ALL, &json!({"workload": "one-big", "expect": expect}), |what, metrics| {
        assert_eq!(metrics["bytes"], SIZE as f64, "{what}");
    });
    let read = json!({"workload": "seq-read", "block": "64KiB", "offset": "128KiB", "size": 200_001, "expect": expect});
    world.check_each("big", ALL, &read, |what, metrics| {
        assert_eq!((metrics["bytes"], metrics["operations"]), (200_001.0, 4.0), "{what}");
        // Four reads have no 99th percentile.
        assert!(metrics["latency_max_seconds"] >= metrics["latency_p50_seconds"], "{what}");
        assert!(!metrics.contains_key("latency_p99_seconds"), "{what}");
    });
    let random = json!({"workload": "rand-read", "count": 50, "concurrency": 3, "seed": 5, "expect": expect});
    world.check_each("big", ALL, &random, |what, metrics| {
        assert_eq!((metrics["bytes"], metrics["operations"]), (50.0 * 4096.0, 50.0), "{what}");
        assert!(metrics["operations_per_second"] > 0.0, "{what}");
    });
    let mapped = json!({"workload": "mapped", "concurrency": 2, "expect": expect});
    world.check_each("big", &["path", "cp"], &mapped, |what, metrics| {
        assert_eq!(metrics["bytes"], SIZE as f64, "{what}");
    });

    // The changed byte is the first one of a page, which `mapped` reads.
    world.spoil("big", 128 << 10);
    for access in ALL {
        for job in [&json!({"workload": "one-big", "expect": expect}), &read] {
            let error = world.error_of("big", access, job);
            assert!(error.is_wrong_content(), "{access}: {error}");
            assert!(error.to_string().ends_with("wrong content at byte 131072"), "{access}: {error}");
        }
    }
    assert!(world.error_of("big", "path", &mapped).is_wrong_content());
    // The reads cover every block of the object.
    let random = json!({"workload": "rand-read", "count": 20_000, "seed": 5, "expect": expect});
    assert!(world.error_of("big", "path", &random).is_wrong_content());
    // By default only the ends of each read are compared, and the changed byte is one.
    let ends = json!({"workload": "seq-read", "block": "64KiB", "expect": {"seed": SEED}});
    assert!(world.error_of("big", "open", &ends).is_wrong_content());
}

#[test]
fn open_goes_through_its_stages() {
    let world = World::new();
    let stages = ["ready", "opened", "first_byte", "part", "all"];
    let job = json!({"workload": "open", "read": "50%", "expect": {"seed": SEED}});
    world.check_each("big", ALL, &job, |what, metrics| {
        let times: Vec<f64> = stages.iter().map(|stage| metrics[&format!("{stage}_seconds")]).collect();
        assert!(times.is_sorted(), "{what}: {times:?}");
        assert_eq!(metrics["part_bytes"], f64::from(1 << 20), "{what}");
        assert_eq!(metrics["bytes"], (1 + (1 << 20) + SIZE) as f64, "{what}");
    });
    let job = json!({"workload": "cold-start", "until": "first-byte", "object": "big"});
    world.check_each("", &["path", "open", "cp"], &job, |what, metrics| {
        assert_eq!(metrics["bytes"], 1.0, "{what}");
        assert!(!metrics.contains_key("part_seconds"), "{what}");
    });
    let missing = world.error_of("none", "open", &json!({"workload": "open"})).to_string();
    assert!(missing.contains("none") && missing.contains("not found"), "{missing}");
}

#[test]
fn firstbyte_counts_its_requests_and_a_cache_saves_them() {
    let world = World::new();
    let cache = world.new_path("cache");
    let read = json!({"workload": "one-big", "cache": cache, "expect": {"seed": SEED}});
    world.check_each("big", &["open"], &read, |_, metrics| assert!(metrics["wire_bytes"] >= SIZE as f64));
    world.check_each("big", &["open"], &read, |_, metrics| assert!(metrics["wire_bytes"] < 1000.0));
    let hydrate = json!({"workload": "hydrate", "cache": world.new_path("other"), "count": FILES});
    world.check_each("small/", &["open"], &hydrate, |_, metrics| {
        assert_eq!((metrics["bytes"], metrics["fetched_bytes"]), (world.small as f64, world.small as f64));
    });
    let again = json!({"workload": "hydrate", "cache": world.new_path("other")});
    world.check_each("small/file_00003", &["open"], &again, |_, metrics| {
        assert_eq!(metrics["fetched_bytes"], 0.0);
    });
}

#[test]
fn many_files_are_read_in_parallel_and_in_sequence() {
    let world = World::new();
    let expect = json!({"seed": SEED, "compare": "all"});
    for order in ["parallel", "sequential"] {
        let job = json!({"workload": "many-small", "order": order, "concurrency": 4, "count": FILES, "expect": expect});
        world.check_each("small", ALL, &job, |what, metrics| {
            assert_eq!(
                (metrics["files"], metrics["bytes"]),
                (FILES as f64, world.small as f64),
                "{what} {order}"
            );
        });
        fs::remove_dir_all(world.new_path("to-cp-2")).unwrap();
    }
    // For a target above the directory, the names begin with the directory.
    let below =
        json!({"workload": "many-small", "names": "small/..small0", "count": FILES, "expect": expect});
    world.check_each("", ALL, &below, |what, metrics| {
        assert_eq!(metrics["bytes"], world.small as f64, "{what}");
    });
    fs::remove_dir_all(world.new_path("to-cp-2")).unwrap();
    let some = json!({"workload": "many-small", "names": "file_00003..file_00007", "expect": expect});
    world.check_each("small", ALL, &some, |what, metrics| assert_eq!(metrics["files"], 4.0, "{what}"));

    let count = json!({"workload": "many-small", "count": FILES + 1});
    for access in ALL {
        let error = world.error_of("small", access, &count).to_string();
        assert!(error.contains(&format!("{FILES} files instead of {}", FILES + 1)), "{access}: {error}");
    }
    let none = json!({"workload": "many-small", "names": "x.."});
    assert!(world.error_of("small", "open", &none).to_string().contains("no file with such a name"));
    fs::create_dir(world.server.file("empty")).unwrap();
    let empty = world.error_of("empty", "path", &json!({"workload": "many-small"})).to_string();
    assert!(empty.contains("holds no file"), "{empty}");

    let victim = (0..FILES).map(data::name_of).find(|name| data::size_of(name, &SIZES, SEED) > 2000).unwrap();
    world.spoil(&format!("small/{victim}"), 1000);
    let check = json!({"workload": "many-small", "expect": expect});
    for access in ALL {
        let error = world.error_of("small", access, &check);
        assert!(error.is_wrong_content() && error.to_string().contains(&victim), "{access}: {error}");
    }
}

#[test]
fn trees_are_copied_to_a_destination_and_uploaded() {
    let world = World::new();
    for access in ["cp", "path"] {
        let to = world.new_path(&format!("tree-{access}"));
        let mut job = json!({"workload": "copy-tree", "count": FILES, "expect": {"seed": SEED}});
        if access == "path" {
            job["destination"] = json!(to);
        }
        world.check_each("small", &[access], &job, |what, metrics| {
            assert_eq!(metrics["bytes"], world.small as f64, "{what}");
        });
    }
    data::check_files(&world.new_path("to-cp-0"), FILES, &SIZES, SEED).unwrap();
    data::check_files(&world.new_path("tree-path"), FILES, &SIZES, SEED).unwrap();

    let upload = |source: &Path| json!({"workload": "upload", "source": source, "write": true});
    world.check_each("up", &["cp"], &upload(&world.server.file("small")), |what, metrics| {
        assert_eq!((metrics["objects"], metrics["bytes"]), (FILES as f64, world.small as f64), "{what}");
    });
    data::check_files(&world.server.file("up"), FILES, &SIZES, SEED).unwrap();
    world.check_each("copy", &["cp"], &upload(&world.server.file("big")), |_, _| {});
    data::check_file(&world.server.file("copy"), SIZE, SEED).unwrap();
}

#[test]
fn names_are_listed_with_any_buffer() {
    let world = World::new();
    let tree = world.new_path("tree");
    data::tree(&tree, 300, 12).unwrap();
    let list = |target: &Path, access: &str, more: &Value| {
        let mut job = json!({"workload": "list", "target": target, "access": access});
        job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        run(&Job::parse(&job.to_string()).unwrap(), &Watch::start())
    };
    for access in ["path", "open"] {
        for buffer in ["2KiB", "10MiB"] {
            for details in [false, true] {
                let more = json!({"buffer": buffer, "details": details, "recursive": true, "count": 300});
                let metrics = list(&tree, access, &more).unwrap();
                assert_eq!(metrics["operations"], 300.0, "{access} {buffer}");
            }
        }
        let error = list(&tree, access, &json!({"recursive": true, "count": 299})).unwrap_err().to_string();
        assert!(error.contains("300 names instead of 299"), "{error}");
    }
    let first = list(&tree, "path", &json!({})).unwrap()["operations"];
    assert_eq!(first, fs::read_dir(&tree).unwrap().count() as f64);
    let remote = json!({"workload": "list", "count": FILES});
    world.check_each("small/", &["open"], &remote, |_, metrics| assert!(metrics["requests"] >= 1.0));
    let buffer = world.error_of("small/", "open", &json!({"workload": "list", "buffer": 4096}));
    assert!(buffer.to_string().contains("buffer is for local directories"), "{buffer}");
}

#[test]
fn mixed_operations_have_their_shares() {
    let world = World::new();
    let shares = json!({"rand-read": 6, "seq-read": 2, "list": 1, "open": 1, "many-small": 2, "one-big": 0});
    let job = json!({"workload": "mixed", "shares": shares, "count": 240, "concurrency": 3, "object": "file_00001",
        "block": 16, "seed": 4});
    world.check_each("small", &["path", "open"], &job, |what, metrics| {
        assert_eq!(metrics["operations"], 240.0, "{what}");
        let of = |name: &str| metrics[&format!("{name}_operations")];
        let names = ["rand_read", "seq_read", "list", "open", "many_small"];
        assert_eq!(names.map(of).iter().sum::<f64>(), 240.0, "{what}");
        // Expected: half of the tickets; three standard deviations are 23.
        assert!((of("rand_read") - 120.0).abs() < 24.0, "{what}: {}", of("rand_read"));
        assert_eq!(metrics["rand_read_bytes"], of("rand_read") * 16.0, "{what}");
        assert!(!metrics.contains_key("one_big_operations"), "{what}");
    });
    let error =
        world.error_of("small", "path", &json!({"workload": "mixed", "shares": {"upload": 1}})).to_string();
    assert!(error.contains("mixed has no upload"), "{error}");
}

#[test]
fn a_command_gets_the_target_and_its_metrics_are_kept() {
    let world = World::new();
    let line = "test -s \"$0\" && echo note && echo '{\"files\": 7, \"seconds\": 2.5}'";
    let job = json!({"workload": "command", "command": ["sh", "-c", line, "{target}"]});
    world.check_each("big", &["path", "cp"], &job, |what, metrics| {
        assert_eq!((metrics["files"], metrics["seconds"]), (7.0, 2.5), "{what}");
    });
    let job = json!({"workload": "command", "command": ["sh", "-c", "echo first >&2; echo why >&2; exit 3"]});
    let error = world.error_of("big", "path", &job).to_string();
    assert!(error.starts_with("sh: exit status: 3: why"), "{error}");
    let none = json!({"workload": "command", "command": ["no-such-program"]});
    assert!(world.error_of("big", "path", &none).to_string().starts_with("no-such-program: "));
}

#[test]
fn fio_reads_the_requested_bytes_and_creates_no_file() {
    let world = World::new();
    let read = json!({"workload": "fio", "block": "64KiB", "size": "2MiB", "concurrency": 2});
    world.check_each("big", &["path", "cp"], &read, |what, metrics| {
        assert_eq!((metrics["bytes"], metrics["operations"]), (f64::from(2 << 20), 32.0), "{what}");
        assert!(metrics["bytes_per_second"] > 0.0 && metrics["fio_seconds"] >= 0.0, "{what}");
    });
    let random = json!({"workload": "fio", "size": "2MiB", "concurrency": 4,
        "fio": {"pattern": "rand-read", "depth": 4}});
    world.check_each("big", &["path"], &random, |what, metrics| {
        assert_eq!((metrics["bytes"], metrics["operations"]), (f64::from(2 << 20), 512.0), "{what}");
        assert!(metrics["latency_p99_seconds"] >= metrics["latency_p50_seconds"], "{what}");
        assert!(metrics["latency_p50_seconds"] > 0.0, "{what}");
    });
    let large = json!({"workload": "fio", "size": "1GiB"});
    assert!(world.error_of("big", "path", &large).to_string().contains("too small"));
    assert!(world.error_of("none", "path", &json!({"workload": "fio"})).to_string().contains("none"));
    assert!(!world.server.file("none").exists());
    let engine = json!({"workload": "fio", "fio": {"engine": "no-such-engine"}});
    assert!(world.error_of("big", "path", &engine).to_string().starts_with("fio: "));
}

//! A server that stops answering: every call returns within its deadline, however many wait, and
//! work continues when it is back.

use crate::support;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use firstbyte_testkit::{bytes, patience, until};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use support::World;
use support::kills::slow_link;
use support::place::Place;
use support::servers::S3;

const DEADLINE: Duration = Duration::from_secs(3);

/// The promised end of a call: a second after the deadline, scaled by the machine.
fn promised() -> Duration {
    DEADLINE + patience(Duration::from_secs(1))
}

/// Stops a server until dropped.
struct Stopped(Pid);

impl Stopped {
    fn of(server: &S3) -> Self {
        let pid = Pid::from_raw(i32::try_from(server.pid()).unwrap()).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        // The signal is on its way when `kill` returns. This returns when all threads have stopped.
        waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED).unwrap();
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        kill_process(self.0, Signal::CONT).unwrap();
    }
}

/// The longest that any of ten threads doing the same thing needed for it; all of them have to
/// fail.
fn slowest_of_ten(call: impl Fn() -> std::io::Result<()> + Sync) -> Duration {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..10)
            .map(|_| {
                scope.spawn(|| {
                    let began = Instant::now();
                    call().expect_err("the server answers nothing");
                    began.elapsed()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).max().unwrap()
    })
}

fn mounted() -> (S3, Place) {
    let server = S3::ours();
    // Sparse, and so large that nothing fetches all of it ahead.
    fs::File::create(server.root.join("bucket/big")).unwrap().set_len(64 << 30).unwrap();
    fs::write(server.root.join("bucket/other"), "other").unwrap();
    let place = Place::new(World::with_s3(&server));
    let deadline = format!("{}s", DEADLINE.as_secs());
    let options = ["--cache", "cache", "--deadline", &deadline, "--metadata-ttl", "100ms"];
    place.mount("s3://bucket", &options);
    (server, place)
}

/// Reads a page at `offset`.
fn read_page(path: &Path, offset: u64) -> std::io::Result<()> {
    use std::os::unix::fs::FileExt;
    fs::File::open(path)?.read_exact_at(&mut [0; 4096], offset)
}

#[test]
fn ten_readers_of_one_page_fail_within_one_deadline_and_read_again_when_the_server_is_back() {
    let (server, place) = mounted();
    let file = fs::File::open(place.directory.join("big")).unwrap();
    let stopped = Stopped::of(&server);
    let slowest = slowest_of_ten(|| {
        use std::os::unix::fs::FileExt;
        file.read_exact_at(&mut [0; 4096], 40 << 30)
    });
    assert!(slowest < promised(), "{slowest:?}");
    // Calls made now do not wait for a deadline of their own.
    let began = Instant::now();
    slowest_of_ten(|| read_page(&place.directory.join("big"), 50 << 30));
    assert!(began.elapsed() < promised(), "{:?}", began.elapsed());
    drop(stopped);
    until("reads", || read_page(&place.directory.join("big"), 40 << 30).is_ok());
    drop(file);
    place.unmount().ok();
}

#[test]
fn ten_lookups_of_one_name_fail_within_one_deadline() {
    let (server, place) = mounted();
    let stopped = Stopped::of(&server);
    // What was listed when it was mounted is believed for 100 ms: time itself is the event.
    std::thread::sleep(Duration::from_millis(200));
    let slowest = slowest_of_ten(|| fs::metadata(place.directory.join("other")).map(drop));
    assert!(slowest < promised(), "{slowest:?}");
    drop(stopped);
    until("lookups", || fs::metadata(place.directory.join("other")).is_ok());
    place.unmount().ok();
}

#[test]
fn a_copy_survives_an_outage_that_outlasts_several_read_timeouts() {
    let server = S3::ours();
    let content = bytes(2, 24 << 20);
    fs::write(server.root.join("bucket/big"), &content).unwrap();
    let mut world = World::with_s3(&server);
    // Four seconds for all of it, so that it is not over before the server stops.
    let link = slow_link(&server, 12 << 20);
    world.set("FIRSTBYTE_ENDPOINT_URL", &format!("http://{}", link.address()));
    let mut child = world.spawn(&["--read-timeout", "1s", "cp", "s3://bucket/big", "out"]);
    until("a part of it", || link.counters().bytes_to_client >= 1 << 20);
    let stopped = Stopped::of(&server);
    // As long as three timeouts: time itself is tested.
    std::thread::sleep(Duration::from_millis(3_500));
    assert_eq!(child.try_wait().unwrap(), None, "it ended before the server was back");
    drop(stopped);
    assert!(child.wait().unwrap().success());
    assert!(world.read("out") == content);
}

//! A server stops answering. Every call must return within its deadline, however many calls wait,
//! and work must continue when the server is back.

use crate::support;

use std::fs;
use std::path::Path;
use std::time::Duration;

use firstbyte_link::{Link, LinkConfig, RunningLink};
use firstbyte_testkit::{bytes, until};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use support::World;
use support::kills::slow_link;
use support::place::Place;
use support::servers::S3;

const DEADLINE: Duration = Duration::from_secs(3);

/// Maximum number of requests that one call sends until its deadline. A request that gets no answer
/// is repeated after a time limit, which doubles with each repetition. Ten calls that share a
/// deadline also share these requests, so they send no more than one call does. The only exception:
/// if the whole machine pauses for a second, one of the calls repeats its request.
const MAX_REQUESTS_OF_CALL: u64 = 10;

/// A stopped server. Dropping the value makes the server continue.
struct Stopped(Pid);

impl Stopped {
    fn of(server: &S3) -> Self {
        let pid = Pid::from_raw(i32::try_from(server.pid()).unwrap()).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        // `kill` returns before the signal is handled, so wait until all threads of the server have
        // stopped.
        waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED).unwrap();
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        kill_process(self.0, Signal::CONT).unwrap();
    }
}

/// Makes the call in ten threads, all of which must fail. Returns how many requests were on the
/// wire.
fn requests_of_ten(link: &RunningLink, call: impl Fn() -> std::io::Result<()> + Sync) -> u64 {
    let before = link.counters().requests;
    std::thread::scope(|scope| {
        (0..10).for_each(|_| drop(scope.spawn(|| call().expect_err("the server answers nothing"))));
    });
    link.counters().requests - before
}

/// Mounts a server that is behind a link, which counts requests.
fn mounted() -> (S3, RunningLink, Place) {
    let server = S3::ours();
    let link = Link::start(LinkConfig::new("127.0.0.1:0".parse().unwrap(), server.address())).unwrap();
    // The file is sparse, and so large that no read-ahead can fetch all of it.
    fs::File::create(server.root.join("bucket/big")).unwrap().set_len(64 << 30).unwrap();
    fs::write(server.root.join("bucket/other"), "other").unwrap();
    let mut world = World::with_s3(&server);
    world.set("FIRSTBYTE_ENDPOINT_URL", &format!("http://{}", link.address()));
    let place = Place::new(world);
    let deadline = format!("{}s", DEADLINE.as_secs());
    let options = ["--cache", "cache", "--deadline", &deadline, "--metadata-ttl", "100ms"];
    place.mount("s3://bucket", &options);
    (server, link, place)
}

/// Reads one page at `offset`.
fn read_page(path: &Path, offset: u64) -> std::io::Result<()> {
    use std::os::unix::fs::FileExt;
    fs::File::open(path)?.read_exact_at(&mut [0; 4096], offset)
}

#[test]
fn ten_readers_of_one_page_fail_within_one_deadline_and_read_again_when_the_server_is_back() {
    let (server, link, place) = mounted();
    let file = fs::File::open(place.directory.join("big")).unwrap();
    let stopped = Stopped::of(&server);
    let requests = requests_of_ten(&link, || {
        use std::os::unix::fs::FileExt;
        file.read_exact_at(&mut [0; 4096], 40 << 30)
    });
    assert!(requests <= 2 * MAX_REQUESTS_OF_CALL, "{requests}");
    // The outage is known now, so these calls must not each wait for a deadline of their own.
    let requests = requests_of_ten(&link, || read_page(&place.directory.join("big"), 50 << 30));
    assert!(requests <= MAX_REQUESTS_OF_CALL, "{requests}");
    drop(stopped);
    until("reads", || read_page(&place.directory.join("big"), 40 << 30).is_ok());
    drop(file);
    place.unmount().ok();
}

#[test]
fn ten_lookups_of_one_name_fail_within_one_deadline() {
    let (server, link, place) = mounted();
    let stopped = Stopped::of(&server);
    // The mount trusts its listing for 100 ms. Nothing but time ends this trust, so sleep.
    std::thread::sleep(Duration::from_millis(200));
    let requests = requests_of_ten(&link, || fs::metadata(place.directory.join("other")).map(drop));
    assert!(requests <= 2 * MAX_REQUESTS_OF_CALL, "{requests}");
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
    // The download takes 4 s, so the server stops before the download has ended.
    let link = slow_link(&server, 12 << 20);
    world.set("FIRSTBYTE_ENDPOINT_URL", &format!("http://{}", link.address()));
    let mut child = world.spawn(&["--read-timeout", "1s", "cp", "s3://bucket/big", "out"]);
    until("a part of it", || link.counters().bytes_to_client >= 1 << 20);
    let stopped = Stopped::of(&server);
    // Longer than three timeouts. Sleeps, because the test is about time.
    std::thread::sleep(Duration::from_millis(3_500));
    assert_eq!(child.try_wait().unwrap(), None, "it ended before the server was back");
    drop(stopped);
    assert!(child.wait().unwrap().success());
    assert!(world.read("out") == content);
}

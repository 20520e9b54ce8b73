//! Kills a copy at seeded moments until it completes, and counts how many bytes the server had to
//! send or receive again.
//!
//! The link between client and server counts the bytes; the client does not. The counts include the
//! heads of requests and responses, so the bounds leave some room.

use firstbyte_link::{Link, LinkConfig, LinkCounts, LinkRate};
use firstbyte_testkit::until;
use firstbyte_transfer::ChunkPlan;

use super::World;
use super::servers::S3;

/// The `--concurrency` of these runs: the number of chunks in flight.
const CONCURRENCY: u64 = 4;
/// Generous upper limit for the heads, listings and signatures of a run, bytes.
const OVERHEAD_BYTES: u64 = 256 << 10;

/// The outcome of a copy that was killed until it completed.
pub struct Survival {
    /// Number of kills before the copy completed.
    pub kills: u64,
    /// Requests and bytes that the link carried in all runs together.
    pub carried: LinkCounts,
}

impl Survival {
    /// Asserts that no more bytes moved than the length of the object and the cost of each kill. A
    /// kill costs, for each connection, the chunk in flight and the bytes in the socket.
    #[track_caller]
    pub fn assert_bounded(&self, bytes_carried: u64, plan: &ChunkPlan, in_sockets: u64) {
        let (length, chunk) = (plan.size(), plan.chunk_size());
        let under_way = CONCURRENCY * (chunk + in_sockets);
        let bound = length + self.kills * under_way + (self.kills + 1) * OVERHEAD_BYTES;
        assert!(
            bytes_carried <= bound,
            "{bytes_carried} bytes carried for {length}, {} kills, chunks of {chunk}",
            self.kills
        );
    }
}

/// Starts a link to `server` on which `length` bytes take about 2 s, so that kills come in the
/// middle.
pub fn slow_link(server: &S3, length: u64) -> firstbyte_link::RunningLink {
    let config = LinkConfig::new("127.0.0.1:0".parse().unwrap(), server.address());
    Link::start(LinkConfig { rate: Some(LinkRate::bytes_per_second(length / 2)), ..config }).unwrap()
}

/// Runs `cp` with `args`. Kills up to `most` runs, each after a seeded share of half of `length`
/// has passed the link, and lets the last run complete. Kills come only after 64 KiB: before that,
/// an upload may have begun that the program has not recorded yet, and only `--abort-stale` would
/// end it.
pub fn survive(
    world: &World,
    args: &[&str],
    link: firstbyte_link::RunningLink,
    length: u64,
    seed: u64,
    most: u64,
) -> Survival {
    let concurrency = CONCURRENCY.to_string();
    let args = &[&["--concurrency", concurrency.as_str(), "cp"][..], args].concat();
    let mut kills = 0;
    for attempt in 0..most {
        let passed = || {
            let counters = link.counters();
            counters.bytes_to_server + counters.bytes_to_client
        };
        let (before, draw) = (passed(), firstbyte_testkit::bytes_at(seed, attempt * 2, 2));
        let share = u64::from(u16::from_le_bytes([draw[0], draw[1]]));
        let wanted = before + (64 << 10) + length / 2 * share / u64::from(u16::MAX);
        let mut child = world.spawn(args);
        until("bytes", || passed() >= wanted || child.try_wait().unwrap().is_some());
        if child.try_wait().unwrap().is_some() {
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
    }
    world.run(args).ok();
    Survival { kills, carried: link.stop() }
}

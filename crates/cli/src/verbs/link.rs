//! `link`: emulates a slow network with a proxy. With `--mount`, emulates a slow file system.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use clap::Args;
use firstbyte_link::{
    BurstBucket, Chance, Faults, Link, LinkConfig, LinkCounts, LinkRate, MountSnapshot, Preset, RandomDelay,
    Replay, SlowFs, SlowFsConfig, parse_duration,
};
use firstbyte_location::shown;
use firstbyte_store::POLL_INTERVAL;
use serde_json::{Value, json};

use super::{account, address};
use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};
use crate::signals::{self, ForcedEnd};

/// Emulate a slow, far or faulty network or file system
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte link --listen 127.0.0.1:9100 --to 127.0.0.1:9000 --preset function
  firstbyte link --to localhost:9000 --model bucket.toml    # written by `firstbyte probe`
  firstbyte link --to localhost:9000 --rtt 30ms --per-connection 40MB --rate 400MB
  firstbyte link --to localhost:9000 --cut 1% --corrupt 1% --stall 2%:5s --seed 7
  firstbyte link --mount /mnt/a --mount /mnt/b --to data --rtt 2ms --rate 100MB --burst 1GB:600MB/s
Faults are drawn once per request. Prints the address it listens on, or the directories it mounted at.
Prints its counters as JSON on SIGUSR1; ends with Ctrl-C.")]
pub struct LinkArgs {
    /// Address to listen on for clients; port 0 takes a free one [default: 127.0.0.1:0]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Mount the directory of --to here, as a slow file system. Repeat it for several clients, each
    /// with a page cache of its own
    #[arg(long, value_name = "DIR")]
    mount: Vec<PathBuf>,
    /// Server to connect to, or with --mount the directory to show
    #[arg(long, value_name = "HOST:PORT|PATH")]
    to: OsString,
    /// Replay a model: a file that `probe` wrote, or the name of one of `advise models`. The other
    /// options replace its numbers
    #[arg(long, value_name = "FILE|NAME", conflicts_with = "preset")]
    model: Option<PathBuf>,
    /// Use the round trip and the rates of a place: function (0.6 Gbit/s sustained, 20 ms),
    /// function-burst (the same after 292 MB at 1.35 GB/s), region (30 ms, 40 MB/s a connection,
    /// 400 MB/s in all), none
    #[arg(long, value_name = "PLACE")]
    preset: Option<Preset>,
    /// Round-trip time, or with --mount the delay of each request
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    rtt: Option<Duration>,
    /// Total rate of all connections or mounts
    #[arg(long, value_name = "RATE")]
    rate: Option<LinkRate>,
    /// Allow a higher total rate while a bucket of BYTES lasts; it refills at --rate: 1GB:600MB/s
    #[arg(long, value_name = "BYTES:RATE")]
    burst: Option<BurstBucket>,
    /// Rate of each connection or mount
    #[arg(long, value_name = "RATE")]
    per_connection: Option<LinkRate>,
    /// Share of answers that begin late, and by how much: 1%:200ms
    #[arg(long, value_name = "P:TIME")]
    delay: Option<RandomDelay>,
    /// Share of answers that stop in the middle, and for how long: 2%:5s
    #[arg(long, value_name = "P:TIME")]
    stall: Option<RandomDelay>,
    /// Share of answers cut in the middle: the connection ends
    #[arg(long, value_name = "P")]
    cut: Option<Chance>,
    /// Share of answers in which one byte is changed
    #[arg(long, value_name = "P")]
    corrupt: Option<Chance>,
    /// Share of answers in which a piece is sent twice
    #[arg(long, value_name = "P")]
    duplicate: Option<Chance>,
    /// Seed of the random faults [default: 0]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl LinkArgs {
    fn proxy(&self) -> Result<LinkConfig> {
        let listen = self.listen.as_deref().unwrap_or("127.0.0.1:0");
        let Some(to) = self.to.to_str() else {
            let to = shown(&self.to).to_string();
            return Err(Error::usage(format!("--to {to}: not an address")).advise("write HOST:PORT"));
        };
        let place = LinkConfig::new(address::resolve("--listen", listen)?, to).with_model(self.replay(&[])?);
        Ok(LinkConfig {
            rtt: self.rtt.unwrap_or(place.rtt),
            rate: self.rate.or(place.rate),
            // A given rate also replaces the burst of the preset or model, unless a burst is given
            // too.
            burst: self.burst.or(place.burst.filter(|_| self.rate.is_none())),
            per_connection: self.per_connection.or(place.per_connection),
            wait: place.wait.filter(|_| self.rtt.is_none()),
            faults: Faults {
                delay: self.delay.unwrap_or_default(),
                stall: self.stall.unwrap_or_default(),
                cut: self.cut.unwrap_or_default(),
                corrupt: self.corrupt.unwrap_or_default(),
                duplicate: self.duplicate.unwrap_or_default(),
            },
            seed: self.seed.unwrap_or_default(),
            ..place
        })
    }

    /// Returns the figures of the model or preset. Prints which figures of a model are not
    /// replayed: those that no link replays, and `unreplayed_waits` if the model has a distribution
    /// of waits.
    fn replay(&self, unreplayed_waits: &[&str]) -> Result<Replay> {
        let Some(path) = &self.model else { return Ok(self.preset.unwrap_or(Preset::None).replay()) };
        let replay = Replay::of(&account::model(path)?).map_err(convert_error)?;
        let more = unreplayed_waits.iter().filter(|_| replay.wait.is_some()).map(|what| (*what).to_owned());
        let left_out: Vec<String> = replay.left_out.iter().cloned().chain(more).collect();
        if !left_out.is_empty() {
            console::say(format_args!("{}: not replayed: {}", path.display(), left_out.join(", ")));
        }
        Ok(replay)
    }

    fn slow_fs(&self) -> Result<SlowFsConfig> {
        if self.listen.is_some() {
            return Err(Error::usage("--listen and --mount: a link is a proxy or a file system")
                .advise("give one of them"));
        }
        let faults = [
            ("--delay", self.delay.is_some()),
            ("--stall", self.stall.is_some()),
            ("--cut", self.cut.is_some()),
            ("--corrupt", self.corrupt.is_some()),
            ("--duplicate", self.duplicate.is_some()),
            ("--seed", self.seed.is_some()),
        ];
        if let Some((option, _)) = faults.into_iter().find(|(_, given)| *given) {
            return Err(Error::usage(format!("{option} does not apply to --mount"))
                .advise("faults are those of a connection: leave it out, or use --listen"));
        }
        let place = self.replay(&["the spread of latency.first_byte"])?;
        Ok(SlowFsConfig {
            // A file system delays all requests equally: by the median of the model's waits.
            rtt: self.rtt.unwrap_or_else(|| place.wait.map_or(place.rtt, |wait| wait.median())),
            rate: self.rate.or(place.rate),
            burst: self.burst.or(place.burst.filter(|_| self.rate.is_none())),
            per_client: self.per_connection.or(place.per_connection),
            ..SlowFsConfig::new(&self.to, &self.mount)
        })
    }
}

/// A request to a running link. Users make requests with signals.
enum Request {
    Counters,
    End,
}

pub fn run(args: &LinkArgs, globals: &Globals) -> Result<Exit> {
    if args.mount.is_empty() { run_proxy(args, globals) } else { run_slow_fs(args, globals) }
}

fn run_proxy(args: &LinkArgs, globals: &Globals) -> Result<Exit> {
    let config = args.proxy()?;
    let stand_in = config.to_string();
    let requests = requests()?;
    let running = Link::start(config).map_err(convert_error)?;
    introduce(&stand_in, globals);
    console::print(running.address())?;
    let report = |seen: &LinkCounts| {
        json!({
            "verb": "link", "stand_in": stand_in, "connections": seen.connections, "requests": seen.requests,
            "bytes_to_server": seen.bytes_to_server, "bytes_to_client": seen.bytes_to_client,
            "delays": seen.delays, "stalls": seen.stalls, "cuts": seen.cuts,
            "corruptions": seen.corruptions, "duplicates": seen.duplicates,
        })
    };
    // Receiving fails if the sender was dropped, which happens only after it has sent `End`.
    while let Ok(Request::Counters) = requests.recv() {
        console::print(report(&running.counters()))?;
    }
    end(&report(&running.stop()), globals)
}

fn run_slow_fs(args: &LinkArgs, globals: &Globals) -> Result<Exit> {
    let config = args.slow_fs()?;
    let stand_in = config.to_string();
    let requests = requests()?;
    let mut running = SlowFs::start(&config).map_err(convert_error)?;
    introduce(&stand_in, globals);
    for directory in running.directories() {
        console::print(shown(directory))?;
    }
    loop {
        // The wait is short, because another program may unmount the file system, which sends no
        // request.
        match requests.recv_timeout(POLL_INTERVAL) {
            Ok(Request::Counters) => console::print(report(&stand_in, &running.counters()))?,
            Err(mpsc::RecvTimeoutError::Timeout) if !running.wait(Duration::ZERO) => {}
            Ok(Request::End) | Err(_) => break,
        }
    }
    let unmounted = running.unmount().map_err(convert_error);
    let exit = end(&report(&stand_in, &running.counters()), globals)?;
    unmounted.map(|()| exit)
}

fn report(stand_in: &str, mounts: &[MountSnapshot]) -> Value {
    let sum = |count: fn(&MountSnapshot) -> u64| mounts.iter().map(count).sum::<u64>();
    let each = mounts.iter().map(|mount| {
        json!({
            "directory": shown(&mount.directory).to_string(), "requests": mount.requests,
            "reads": mount.reads, "bytes_to_client": mount.bytes_to_client,
        })
    });
    json!({
        "verb": "link", "stand_in": stand_in, "requests": sum(|mount| mount.requests),
        "reads": sum(|mount| mount.reads), "bytes_to_client": sum(|mount| mount.bytes_to_client),
        "mounts": each.collect::<Vec<_>>(),
    })
}

/// Receives requests from signals. The handlers are installed before anything is printed, so that a
/// user who reacts to the output does not end the process with the signal.
fn requests() -> Result<Receiver<Request>> {
    let (send, requests) = mpsc::channel();
    let ending = ForcedEnd { interrupted: signals::GRACE, terminated: signals::GRACE, exit: Exit::Done };
    let counters = send.clone();
    // Sending fails if the link is already ending and the receiver has been dropped.
    signals::on_signal_but_hangup(ending, move || drop(send.send(Request::End)))?;
    signals::on_report(move || drop(counters.send(Request::Counters)))?;
    Ok(requests)
}

fn introduce(stand_in: &str, globals: &Globals) {
    if !globals.quiet {
        console::say(stand_in);
    }
}

/// Prints the counters. A signal or an unmount is the normal end of a link, so the exit code is 0.
fn end(report: &Value, globals: &Globals) -> Result<Exit> {
    if globals.json {
        console::print(report)?;
    }
    Ok(Exit::Done)
}

fn convert_error(error: firstbyte_link::Error) -> Error {
    use firstbyte_link::Error as Link;
    match error {
        Link::Burst { .. } | Link::Model { .. } | Link::Setting { .. } | Link::Unit(_) => {
            Error::usage(error.to_string())
        }
        error => Error::failed(error.to_string()),
    }
}

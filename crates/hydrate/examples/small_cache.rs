//! Measures a cache that is too small for its data. `small_cache [ROUNDS]` starts 8 processes that
//! share a cache; each of them reads 120 objects of 140 to 900 KB once. Rounds with a cache of 8
//! MiB are compared with rounds with 200 MiB. Prints the time of each round, the ratio of the
//! medians, and the longest read.

use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use firstbyte_hydrate::{HydrationSettings, Hydrator};
use firstbyte_location::Location;
use firstbyte_store::{Store, StoreOptions};
use firstbyte_testkit::{Backend, Subject, bytes, scratch};

const OBJECTS: usize = 120;
const PROCESSES: usize = 8;
/// Size of the small cache, MiB.
const SMALL: u64 = 8;
/// Size of the cache that is large enough, MiB.
const LARGE: u64 = 200;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, cache, size, locations @ ..] = arguments.as_slice()
        && mode == "read"
    {
        return read_all(Path::new(cache), size.parse()?, locations);
    }
    let rounds = arguments.first().map_or(Ok(5), |rounds| rounds.parse::<usize>())?;
    let subject = Subject::start(Backend::ServeHttp);
    let locations: Vec<String> = (0..OBJECTS)
        .map(|number| {
            let name = format!("object-{number:03}");
            subject.place(&name, &bytes(number as u64, 140_000 + number * 760_000 / OBJECTS));
            subject.at(&name).to_string()
        })
        .collect();
    let (mut times, mut longest) = ([Vec::new(), Vec::new()], [Duration::ZERO; 2]);
    for round in 0..rounds {
        for (kind, size) in [SMALL, LARGE].into_iter().enumerate() {
            let (took, slowest) = round_of(size, &locations)?;
            println!("round {round}, cache of {size} MiB: {took:.2?}, longest read {slowest:.1?}");
            times[kind].push(took);
            longest[kind] = longest[kind].max(slowest);
        }
    }
    let [small, large] = times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64()
    });
    let [slowest, usual] = longest;
    println!("{SMALL} MiB {small:.2} s, {LARGE} MiB {large:.2} s: {:.2}x", small / large);
    println!("longest read {slowest:.1?} with {SMALL} MiB, {usual:.1?} with {LARGE} MiB");
    Ok(())
}

/// Starts the processes on a new cache of `size` MiB. Returns the time until all have ended, and
/// the longest single read.
fn round_of(size: u64, locations: &[String]) -> Result<(Duration, Duration)> {
    let cache = scratch();
    let start = Instant::now();
    let mut children = Vec::new();
    for share in locations.chunks(OBJECTS.div_ceil(PROCESSES)) {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("read").arg(cache.path()).arg(size.to_string()).args(share);
        children.push(command.stdout(Stdio::piped()).spawn()?);
    }
    let mut longest = 0;
    for child in children {
        let output = child.wait_with_output()?;
        if !output.status.success() {
            return Err("a reader failed".into());
        }
        longest = longest.max(String::from_utf8(output.stdout)?.trim().parse::<u64>()?);
    }
    Ok((start.elapsed(), Duration::from_micros(longest)))
}

/// Reads each object in order. Prints the time of the longest read, in microseconds.
fn read_all(cache: &Path, size: u64, locations: &[String]) -> Result<()> {
    let cache_size = Some(size << 20);
    let settings = HydrationSettings {
        cache: Some(cache.into()),
        cache_size,
        reserve: 0,
        ..HydrationSettings::default()
    };
    let hydrator = Hydrator::new(Store::new(StoreOptions::default())?, settings)?;
    let (mut buffer, mut longest) = (vec![0; 128 << 10], Duration::ZERO);
    for location in locations {
        let file = hydrator.open(&Location::parse(location.as_ref())?)?;
        let (handle, mut at) = (file.handle(), 0);
        while at < file.size() {
            let start = Instant::now();
            at += handle.read_at(&mut buffer, at)? as u64;
            longest = longest.max(start.elapsed());
        }
    }
    println!("{}", longest.as_micros());
    Ok(())
}

//! Measures reads. `read [--cache DIR] [--endpoint URL] seq STEP LOCATION` reads sequentially, STEP
//! bytes at a time; `... random THREADS COUNT LOCATION` makes random reads of 4 KiB. `--hydrate
//! OTHER` hydrates another location at the same time. For a cold read, pass an empty directory as
//! `--cache`.

use std::error::Error;
use std::time::{Duration, Instant};

use firstbyte_hydrate::{File, HydrationItem, HydrationJob, HydrationSettings, Hydrator};
use firstbyte_location::Location;
use firstbyte_store::{Store, StoreOptions};

/// Length of a random read, bytes.
const PAGE: usize = 4096;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut option = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.remove(at);
        Some(arguments.remove(at))
    };
    let cache = option("--cache").map(Into::into);
    let endpoint_url = option("--endpoint").or_else(|| std::env::var("AWS_ENDPOINT_URL").ok());
    let other = option("--hydrate");
    let memory = option("--memory").map_or(Ok(64), |mib| mib.parse::<u64>())? << 20;
    let store = Store::new(StoreOptions { endpoint_url, ..StoreOptions::default() })?;
    let settings = HydrationSettings { cache, memory, ..HydrationSettings::default() };
    let hydrator = Hydrator::new(store, settings)?;
    let location = Location::parse(arguments.last().ok_or("no location")?.as_ref())?;
    let job = other.map(|other| hydrate(&hydrator, &other)).transpose()?;
    let start = Instant::now();
    let file = hydrator.open(&location)?;
    let opened = start.elapsed();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["seq", step, _] => sequential(&file, step.parse()?)?,
        ["random", threads, count, _] => random(&file, threads.parse()?, count.parse()?)?,
        _ => return Err("seq STEP LOCATION, or random THREADS COUNT LOCATION".into()),
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{seconds:.3} s, opened after {opened:.1?}, {} requests", hydrator.store().counters().requests);
    println!("{:?}", hydrator.counters());
    if let Some(job) = job {
        let progress = job.progress();
        println!("hydrated meanwhile: {} MB, over: {}", progress.fetched / 1_000_000, progress.is_over);
    }
    Ok(())
}

/// Starts a hydration, and waits until it has reached its full rate.
fn hydrate(hydrator: &Hydrator, location: &str) -> Result<HydrationJob, Box<dyn Error>> {
    let wanted = HydrationItem { location: Location::parse(location.as_ref())?, version: None, range: None };
    let job = hydrator.hydrate(Box::new(std::iter::once(Ok(wanted))), None)?;
    std::thread::sleep(Duration::from_millis(500));
    Ok(job)
}

fn sequential(file: &File, step: usize) -> Result<(), Box<dyn Error>> {
    let handle = file.handle();
    let mut buffer = vec![0; step];
    let mut at = 0;
    loop {
        match handle.read_at(&mut buffer, at)? {
            0 => return Ok(()),
            read => at += read as u64,
        }
    }
}

fn random(file: &File, threads: u64, count: u64) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let results = std::thread::scope(|scope| {
        let spawn = |thread| scope.spawn(move || read_pages(file, thread, count));
        let threads: Vec<_> = (0..threads).map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().expect("a reader")).collect::<Vec<_>>()
    });
    let mut times = results.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    times.sort_unstable();
    println!(
        "{:.0} reads/s, median {:.2?}, 99th {:.2?}",
        times.len() as f64 / start.elapsed().as_secs_f64(),
        times[times.len() / 2],
        times[times.len() * 99 / 100]
    );
    Ok(())
}

fn read_pages(file: &File, thread: u64, count: u64) -> firstbyte_hydrate::Result<Vec<Duration>> {
    let handle = file.handle();
    let mut buffer = [0; PAGE];
    let mut state = thread.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut times = Vec::new();
    for _ in 0..count {
        // xorshift64, with a seed for each thread.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let offset = state % (file.size() / PAGE as u64).max(1) * PAGE as u64;
        let start = Instant::now();
        handle.read_at(&mut buffer, offset)?;
        times.push(start.elapsed());
    }
    Ok(times)
}

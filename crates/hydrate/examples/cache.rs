//! Measures the cache: `cargo run --release --example cache [DIR [OBJECTS]]`.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Instant;

use firstbyte_hydrate::BLOCK;
use firstbyte_hydrate::cache::{Cache, CacheLimits, CachedVersion, Exempt};
use firstbyte_location::{Location, Version};

const NO_LIMITS: CacheLimits = CacheLimits { size: None, reserve: 0 };

fn main() {
    let mut args = std::env::args().skip(1);
    let base = args.next().unwrap_or_else(|| "/dev/shm".into());
    let objects: u64 = args.next().and_then(|count| count.parse().ok()).unwrap_or(10_000);
    let scratch = tempfile::tempdir_in(base).expect("a directory");
    let dir = scratch.path();
    let cache = Cache::open(dir, NO_LIMITS).expect("a cache");
    limited(dir);
    one_large(&cache);
    many_small(&cache, objects);
    drop(cache);
    let cache = each("open a cache of these objects", 1, |_| Cache::open(dir, NO_LIMITS).expect("a cache"));
    each("status of one", 1000, |index| cache.find(&place(index)).expect("a status"));
    each("status of all", 1, |_| assert!(cache.statuses().count() as u64 >= objects));
}

fn one_large(cache: &Cache) {
    let cached = open(cache, u64::MAX, 512 << 20);
    let block = vec![7; BLOCK as usize];
    each("fill a block of 128 KiB", cached.blocks(), |index| cached.fill(index, &block, Exempt::Pinned));
    let mut buffer = vec![0; 4096];
    let mut place = 1_u64;
    each("read 4 KiB at random", 1_000_000, |_| {
        place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        cached.read_at(&mut buffer, (place >> 20) % (cached.size() / 4096) * 4096)
    });
    let mut buffer = vec![0; BLOCK as usize];
    each("read 128 KiB in order", cached.blocks(), |index| cached.read_at(&mut buffer, index * BLOCK));
    each("verify 512 MiB as a whole", 1, |_| cached.verify_complete().expect("room"));
}

fn limited(dir: &Path) {
    let dir = dir.join("limited");
    let limits = CacheLimits { size: Some(64 << 20), reserve: 0 };
    let cache = Cache::open(&dir, limits).expect("a cache");
    let block = vec![7; BLOCK as usize];
    let cached = open(&cache, 0, 1 << 30);
    each("fill with eviction of own blocks", cached.blocks(), |index| {
        cached.fill(index, &block, Exempt::Pinned)
    });
    drop(cached);
    each("open, fill, close with eviction", 2000, |index| {
        open(&cache, index + 1, BLOCK).fill(0, &block, Exempt::Pinned)
    });
}

fn many_small(cache: &Cache, objects: u64) {
    let block = vec![7; 50_000];
    each("open, fill, verify, close 50 kB", objects, |index| {
        let cached = open(cache, index, 50_000);
        cached.fill(0, &block, Exempt::Pinned);
        cached.verify_complete().expect("room");
    });
    each("open and close again", objects.min(10_000), |index| open(cache, index, 50_000).is_complete());
}

fn place(index: u64) -> Location {
    Location::parse(OsStr::new(&format!("s3://bucket/{index}"))).expect("a location")
}

fn open(cache: &Cache, index: u64, size: u64) -> CachedVersion {
    let version = Version { size: Some(size), etag: Some("\"e\"".into()), ..Version::default() };
    cache.version(&place(index), &version, None).expect("a version")
}

fn each<T>(what: &str, times: u64, mut work: impl FnMut(u64) -> T) -> T {
    let started = Instant::now();
    let mut last = work(0);
    for index in 1..times {
        last = work(index);
    }
    println!("{what:<36} {:>12} ns", started.elapsed().as_nanos() / u128::from(times));
    last
}

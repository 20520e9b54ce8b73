//! Kills `mv` and `rm` at seeded moments. After each kill every object is whole at its source or at
//! its destination, and what was not named is as it was.
//!
//! The store is our own server, whose objects are files: they are looked at without its help.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use firstbyte_testkit::{bytes, bytes_at};

use super::disk::SmallDisk;
use super::servers::S3;
use super::{World, names_below};

/// Objects of a tree: small ones, and two of several chunks or parts.
const OBJECTS: u64 = 120;

/// A place of a tree, as the command line and as the test name it.
struct Place {
    location: String,
    path: PathBuf,
}

fn name(number: u64) -> String {
    format!("d{}/e{}/{number}", number % 4, number % 3)
}

fn content(number: u64) -> Vec<u8> {
    bytes(number, if number % 60 == 7 { 9 << 20 } else { 1000 + usize::try_from(number).unwrap() })
}

/// Moves a tree from place to place, and removes a part of it, until `kills` runs were killed.
pub fn survive(kills: u64) {
    let s3 = S3::ours();
    let world = World::with_s3(&s3);
    let disk = SmallDisk::new("size=256m");
    let bucket = s3.root.join("bucket");
    let local = |path: PathBuf| Place { location: path.to_str().unwrap().to_owned(), path };
    let keys = |key: &str| Place { location: format!("s3://bucket/{key}"), path: bucket.join(key) };
    let places = [local(world.path("here")), keys("a"), keys("b"), local(disk.path().join("there"))];
    let (mut killed, mut cycle) = (0, 0);
    while killed < kills {
        assert!(cycle < kills, "most runs end before they can be killed");
        for number in 0..OBJECTS {
            world.write(&format!("here/{}", name(number)), &content(number));
        }
        killed += cycle_through(&world, &places, 10 * cycle);
        cycle += 1;
        for place in &places {
            let _ = std::fs::remove_dir_all(&place.path);
        }
    }
    println!("{killed} runs killed");
}

/// Moves a tree through all places, each move killed until it gets through. Returns how many were.
fn cycle_through(world: &World, places: &[Place], seed: u64) -> u64 {
    // Beside every place, and what the filter leaves.
    let beside = |place: &Place| place.path.with_file_name("beside");
    for place in places {
        std::fs::write(beside(place), b"kept").unwrap();
    }
    let mut killed = 0;
    for (way, pair) in (0..).zip(places.windows(2)) {
        let (from, to) = (&pair[0], &pair[1]);
        std::fs::create_dir_all(&from.path).unwrap();
        std::fs::write(from.path.join("excluded"), b"kept").unwrap();
        let args = ["mv", "-r", from.location.as_str(), to.location.as_str(), "--exclude", "excluded"];
        killed += rounds(world, &args, seed + way, || check(&from.path, &to.path));
        world.run(&args).ok();
        assert_eq!(names_below(&from.path), ["excluded"], "{args:?}");
        check(&from.path, &to.path);
        places.iter().for_each(|place| assert_eq!(std::fs::read(beside(place)).unwrap(), b"kept"));
    }
    killed + removals(world, &places[places.len() - 1], seed)
}

/// Runs and kills at seeded moments, sooner each time, until a run gets through.
fn rounds(world: &World, args: &[&str], seed: u64, check: impl Fn()) -> u64 {
    let mut killed = 0;
    for round in 0..8 {
        let random = bytes_at(900 + seed, round * 2, 2);
        let most = 60 / (1 + round / 2);
        let after = u64::from(u16::from_le_bytes([random[0], random[1]])) % most;
        let mut child = world.spawn(args);
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(after) && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let ended = child.try_wait().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        check();
        match ended {
            Some(status) => {
                assert!(status.success(), "{args:?}: {status}");
                break;
            }
            None => killed += 1,
        }
    }
    killed
}

/// Every object is whole in one of the two places at least; neither has anything torn.
fn check(from: &Path, to: &Path) {
    for number in 0..OBJECTS {
        let found: Vec<Vec<u8>> =
            [from, to].iter().filter_map(|root| std::fs::read(root.join(name(number))).ok()).collect();
        assert!(
            !found.is_empty(),
            "{} is lost between {} and {}",
            name(number),
            from.display(),
            to.display()
        );
        assert!(found.iter().all(|found| *found == content(number)), "{} is torn", name(number));
    }
    assert_eq!(std::fs::read(from.join("excluded")).unwrap(), b"kept");
}

/// Kills rm of a part of a tree: the rest stays.
fn removals(world: &World, place: &Place, seed: u64) -> u64 {
    let doomed = place.path.join("doomed");
    for number in 0..2_000_u64 {
        let directory = doomed.join((number % 20).to_string());
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(number.to_string()), b"x").unwrap();
    }
    let args = ["rm", "-r", doomed.to_str().unwrap(), "--yes"];
    let rest_is_whole = || (0..OBJECTS).all(|number| place.path.join(name(number)).exists());
    let killed = rounds(world, &args, seed + 9, || assert!(rest_is_whole()));
    world.run(&args).ok();
    assert!(!doomed.exists() && rest_is_whole());
    killed
}

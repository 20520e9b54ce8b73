//! Kills `mv` and `rm` at seeded moments. After each kill, every object must be complete at its
//! source or at its destination, and everything else must be unchanged.
//!
//! The stores are file systems, our own server and an SSH server. All of them keep objects as
//! files, which the test reads directly.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use firstbyte_testkit::{SshClientKind, Sshd, bytes, bytes_at, scratch};
use tempfile::TempDir;

use super::disk::SmallDisk;
use super::servers::S3;
use super::{World, names_below};

/// Number of objects in a tree. Two of them need several chunks or parts; the others are small.
const OBJECT_COUNT: u64 = 120;

/// A location for a tree, and the path at which the test finds its files.
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

/// A world with one location of each kind of store that keeps objects as files.
struct Places {
    world: World,
    all: Vec<Place>,
    s3: S3,
    sshd: Sshd,
    _disk: SmallDisk,
    _scratch: TempDir,
}

impl Places {
    /// Starts the servers; returns `None` if the user is not root.
    fn start() -> Option<Self> {
        let disk = SmallDisk::new("size=256m")?;
        let (s3, scratch) = (S3::ours(), scratch());
        let sshd = Sshd::start(scratch.path());
        let mut world = World::with_s3(&s3);
        world.set("FIRSTBYTE_SSH", &sshd.ssh(SshClientKind::Friend));
        let mut places = Self { world, all: Vec::new(), s3, sshd, _disk: disk, _scratch: scratch };
        places.all = vec![
            places.local(places.world.path("here")),
            places.local(places._disk.path().join("there")),
            places.by_s3(&places.bucket().join("a")),
            places.by_http(&places.bucket().join("b")),
            places.by_sftp(&places._scratch.path().join("host/c")),
        ];
        Some(places)
    }

    /// Returns all pairs of locations to move between. A web server is never the source, because
    /// its files can be replaced but not moved.
    fn pairs(&self) -> Vec<(usize, usize)> {
        let count = self.all.len();
        let sources = (0..count).filter(|place| !self.all[*place].location.starts_with("http"));
        sources.flat_map(|from| (1..count).map(move |step| (from, (from + step) % count))).collect()
    }

    fn bucket(&self) -> PathBuf {
        self.s3.root.join("bucket")
    }

    fn local(&self, path: PathBuf) -> Place {
        Place { location: path.to_str().unwrap().to_owned(), path }
    }

    fn by_s3(&self, path: &Path) -> Place {
        let key = path.strip_prefix(self.bucket()).unwrap().display();
        Place { location: format!("s3://bucket/{key}"), path: path.to_owned() }
    }

    fn by_http(&self, path: &Path) -> Place {
        let key = path.strip_prefix(&self.s3.root).unwrap().display();
        Place { location: format!("{}/{key}/", self.s3.url), path: path.to_owned() }
    }

    fn by_sftp(&self, path: &Path) -> Place {
        Place { location: format!("{}{}", self.sshd.url(), path.display()), path: path.to_owned() }
    }
}

/// Writes the tree to a location directly through the file system.
fn plant(place: &Place) {
    for number in 0..OBJECT_COUNT {
        let path = place.path.join(name(number));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content(number)).unwrap();
    }
}

/// Moves a tree between all pairs of locations, until `kills` runs were killed. Each move is
/// repeated and killed until it completes. Then a part of the tree is removed with `rm`.
pub fn survive(kills: u64) {
    let Some(places) = Places::start() else { return };
    let pairs = places.pairs();
    let (mut killed, mut seed) = (0, 0);
    while killed < kills {
        assert!(seed < 10 * kills, "most runs end before they can be killed");
        // The order of the pairs is mixed, so that even a few kills hit different kinds of
        // locations.
        let (from, to) = pairs[(seed as usize * 7) % pairs.len()];
        killed += move_once(&places, &places.all[from], &places.all[to], 10 * seed);
        seed += 1;
    }
    killed += kill_removals(&places.world, &places.all[seed as usize % 2], seed);
    println!("{killed} runs killed, {seed} moves");
}

/// Moves a tree between all pairs of locations. No run is killed.
pub fn between_all_pairs() {
    let Some(places) = Places::start() else { return };
    for (from, to) in places.pairs() {
        let (from, to) = (&places.all[from], &places.all[to]);
        plant(from);
        let source = format!("{}/", from.location.trim_end_matches('/'));
        places.world.run(&["mv", "-r", &source, &to.location]).ok();
        assert!(names_below(&from.path).is_empty(), "{source}");
        assert_whole(&to.path, &[&source, &to.location]);
        std::fs::remove_dir_all(&to.path).unwrap();
    }
}

/// Moves a tree, and kills the runs until one completes. Returns the number of killed runs.
fn move_once(places: &Places, from: &Place, to: &Place, seed: u64) -> u64 {
    let beside = |place: &Place| place.path.with_file_name("beside");
    plant(from);
    for place in [from, to] {
        std::fs::create_dir_all(place.path.parent().unwrap()).unwrap();
        std::fs::write(beside(place), b"kept").unwrap();
    }
    std::fs::write(from.path.join("excluded"), b"kept").unwrap();
    // A source that ends in a slash means the contents of the directory.
    let source = format!("{}/", from.location.trim_end_matches('/'));
    let args = ["mv", "-r", source.as_str(), to.location.as_str(), "--exclude", "excluded"];
    let killed =
        kill_until_complete(&places.world, &args, seed, || assert_nothing_lost(&from.path, &to.path));
    places.world.run(&args).ok();
    assert_eq!(names_below(&from.path), ["excluded"], "{args:?}");
    assert_nothing_lost(&from.path, &to.path);
    for place in [from, to] {
        assert_eq!(std::fs::read(beside(place)).unwrap(), b"kept");
        std::fs::remove_dir_all(&place.path).unwrap();
    }
    killed
}

/// Moves trees onto themselves, by another name of the same location, with and without kills. Each
/// tree must stay complete, whether the move is refused or has nothing to do.
pub fn survive_aliases(kills: u64) {
    let Some(places) = Places::start() else { return };
    let (key, file) = (places.bucket().join("a"), places.world.path("here"));
    let link = places.world.path("link");
    std::fs::create_dir_all(&file).unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let names = [
        [places.local(file.clone()), places.by_sftp(&file)],
        [places.local(file.clone()), places.local(link.clone())],
        [places.by_sftp(&file), places.by_sftp(&link)],
        [places.by_s3(&key), places.by_http(&key)],
        [places.local(key.clone()), places.by_s3(&key)],
        [places.local(key.clone()), places.by_http(&key)],
        [places.by_sftp(&key), places.by_s3(&key)],
    ];
    let pairs = names.iter().flat_map(|[first, second]| [(first, second), (second, first)]);
    let each = kills.div_ceil(14);
    for (seed, (from, to)) in (0..).zip(pairs) {
        plant(from);
        let source = format!("{}/", from.location.trim_end_matches('/'));
        let args = ["mv", "-r", source.as_str(), to.location.as_str()];
        for round in 0..each {
            kill_after(&places.world, &args, bytes_at(700 + seed, round, 1)[0].into());
            assert_whole(&from.path, &args);
        }
        // Runs the command once without a kill. The run sees that both names are one place, and
        // refuses the move or moves nothing. Either is right, so the exit code is not checked.
        places.world.run(&args);
        assert_whole(&from.path, &args);
    }
}

/// Checks that every object below a directory is complete.
fn assert_whole(root: &Path, args: &[&str]) {
    for number in 0..OBJECT_COUNT {
        let found = std::fs::read(root.join(name(number))).ok();
        assert!(found == Some(content(number)), "{} is lost or torn by {args:?}", name(number));
    }
}

/// Starts a run, and kills it after `milliseconds`. Returns its exit status if it ended before
/// that.
fn kill_after(world: &World, args: &[&str], milliseconds: u64) -> Option<ExitStatus> {
    let mut child = world.spawn(args);
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(milliseconds) && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let ended = child.try_wait().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    ended
}

/// Repeats the command, killed at seeded moments, until a run completes. Returns the number of
/// kills.
fn kill_until_complete(world: &World, args: &[&str], seed: u64, check: impl Fn()) -> u64 {
    let mut killed = 0;
    for round in 0..8 {
        let random = bytes_at(900 + seed, round * 2, 2);
        let most = 60 / (1 + round / 2);
        let after = u64::from(u16::from_le_bytes([random[0], random[1]])) % most;
        let ended = kill_after(world, args, after);
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

/// Checks that every object is complete in at least one of the two locations, and incomplete in
/// neither.
fn assert_nothing_lost(from: &Path, to: &Path) {
    for number in 0..OBJECT_COUNT {
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

/// Kills `rm` of a part of a tree. The rest of the tree must stay. Returns the number of kills.
fn kill_removals(world: &World, place: &Place, seed: u64) -> u64 {
    plant(place);
    let doomed = place.path.join("doomed");
    for number in 0..2_000_u64 {
        let directory = doomed.join((number % 20).to_string());
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(number.to_string()), b"x").unwrap();
    }
    let args = ["rm", "-r", doomed.to_str().unwrap(), "--yes"];
    let rest_is_whole = || (0..OBJECT_COUNT).all(|number| place.path.join(name(number)).exists());
    let killed = kill_until_complete(world, &args, seed + 9, || assert!(rest_is_whole()));
    world.run(&args).ok();
    assert!(!doomed.exists() && rest_is_whole());
    killed
}

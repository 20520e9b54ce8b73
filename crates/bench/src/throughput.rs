//! Records the progress of a run over time, for the chart of throughput.
//!
//! A thread samples a counter. There are never more than [`MAX_SAMPLES`] samples: at the limit,
//! every second one is dropped and the interval is doubled. Sampling takes at most about 1 % of a
//! processor. The sampler never enters a file system that the run mounts, because its reads would
//! add load and prevent unmounting. Called by the engine around each run, and by `resident` for the
//! memory of a service.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Dir, DirEntry, FileType, Mode, OFlags, ResolveFlags};

/// Largest number of samples, about one for every two pixels of a chart on a phone.
pub(crate) const MAX_SAMPLES: usize = 200;
/// Interval between the first samples. The interval grows, so that there are at most
/// [`MAX_SAMPLES`].
const FIRST_INTERVAL: Duration = Duration::from_millis(5);
/// Shortest wait for a sample, as a multiple of the last sample's duration.
const WAIT_PER_COST: u32 = 100;

/// A thread that samples a counter of bytes.
#[derive(Debug)]
pub(crate) struct Sampler {
    stop: Sender<()>,
    thread: Option<JoinHandle<Series>>,
}

impl Sampler {
    /// Samples the bytes that `counter` returns, until [`Sampler::finish`]. `None` gives no sample.
    pub(crate) fn start(mut counter: impl FnMut() -> Option<u64> + Send + 'static) -> Self {
        let (stop, stopped) = channel();
        let begin = Instant::now();
        let thread = std::thread::spawn(move || {
            let mut series = Series::new(FIRST_INTERVAL.as_secs_f64());
            loop {
                let sampled = Instant::now();
                if let Some(bytes) = counter() {
                    series.push(begin.elapsed().as_secs_f64(), bytes);
                }
                let least = sampled.elapsed() * WAIT_PER_COST;
                let wait = Duration::from_secs_f64(series.interval).max(least);
                if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            if let Some(bytes) = counter() {
                series.end(begin.elapsed().as_secs_f64(), bytes);
            }
            series
        });
        Self { stop, thread: Some(thread) }
    }

    /// Samples the bytes allocated to the files at `destination` and below. Lengths would be
    /// misleading, because downloading programs often set the length of a file first.
    pub(crate) fn of_destination(destination: PathBuf) -> Self {
        Self::start(move || allocated_bytes(&destination))
    }

    /// Stops sampling. Returns the samples: seconds since the start, and the bytes until then.
    pub(crate) fn finish(mut self) -> Vec<(f64, u64)> {
        let _ = self.stop.send(());
        // If the counter panicked, the run has no chart.
        self.thread.take().and_then(|thread| thread.join().ok()).map_or(Vec::new(), |series| series.points)
    }
}

/// Samples at a regular interval, which grows with their number.
#[derive(Debug)]
struct Series {
    points: Vec<(f64, u64)>,
    /// Seconds between two samples.
    interval: f64,
}

impl Series {
    fn new(interval: f64) -> Self {
        Self { points: Vec::with_capacity(MAX_SAMPLES), interval }
    }

    fn push(&mut self, seconds: f64, bytes: u64) {
        // One place stays free for the last sample.
        if self.points.len() + 1 >= MAX_SAMPLES {
            let mut is_kept = false;
            self.points.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
            self.interval *= 2.0;
        }
        self.points.push((seconds, bytes));
    }

    /// Adds the last sample, which is never thinned out.
    fn end(&mut self, seconds: f64, bytes: u64) {
        self.points.push((seconds, bytes));
    }
}

/// Sums the bytes allocated to a file, or to all files below a directory on the same file system.
/// `None` if the path does not exist, or has more than `MAX_FILES` entries below it.
fn allocated_bytes(place: &Path) -> Option<u64> {
    const MAX_FILES: usize = 2_000;
    let first = rustix::fs::lstat(place).ok()?;
    if FileType::from_raw_mode(first.st_mode) != FileType::Directory {
        return Some(first.st_blocks as u64 * 512);
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = rustix::fs::open(place, flags, Mode::empty()).ok()?;
    let (mut sum, mut files) = (0, 0);
    let mut directories = vec![PathBuf::from(".")];
    while let Some(path) = directories.pop() {
        let within = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
        // Skips a directory that was removed meanwhile, or on which the run has mounted.
        let Ok(directory) = rustix::fs::openat2(&root, &path, flags, Mode::empty(), within) else { continue };
        let Ok(entries) = Dir::read_from(&directory) else { continue };
        for entry in entries.flatten() {
            files += 1;
            if files > MAX_FILES {
                return None;
            }
            match of_entry(&directory, &entry) {
                Some(DestinationEntry::File(bytes)) => sum += bytes,
                Some(DestinationEntry::Directory) => {
                    directories.push(path.join(OsStr::from_bytes(entry.file_name().to_bytes())))
                }
                None => {}
            }
        }
    }
    Some(sum)
}

/// An entry of a destination.
enum DestinationEntry {
    /// A file, with the bytes allocated to it.
    File(u64),
    Directory,
}

/// Examines an entry. Does not open a directory, because another file system may be mounted on it.
fn of_entry(directory: &OwnedFd, entry: &DirEntry) -> Option<DestinationEntry> {
    let name = entry.file_name();
    match entry.file_type() {
        FileType::Directory if name == c"." || name == c".." => None,
        FileType::Directory => Some(DestinationEntry::Directory),
        _ => {
            let found = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
            Some(if is_directory {
                DestinationEntry::Directory
            } else {
                DestinationEntry::File(found.st_blocks as u64 * 512)
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn a_long_run_keeps_its_shape_in_few_samples() {
        let mut series = Series::new(1.0);
        let (mut now, mut samples) = (0.0, 0);
        while now < 10_000.0 {
            series.push(now, now as u64 * 10);
            now += series.interval;
            samples += 1;
        }
        series.end(10_000.0, 100_000);
        assert!((MAX_SAMPLES / 2..=MAX_SAMPLES).contains(&series.points.len()), "{}", series.points.len());
        assert!(samples < 2_000, "{samples}");
        assert_eq!((series.points[0], *series.points.last().unwrap()), ((0.0, 0), (10_000.0, 100_000)));
        let steps = series.points.windows(2).map(|pair| pair[1].0 - pair[0].0);
        let (least, most) = steps.fold((f64::MAX, 0.0_f64), |(a, b), step| (a.min(step), b.max(step)));
        assert!(least > 0.0 && most <= 2.0 * series.interval, "{least} {most}");
    }

    #[test]
    fn the_last_sample_is_the_end_of_the_run() {
        let counter = Arc::new(AtomicU64::new(5));
        let read = Arc::clone(&counter);
        let sampler = Sampler::start(move || Some(read.load(Ordering::Relaxed)));
        std::thread::sleep(4 * FIRST_INTERVAL);
        counter.store(77, Ordering::Relaxed);
        let points = sampler.finish();
        assert_eq!((points[0].1, points.last().unwrap().1), (5, 77));
        assert!(points.windows(2).all(|pair| pair[0].0 <= pair[1].0), "{points:?}");
    }

    #[test]
    fn a_file_system_that_the_run_mounts_is_not_entered() {
        if firstbyte_testkit::lacks_root() {
            return;
        }
        let place = tempfile::tempdir_in("/var/tmp").unwrap();
        std::fs::create_dir(place.path().join("mnt")).unwrap();
        let mounted = place.path().join("mnt");
        let mount = |words: &[&str]| {
            assert!(Command::new(words[0]).args(&words[1..]).arg(&mounted).status().unwrap().success())
        };
        mount(&["mount", "-t", "tmpfs", "tmpfs"]);
        std::fs::write(mounted.join("file"), [7; 1 << 16]).unwrap();
        let counted = allocated_bytes(place.path());
        mount(&["umount", "-l"]);
        assert_eq!(counted, Some(0));
    }

    #[test]
    fn sampling_waits_in_proportion_to_its_cost() {
        let sampler = Sampler::start(|| {
            std::thread::sleep(Duration::from_millis(2));
            Some(1)
        });
        std::thread::sleep(Duration::from_millis(90));
        // One sample at the start, one at the end.
        assert_eq!(sampler.finish().len(), 2);
    }

    #[test]
    fn the_bytes_of_a_destination_are_allocated_ones_not_lengths() {
        let place = tempfile::tempdir_in("/var/tmp").unwrap();
        let target = place.path().join("tree");
        assert_eq!(allocated_bytes(&target), None);
        std::fs::create_dir_all(target.join("below")).unwrap();
        let file = std::fs::File::create(target.join("below/long")).unwrap();
        file.set_len(1 << 30).unwrap();
        assert_eq!(allocated_bytes(&target), Some(0));
        std::os::unix::fs::FileExt::write_all_at(&file, &[7; 1 << 16], 1 << 20).unwrap();
        file.sync_all().unwrap();
        assert_eq!(allocated_bytes(&target), Some(1 << 16));
        let points = Sampler::of_destination(target).finish();
        assert_eq!(points.last().unwrap().1, 1 << 16);
    }
}

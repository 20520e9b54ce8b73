//! Records the progress of a run over time, for the chart of throughput.
//!
//! A thread samples a counter. There are never more than [`MOST`] samples: when they are full,
//! every second one is dropped and the interval is doubled. Called by the engine around each run.

use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The most samples that are kept: about one for two pixels of a phone's chart.
pub const MOST: usize = 200;
/// The first interval. Reading a counter takes some microseconds, so this costs well under 1 %.
const FIRST_INTERVAL: Duration = Duration::from_millis(5);

/// A thread that samples a counter of bytes.
#[derive(Debug)]
pub struct Sampler {
    stop: Sender<()>,
    thread: Option<JoinHandle<Series>>,
}

impl Sampler {
    /// Samples what `counter` returns, in bytes, until [`Sampler::finish`]. `None` means that there
    /// is nothing to count yet.
    #[must_use]
    pub fn start(mut counter: impl FnMut() -> Option<u64> + Send + 'static) -> Self {
        let (stop, stopped) = channel();
        let begin = Instant::now();
        let thread = std::thread::spawn(move || {
            let mut series = Series::new(FIRST_INTERVAL.as_secs_f64());
            loop {
                if let Some(bytes) = counter() {
                    series.push(begin.elapsed().as_secs_f64(), bytes);
                }
                let wait = Duration::from_secs_f64(series.interval);
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

    /// Samples the bytes that are allocated to the files at `destination` and below it. Programs
    /// that download often give a file its length first, so lengths say nothing.
    #[must_use]
    pub fn of_destination(destination: PathBuf) -> Self {
        Self::start(move || allocated(&destination))
    }

    /// Ends, and gives seconds since the start with the bytes so far.
    #[must_use]
    pub fn finish(mut self) -> Vec<(f64, u64)> {
        let _ = self.stop.send(());
        // A counter that panicked leaves a run without a chart.
        self.thread.take().and_then(|thread| thread.join().ok()).map_or(Vec::new(), |series| series.points)
    }
}

/// Samples, thinned out as they grow in number.
#[derive(Debug)]
struct Series {
    points: Vec<(f64, u64)>,
    /// Seconds between two of them.
    interval: f64,
}

impl Series {
    fn new(interval: f64) -> Self {
        Self { points: Vec::with_capacity(MOST), interval }
    }

    fn push(&mut self, seconds: f64, bytes: u64) {
        // One place is left for the last sample.
        if self.points.len() + 1 >= MOST {
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

/// The bytes allocated to a file, or to everything below a directory. At most [`MOST_FILES`] files
/// are examined, so that sampling a large tree does not become the load. `None`: nothing is there,
/// or too much.
fn allocated(place: &std::path::Path) -> Option<u64> {
    /// Looking at one takes about 2 us.
    const MOST_FILES: usize = 2_000;
    use std::os::unix::fs::MetadataExt;
    let first = std::fs::symlink_metadata(place).ok()?;
    let mut sum = if first.is_dir() { 0 } else { first.blocks() * 512 };
    let mut directories = if first.is_dir() { vec![place.to_owned()] } else { Vec::new() };
    let mut files = 0;
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let Ok(found) = entry.metadata() else { continue };
            files += 1;
            if files > MOST_FILES {
                return None;
            }
            if found.is_dir() {
                directories.push(entry.path());
            } else {
                sum += found.blocks() * 512;
            }
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
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
        assert!((MOST / 2..=MOST).contains(&series.points.len()), "{}", series.points.len());
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
    fn a_destination_counts_what_was_written_and_not_its_length() {
        let place = tempfile::tempdir_in("/var/tmp").unwrap();
        let target = place.path().join("tree");
        assert_eq!(allocated(&target), None);
        std::fs::create_dir_all(target.join("below")).unwrap();
        let file = std::fs::File::create(target.join("below/long")).unwrap();
        file.set_len(1 << 30).unwrap();
        assert_eq!(allocated(&target), Some(0));
        std::os::unix::fs::FileExt::write_all_at(&file, &[7; 1 << 16], 1 << 20).unwrap();
        file.sync_all().unwrap();
        assert_eq!(allocated(&target), Some(1 << 16));
        let points = Sampler::of_destination(target).finish();
        assert_eq!(points.last().unwrap().1, 1 << 16);
    }
}

//! Divides work among threads, for workloads and for generating data.

use crate::job::Result;

/// Runs `work` on `count` threads, which get numbers from 0. Returns the results in the order of
/// the numbers.
pub(crate) fn on_threads<T: Send>(count: usize, work: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..count).map(|number| scope.spawn(move || work(number))).collect();
        threads.into_iter().map(|thread| thread.join().expect("the work does not panic")).collect()
    })
}

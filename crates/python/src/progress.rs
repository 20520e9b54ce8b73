//! Reports the progress of a copy by calling a function of the caller, on the caller's thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firstbyte_transfer::Observer;
use pyo3::prelude::*;

use crate::wait::{interruptible, interruptible_with_ticks};

/// Counts the bytes of a run.
#[derive(Default)]
pub(crate) struct ByteProgress {
    expected: AtomicU64,
    moved: AtomicU64,
}

impl Observer for ByteProgress {
    fn expected(&self, _: u64, bytes: u64) {
        self.expected.fetch_add(bytes, Ordering::Relaxed);
    }

    fn moved(&self, bytes: u64) {
        self.moved.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Runs `work`. While it runs, calls `report` with the bytes moved and the total known so far,
/// several times a second and once at the end. Calls `stop` if `report` raises an error.
pub(crate) fn run_with_progress<T: Send + 'static>(
    py: Python<'_>,
    report: Option<Py<PyAny>>,
    stop: impl FnOnce(),
    work: impl FnOnce(&ByteProgress) -> T + Send + 'static,
) -> PyResult<T> {
    let progress = Arc::new(ByteProgress::default());
    let Some(report) = report else {
        return interruptible(py, stop, move || work(&ByteProgress::default()));
    };
    let observer = Arc::clone(&progress);
    let mut last = None;
    let mut tell = |py: Python<'_>| {
        let moved = progress.moved.load(Ordering::Relaxed);
        let now = (moved, progress.expected.load(Ordering::Relaxed).max(moved));
        if last.replace(now) == Some(now) {
            return Ok(());
        }
        report.call1(py, now).map(drop)
    };
    let done = interruptible_with_ticks(py, stop, &mut tell, move || work(&observer))?;
    tell(py)?;
    Ok(done)
}

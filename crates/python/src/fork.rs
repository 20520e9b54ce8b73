//! Protects values that belong to one process. After a fork the child has a copy of all memory, but
//! none of the parent's other threads. A lock that such a thread held stays locked in the child,
//! and a channel to such a thread has no other end.
//!
//! A value with threads of its own is therefore wrapped in [`ProcessOwned`]. A child cannot use the
//! inherited value and never drops it, because dropping it might wait forever. The child creates
//! its own value. (`DataLoader` of `PyTorch` and `multiprocessing` fork by default, in some
//! versions.)
//!
//! The locks of this module are taken only while the interpreter's lock is held, and are released
//! before the interpreter's lock. The thread that forks holds the interpreter's lock, so a child
//! never finds a lock of this module taken.

use std::mem::ManuallyDrop;

/// A value that belongs to the process that made it.
pub(crate) struct ProcessOwned<T> {
    value: ManuallyDrop<T>,
    process: u32,
}

impl<T> ProcessOwned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: ManuallyDrop::new(value), process: std::process::id() }
    }

    /// Returns the value in the process that made it; `None` in a child.
    pub(crate) fn get(&self) -> Option<&T> {
        self.is_here().then_some(&*self.value)
    }

    /// Takes the value out in the process that made it. `None` in a child.
    pub(crate) fn into_inner(mut self) -> Option<T> {
        let here = self.is_here();
        // No process has the number 0, so the drop of `self` does nothing.
        self.process = 0;
        // SAFETY: the value is taken once: `self` ends here, and its drop does nothing.
        here.then(|| unsafe { ManuallyDrop::take(&mut self.value) })
    }

    fn is_here(&self) -> bool {
        self.process == std::process::id()
    }
}

impl<T> Drop for ProcessOwned<T> {
    fn drop(&mut self) {
        if self.is_here() {
            // SAFETY: the value is dropped here and nowhere else.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}

//! What belongs to one process: threads and locks do not survive a fork, memory does.
//!
//! A child of a process inherits every value in it, also a lock that another thread was holding and a channel nobody is
//! at the other end of. So what has threads of its own is kept as [`Own`]: a child cannot get at it and never drops it,
//! which could wait for ever; it makes its own. (`PyTorch`'s `DataLoader` and `multiprocessing` fork by default, or did.)
//!
//! The locks of this module itself are taken only with the interpreter's lock held, and let go before that is. A fork is
//! made by the thread that holds it, so a child never finds them taken.

use std::mem::ManuallyDrop;

/// A value of the process that made it.
pub(crate) struct Own<T> {
    value: ManuallyDrop<T>,
    process: u32,
}

impl<T> Own<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: ManuallyDrop::new(value), process: std::process::id() }
    }

    /// The value, in the process that made it.
    pub(crate) fn get(&self) -> Option<&T> {
        self.is_here().then_some(&*self.value)
    }

    /// As [`get`](Self::get), to keep.
    pub(crate) fn into_inner(mut self) -> Option<T> {
        let here = self.is_here();
        // Nobody's from now on: dropping this does nothing.
        self.process = 0;
        // SAFETY: taken once, as `self` ends here and its drop leaves a value of another process alone.
        here.then(|| unsafe { ManuallyDrop::take(&mut self.value) })
    }

    fn is_here(&self) -> bool {
        self.process == std::process::id()
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        if self.is_here() {
            // SAFETY: it is dropped here and nowhere else.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}

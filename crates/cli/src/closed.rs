//! Whether standard output was closed when the program began.
//!
//! Rust's start-up puts `/dev/null` in the place of a closed descriptor, so that no file can land there; but then rows
//! vanish, and the verb calls it a success. What libc calls before that still sees how it was.

use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

// SAFETY: this section of the program lists functions without a result which libc calls before `main`, as it does those
// of C's `__attribute__((constructor))`; this one asks the kernel a question and stores the answer.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    let closed = rustix::io::fcntl_getfd(rustix::stdio::stdout()) == Err(rustix::io::Errno::BADF);
    CLOSED.store(closed, Ordering::Relaxed);
}

/// Whether it was.
pub fn standard_output_was() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

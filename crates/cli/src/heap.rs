//! Sharing of the allocator's memory among threads. `main` sets it before the second thread starts.

/// Lets all threads allocate from one heap, for verbs with hundreds of threads that mostly wait for
/// servers. Otherwise freed memory would stay in separate heaps, up to eight per processor.
pub fn share() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: a setting of the allocator, made before there is a second thread; it has no other
        // precondition.
        let done = unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
        // A refusal only costs memory.
        tracing::debug!("one heap for all threads: {done}");
    }
}

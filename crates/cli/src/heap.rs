//! How the allocator shares memory among threads. `main` sets it, before there is a second thread.

/// Lets all threads take memory from one heap, for verbs with hundreds of threads that mostly wait
/// for servers. Else each would leave what it freed in a heap of its own, up to eight for each
/// processor.
pub fn share() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: a setting of the allocator, made before there is a second thread; it has no other
        // precondition.
        let done = unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
        // Refused, it costs memory alone.
        tracing::debug!("one heap for all threads: {done}");
    }
}

//! Lets all threads share the allocator's memory. `main` calls this before it starts a second
//! thread.

/// Makes all threads allocate from one heap. Called for verbs with hundreds of threads that mostly
/// wait for servers. Without this, freed memory would stay in separate heaps, of which glibc makes
/// up to eight per processor.
pub fn share() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: `mallopt` changes a setting of the allocator, before there is a second thread.
        // The call has no other precondition.
        let done = unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
        // If the allocator refuses, the program only uses more memory.
        tracing::debug!("one heap for all threads: {done}");
    }
}

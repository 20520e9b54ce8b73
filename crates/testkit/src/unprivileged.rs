//! Work without root's privileges, in tests that root runs.

/// Runs `work` on a thread without root's privileges, so that permissions count.
///
/// # Panics
/// Where the thread does, or may not change its user.
pub fn unprivileged<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let run = || {
            if rustix::process::geteuid().is_root() {
                let nobody = rustix::fs::Uid::from_raw(65534);
                // Of this thread alone, which does nothing but `work` and ends.
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            work()
        };
        scope.spawn(run).join().unwrap()
    })
}

//! Makes the kernel write a job's blocks to the disk while other blocks arrive. A complete file is
//! synced; without this module, the kernel would write most of its bytes only during that sync.
//!
//! The kernel may make the caller wait for a busy disk, so a separate thread makes the call. While
//! that thread is busy, requests are dropped: the next request writes all bytes that are still in
//! memory.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// The thread that makes the kernel write. The thread ends when this value is dropped.
pub(super) struct DiskWriter(SyncSender<File>);

impl DiskWriter {
    /// Starts the thread. Returns `None` if the system cannot create one.
    pub(super) fn start() -> Option<Self> {
        let (sender, files) = sync_channel(1);
        let spawned = std::thread::Builder::new().name("write".into()).spawn(move || run(&files));
        spawned.ok().map(|_| Self(sender))
    }

    /// Asks the thread to start writing those bytes of `file` that are in memory only.
    pub(super) fn begin(&self, file: File) {
        // If the channel is full, the disk is busy, and the request is dropped.
        let _ = self.0.try_send(file);
    }
}

fn run(files: &Receiver<File>) {
    for file in files {
        // SAFETY: the descriptor is open, and the call takes no memory.
        let begun = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
        // Some file systems do not support the call, and write the bytes only when the file is
        // synced.
        tracing::trace!(begun, "writing to disk");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_caller_waits_for_a_busy_disk() {
        let (sender, files) = sync_channel(1);
        let writer = DiskWriter(sender);
        for _ in 0..3 {
            writer.begin(tempfile::tempfile().unwrap());
        }
        assert_eq!(files.try_iter().count(), 1);
        drop(files);
        writer.begin(tempfile::tempfile().unwrap());
    }
}

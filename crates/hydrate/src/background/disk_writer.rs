//! Starts writing a job's blocks to the disk while others arrive. A complete file is synced, and
//! without this its bytes would be written only then.
//!
//! The kernel may make the caller wait for a busy disk, so a thread of its own calls it. If it is
//! still busy, a request is left out: the next one starts what that would have started.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// The thread that starts writing. It ends when this is dropped.
pub(super) struct DiskWriter(SyncSender<File>);

impl DiskWriter {
    /// Starts the thread; `None` if the system refuses one.
    pub(super) fn start() -> Option<Self> {
        let (sender, files) = sync_channel(1);
        let spawned = std::thread::Builder::new().name("write".into()).spawn(move || run(&files));
        spawned.ok().map(|_| Self(sender))
    }

    /// Starts writing what the file has in memory only, soon.
    pub(super) fn begin(&self, file: File) {
        // A full channel is a busy disk.
        let _ = self.0.try_send(file);
    }
}

fn run(files: &Receiver<File>) {
    for file in files {
        // SAFETY: the descriptor is open, and the call takes no memory.
        let begun = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
        // Not every file system can; then the bytes are written when the file is synced.
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

//! Asks the kernel to drop unused inodes (FORGET), many in one message (Linux 6.18).
//!
//! Unlike a message that invalidates a name, this message does not wait for the lock of a
//! directory. The kernel keeps inodes that are open or are a current directory. `fuser` does not
//! support the message, so it is built here.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::inodes::Ino;

/// The code of the message, `FUSE_NOTIFY_PRUNE`. It takes the place of the error number in a reply.
const PRUNE_CODE: i32 = 9;
/// Bytes before the inode numbers: the header of every message (16), and the number of inodes with
/// reserved space (16).
const HEAD_SIZE: usize = 16 + 16;
/// Maximum number of inodes in one message.
const MAX_INODES: usize = 1024;

/// The connection to the kernel on which the messages are sent.
#[derive(Default)]
pub(super) struct InodePruner {
    device: OnceLock<OwnedFd>,
    /// True if the kernel has rejected the message as unknown.
    is_unknown: AtomicBool,
}

impl InodePruner {
    /// Sets the connection to the kernel.
    pub(super) fn set_connection(&self, device: BorrowedFd<'_>) {
        if let Ok(own) = device.try_clone_to_owned() {
            // Setting cannot fail, because no other code sets the device.
            let _ = self.device.set(own);
        }
    }

    /// Asks the kernel to forget the given inodes, except inodes in use. Returns false if the
    /// kernel does not support the message.
    pub(super) fn forget(&self, inodes: &[Ino]) -> bool {
        let Some(device) = self.device.get().filter(|_| !self.is_unknown.load(Ordering::Relaxed)) else {
            return false;
        };
        for part in inodes.chunks(MAX_INODES) {
            if let Err(error) = rustix::io::write(device, &message(part)) {
                tracing::debug!("names are invalidated one by one: {}", io::Error::from(error));
                self.is_unknown.store(true, Ordering::Relaxed);
                return false;
            }
        }
        true
    }
}

fn message(inodes: &[Ino]) -> Vec<u8> {
    let length = HEAD_SIZE + size_of_val(inodes);
    let mut bytes = Vec::with_capacity(length);
    bytes.extend((length as u32).to_ne_bytes());
    bytes.extend(PRUNE_CODE.to_ne_bytes());
    bytes.extend(0_u64.to_ne_bytes());
    bytes.extend((inodes.len() as u32).to_ne_bytes());
    bytes.resize(HEAD_SIZE, 0);
    inodes.iter().for_each(|ino| bytes.extend(ino.to_ne_bytes()));
    bytes
}

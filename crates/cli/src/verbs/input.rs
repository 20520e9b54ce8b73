//! Standard input whose reads end when the run is stopped. A plain blocking read of a pipe or
//! terminal would only end when input arrives. Called by `cp` and `run`.

use std::fs::File;
use std::io::{self, Read};

use firstbyte_store::POLL_INTERVAL;
use firstbyte_transfer::Stop;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Polling interval at which a wait for input checks whether the run was stopped.
const POLL_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: POLL_INTERVAL.subsec_nanos() as i64 };

/// An input whose reads fail once the run is stopped.
pub struct StoppableInput<'a> {
    file: File,
    stop: &'a Stop,
}

impl<'a> StoppableInput<'a> {
    /// Makes an input that reads `file` until `stop` is set.
    pub fn new(file: File, stop: &'a Stop) -> Self {
        Self { file, stop }
    }
}

impl Read for StoppableInput<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.stop.is_stopped() {
                return Err(io::Error::other("the run was stopped"));
            }
            match poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&POLL_TIMEOUT)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => match self.file.read(buffer) {
                    // Waits again, because another process has read from the same pipe first.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => return read,
                },
                Err(error) => return Err(error.into()),
            }
        }
    }
}

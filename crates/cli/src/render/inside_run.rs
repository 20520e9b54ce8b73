//! The results of the lines of a list. `run` starts each line with the write end of a pipe as its
//! standard input, which no verb can read, and a line that ends writes its counts there.

use std::io::{self, PipeReader, Read as _};

use firstbyte::receipt::Receipt;
use rustix::fs::{FileType, OFlags};
use serde::{Deserialize, Serialize};

/// The variable that marks the lines of a list.
pub const INSIDE: &str = "FIRSTBYTE_INSIDE_RUN";

/// The counts of a line. As JSON they fit the buffer of a pipe.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
struct Counts {
    bytes: u64,
    requests: u64,
    retries: u64,
    hedged: u64,
    resumed_bytes: u64,
    reread_bytes: u64,
}

/// Hands the counts of this process to the `run` that it is a line of, if it is one.
pub fn hand_over(receipt: &Receipt) {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    let Receipt { bytes, requests, retries, hedged, resumed_bytes, reread_bytes, .. } = *receipt;
    let counts = Counts { bytes, requests, retries, hedged, resumed_bytes, reread_bytes };
    // The process may have been started by the line, with another input.
    let input = rustix::stdio::stdin();
    let is_pipe =
        rustix::fs::fstat(input).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
    let is_written =
        rustix::fs::fcntl_getfl(input).is_ok_and(|flags| flags & OFlags::ACCMODE == OFlags::WRONLY);
    if is_pipe && is_written {
        // The verb has done its work, whatever becomes of its counts.
        let _ = rustix::io::write(input, super::json::line(&counts).as_bytes());
    }
}

/// Adds what a line that has ended has left in its pipe. A verb without counts leaves nothing.
pub fn add(receipt: &mut Receipt, pipe: &PipeReader) -> io::Result<()> {
    // What the line has started in the background may keep the other end open.
    rustix::io::ioctl_fionbio(pipe, true)?;
    let (mut reader, mut text) = (pipe, [0; 4096]);
    let read = match reader.read(&mut text) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        read => read?,
    };
    let counts: Counts = serde_json::from_slice(&text[..read]).unwrap_or_default();
    receipt.bytes += counts.bytes;
    receipt.requests += counts.requests;
    receipt.retries += counts.retries;
    receipt.hedged += counts.hedged;
    receipt.resumed_bytes += counts.resumed_bytes;
    receipt.reread_bytes += counts.reread_bytes;
    Ok(())
}

//! Passes results of the commands that `run` starts back to it. Standard input of such a command is
//! the write end of a pipe. No verb can read it; at its end the command writes its counts there.

use std::io::{self, PipeReader, Read as _};

use firstbyte::receipt::Receipt;
use rustix::fs::{FileType, OFlags};
use serde::{Deserialize, Serialize};

/// Variable that marks the commands of a `run`.
pub const INSIDE: &str = "FIRSTBYTE_INSIDE_RUN";

/// Counts of one command. As JSON they fit into the buffer of a pipe.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
struct Counts {
    bytes: u64,
    requests: u64,
    retries: u64,
    hedged: u64,
    resumed_bytes: u64,
    reread_bytes: u64,
}

/// Passes the counts of this process to the `run` that started it, if one did.
pub fn hand_over(receipt: &Receipt) {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    let Receipt { bytes, requests, retries, hedged, resumed_bytes, reread_bytes, .. } = *receipt;
    let counts = Counts { bytes, requests, retries, hedged, resumed_bytes, reread_bytes };
    // Another program that the `run` started may have started this process, with another input.
    let input = rustix::stdio::stdin();
    let is_pipe =
        rustix::fs::fstat(input).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
    let is_written =
        rustix::fs::fcntl_getfl(input).is_ok_and(|flags| flags & OFlags::ACCMODE == OFlags::WRONLY);
    if is_pipe && is_written {
        // A failure is ignored: the verb's work is done.
        let _ = rustix::io::write(input, super::json::line(&counts).as_bytes());
    }
}

/// Adds the counts of an ended command from its pipe. A verb without counts has written none.
pub fn add(receipt: &mut Receipt, pipe: &PipeReader) -> io::Result<()> {
    // A background process of the command may keep the other end open, so the read must not block.
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

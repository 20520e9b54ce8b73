//! Returns the counts of a command to the `run` that started the command. `run` makes standard
//! input of each command the write end of a pipe, so no verb can read it. A command that ends
//! writes its counts to that pipe. `report` calls [`hand_over`], `run` calls [`add`].

use std::io::{self, PipeReader, Read as _};

use firstbyte::receipt::Receipt;
use rustix::fs::{FileType, OFlags};
use serde::{Deserialize, Serialize};

/// Environment variable that marks the commands started by `run`.
pub const INSIDE: &str = "FIRSTBYTE_INSIDE_RUN";

/// Counts of one command. Their JSON fits into the buffer of a pipe.
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
    // The variable is inherited: if a program between `run` and this process has set another input,
    // nothing may be written to that input.
    let input = rustix::stdio::stdin();
    let is_pipe =
        rustix::fs::fstat(input).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
    let is_written =
        rustix::fs::fcntl_getfl(input).is_ok_and(|flags| flags & OFlags::ACCMODE == OFlags::WRONLY);
    if is_pipe && is_written {
        // An error is ignored, because the verb's work is already done.
        let _ = rustix::io::write(input, super::json::line(&counts).as_bytes());
    }
}

/// Adds the counts of a command that has ended, read from its pipe. Verbs without counts write
/// none.
pub fn add(receipt: &mut Receipt, pipe: &PipeReader) -> io::Result<()> {
    // A background process of the command may keep the write end open, so the read must not block.
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

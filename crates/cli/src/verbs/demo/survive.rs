//! The section SURVIVE of the demo: kills a copy by `kill -9` in its middle, then runs the same
//! command again.

use std::thread;
use std::time::{Duration, SystemTime};

use firstbyte::size::human;
use serde::Serialize;

use super::bytes::{Random, same};
use super::stage::{BUCKET, LARGE, Stage};
use super::text::Screen;
use crate::render::error::{Error, Result};

/// The interval at which the link's count is checked; in it 75 kB pass at 0.6 Gbit/s.
const LOOK: Duration = Duration::from_millis(1);

/// The cost of a kill.
#[derive(Debug, Serialize)]
pub(crate) struct Survive {
    /// The part of the object that had crossed the link at the kill, in percent.
    pub(crate) killed_at: u64,
    /// Bytes the second run found done, as its receipt says.
    pub(crate) resumed_bytes: u64,
    /// Bytes that crossed the link more than once, as the link counts them; the answers' heads
    /// included.
    pub(crate) reread_bytes: u64,
    /// Whether the result is the source; the demo fails where it is not.
    pub(crate) identical: bool,
    /// Most memory the second run had resident.
    pub(crate) peak_memory_bytes: u64,
}

/// Kills and resumes.
pub(crate) fn measure(stage: &Stage<'_>, screen: &Screen) -> Result<Survive> {
    screen.step("4 SURVIVE: kill -9, and again");
    let destination = stage.fresh()?.join("large");
    let mut command = stage.cp();
    command.arg(format!("s3://{BUCKET}/{LARGE}")).arg(&destination);
    let before = stage.counters().bytes_to_client;
    let crossed = || stage.counters().bytes_to_client - before;
    let point = stage.size * random().between(25, 75) / 100;
    let mut first = stage.children.start(&mut command)?;
    while crossed() < point && !first.ended() {
        thread::sleep(LOOK);
    }
    first.kill()?;
    stage.children.check()?;
    let at_kill = crossed();
    if destination.exists() {
        return Err(
            Error::failed("the copy was complete before it could be killed").advise("give a larger --size")
        );
    }
    let receipt = stage.children.run(&mut command)?;
    let receipt: serde_json::Value = serde_json::from_str(&receipt)
        .map_err(|error| Error::failed(format!("receipt of firstbyte cp: {error}")))?;
    let crossed = crossed();
    let identical =
        same(&stage.large(), &destination).map_err(|error| Error::io(destination.display(), &error))?;
    stage.clear()?;
    if !identical {
        return Err(Error::failed("the resumed copy is not what was served"));
    }
    let field = |name: &str| receipt[name].as_u64().unwrap_or_default();
    Ok(Survive {
        killed_at: (at_kill * 100 / stage.size).min(100),
        resumed_bytes: field("resumed_bytes"),
        reread_bytes: crossed.saturating_sub(stage.size),
        identical,
        peak_memory_bytes: field("peak_memory_bytes"),
    })
}

/// Another point in every run: that it survives at one of them would say little.
fn random() -> Random {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Random::new(now.as_secs() ^ u64::from(now.subsec_nanos()) << 32)
}

impl Survive {
    /// The section as text for the terminal.
    pub(crate) fn text(&self) -> String {
        format!(
            "4 SURVIVE kill -9 at {} % -> resumed, {} read again, content identical, peak {}\n",
            self.killed_at,
            human(self.reread_bytes),
            human(self.peak_memory_bytes)
        )
    }
}

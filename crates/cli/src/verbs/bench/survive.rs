//! `bench survive`: kills a copy with `kill -9`, runs the same command again, and prints figures in
//! its last line. The plan of the demo runs this verb.
//!
//! A separate link without limits, between the copy and the store, counts the copied bytes.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, SystemTime};

use clap::Args;
use firstbyte_link::{Link, LinkConfig, Preset};
use firstbyte_location::units::parse_size;
use serde_json::{Value, json};

use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};

/// Polling interval for the link's count. At 0.6 Gbit/s, 75 kB pass in one interval.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Kill a copy at a random point, repeat it, and print its figures as JSON
#[derive(Args)]
pub struct SurviveArgs {
    /// The object, at --endpoint-url
    #[arg(value_name = "SRC")]
    source: String,
    /// Where the copy of the object is written
    #[arg(value_name = "DST")]
    destination: PathBuf,
    /// Size of the object
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    bytes: u64,
}

pub fn run(args: &SurviveArgs, globals: &Globals) -> Result<Exit> {
    let endpoint = globals.endpoint_url.as_deref().and_then(|url| url.strip_prefix("http://"));
    let endpoint =
        endpoint.ok_or_else(|| Error::usage("survive: --endpoint-url http://HOST:PORT is needed"))?;
    let config =
        LinkConfig::new(([127, 0, 0, 1], 0).into(), endpoint.trim_end_matches('/')).with_preset(Preset::None);
    let link = Link::start(config).map_err(|error| Error::failed(error.to_string()))?;
    let program = std::env::current_exe().map_err(|error| Error::io("this program's own path", &error))?;
    let mut copy = Command::new(program);
    copy.args(["--json", "--no-sign-request", "--endpoint-url"]).arg(format!("http://{}", link.address()));
    copy.arg("cp").arg(&args.source).arg(&args.destination);
    copy.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let failed = |error: std::io::Error| Error::io("firstbyte cp", &error);
    let mut first = copy.spawn().map_err(failed)?;
    let crossed = || link.counters().bytes_to_client;
    let point = args.bytes / 100 * percent();
    while crossed() < point && !has_ended(&mut first) {
        thread::sleep(POLL_INTERVAL);
    }
    first.kill().and_then(|()| first.wait()).map_err(failed)?;
    let at_kill = crossed();
    if args.destination.exists() {
        let message = "the copy was complete before it could be killed";
        return Err(Error::failed(message).advise("give more --bytes"));
    }
    let receipt = receipt(&copy.output().map_err(failed)?)?;
    console::print(json!({
        "killed_percent": (at_kill as f64 * 100.0 / args.bytes as f64).min(100.0),
        "wire_bytes": crossed(),
        "resumed_bytes": receipt["resumed_bytes"],
        "resumed_peak_memory_bytes": receipt["peak_memory_bytes"],
    }))?;
    Ok(Exit::Done)
}

/// Returns a percentage that differs between runs, because surviving a kill at one fixed point
/// would prove little.
fn percent() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    25 + u64::from(now.subsec_micros()) % 50
}

fn has_ended(child: &mut Child) -> bool {
    !matches!(child.try_wait(), Ok(None))
}

/// Parses the receipt that the second copy printed.
fn receipt(ended: &Output) -> Result<Value> {
    if !ended.status.success() {
        let errors = String::from_utf8_lossy(&ended.stderr);
        let last = errors.trim().lines().next_back().unwrap_or("no message");
        return Err(Error::failed(format!("the copy was not resumed ({}): {last}", ended.status)));
    }
    serde_json::from_slice(&ended.stdout)
        .map_err(|error| Error::failed(format!("receipt of firstbyte cp: {error}")))
}

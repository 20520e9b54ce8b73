//! `link`: runs the link proxy, which imitates slow networks.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use clap::Args;
use firstbyte_link::{Chance, Faults, Hold, Link, LinkConfig, Preset, Rate, parse_duration};
use serde_json::json;

use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};
use crate::signals::{self, Ending};

/// Stand in for a slow, far, shared or faulty network, between a client and a server
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte link --listen 127.0.0.1:9100 --to 127.0.0.1:9000 --preset function
  firstbyte link --to localhost:9000 --rtt 30ms --per-connection 40MB --rate 400MB
  firstbyte link --to localhost:9000 --cut 1% --corrupt 1% --stall 2%:5s --seed 7
A fault is drawn once for each request. Prints the address it listens on; ends with Ctrl-C.")]
pub struct LinkArgs {
    /// Where clients connect; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    listen: String,
    /// Where their bytes go
    #[arg(long, value_name = "HOST:PORT")]
    to: String,
    /// The round trip and the rates of a place: function (0.6 Gbit/s, 20 ms), region (30 ms, 40
    /// MB/s a connection, 400 MB/s in all), none
    #[arg(long, value_name = "PLACE")]
    preset: Option<Preset>,
    /// Round-trip time
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    rtt: Option<Duration>,
    /// Rate of all connections together
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    /// Rate of one connection
    #[arg(long, value_name = "RATE")]
    per_connection: Option<Rate>,
    /// How many answers begin late, and by how much: 1%:200ms
    #[arg(long, value_name = "P:TIME")]
    delay: Option<Hold>,
    /// How many answers stop in their midst, and for how long: 2%:5s
    #[arg(long, value_name = "P:TIME")]
    stall: Option<Hold>,
    /// How many connections end in the middle of an answer
    #[arg(long, value_name = "P")]
    cut: Option<Chance>,
    /// How many answers have a byte changed
    #[arg(long, value_name = "P")]
    corrupt: Option<Chance>,
    /// How many answers have a piece of theirs sent twice
    #[arg(long, value_name = "P")]
    duplicate: Option<Chance>,
    /// What the faults are drawn from
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

impl LinkArgs {
    fn config(&self) -> Result<LinkConfig> {
        let place = LinkConfig::new(resolve(&self.listen)?, &self.to)
            .with_preset(self.preset.unwrap_or(Preset::None));
        Ok(LinkConfig {
            rtt: self.rtt.unwrap_or(place.rtt),
            rate: self.rate.or(place.rate),
            per_connection: self.per_connection.or(place.per_connection),
            faults: Faults {
                delay: self.delay.unwrap_or_default(),
                stall: self.stall.unwrap_or_default(),
                cut: self.cut.unwrap_or_default(),
                corrupt: self.corrupt.unwrap_or_default(),
                duplicate: self.duplicate.unwrap_or_default(),
            },
            seed: self.seed,
            ..place
        })
    }
}

fn resolve(address: &str) -> Result<SocketAddr> {
    let wrong = |why: String| Error::usage(format!("--listen {address}: {why}")).advise("write HOST:PORT");
    let mut addresses = address.to_socket_addrs().map_err(|e| wrong(e.to_string()))?;
    addresses.next().ok_or_else(|| wrong("no such host".into()))
}

/// Runs it.
pub fn run(args: &LinkArgs, globals: &Globals) -> Result<Exit> {
    let ending = Ending { interrupted: signals::GRACE, terminated: signals::GRACE, exit: Exit::Done };
    let interruption = signals::interruption(ending)?;
    let running = Link::start(args.config()?).map_err(|error| Error::failed(error.to_string()))?;
    console::print(running.address())?;
    // An error means that the sender is gone, which it is only after it has sent.
    let _ = interruption.recv();
    let seen = running.stop();
    if globals.json {
        console::print(json!({
                "verb": "link", "connections": seen.connections, "requests": seen.requests,
                "bytes_to_server": seen.bytes_to_server, "bytes_to_client": seen.bytes_to_client,
                "delays": seen.delays, "stalls": seen.stalls, "cuts": seen.cuts,
                "corruptions": seen.corruptions, "duplicates": seen.duplicates,
        }))?;
    }
    // Ending it by a signal is the only way there is, so it is no interruption.
    Ok(Exit::Done)
}

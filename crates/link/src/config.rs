//! What a link is like: round trip, rates, faults, and two settings that stand for places users are in.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use crate::{Chance, Error, Hold, Rate};

/// A link from an address to a target. [`LinkConfig::new`] is a clean and unlimited one.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// Where clients connect; port 0 for any.
    pub listen: SocketAddr,
    /// Where their bytes go: `HOST:PORT`, resolved once, at the start.
    pub to: String,
    /// Round-trip time: half of it each way, and one of it to connect.
    pub rtt: Duration,
    /// Rate of all connections together, for each direction.
    pub rate: Option<Rate>,
    /// Rate of one connection, for each direction.
    pub per_connection: Option<Rate>,
    /// What goes wrong.
    pub faults: Faults,
    /// What the faults are drawn from: the n-th request on the m-th connection meets the same fault in every run.
    pub seed: u64,
}

/// What goes wrong with a request, each with its own probability. A fault has a point within the answer: uniform over
/// it where its HTTP head tells the length; otherwise log-uniform from 1 KiB to 64 MiB. A fault whose point the answer
/// never reaches does not happen. Corruption and duplication spare an answer's first 1 KiB, so that its head arrives whole.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// The answer begins late by this much.
    pub delay: Hold,
    /// The answer stops for this long in its midst (before its first byte where its length is not told).
    pub stall: Hold,
    /// The connection ends in the answer: by a reset or by a clean close, as likely one as the other.
    pub cut: Chance,
    /// One bit of one byte is flipped.
    pub corrupt: Chance,
    /// A segment of the answer comes twice.
    pub duplicate: Chance,
}

impl LinkConfig {
    /// A clean link without delay or limit.
    #[must_use]
    pub fn new(listen: SocketAddr, to: impl Into<String>) -> Self {
        let (rtt, rate, per_connection, faults, seed) = (Duration::ZERO, None, None, Faults::default(), 0);
        Self { listen, to: to.into(), rtt, rate, per_connection, faults, seed }
    }

    /// The same link with the delay and the rates of `preset`.
    #[must_use]
    pub fn with_preset(self, preset: Preset) -> Self {
        match preset {
            Preset::None => Self { rtt: Duration::ZERO, rate: None, per_connection: None, ..self },
            Preset::Function => Self {
                rtt: Duration::from_millis(20),
                rate: Some(Rate::bytes_per_second(75_000_000)),
                per_connection: None,
                ..self
            },
            Preset::Region => Self {
                rtt: Duration::from_millis(30),
                rate: Some(Rate::bytes_per_second(400_000_000)),
                per_connection: Some(Rate::bytes_per_second(40_000_000)),
                ..self
            },
        }
    }
}

/// Links that stand for a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preset {
    /// As fast as this machine: no delay, no limit.
    None,
    /// A serverless function's network: 0.6 Gbit/s in all, 20 ms.
    #[default]
    Function,
    /// An object store in the same region: 30 ms to the first byte, 40 MB/s a connection, 400 MB/s in all. The 30 ms
    /// are all put into the round trip, so connecting pays them too: somewhat harsher than the real thing.
    Region,
}

impl FromStr for Preset {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "none" => Ok(Self::None),
            "function" => Ok(Self::Function),
            "region" => Ok(Self::Region),
            _ => Err(Error::Setting {
                value: text.to_owned(),
                why: "no such link; there are function, region and none",
            }),
        }
    }
}

impl std::fmt::Display for Preset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Function => "function",
            Self::Region => "region",
        })
    }
}

//! Emulates a slow, distant, shared or faulty network, in two forms: a TCP proxy with a round-trip
//! time, rates and faults ([`Link`]), and a slow file system ([`SlowFs`]). The rest of this page
//! describes the proxy.
//!
//! A connection opens one round trip after it was accepted. From then on, bytes are *transmitted*
//! (read from one socket at the rates of the connection and the link, by turns with the other
//! connections), *propagated* (delayed by half a round trip) and *delivered* (written to the other
//! socket). Faults are drawn from a seed, once per request.
//!
//! Packet loss, slow start and congestion control are not modelled, so a connection has its full
//! rate from the first byte. A new request begins when client bytes follow server bytes, so
//! pipelined requests count as one. A line buffers up to twice the bytes that arrive during its
//! delay of half a round trip, and two pieces, in addition to the buffers of the sender's and the
//! receiver's kernels.
//!
//! One thread and one epoll set serve all connections. With one thread per connection, the
//! scheduler would determine the rates.

mod config;
mod connection;
mod counters;
mod dice;
mod end;
mod error;
mod fault;
mod line;
mod mount;
mod pace;
mod rate;
mod replay;
mod router;
mod running;
mod wait;

pub use config::{Chance, Faults, LinkConfig, RandomDelay, parse_duration};
pub use counters::LinkCounts;
pub use error::{Error, Result};
pub use mount::{MountSnapshot, SlowFs, SlowFsConfig};
pub use rate::{BurstBucket, LinkRate};
pub use replay::{Preset, Replay};
pub use running::{Link, RunningLink};
pub use wait::WaitDistribution;

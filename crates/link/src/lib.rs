//! A stand-in for a slow, far, shared or faulty network: a TCP proxy with a round-trip time, rates and faults.
//!
//! What it does, and in which order. A connection is opened one round trip after it was accepted. From then on bytes
//! are *transmitted* (taken from one socket as fast as the connection's rate and the link's total rate allow, turn by
//! turn between the connections), *propagated* (held for half a round trip) and *delivered* (written to the other
//! socket). Faults are drawn once for every request, from a seed.
//!
//! What it does not do: packet loss, slow start and congestion control are not modelled, so a connection is at its
//! full rate from its first byte on. A request is told from the next one by the turn of the conversation (client bytes
//! after server bytes), so pipelined requests count as one. What the sender's and the receiver's kernels buffer comes
//! on top of what the link itself holds, which is at most twice the bandwidth-delay product.
//!
//! One thread and one epoll set run it all: with a thread per connection the scheduler, not the link, would set the pace.

mod config;
mod connection;
mod counters;
mod end;
mod error;
mod fault;
mod line;
mod pace;
mod parse;
mod router;
mod running;

pub use config::{Faults, LinkConfig, Preset};
pub use counters::CounterSnapshot;
pub use error::{Error, Result};
pub use parse::{Chance, Hold, Rate, parse_duration};
pub use running::{Link, Running};

//! A job: one workload, done once in its own process, with its figures.
//!
//! The engine starts `firstbyte bench job JSON`, measures the process from outside, and reads the
//! figures from the last line of its output. A workload is written once, over `access::Session`,
//! and works for every access to a target.

mod error;
mod fio;
mod latency;
pub(crate) mod program;
pub(crate) mod spec;
mod watch;

pub use error::{Error, Result};
pub use fio::{Fio, ReadPattern};
pub(crate) use latency::Latencies;
pub use spec::{Access, ComparedPart, ExpectedContent, Job, Names, OpenStage, Order, Share, Size, Workload};
pub use watch::{Metrics, Watch};

//! Measures how long storage takes to give usable bytes.
//!
//! One engine for every measurement: a [`plan`] names data, services and contenders; the
//! [`engine`] makes the data from seeds, starts the services, brings the [`cache`] state about and
//! proves it, runs the contenders by turns, checks their content, and writes each run at once into
//! [`results`]. A [`job`] is one workload as a process, which the engine runs like any contender.

mod access;
pub mod cache;
pub mod cgroup;
mod check;
pub mod cost;
pub mod data;
pub mod engine;
mod error;
pub mod fio;
mod inherit;
pub mod job;
mod launch;
pub mod machine;
pub mod modelled;
pub mod mounts;
pub mod noise;
pub mod plan;
pub mod report;
mod resident;
pub mod results;
mod services;
mod stage;
pub mod suites;
mod sweep;
pub mod targets;
pub mod throughput;
mod words;
mod workloads;

pub use error::{Error, Result};
pub use launch::{is_launcher, launcher_main};

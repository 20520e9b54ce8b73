//! Measures how long storage takes to deliver usable bytes.
//!
//! One engine makes every measurement. A [`plan`] names data, services and contenders. The
//! [`engine`] makes the data from seeds, starts the services, establishes and checks the [`cache`]
//! state of each run, runs the contenders in turns, checks their content, and writes each run to
//! [`results`] when it ends. A [`job`] is one workload as a process, which the engine runs like any
//! contender.

mod access;
mod aws;
pub mod batch;
pub mod cache;
pub mod calibrate;
mod cgroup;
mod check;
pub mod compare;
pub mod cost;
pub mod data;
pub mod engine;
mod error;
mod fio;
pub mod functions;
mod inherit;
pub mod job;
mod job_run;
mod launch;
pub mod machine;
pub mod modelled;
pub mod mounts;
mod noise;
pub mod on;
pub mod plan;
mod process;
pub mod report;
mod resident;
pub mod result;
pub mod results;
#[cfg(test)]
mod scripted;
mod services;
mod slow_link;
mod stage;
pub mod statistics;
pub mod suites;
mod sweep;
pub mod table;
pub mod targets;
mod threads;
mod throughput;
mod walk;
mod words;
mod workloads;

pub use error::{Error, Result};
pub use job_run::run as run_job;
pub use launch::{is_launcher, launcher_main};
pub use stage::remove_stages;

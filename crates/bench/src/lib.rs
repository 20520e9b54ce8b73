//! Measures how long storage takes to give usable bytes.
//!
//! One engine for every measurement: a plan names data, services and contenders; the engine makes
//! the data from seeds, starts the services, brings the cache state about and proves it, runs the
//! contenders by turns, checks their content, and writes each run at once.

mod access;
pub mod cache;
pub mod cgroup;
pub mod data;
pub mod fio;
pub mod job;
pub mod machine;
pub mod mounts;
pub mod noise;
pub mod throughput;
mod workloads;

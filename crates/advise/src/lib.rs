//! Evaluates measurements of storage, and recommends storage for a workload.
//!
//! [`result`] is the schema of results files, which `bench` writes. [`statistics`] summarises
//! results, and [`compare`] finds the differences between two. [`advice`] simulates a workload on
//! each service, from [`models`] and [`prices`].
//!
//! All of this is pure: no file, no clock, no network, and the same input gives the same output.
//! The callers, `bench` and the command line, read and write the files.

pub mod advice;
pub mod bill;
pub mod blast;
pub mod compare;
pub mod fields;
pub mod models;
pub mod prices;
pub mod result;
pub mod simulator;
pub mod statistics;
pub mod table;
pub mod units;
pub mod usage;
pub mod workload;

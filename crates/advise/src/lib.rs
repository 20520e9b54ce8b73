//! What a measurement is and what follows from it: the schema of results and their statistics.
//!
//! Pure: no file, no clock, no network, and the same input gives the same output. `bench` fills a
//! [`result`], summarises it with [`statistics`], and finds what changed between two with
//! [`compare`]. Only the edges read and write files.

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

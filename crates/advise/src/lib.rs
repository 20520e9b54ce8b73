//! Predicts the time and cost of reading from storage, and recommends storage for a workload.
//!
//! A [`model`] describes a service, a machine or a program. [`limits`] predicts a job from the
//! numbers of the job. [`advice`] checks and ranks the options for a [`workload`], and writes the
//! recommendation, with costs from [`prices`]. [`ranges`] has the errors of predictions, compared
//! to public measurements.
//!
//! The crate is pure: it uses no files, no clock and no network, and the same input gives the same
//! output. Its callers, `bench` and the command line, read and write files.

pub mod advice;
pub mod file_error;
pub mod limits;
pub mod model;
mod nearest;
pub mod prices;
pub mod ranges;
pub mod units;
pub mod usage;
pub mod workload;

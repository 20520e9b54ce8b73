//! Predicts the time and cost of reading from storage, and recommends storage for a workload.
//!
//! A [`model`] describes a service, a machine or a program. [`limits`] predicts a job from its
//! numbers. [`advice`] checks, ranks and words the options of a [`workload`], with [`prices`] for
//! the cost. [`ranges`] has the errors of predictions against public measurements.
//!
//! Pure: no files, no clock, no network; the same input gives the same output. The callers, `bench`
//! and the command line, read and write files.

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

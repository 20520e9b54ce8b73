//! Runs the tests of the crate as one program, which is linked only once. Each file is a module.

mod cache_model;
mod faults;
mod hydrating;
mod ranges;
mod reading;
mod small_cache;

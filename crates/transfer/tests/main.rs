//! Runs the tests of the crate as one program, which is linked only once. Each file is a module.

mod aliases;
mod changes;
mod downloads;
mod markers;
mod orders;
mod support;
mod sync_model;
mod tags;
mod trees;

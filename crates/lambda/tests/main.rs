//! The tests of the crate as one program, which is linked once. Each file is a module.

mod actions;
mod api;
mod deadlines;
mod support;

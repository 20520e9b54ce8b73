//! The tests of the crate as one program, which is linked once. Each file is a module.

mod faults;
mod hydrated;
mod model;
mod names;
mod place;
mod reading;
mod support;

//! Runs the tests of the crate as one program, which is linked only once. Each file is a module.

#![allow(unreachable_pub, reason = "a test program exports nothing; its modules share what is `pub`")]

mod faults;
mod hydrated;
mod model;
mod names;
mod permissions;
mod place;
mod reading;
mod support;

//! Combines the tests of the crate into one program, which is linked once. Each file is a module.

#![allow(unreachable_pub, reason = "a test program exports nothing; its modules share what is `pub`")]

mod actions;
mod api;
mod deadlines;
mod support;
mod warm;

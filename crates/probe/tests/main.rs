//! The tests of the probe with real files and servers, in one program.

mod probe;

//! Tests the policies by simulation, in one program.

mod grid;
mod simulator;
mod wide;

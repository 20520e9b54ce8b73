//! Tests of the policies by simulation, one program.

mod grid;
mod simulator;
mod wide;

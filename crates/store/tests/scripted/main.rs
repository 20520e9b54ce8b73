//! Stores against a server that does what it is told: cut, stall, lie, redirect, refuse.

mod answers;
mod s3;
mod server;
mod stopping;

//! Tests stores against a scripted server that truncates, stalls, redirects, refuses and sends
//! wrong headers.

mod answers;
mod connections;
mod express;
mod pages;
mod ranges;
mod s3;
mod server;
mod stopping;

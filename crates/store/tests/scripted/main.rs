//! Tests stores against a scripted server that truncates, stalls, redirects, refuses and sends
//! wrong headers.

mod answers;
mod express;
mod s3;
mod server;
mod stopping;

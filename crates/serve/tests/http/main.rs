//! Tests of the server from a client's view, with raw sockets.

mod access;
mod archive;
mod changes;
mod client;
mod conditions;
mod connection;
mod cors;
mod dates;
mod directories;
mod documents;
mod forms;
mod framing;
mod hosts;
mod leftovers;
mod links;
mod listing;
mod named_bucket;
mod objects;
mod payloads;
mod rights;
mod shared;
mod sign_in;
mod signatures;
#[path = "../support/signing.rs"]
mod signing;
mod tls;
mod tolerance;
mod understood;
mod uploads;

//! The server as clients see it: raw sockets against a running one.

mod access;
mod archive;
mod changes;
mod client;
mod conditions;
mod connection;
mod dates;
mod documents;
mod framing;
mod leftovers;
mod links;
mod listing;
mod named_bucket;
mod objects;
mod payloads;
mod rights;
mod sign_in;
mod signatures;
mod signing;
mod tls;
mod understood;
mod uploads;

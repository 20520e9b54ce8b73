//! The server as clients see it: raw sockets against a running one.

mod access;
mod client;
mod conditions;
mod connection;
mod framing;
mod leftovers;
mod objects;
mod tls;
mod uploads;

//! The server as clients see it: raw sockets against a running one.

mod access;
mod client;
mod connection;
mod objects;
mod tls;

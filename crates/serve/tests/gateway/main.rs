//! Tests of a gateway from a client's view, over origins that change, stop and misbehave.

#[path = "../http/client.rs"]
#[expect(dead_code, reason = "the tests of directories use more of it")]
mod client;
mod freshness;
mod listings;
mod loops;
mod origin;
mod reads;
mod rights;
mod scripted;
mod sharing;
#[path = "../support/signing.rs"]
#[expect(dead_code, reason = "the tests of directories use more of it")]
mod signing;

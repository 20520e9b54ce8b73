//! Tests probes with real files and servers, in one program.

mod probe;

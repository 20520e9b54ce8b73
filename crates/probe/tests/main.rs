//! The probe against real files and servers: one test program.

mod probe;

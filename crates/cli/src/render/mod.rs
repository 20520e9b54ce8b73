//! The output of the program: rows, progress, receipts and errors. Results go to standard output,
//! everything else to standard error. Verbs call this module; the module does not depend on any
//! verb.

pub mod console;
pub mod error;
pub mod inside_run;
pub mod json;
pub mod log;
pub mod log_line;
pub mod output_file;
pub mod progress;
mod progress_bar;
pub mod report;
mod result_line;
pub mod rows;
pub mod traces;

//! Runs firstbyte inside AWS Lambda. This library has the code that the function `bootstrap` and
//! the example API share.
//!
//! An invocation calls [`perform_action`] with one event. The call runs on a blocking thread,
//! within the memory and the `/tmp` of the function, and ends before the deadline. If work is left,
//! the answer has a token, with which the next call continues the work.
//! `docs/reference/functions.md` has events and answers.

mod actions;
mod answer;
mod call;
mod deadline;
mod environment;
mod error;
mod event;
mod frontier;
mod meter;
mod mounts;
pub mod reader;
mod record;
mod run;
mod tmp;
mod token;
mod within;
mod written;

pub use actions::perform_action;
pub use answer::{Answer, Stages};
pub use deadline::Deadline;
pub use environment::ExecutionEnvironment;
pub use error::{InvocationFailure, Result};
pub use event::ReadRange;
pub use firstbyte_store::FailureKind;
pub use meter::ReceiveRate;
pub use within::within;

//! firstbyte inside AWS Lambda: what the function `bootstrap` and the example API share.
//!
//! An invocation is a [`perform`] of one event. It runs on a blocking thread, within the memory and
//! the `/tmp` of the function, and ends before the deadline: what is not done by then is in the
//! answer's token, with which the next call continues. `docs/reference/functions.md` has
//! events and answers.

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
mod run;
mod tmp;
mod token;

pub use actions::perform;
pub use answer::{Answer, Stages};
pub use deadline::Deadline;
pub use environment::Environment;
pub use error::{Failure, Result};
pub use event::Read;
pub use firstbyte_store::FailureKind;
pub use meter::Rate;

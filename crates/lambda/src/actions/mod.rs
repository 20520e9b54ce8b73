//! Performs an event's action and makes its answer. Each action has its own module.

mod copy_many;
mod download;
mod list;
mod mounted;
mod open;

use serde_json::Value;

use crate::answer::Answer;
use crate::call::InvocationContext;
use crate::deadline::Deadline;
use crate::environment::ExecutionEnvironment;
use crate::error::{InvocationFailure, Result};
use crate::event::{self, EventAction};

/// Performs the action of an event, and answers before the deadline.
///
/// # Errors
/// The reason why the whole action failed. Failures of single objects are in the answer.
pub fn perform_action(
    environment: &ExecutionEnvironment,
    event: Value,
    deadline: Deadline,
) -> Result<Answer> {
    let invocation = environment.invoked();
    environment.clear(deadline);
    let (action, common) = event::parse(event)?;
    if deadline.is_near(None) {
        let (left, needed) = (deadline.remaining().as_millis(), deadline.margin(None).as_millis());
        return Err(InvocationFailure::too_little_time(&format!(
            "{left} ms are left, and {needed} ms are kept for the answer"
        )));
    }
    let call = InvocationContext::new(environment, deadline, invocation, common);
    let answer = match &action {
        EventAction::Download(event) => download::run(&call, event),
        EventAction::Open(event) => open::run(&call, event),
        EventAction::CopyMany(event) => copy_many::run(&call, event),
        EventAction::List(event) => list::run(&call, event),
        EventAction::Mounted(event) => mounted::run(&call, event),
    };
    match answer {
        Ok(answer) => Ok(call.finish(answer)),
        Err(failure) => {
            if !call.keeps_files_after(&failure) {
                call.clean();
            }
            Err(failure)
        }
    }
}

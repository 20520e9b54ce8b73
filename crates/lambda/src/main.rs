//! Implements `bootstrap`, the program of the function. Lambda starts it, and the program requests
//! one event after another.

use std::sync::Arc;
use std::time::Instant;

use firstbyte::environment::variable;
use firstbyte_lambda::{Answer, Deadline, ExecutionEnvironment, InvocationFailure, perform_action, within};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde_json::Value;

fn main() -> Result<(), Error> {
    // No client is made here. Clients are made when an event needs them.
    let environment = Arc::new(ExecutionEnvironment::begin(&variable));
    let handler = service_fn(|event| handle(Arc::clone(&environment), event));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    environment.ready();
    runtime.block_on(lambda_runtime::run(handler))
}

async fn handle(
    environment: Arc<ExecutionEnvironment>,
    event: LambdaEvent<Value>,
) -> Result<Answer, InvocationFailure> {
    let deadline = Deadline::new(Instant::now(), event.context.deadline, environment.memory());
    within(deadline, move || perform_action(&environment, event.payload, deadline)).await?
}

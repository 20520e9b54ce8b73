//! Implements `api`, an example function. `GET /query?source=s3://bucket/big&share=1%` counts the
//! lines of a part of a large object, behind API Gateway or a function URL.
//!
//! A part that cannot be read before the deadline is refused with status 413 and the largest share
//! that fits. The function decides this as soon as the rate is known, and checks it again while
//! reading, so it is never killed at its deadline.

mod estimate;
mod query;

use std::sync::Arc;
use std::time::Instant;

use firstbyte::environment::variable;
use firstbyte_lambda::{Deadline, ExecutionEnvironment, FailureKind, InvocationFailure, within};
use lambda_http::http::{Method, StatusCode};
use lambda_http::{Body, Error, Request, RequestExt, Response, service_fn};
use serde_json::{Value, json};

use query::{ApiQuery, QueryResult};

fn main() -> Result<(), Error> {
    let environment = Arc::new(ExecutionEnvironment::begin(&variable));
    let handler = service_fn(|request| handle(Arc::clone(&environment), request));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    environment.ready();
    runtime.block_on(lambda_http::run(handler))
}

async fn handle(environment: Arc<ExecutionEnvironment>, request: Request) -> Result<Response<Body>, Error> {
    let stated = request.lambda_context_ref().map_or(0, |context| context.deadline);
    let deadline = Deadline::new(Instant::now(), stated, environment.memory());
    let answered = within(deadline, move || answer(&environment, &request, &deadline)).await;
    let (status, body) = answered.unwrap_or_else(|failure| refusal(&failure));
    let response = Response::builder().status(status).header("content-type", "application/json");
    Ok(response.body(Body::Text(body.to_string()))?)
}

fn answer(environment: &ExecutionEnvironment, request: &Request, deadline: &Deadline) -> (StatusCode, Value) {
    if deadline.is_near(None) {
        return refusal(&InvocationFailure::new(
            FailureKind::Deadline,
            "the time left is needed for this answer",
        ));
    }
    // A stage and a base path mapping of API Gateway come before the path of the route.
    if request.method() != Method::GET || !request.uri().path().ends_with("/query") {
        let error =
            json!({"errorType": "BadInput", "errorMessage": "there is GET /query?source=LOCATION&share=1%"});
        return (StatusCode::NOT_FOUND, error);
    }
    let parameters = request.query_string_parameters();
    let parsed = ApiQuery::parse(&parameters.iter().collect::<Vec<_>>());
    match parsed.and_then(|query| query.run(environment, deadline)) {
        Ok(QueryResult::Read(figures)) => (StatusCode::OK, figures),
        Ok(QueryResult::TooLarge(fits)) => (StatusCode::PAYLOAD_TOO_LARGE, fits),
        Err(failure) => refusal(&failure),
    }
}

fn refusal(failure: &InvocationFailure) -> (StatusCode, Value) {
    let status = match failure.kind {
        FailureKind::BadInput => StatusCode::BAD_REQUEST,
        FailureKind::Denied | FailureKind::NoCredentials | FailureKind::Archived => StatusCode::FORBIDDEN,
        FailureKind::NotFound | FailureKind::NoSuchBucket => StatusCode::NOT_FOUND,
        FailureKind::Changed => StatusCode::CONFLICT,
        FailureKind::Throttled => StatusCode::SERVICE_UNAVAILABLE,
        FailureKind::Deadline => StatusCode::PAYLOAD_TOO_LARGE,
        FailureKind::Unreachable | FailureKind::TimedOut | FailureKind::Disconnected => {
            StatusCode::BAD_GATEWAY
        }
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let mut body = json!({"errorType": format!("{:?}", failure.kind), "errorMessage": failure.message});
    if failure.kind == FailureKind::Deadline {
        body["fits"] = json!({"largest_bytes": 0, "largest_share": "0.00%"});
    }
    (status, body)
}

//! Makes the case of a workload that a function does: for each number of jobs, calls in new
//! environments. Called for `bench run TARGET --on lambda:NAME`.

use std::collections::BTreeMap;

use crate::result::CacheState;
use serde_json::{Value, json};

use super::Request;
use super::probe::{Found, Target};
use crate::functions::FunctionSize;
use crate::plan::{CachePlan, Case, Contender, Count, Invoke};
use crate::words::literal;

/// Workloads that a function can do.
const WORKLOADS: [&str; 6] = ["open", "one-big", "seq-read", "many-small", "copy-tree", "list"];
/// Timeout of a run in seconds.
const RUN_TIMEOUT_SECONDS: f64 = 1800.0;

/// A function of Lambda, or of the user's own host.
#[derive(Clone, Debug, Default)]
pub struct Called {
    /// Name of the function.
    pub name: String,
    /// Endpoint of the Invoke API; empty for AWS.
    pub endpoint: String,
    /// Timeout of the function in seconds; empty for the longest.
    pub timeout: String,
}

/// Returns the workloads that fit a target.
pub(super) fn fitting(target: &Target) -> &'static [&'static str] {
    match target.found {
        Found::Object(_) => &["open", "one-big"],
        Found::Tree(_) => &["many-small", "list"],
    }
}

/// Makes the case of a workload.
pub(super) fn case(
    target: &Target,
    workload: &str,
    called: &Called,
    request: &Request,
    jobs: &[u32],
) -> Result<Case, String> {
    if target.local {
        return Err(format!("{}: a function does not see paths of this machine", target.location));
    }
    let (event, bytes) = event(target, workload, request)?;
    let memory = request.function.clone().unwrap_or_default();
    let mut vars = BTreeMap::new();
    if !memory.is_empty() {
        let size = FunctionSize::parse(&memory).map_err(|what| format!("--function: {what}"))?;
        vars.insert("memory".to_owned(), size.megabytes().to_string());
    }
    let contender = |jobs: &u32| Contender {
        name: format!("{jobs} at once"),
        invoke: Some(Invoke {
            function: called.name.clone(),
            endpoint: called.endpoint.clone(),
            memory: memory.clone(),
            timeout: called.timeout.clone(),
            event: event.clone(),
        }),
        jobs: Some(Count::Number(*jobs)),
        cache: CachePlan { state: CacheState::Cold, ..CachePlan::default() },
        bytes: bytes.map(|bytes| bytes.to_string()),
        workload: workload.to_owned(),
        target: literal(&target.location),
        parameters: BTreeMap::from([("jobs".to_owned(), f64::from(*jobs))]),
        ..Contender::default()
    };
    Ok(Case {
        name: format!("{workload} {}", target.location),
        title: format!("{workload} of {} in lambda:{}", target.location, called.name),
        vars,
        contenders: jobs.iter().map(contender).collect(),
        timeout: RUN_TIMEOUT_SECONDS,
        ..Case::default()
    })
}

/// Makes the event of a workload. Also returns the bytes that a call reads, if they are known.
fn event(target: &Target, workload: &str, request: &Request) -> Result<(Value, Option<u64>), String> {
    let source = &literal(&target.location);
    let below = format!("{}/", source.trim_end_matches('/'));
    let misfit = |needs: &str| Err(format!("{workload} needs {needs}: {} is not one", target.location));
    match (workload, &target.found) {
        ("open", Found::Object(_)) => {
            Ok((json!({ "action": "open", "source": source, "read": request.read }), None))
        }
        ("seq-read", Found::Object(size)) => {
            Ok((json!({ "action": "open", "source": source, "read": "all" }), Some(*size)))
        }
        ("one-big", Found::Object(size)) => {
            Ok((json!({ "action": "download", "source": source }), Some(*size)))
        }
        ("many-small" | "copy-tree", Found::Tree(shape)) => {
            let bytes = shape.complete.then(|| shape.sizes.values().sum());
            let mut event = json!({ "action": "copy-many", "source": below });
            if let Some(concurrency) = request.concurrency {
                event["concurrency"] = concurrency.into();
            }
            Ok((event, bytes))
        }
        ("list", Found::Tree(_)) => Ok((json!({ "action": "list", "source": below }), None)),
        ("open" | "seq-read" | "one-big", _) => misfit("an object"),
        ("many-small" | "copy-tree" | "list", _) => misfit("a prefix"),
        _ => Err(format!("no function does {workload}; functions do {}", WORKLOADS.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Shape;
    use super::*;

    fn make_case(workload: &str, found: Found) -> Result<Case, String> {
        let target = Target { location: "s3://b/k".into(), local: false, found, class: None };
        let request = Request { read: "1%".into(), function: Some("512MB".into()), ..Request::default() };
        let called = Called { name: "f".into(), ..Called::default() };
        case(&target, workload, &called, &request, &[1, 20])
    }

    #[test]
    fn a_workload_is_a_contender_of_calls_for_each_number_of_jobs() {
        let case = make_case("one-big", Found::Object(7)).unwrap();
        let names: Vec<&str> = case.contenders.iter().map(|contender| contender.name.as_str()).collect();
        assert_eq!(names, ["1 at once", "20 at once"]);
        let invoke = case.contenders[1].invoke.as_ref().unwrap();
        assert_eq!(invoke.event, json!({ "action": "download", "source": "s3://b/k" }));
        assert_eq!((invoke.memory.as_str(), case.contenders[1].bytes.as_deref()), ("512MB", Some("7")));
        let many = make_case("many-small", Found::Tree(Shape::default())).unwrap();
        assert_eq!(many.contenders[0].invoke.as_ref().unwrap().event["source"], "s3://b/k/");
    }

    #[test]
    fn a_workload_that_no_function_does_is_refused() {
        assert!(make_case("fio", Found::Object(7)).unwrap_err().contains("functions do open"));
        assert!(make_case("list", Found::Object(7)).unwrap_err().contains("needs a prefix"));
        assert!(make_case("open", Found::Tree(Shape::default())).unwrap_err().contains("needs an object"));
    }
}

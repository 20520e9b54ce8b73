//! Chooses where the jobs of a measurement run: as functions here or on Lambda, on the nodes of a
//! Slurm cluster, or all inside one job of AWS Batch.
//!
//! For all places except Batch, only the plan is changed, before the engine executes it. Called by
//! `bench run --on`.

use std::path::PathBuf;

use firstbyte_location::units::parse_size;

use crate::plan::Plan;

/// The place where jobs run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum JobPlace {
    /// Functions on this machine, with this code; `None` for the code next to this program.
    Local(Option<PathBuf>),
    /// A function of Lambda.
    Lambda {
        /// Name of the function. `{memory}` in it stands for the memory in MB.
        name: String,
        /// Endpoint; `None` for AWS.
        endpoint: Option<String>,
    },
    /// The nodes of a Slurm cluster.
    Slurm,
    /// A job of AWS Batch, which measures the file systems mounted on its instance.
    Batch {
        /// Name of the job queue.
        queue: String,
        /// Name of the job definition. A revision may follow; the default is the newest.
        definition: String,
        /// Endpoint; `None` for AWS.
        endpoint: Option<String>,
    },
}

impl JobPlace {
    /// Parses text such as `lambda:NAME`.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "local" => Ok(Self::Local(None)),
            None if text == "slurm" => Ok(Self::Slurm),
            Some(("local", code)) if !code.is_empty() => Ok(Self::Local(Some(code.into()))),
            Some(("lambda", function)) if !function.is_empty() => {
                let (name, endpoint) = at_endpoint(function);
                Ok(Self::Lambda { name, endpoint })
            }
            Some(("batch", place)) => {
                let (place, endpoint) = at_endpoint(place);
                match place.split_once(':') {
                    Some((queue, definition)) if !queue.is_empty() && !definition.is_empty() => {
                        Ok(Self::Batch { queue: queue.into(), definition: definition.into(), endpoint })
                    }
                    _ => Err("write batch:QUEUE:DEFINITION, the names of a job queue and a job definition".into()),
                }
            }
            _ => Err("write local, local:CODE, lambda:NAME, batch:QUEUE:DEFINITION or slurm; @ENDPOINT may follow \
                      NAME and DEFINITION"
                .into()),
        }
    }
}

/// Splits `NAME` or `NAME@ENDPOINT`.
fn at_endpoint(text: &str) -> (String, Option<String>) {
    match text.split_once('@') {
        Some((name, endpoint)) => (name.to_owned(), Some(endpoint.to_owned())),
        None => (text.to_owned(), None),
    }
}

/// Changes a plan so that its calls go to existing functions, without emulation. All calls of a run
/// then start at once. Drops contenders that name a variable in `unknown`: it has no value in those
/// functions.
pub fn in_lambda(plan: &mut Plan, unknown: &[&str]) {
    plan.env.clear();
    for case in &mut plan.cases {
        case.uses = Some(Vec::new());
        case.contenders.retain(|contender| {
            let text = serde_json::json!(contender.invoke).to_string();
            !unknown.iter().any(|name| text.contains(&format!("{{{name}}}")))
        });
        for contender in &mut case.contenders {
            (contender.function, contender.waves) = (None, false);
        }
    }
    plan.cases.retain(|case| !case.contenders.is_empty());
}

/// Removes the plan's credentials, so that functions on this machine use the caller's, for the
/// caller's own store.
pub fn as_caller(plan: &mut Plan) {
    plan.env.clear();
    let of_cases = plan.cases.iter_mut().flat_map(|case| &mut case.services);
    for service in plan.services.iter_mut().chain(of_cases) {
        service.env.retain(|name, _| !name.starts_with("AWS_"));
    }
}

/// Changes a plan so that every command and job runs by `srun`, as Slurm jobs named `name`. Slurm
/// applies the limits of memory and processors.
///
/// # Errors
/// A limit is not a size.
pub fn in_slurm(plan: &mut Plan, name: &str) -> Result<(), String> {
    for contender in plan.cases.iter_mut().flat_map(|case| &mut case.contenders) {
        if contender.modelled.is_some() || contender.invoke.is_some() {
            continue;
        }
        let fixed = ["srun", "--quiet", "--nodes=1", "--ntasks=1", "--unbuffered", "--export=ALL"];
        let mut words = fixed.map(str::to_owned).to_vec();
        words.push(format!("--job-name={name}"));
        if let Some(size) = contender.memory_limit.take() {
            let bytes = parse_size(&size).map_err(|error| format!("{}: {error}", contender.name))?;
            words.push(format!("--mem={}K", bytes.div_ceil(1024)));
        }
        if let Some(cpus) = contender.cpus.take() {
            words.push(format!("--cpus-per-task={}", cpus.ceil()));
        }
        (contender.function, contender.waves) = (None, false);
        contender.through = words;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_jobs_are_parsed() {
        assert_eq!(JobPlace::parse("local"), Ok(JobPlace::Local(None)));
        assert_eq!(JobPlace::parse("local:a.zip"), Ok(JobPlace::Local(Some("a.zip".into()))));
        let lambda = |endpoint: Option<&str>| JobPlace::Lambda {
            name: "f".into(),
            endpoint: endpoint.map(Into::into),
        };
        assert_eq!(JobPlace::parse("lambda:f"), Ok(lambda(None)));
        let local = "http://127.0.0.1:9001";
        assert_eq!(JobPlace::parse("lambda:f@http://127.0.0.1:9001"), Ok(lambda(Some(local))));
        assert_eq!(JobPlace::parse("slurm"), Ok(JobPlace::Slurm));
        let batch = |definition: &str, endpoint: Option<&str>| JobPlace::Batch {
            queue: "q".into(),
            definition: definition.into(),
            endpoint: endpoint.map(str::to_owned),
        };
        assert_eq!(JobPlace::parse("batch:q:d"), Ok(batch("d", None)));
        let queued = batch("d:3", Some("http://127.0.0.1:1"));
        assert_eq!(JobPlace::parse("batch:q:d:3@http://127.0.0.1:1"), Ok(queued));
        assert!(JobPlace::parse("batch:q").unwrap_err().contains("batch:QUEUE:DEFINITION"));
        for wrong in ["", "lambda", "lambda:", "local:", "batch"] {
            assert!(JobPlace::parse(wrong).unwrap_err().contains("lambda:NAME"), "{wrong}");
        }
    }
}

//! `bench run --on`: prepares a suite for serverless functions, or a plan for a cluster.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use firstbyte_bench::on::{self, JobPlace};
use firstbyte_bench::plan::Plan;
use firstbyte_bench::suites::Suite;
use firstbyte_bench::targets::{Called, Found, Target};

use crate::render::error::{Error, Result};

/// Variables of suites that name resources which a user may have in Lambda: a mounted directory,
/// and Python functions.
const USER_VARIABLES: [&str; 4] = ["mounted", "boto3", "shutil", "package"];

/// Changes a plan so that its jobs run where `on` says. Refuses a plan that cannot run there.
pub fn place(mut plan: Plan, on: Option<&JobPlace>) -> Result<Plan> {
    match on {
        // With Batch, this process does not run the plan; see `batch`.
        None | Some(JobPlace::Batch { .. }) => {}
        Some(JobPlace::Slurm) => {
            let found = Command::new("srun").arg("--version").stdout(Stdio::null()).status();
            if let Err(error) = found {
                let what = format!("--on slurm: srun: {error}");
                return Err(
                    Error::usage(what).advise("run it where Slurm's commands are, as on a login node")
                );
            }
            on::in_slurm(&mut plan, &job_name()).map_err(Error::usage)?;
        }
        Some(_) if plan.cases.iter().flat_map(|case| &case.contenders).any(|one| one.invoke.is_some()) => {}
        Some(_) => {
            let advice = "add --suite s1 or --suite s5, or a plan whose contenders invoke functions";
            return Err(Error::usage("--on: nothing of this runs in functions").advise(advice));
        }
    }
    Ok(plan)
}

/// Returns the serverless function that reads the targets; `None` if processes read them.
pub fn called_function(on: Option<&JobPlace>) -> Result<Option<Called>> {
    match on {
        Some(JobPlace::Lambda { name, endpoint }) => {
            let endpoint = endpoint.clone().unwrap_or_default();
            Ok(Some(Called { name: name.clone(), endpoint, ..Called::default() }))
        }
        Some(JobPlace::Local(_)) => {
            let advice =
                "start `firstbyte bench functions`, and give --on lambda:firstbyte@http://127.0.0.1:9001";
            Err(Error::usage("--on local measures the suites s1 and s5").advise(advice))
        }
        Some(JobPlace::Slurm | JobPlace::Batch { .. }) | None => Ok(None),
    }
}

/// Ends the jobs that an interrupted measurement has left in a Slurm queue.
pub fn cancel_queued_jobs(on: Option<&JobPlace>) {
    if on == Some(&JobPlace::Slurm) {
        // `scancel` fails if there is no such job, which is not an error here.
        let name = format!("--name={}", job_name());
        let _ = Command::new("scancel").args(["--quiet", &name]).stderr(Stdio::null()).status();
    }
}

/// Returns the name of the Slurm jobs of this measurement.
fn job_name() -> String {
    format!("firstbyte-bench-{}", std::process::id())
}

/// Makes the plan of a suite in serverless functions. The functions run on this machine, with
/// stand-ins or the user's storage, or in Lambda.
pub fn in_functions(
    suite: &Suite,
    on: &JobPlace,
    targets: &[Target],
    locations: &[String],
    endpoint: Option<String>,
    mut vars: BTreeMap<String, String>,
) -> Result<Plan> {
    let unknown: Vec<&str> = USER_VARIABLES.into_iter().filter(|name| !vars.contains_key(*name)).collect();
    if let Some(python) = vars.get_mut("python").filter(|python| python.contains('/')) {
        *python = std::path::absolute(&*python).map_or(python.clone(), |path| path.display().to_string());
    }
    let big = vars.get("big").cloned().unwrap_or_else(|| "big".to_owned());
    let mut set = |name: &str, value: String| {
        vars.entry(name.to_owned()).or_insert(value);
    };
    let remote = targets.iter().zip(locations).find(|(target, _)| !target.local);
    let local = targets.iter().zip(locations).find(|(target, _)| target.local);
    if let Some((target, location)) = remote {
        set("source", location.clone());
        let bytes = match &target.found {
            Found::Object(bytes) => Some(bytes),
            Found::Tree(shape) => shape.sizes.get(&big),
        };
        if let Some(bytes) = bytes {
            set("size", bytes.to_string());
        }
    }
    match on {
        JobPlace::Local(code) => {
            set("code", code_path(code.clone())?.display().to_string());
            if let Some((target, _)) = remote {
                set("store", host_of(&target.location, endpoint)?);
            }
            if let Some((_, location)) = local {
                set("shown", location.clone());
            }
            let mut plan = suite.plan_in_functions(&vars)?;
            if remote.is_some() {
                on::as_caller(&mut plan);
            }
            Ok(plan)
        }
        JobPlace::Lambda { name, endpoint } => {
            if let Some((target, _)) = local {
                let what =
                    format!("{}: a function does not see directories of this machine", target.location);
                return Err(Error::usage(what).advise("name what it has mounted with --set mounted=DIR"));
            }
            if !vars.contains_key("source") {
                let advice = "name an object (s1) or a prefix (s5) that it may read: s3://BUCKET/KEY";
                return Err(Error::usage("--on lambda: the function has nothing to read").advise(advice));
            }
            vars.insert("name".into(), name.clone());
            let of_others =
                ["boto3", "shutil", "package"].into_iter().filter(|name| vars.contains_key(*name));
            let endpoints: Vec<String> = of_others.map(|name| format!("{name}_endpoint")).collect();
            for name in endpoints.into_iter().chain(["endpoint".to_owned()]) {
                vars.insert(name, endpoint.clone().unwrap_or_default());
            }
            let mut plan = suite.plan_in_functions(&vars)?;
            on::in_lambda(&mut plan, &unknown);
            Ok(plan)
        }
        JobPlace::Slurm | JobPlace::Batch { .. } => Err(Error::usage("--on: it runs no functions")),
    }
}

/// Returns the path of the function's code: the given path, else the `bootstrap` next to this
/// program.
fn code_path(code: Option<PathBuf>) -> Result<PathBuf> {
    if let Some(code) = code {
        return Ok(std::path::absolute(&code).unwrap_or(code));
    }
    let own = std::env::current_exe().map_err(|error| Error::io("this program's own path", &error))?;
    let beside = own.with_file_name("bootstrap");
    if beside.is_file() {
        return Ok(beside);
    }
    let what = format!("--on local: there is no function: {} does not exist", beside.display());
    Err(Error::usage(what).advise("name its zip: --on local:FILE"))
}

/// Returns `HOST:PORT` of the store. The links of the functions connect to it.
fn host_of(location: &str, endpoint: Option<String>) -> Result<String> {
    let url = if location.starts_with("s3://") { endpoint.unwrap_or_default() } else { location.to_owned() };
    let host = url.strip_prefix("http://").map(|rest| rest.split('/').next().unwrap_or_default());
    match host {
        Some(host) if host.contains(':') => Ok(host.to_owned()),
        Some(host) => Ok(format!("{host}:80")),
        None => {
            let what = format!("--on local: {location}: the link of a function does not work with TLS");
            Err(Error::usage(what).advise("give an http endpoint with --endpoint-url, or use --on lambda"))
        }
    }
}

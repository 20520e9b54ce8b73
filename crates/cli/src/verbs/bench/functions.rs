//! `bench functions`: hosts a serverless function on this machine, behind the APIs of AWS Lambda,
//! until it is stopped.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use firstbyte::environment;
use firstbyte_bench::functions::{FunctionServer, FunctionSize, HostSettings, SlowDirectory, Source};
use firstbyte_location::units::{PositiveDuration, parse_size};
use serde_json::json;

use super::super::address;
use super::run::{clean_environment, parse_pair};
use crate::globals::Globals;
use crate::render::console;
use crate::render::error::{Error, Exit, Result};
use crate::signals::{self, ForcedEnd};

/// Maximum time that the function's environments have to end.
const MAX_END_WAIT: Duration = Duration::from_secs(10);
/// Environment variables of the caller that become the role (the credentials) of the function.
const ROLE_VARIABLES: [&str; 4] =
    ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION"];

/// Run a function on this machine as AWS Lambda would, until stopped
#[derive(Args)]
#[command(after_help = "\
Examples:
  firstbyte bench functions firstbyte-lambda.zip --function 512MB --environments 4 --timeout 29s
  firstbyte bench functions bootstrap --link-to 127.0.0.1:9000 --mount /srv/data
  firstbyte bench functions handlers/ --handler app.handler --python .venv/bin/python
  aws lambda invoke --endpoint-url http://127.0.0.1:9001 --function-name firstbyte \\
    --cli-binary-format raw-in-base64-out --payload '{\"action\": \"list\", \"source\": \"s3://bucket/\"}' answer.json
Memory and the share of a processor are limited by control groups (root), as in bench run --function. Signatures
are not checked: the address is one of this machine alone. Each environment has a /tmp of its own (root).")]
pub struct FunctionsArgs {
    /// The code: a zip, a directory, or an executable that is the runtime
    #[arg(value_name = "CODE")]
    code: PathBuf,
    /// The handler of Python code, run by awslambdaric: MODULE.FUNCTION
    #[arg(long, value_name = "HANDLER")]
    handler: Option<String>,
    /// The Python for a handler, which has awslambdaric
    #[arg(long, value_name = "PATH", default_value = "python3")]
    python: PathBuf,
    /// Name of the function
    #[arg(long, value_name = "NAME", default_value = "firstbyte")]
    name: String,
    /// Memory of an environment, with the share of a processor that goes with it; without limits
    /// if left out
    #[arg(long, value_name = "SIZE", value_parser = FunctionSize::parse)]
    function: Option<FunctionSize>,
    /// Environments at once; more calls are refused, as by Lambda
    #[arg(long, value_name = "N", default_value_t = 10)]
    environments: usize,
    /// The longest time of a call, after which its environment is killed
    #[arg(long, value_name = "TIME", default_value = "29s")]
    timeout: PositiveDuration,
    /// Where callers connect, on this machine
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9001")]
    listen: String,
    /// A server that each environment reaches by a link of its own: 0.6 Gbit/s sustained, 20 ms. It
    /// is the function's AWS_ENDPOINT_URL
    #[arg(long, value_name = "HOST:PORT")]
    link_to: Option<String>,
    /// A directory that each environment sees as /mnt/data, by a slow file system of its own (root)
    #[arg(long, value_name = "DIR")]
    mount: Option<PathBuf>,
    /// Delay of each request to that file system
    #[arg(long, value_name = "TIME", default_value = "2ms", requires = "mount")]
    mount_rtt: String,
    /// Rate of that file system
    #[arg(long, value_name = "RATE", default_value = "60MB", requires = "mount")]
    mount_rate: String,
    /// Size of /tmp; that of the disk if left out (root)
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    tmp: Option<u64>,
    /// A variable of the function; may be repeated
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = parse_pair)]
    variables: Vec<(String, String)>,
}

pub fn run(args: &FunctionsArgs, globals: &Globals) -> Result<Exit> {
    let ending = ForcedEnd { interrupted: MAX_END_WAIT, terminated: MAX_END_WAIT, exit: Exit::Done };
    // Set up first, so that from the start a signal ends everything that has been started.
    let stop = signals::first_signal_but_hangup(ending)?;
    let role =
        ROLE_VARIABLES.into_iter().filter_map(|name| Some((name.to_owned(), environment::variable(name)?)));
    let server = FunctionServer::start(HostSettings {
        name: args.name.clone(),
        source: Source {
            path: args.code.clone(),
            handler: args.handler.clone(),
            python: program_path(&args.python),
        },
        size: args.function,
        timeout: args.timeout.get(),
        concurrency: args.environments,
        listen: address::resolve("--listen", &args.listen)?,
        link_to: args.link_to.clone(),
        directory: args.mount.as_ref().map(|path| SlowDirectory {
            path: std::path::absolute(path).unwrap_or_else(|_| path.clone()),
            rtt: args.mount_rtt.clone(),
            rate: args.mount_rate.clone(),
        }),
        tmp_bytes: args.tmp,
        role: role.collect(),
        variables: args.variables.iter().cloned().collect::<BTreeMap<_, _>>(),
        env: clean_environment(),
        firstbyte: std::env::current_exe().map_err(|error| Error::io("this program's own path", &error))?,
        disk: std::env::temp_dir(),
    })?;
    let url = server.url();
    let call = format!("{url}/2015-03-31/functions/{}/invocations", args.name);
    if !globals.quiet {
        console::say(format_args!(
            "call it: curl -d '{{\"action\": \"list\", \"source\": \"s3://BUCKET/\"}}' {call}"
        ));
    }
    if globals.json {
        console::print(json!({ "verb": "functions", "function": args.name, "url": url }))?;
    } else {
        console::print(&url)?;
    }
    // Receiving fails if the sender was dropped, which happens only after it has sent.
    let _ = stop.recv();
    drop(server);
    Ok(Exit::Done)
}

/// Returns the path of a program. A name without a slash is looked up in `PATH`.
fn program_path(program: &PathBuf) -> PathBuf {
    if program.components().count() > 1 {
        return std::path::absolute(program).unwrap_or_else(|_| program.clone());
    }
    let path = environment::variable("PATH").unwrap_or_default();
    let all = std::env::split_paths(&path).map(|directory| directory.join(program));
    all.into_iter().find(|path| path.is_file()).unwrap_or_else(|| program.clone())
}

//! Starts an environment: its control group, its links, its files, and its process under a
//! launcher. Called by the host, on the thread that starts processes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::code::{Code, PATH};
use super::environment::{Environment, Holdings};
use super::sandbox::{MountNamespace, Sandbox, TASK_PATH};
use super::settings::HostSettings;
use super::size::FunctionSize;
use crate::cgroup::{Group, Limits};
use crate::error::{Error, Result};
use crate::plan::{Ready, Service};
use crate::process::exit_description;
use crate::slow_link::{proxy, slow_directory};
use crate::words::Words;
use crate::{launch, services};

/// Inputs for the start of an environment.
pub(super) struct Blueprint {
    pub(super) settings: HostSettings,
    pub(super) code: Code,
    pub(super) arn: String,
    /// Directory of the environment, removed with it.
    pub(super) root: PathBuf,
    /// Number of the environment among the function's.
    pub(super) number: u64,
    pub(super) size: Option<FunctionSize>,
    pub(super) variables: BTreeMap<String, String>,
    pub(super) generation: u64,
}

/// Checks, before the first call, that environments can be started on this machine.
pub(super) fn check(settings: &HostSettings) -> Result<()> {
    let wrong = |what: &str| Error::Service { name: settings.name.clone(), what: what.to_owned() };
    if settings.concurrency == 0 {
        return Err(wrong("a concurrency of 0: at least one environment is needed"));
    }
    if !is_root() && (settings.tmp_bytes.is_some() || settings.directory.is_some()) {
        return Err(wrong("--tmp and --mount need a mount namespace: run as root, or leave them out"));
    }
    if let Some(directory) = settings.directory.as_ref().filter(|directory| !directory.path.is_dir()) {
        return Err(wrong(&format!("--mount {}: not a directory", directory.path.display())));
    }
    if let Some(size) = settings.size {
        drop(Group::create("probe", &limits(size))?);
    }
    Ok(())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn limits(size: FunctionSize) -> Limits {
    Limits { memory_bytes: Some(size.memory_bytes), cpus: Some(size.processors()) }
}

/// Starts an environment. After a failure, removes everything that was made.
pub(super) fn launch(blueprint: Blueprint) -> Result<Arc<Environment>> {
    let mut holdings = Holdings { root: blueprint.root.clone(), ..Holdings::default() };
    let started = start(&blueprint, &mut holdings);
    if started.is_err() {
        holdings.services.clear();
        let _ = fs::remove_dir_all(&blueprint.root);
    }
    started
}

fn start(blueprint: &Blueprint, holdings: &mut Holdings) -> Result<Arc<Environment>> {
    let Blueprint { settings, code, root, .. } = blueprint;
    let name = format!("function-{}", blueprint.number);
    holdings.group = blueprint.size.map(|size| Group::create(&name, &limits(size))).transpose()?;
    let mut words = Words::default();
    words.set("firstbyte", settings.firstbyte.display());
    for service in links(settings) {
        holdings.services.push(services::start(&service, root, &mut words, &settings.env)?);
    }
    let link = settings.link_to.is_some().then(|| words.fill("{link.url}")).transpose();
    let link = link.map_err(|what| Error::Service { name: settings.name.clone(), what })?;
    let tmp = tmp(settings, root)?;
    let task = if is_root() { Path::new(TASK_PATH) } else { &code.directory };
    let private = is_root().then(|| MountNamespace {
        tmp: tmp.clone(),
        task: code.directory.clone(),
        data: settings.directory.as_ref().map(|_| root.join("slow/mnt")),
        needed: code.below_tmp.clone(),
        stage: root.parent().unwrap_or(root).to_owned(),
    });
    let cgroup_files = holdings.group.as_ref().map(Group::procs).unwrap_or_default();
    let sandbox = Sandbox { cgroup_files, private, working_directory: task.to_owned() };
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(Error::file("127.0.0.1"))?;
    let address = listener.local_addr().map_err(Error::file("127.0.0.1"))?;
    let mut variables = variables(blueprint, task, &address.to_string());
    variables.extend(link.map(|url| ("AWS_ENDPOINT_URL".to_owned(), url)));
    if !is_root() {
        let tmp = tmp.display().to_string();
        variables.extend(["TMPDIR", "FIRSTBYTE_TMP"].map(|name| (name.to_owned(), tmp.clone())));
    }
    variables.extend(settings.role.clone());
    variables.extend(blueprint.variables.clone());
    let mut command = launch::environment(&sandbox, &code.command(task));
    let log = || io::stderr().as_fd().try_clone_to_owned().map(Stdio::from);
    command.env_clear().envs(variables).stdin(Stdio::null()).process_group(0);
    command.stdout(log().map_err(Error::file("stderr"))?).stderr(log().map_err(Error::file("stderr"))?);
    let child = command.spawn().map_err(Error::file("/proc/self/exe"))?;
    let environment = Environment::new(
        blueprint.arn.clone(),
        blueprint.generation,
        child,
        listener,
        std::mem::take(holdings),
    );
    environment.map_err(Error::file("thread"))
}

/// Lists the link and the slow file system of an environment.
fn links(settings: &HostSettings) -> Vec<Service> {
    let link = settings.link_to.as_ref().map(|to| Service { name: "link".into(), ..proxy(to) });
    let slow = settings.directory.as_ref().map(|directory| {
        let path = directory.path.display().to_string();
        let options = ["--rtt", &directory.rtt, "--per-connection", &directory.rate];
        Service { name: "slow".into(), ready: Ready::Line, ..slow_directory(&path, &options) }
    });
    link.into_iter().chain(slow).collect()
}

/// Makes the directory for `/tmp`, or an image file with a file system of the required size.
fn tmp(settings: &HostSettings, root: &Path) -> Result<PathBuf> {
    let path = root.join("tmp");
    let Some(bytes) = settings.tmp_bytes else {
        let mode = fs::Permissions::from_mode(0o1777);
        fs::create_dir(&path).and_then(|()| fs::set_permissions(&path, mode)).map_err(Error::file(&path))?;
        return Ok(path);
    };
    let file = File::create(&path).map_err(Error::file(&path))?;
    file.set_len(bytes).map_err(Error::file(&path))?;
    // Without a journal and a reserve, files can use nearly all of the size.
    let mut command = Command::new("mkfs.ext4");
    command.args(["-q", "-F", "-O", "^has_journal", "-m", "0", "-E", "root_owner=0:0"]).arg(&path);
    let failed = |what: String| Error::Prepare { command: "mkfs.ext4".into(), what };
    let made = command.output().map_err(|error| failed(format!("{error}; --tmp needs e2fsprogs")))?;
    match made.status.success() {
        true => Ok(path),
        false => Err(failed(exit_description(&made))),
    }
}

/// Returns the variables that Lambda sets, and others that programs need.
fn variables(blueprint: &Blueprint, task: &Path, api: &str) -> BTreeMap<String, String> {
    let Blueprint { settings, code, number, size, .. } = blueprint;
    let memory = size.map_or(1769, FunctionSize::megabytes).to_string();
    let day = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / 86_400);
    let task = task.display().to_string();
    let mut all: BTreeMap<String, String> = [
        ("AWS_LAMBDA_RUNTIME_API", api),
        ("AWS_LAMBDA_FUNCTION_NAME", &settings.name),
        ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", &memory),
        ("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand"),
        ("AWS_LAMBDA_LOG_GROUP_NAME", &format!("/aws/lambda/{}", settings.name)),
        ("AWS_LAMBDA_LOG_STREAM_NAME", &format!("{day}/[$LATEST]{number:032x}")),
        (
            "AWS_EXECUTION_ENV",
            if code.is_python() { "AWS_Lambda_python3" } else { "AWS_Lambda_provided.al2023" },
        ),
        ("AWS_REGION", "us-east-1"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
        ("LAMBDA_TASK_ROOT", &task),
        ("LAMBDA_RUNTIME_DIR", &task),
        ("_HANDLER", &code.handler),
        ("TZ", ":UTC"),
        ("LANG", "en_US.UTF-8"),
        ("PATH", PATH),
        ("HOME", "/tmp"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    if code.is_python() {
        all.insert("PYTHONPATH".into(), task);
    }
    let region = settings.role.get("AWS_REGION").or_else(|| all.get("AWS_REGION")).cloned();
    all.extend(region.map(|region| ("AWS_DEFAULT_REGION".to_owned(), region)));
    all
}

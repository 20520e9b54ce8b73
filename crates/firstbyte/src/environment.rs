//! Reads the environment for this library: proxies, the cache directory, the memory limit of this
//! job, and its index in an array job (Slurm, Batch, Kubernetes).
//!
//! Every function takes the variables as an argument, so only the command line, the serverless
//! functions and the Python module read the real environment. The store reads AWS credentials
//! itself.

use std::path::{Path, PathBuf};

use firstbyte_store::{Proxies, Proxy};
use rustix::fs::Access;

use crate::error::{Error, Result};

/// A function that looks up a variable. Tests pass a function of their own, so they need not change
/// the environment of the process.
pub type VariableLookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Reads a variable of this process. An empty variable counts as unset, as in curl and the AWS
/// tools.
#[must_use]
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Reads the proxies from the usual variables. As in curl, a variable in lower case overrides one
/// in upper case, and a variable for one scheme overrides the variable for all schemes.
#[must_use]
pub fn proxies(lookup: VariableLookup<'_>) -> Proxies {
    let proxy = |name: String| lookup(&name).map(|url| Proxy { url, variable: name });
    let either = |lower: &str| proxy(lower.to_owned()).or_else(|| proxy(lower.to_ascii_uppercase()));
    let bypass = lookup("no_proxy").or_else(|| lookup("NO_PROXY")).unwrap_or_default();
    // curl accepts blanks between hosts too.
    let separates = |symbol: char| symbol == ',' || symbol.is_ascii_whitespace();
    Proxies {
        http: either("http_proxy").or_else(|| either("all_proxy")),
        https: either("https_proxy").or_else(|| either("all_proxy")),
        bypass: bypass.split(separates).filter(|host| !host.is_empty()).map(str::to_owned).collect(),
    }
}

/// Returns the path of the user's configuration file: `$XDG_CONFIG_HOME/firstbyte/config.toml`, or
/// else `~/.config/firstbyte/config.toml`.
#[must_use]
pub fn config_file(lookup: VariableLookup<'_>) -> Option<PathBuf> {
    Some(config_directory(lookup)?.join("config.toml"))
}

/// Returns the path of the user's prices: `prices.toml`, beside the [configuration
/// file](config_file).
#[must_use]
pub fn prices_file(lookup: VariableLookup<'_>) -> Option<PathBuf> {
    Some(config_directory(lookup)?.join("prices.toml"))
}

fn config_directory(lookup: VariableLookup<'_>) -> Option<PathBuf> {
    let base = match lookup("XDG_CONFIG_HOME").filter(|path| path.starts_with('/')) {
        Some(base) => PathBuf::from(base),
        None => PathBuf::from(lookup("HOME")?).join(".config"),
    };
    Some(base.join("firstbyte"))
}

/// Returns the path of the file with users and passwords of web servers: `NETRC`, or else
/// `~/.netrc`.
#[must_use]
pub fn netrc(lookup: VariableLookup<'_>) -> Option<PathBuf> {
    lookup("NETRC").map(PathBuf::from).or_else(|| Some(PathBuf::from(lookup("HOME")?).join(".netrc")))
}

/// Returns the program, with its first arguments, that connects to hosts for `sftp`:
/// `FIRSTBYTE_SSH`.
#[must_use]
pub fn ssh(lookup: VariableLookup<'_>) -> Option<String> {
    lookup("FIRSTBYTE_SSH")
}

/// Returns the directory of journals and cached blocks: `$XDG_CACHE_HOME/firstbyte`, or else
/// `~/.cache/firstbyte`. Without a home directory in which this user can write, this is
/// `/tmp/firstbyte-UID`; in AWS Lambda, it is below [`function_directory`].
#[must_use]
pub fn cache_directory(lookup: VariableLookup<'_>) -> PathBuf {
    let absolute = |name: &str| lookup(name).filter(|path| path.starts_with('/')).map(PathBuf::from);
    if is_lambda(lookup) {
        return own_directory(&function_directory(lookup));
    }
    if let Some(caches) = absolute("XDG_CACHE_HOME") {
        return caches.join("firstbyte");
    }
    // In a container, HOME is `/` for a user without an entry in `/etc/passwd`, and the home of
    // other users may be on a read-only file system.
    let at_home = absolute("HOME").map(|home| home.join(".cache/firstbyte"));
    at_home.filter(|path| is_writable(path)).unwrap_or_else(|| own_directory(Path::new("/tmp")))
}

/// Returns whether this user can write in a directory, or make it where it does not exist.
fn is_writable(directory: &Path) -> bool {
    let existing = directory.ancestors().find(|path| path.symlink_metadata().is_ok());
    existing.is_some_and(|existing| {
        existing.is_dir() && rustix::fs::access(existing, Access::WRITE_OK | Access::EXEC_OK).is_ok()
    })
}

/// Returns this user's directory below a directory to which all users can write. The owner of this
/// user's directory is checked when the directory is opened: see
/// [`PrivateDirectory`](firstbyte_store::PrivateDirectory).
#[must_use]
pub fn own_directory(common: &Path) -> PathBuf {
    common.join(format!("firstbyte-{}", rustix::process::geteuid().as_raw()))
}

/// Returns the region that the AWS tools would use.
#[must_use]
pub fn region(lookup: VariableLookup<'_>) -> Option<String> {
    lookup("AWS_REGION").or_else(|| lookup("AWS_DEFAULT_REGION"))
}

/// Returns true if this process runs in AWS Lambda.
#[must_use]
pub fn is_lambda(lookup: VariableLookup<'_>) -> bool {
    lookup("AWS_LAMBDA_FUNCTION_NAME").is_some()
}

/// Returns the directory to which a serverless function writes: `FIRSTBYTE_TMP`, or else `/tmp`,
/// which is the only one that AWS Lambda allows.
#[must_use]
pub fn function_directory(lookup: VariableLookup<'_>) -> PathBuf {
    lookup("FIRSTBYTE_TMP").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
}

/// Returns the configured memory of a Lambda function, bytes.
#[must_use]
pub fn function_memory(lookup: VariableLookup<'_>) -> Option<u64> {
    lookup("AWS_LAMBDA_FUNCTION_MEMORY_SIZE").and_then(|mb| mb.parse::<u64>().ok()).map(|mb| mb << 20)
}

/// The place of a process in an array job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayTask {
    /// Index of the task, from 0.
    pub index: u32,
    /// Number of tasks, if the scheduler reports it.
    pub count: Option<u32>,
}

/// The variables with which schedulers number the tasks of array jobs, as error messages name them.
pub const ARRAY_VARIABLES: &str = "AWS_BATCH_JOB_ARRAY_INDEX, SLURM_ARRAY_TASK_ID and JOB_COMPLETION_INDEX";

/// Determines the place of this process in an array job of AWS Batch, Slurm or Kubernetes (an
/// indexed job). Returns `None` outside an array job.
///
/// # Errors
/// [`Error::Option`] if a variable is not a number, or Slurm's index is not the smallest index plus
/// a multiple of the step.
pub fn array_task(lookup: VariableLookup<'_>) -> Result<Option<ArrayTask>> {
    let number = |name: &str| {
        let parsed = lookup(name).map(|text| text.trim().parse::<u32>().map_err(|_| text));
        parsed.transpose().map_err(|text| Error::Option {
            name: name.to_owned(),
            why: format!("`{text}` is not a whole number"),
        })
    };
    if let Some(index) = number("AWS_BATCH_JOB_ARRAY_INDEX")? {
        return Ok(Some(ArrayTask { index, count: number("AWS_BATCH_JOB_ARRAY_SIZE")? }));
    }
    if let Some(id) = number("SLURM_ARRAY_TASK_ID")? {
        let least = number("SLURM_ARRAY_TASK_MIN")?.unwrap_or(0);
        let step = number("SLURM_ARRAY_TASK_STEP")?.unwrap_or(1).max(1);
        let count = number("SLURM_ARRAY_TASK_COUNT")?;
        return match id.checked_sub(least) {
            Some(behind) if behind % step == 0 => Ok(Some(ArrayTask { index: behind / step, count })),
            _ => Err(Error::Option {
                name: "SLURM_ARRAY_TASK_ID".into(),
                why: format!("{id} is not {least} plus a multiple of {step}; write --array=A-B or A-B:STEP"),
            }),
        };
    }
    Ok(number("JOB_COMPLETION_INDEX")?.map(|index| ArrayTask { index, count: None }))
}

/// Returns the directory for files that vanish with the process: `TMPDIR`, or else `/var/tmp`,
/// which is on a disk even if `/tmp` is in memory. A container's `/var/tmp` may be read-only.
#[must_use]
pub fn temporary_directory(lookup: VariableLookup<'_>) -> PathBuf {
    let on_disk = Path::new("/var/tmp");
    let usual = || if on_disk.is_dir() && is_writable(on_disk) { on_disk } else { Path::new("/tmp") };
    lookup("TMPDIR").map_or_else(|| usual().to_owned(), PathBuf::from)
}

/// Returns the memory limit of this job, bytes: the lowest of the limits of its control groups and
/// their parents, and of the configured memory of a Lambda function. Returns `None` if there is no
/// limit.
#[must_use]
pub fn memory_limit(lookup: VariableLookup<'_>) -> Option<u64> {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = cgroup_limit(&own, Path::new("/sys/fs/cgroup"));
    group.into_iter().chain(function_memory(lookup)).min()
}

/// Returns the default memory for buffers, bytes: the default of the transfer settings, but at most
/// an eighth of [`memory_limit`]. The rest is for the program that uses the bytes.
#[must_use]
pub fn default_memory(lookup: VariableLookup<'_>) -> u64 {
    const SHARE: u64 = 8;
    let most = firstbyte_transfer::TransferSettings::default().memory;
    memory_limit(lookup).map_or(most, |limit| most.min(limit / SHARE))
}

/// Returns the lowest memory limit, v1 or v2, of the groups below `root` that `membership` names.
/// `membership` is the text of `/proc/self/cgroup`.
fn cgroup_limit(membership: &str, root: &Path) -> Option<u64> {
    let mut lowest: Option<u64> = None;
    for line in membership.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let (mount, file) = match controllers {
            "" => (root.to_path_buf(), "memory.max"),
            _ if controllers.split(',').any(|c| c == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => continue,
        };
        // Inside a container, the path is often that of the host, which is not mounted here. So the
        // ancestors of the path, up to the mount itself, are read as well.
        let mut group = mount.join(path.trim_start_matches('/'));
        loop {
            lowest = lowest.into_iter().chain(limit_in(&group.join(file))).min();
            if group == mount || !group.pop() {
                break;
            }
        }
    }
    lowest
}

fn limit_in(file: &Path) -> Option<u64> {
    // v1 writes "no limit" as the largest multiple of the page size, and v2 writes `max`.
    const UNLIMITED: u64 = 1 << 60;
    std::fs::read_to_string(file).ok()?.trim().parse().ok().filter(|limit| *limit < UNLIMITED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<String> {
        move |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn lower_case_proxy_variables_win_and_the_bypass_list_is_split() {
        let vars =
            with(&[("http_proxy", "http://a"), ("HTTP_PROXY", "http://b"), ("NO_PROXY", "x, .y.org,")]);
        let proxies = proxies(&vars);
        assert_eq!(proxies.http.unwrap().url, "http://a");
        assert_eq!(proxies.https, None);
        assert_eq!(proxies.bypass, ["x", ".y.org"]);
        let blanks = super::proxies(&with(&[("no_proxy", "localhost 127.0.0.1\t.svc,  a.org")]));
        assert_eq!(blanks.bypass, ["localhost", "127.0.0.1", ".svc", "a.org"]);
        let all = super::proxies(&with(&[("ALL_PROXY", "http://c"), ("https_proxy", "http://d")]));
        let shown = [all.http, all.https].map(|proxy| format!("{:?}", proxy.unwrap()));
        assert_eq!(shown, ["ALL_PROXY=http://c", "https_proxy=http://d"]);
    }

    #[test]
    fn the_cache_lies_in_tmp_in_lambda_and_in_xdg_elsewhere() {
        let lambda = with(&[("AWS_LAMBDA_FUNCTION_NAME", "f"), ("XDG_CACHE_HOME", "/c")]);
        let own = own_directory(Path::new("/tmp"));
        assert_eq!(own, Path::new(&format!("/tmp/firstbyte-{}", rustix::process::geteuid().as_raw())));
        assert_eq!(cache_directory(&lambda), own);
        assert_eq!(cache_directory(&with(&[])), own);
        assert_eq!(cache_directory(&with(&[("HOME", "relative")])), own);
        assert_eq!(cache_directory(&with(&[("XDG_CACHE_HOME", "/c")])), Path::new("/c/firstbyte"));
        let home = tempfile::tempdir().unwrap();
        let text = home.path().to_str().unwrap().to_owned();
        let at_home = |name: &str| match name {
            "XDG_CACHE_HOME" => Some("rel".into()),
            "HOME" => Some(text.clone()),
            _ => None,
        };
        assert_eq!(cache_directory(&at_home), home.path().join(".cache/firstbyte"));
    }

    #[test]
    fn a_home_in_which_this_user_cannot_write_is_no_place_for_a_cache() {
        let own = own_directory(Path::new("/tmp"));
        for home in ["/dev/null", "/dev/null/deeper"] {
            let lookup = |name: &str| (name == "HOME").then(|| home.to_owned());
            assert_eq!(cache_directory(&lookup), own, "{home}");
        }
    }

    #[test]
    fn the_place_in_an_array_is_counted_from_zero_whatever_the_scheduler() {
        let task = |index, count| Some(ArrayTask { index, count });
        let batch = with(&[("AWS_BATCH_JOB_ARRAY_INDEX", "3"), ("AWS_BATCH_JOB_ARRAY_SIZE", "8")]);
        assert_eq!(array_task(&batch).unwrap(), task(3, Some(8)));
        let slurm = with(&[
            ("SLURM_ARRAY_TASK_ID", "9"),
            ("SLURM_ARRAY_TASK_MIN", "5"),
            ("SLURM_ARRAY_TASK_STEP", "2"),
            ("SLURM_ARRAY_TASK_COUNT", "4"),
        ]);
        assert_eq!(array_task(&slurm).unwrap(), task(2, Some(4)));
        assert_eq!(array_task(&with(&[("JOB_COMPLETION_INDEX", "1")])).unwrap(), task(1, None));
        assert_eq!(array_task(&with(&[])).unwrap(), None);
        let uneven = with(&[
            ("SLURM_ARRAY_TASK_ID", "6"),
            ("SLURM_ARRAY_TASK_MIN", "5"),
            ("SLURM_ARRAY_TASK_STEP", "2"),
        ]);
        assert!(array_task(&uneven).unwrap_err().to_string().contains("multiple of 2"));
        assert!(array_task(&with(&[("JOB_COMPLETION_INDEX", "x")])).is_err());
    }

    #[test]
    fn the_tightest_group_counts_also_where_only_a_parent_has_a_limit() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("job/step")).unwrap();
        std::fs::write(root.path().join("job/memory.max"), "1048576\n").unwrap();
        std::fs::write(root.path().join("job/step/memory.max"), "max\n").unwrap();
        assert_eq!(cgroup_limit("0::/job/step\n", root.path()), Some(1 << 20));
        assert_eq!(cgroup_limit("0::/elsewhere\n", root.path()), None);
    }

    #[test]
    fn version_one_groups_are_read_where_they_are_mounted() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("memory/job")).unwrap();
        std::fs::write(root.path().join("memory/memory.limit_in_bytes"), "9223372036854771712").unwrap();
        std::fs::write(root.path().join("memory/job/memory.limit_in_bytes"), "2097152").unwrap();
        assert_eq!(cgroup_limit("4:memory:/job\n1:cpu:/job\n", root.path()), Some(2 << 20));
        assert_eq!(cgroup_limit("4:memory:/docker/abc\n", root.path()), None);
    }
}

//! Reports processors, memory, kernel, and the limit of open files. Called by `doctor`.

use firstbyte::environment;
use firstbyte::size::human;
use rustix::process::{Resource, getrlimit};

use super::DoctorFinding;

/// Limit of open files that `serve` needs for a thousand clients.
const MIN_OPEN_FILES: u64 = 4096;

/// Memory of which an eighth is the usual ceiling of transfers, 32 MiB. With less memory, the
/// ceiling is lower.
const MIN_MEMORY_BYTES: u64 = 256 << 20;

pub(super) fn look() -> Vec<DoctorFinding> {
    vec![processors(), kernel(), memory(), open_files()]
}

fn processors() -> DoctorFinding {
    match std::thread::available_parallelism() {
        Ok(count) => DoctorFinding::ok("processors", format!("{count} for this process")),
        Err(error) => {
            DoctorFinding::warn("processors", error.to_string(), "check the affinity mask and the CPU quota")
        }
    }
}

fn kernel() -> DoctorFinding {
    let name = rustix::system::uname();
    let text = format!("{} {}", name.sysname().to_string_lossy(), name.release().to_string_lossy());
    DoctorFinding::ok("kernel", text)
}

fn memory() -> DoctorFinding {
    let info = rustix::system::sysinfo();
    let all = u64::from(info.mem_unit) * info.totalram;
    let limit = environment::memory_limit(&environment::variable);
    let found = limit.map_or_else(
        || format!("{}, no limit for this job", human(all)),
        |limit| format!("{} of {}, by the control group", human(limit), human(all)),
    );
    if limit.unwrap_or(all).min(all) < MIN_MEMORY_BYTES {
        DoctorFinding::warn(
            "memory",
            found,
            "transfers will use less than their usual 32 MiB; give the job 256 MiB or more",
        )
    } else {
        DoctorFinding::ok("memory", found)
    }
}

fn open_files() -> DoctorFinding {
    let limit = getrlimit(Resource::Nofile).current;
    let found = limit.map_or_else(|| "no limit".to_owned(), |limit| limit.to_string());
    if limit.is_some_and(|limit| limit < MIN_OPEN_FILES) {
        DoctorFinding::warn("open files", found, "raise it before serving many clients: ulimit -n 65536")
    } else {
        DoctorFinding::ok("open files", found)
    }
}

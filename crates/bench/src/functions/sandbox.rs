//! Isolates the process of an environment before it becomes the function's runtime: the process
//! joins its control group and takes a private `/tmp`.
//!
//! As root, the process has its own mount namespace: `/tmp` is a private directory or a file system
//! of a given size, `/mnt/task` is the function's code, and `/mnt/data` the directory mounted for
//! it. Directories below `/tmp` that the runtime needs stay in place. All of this disappears with
//! the process. Called by the launcher.

use std::ffi::CString;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::mounts::Mounts;
use crate::process::exit_description;

/// Path of the function's code in the namespace.
pub(crate) const TASK_PATH: &str = "/mnt/task";
/// Path of the mounted directory in the namespace.
pub(crate) const DATA_PATH: &str = "/mnt/data";

/// Isolation of an environment's process.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Sandbox {
    /// Files of control groups to which the process writes its id.
    pub(crate) cgroup_files: Vec<PathBuf>,
    /// Mount namespace; `None` without the privilege to make one.
    pub(crate) private: Option<MountNamespace>,
    /// Working directory.
    pub(crate) working_directory: PathBuf,
}

/// Contents of a mount namespace.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct MountNamespace {
    /// Directory, or image file with a file system, for `/tmp`.
    pub(crate) tmp: PathBuf,
    /// Directory of the code.
    pub(crate) task: PathBuf,
    /// Directory to mount at [`DATA_PATH`].
    pub(crate) data: Option<PathBuf>,
    /// Directories below `/tmp` that the runtime needs.
    pub(crate) needed: Vec<PathBuf>,
    /// Directory that contains the directories of all environments.
    pub(crate) stage: PathBuf,
}

impl Sandbox {
    /// Enters the sandbox. The error names the step that failed.
    pub(crate) fn enter(&self) -> Result<(), String> {
        for file in &self.cgroup_files {
            let joined = fs::write(file, std::process::id().to_string());
            joined.map_err(|error| format!("{}: cannot join the cgroup: {error}", file.display()))?;
        }
        if let Some(private) = &self.private {
            private.enter()?;
        }
        std::env::set_current_dir(&self.working_directory)
            .map_err(|error| format!("{}: {error}", self.working_directory.display()))
    }
}

impl MountNamespace {
    fn enter(&self) -> Result<(), String> {
        // SAFETY: the call takes only flags, and this process has one thread.
        if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
            return Err(format!("cannot make a mount namespace: {}", io::Error::last_os_error()));
        }
        mount("none", "/", "", libc::MS_REC | libc::MS_PRIVATE, "").map_err(cannot("make mounts private"))?;
        // Directories are opened first, because later mounts hide them.
        let open = |path: &Path| {
            let opened = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path);
            opened.map_err(|error| format!("{}: {error}", path.display()))
        };
        let (tmp, task) = (open(&self.tmp)?, open(&self.task)?);
        let data = self.data.as_deref().map(open).transpose()?;
        let needed: Vec<fs::File> = self.needed.iter().map(|path| open(path)).collect::<Result<_, _>>()?;
        mount("none", "/mnt", "tmpfs", 0, "size=64k,mode=755").map_err(cannot("/mnt"))?;
        for (opened, at) in [(Some(&task), TASK_PATH), (data.as_ref(), DATA_PATH)] {
            let Some(opened) = opened else { continue };
            fs::create_dir(at).and_then(|()| bind(opened, at)).map_err(cannot(at))?;
        }
        self.unmount_others();
        if self.tmp.is_dir() {
            bind(&tmp, "/tmp").map_err(cannot("/tmp"))?;
        } else {
            mount_image(&self.tmp)?;
        }
        for (opened, at) in needed.iter().zip(&self.needed) {
            let shown = fs::create_dir_all(at).and_then(|()| bind(opened, at));
            shown.map_err(|error| format!("{}: cannot be shown to the function: {error}", at.display()))?;
        }
        Ok(())
    }

    /// Unmounts the slow file systems of all environments, which this namespace has inherited.
    /// Otherwise they could not end before this environment.
    fn unmount_others(&self) {
        for mount in
            Mounts::current().unwrap_or_default().iter().filter(|mount| mount.at.starts_with(&self.stage))
        {
            let Ok(at) = CString::new(mount.at.as_os_str().as_encoded_bytes()) else { continue };
            // SAFETY: the path ends with a zero byte and outlives the call.
            unsafe { libc::umount2(at.as_ptr(), libc::MNT_DETACH) };
        }
    }
}

/// Returns the message for a failure to do `what`, or to mount at `what` if it is a path.
fn cannot(what: &str) -> impl Fn(io::Error) -> String {
    let what = if what.starts_with('/') { format!("mount {what}") } else { what.to_owned() };
    move |error| format!("cannot {what}: {error}")
}

/// Mounts the file system in a file at `/tmp`. The kernel frees its loop device with the namespace.
fn mount_image(image: &Path) -> Result<(), String> {
    let mounted = Command::new("mount").args(["-o", "loop"]).arg(image).arg("/tmp").output();
    match mounted {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("cannot mount /tmp: {}", exit_description(&output))),
        Err(error) => Err(format!("mount: {error}")),
    }
}

/// Bind-mounts an open directory at `at`.
fn bind(opened: &fs::File, at: impl AsRef<Path>) -> io::Result<()> {
    mount(&format!("/proc/self/fd/{}", opened.as_raw_fd()), at, "", libc::MS_BIND, "")
}

fn mount(
    from: &str,
    at: impl AsRef<Path>,
    kind: &str,
    flags: libc::c_ulong,
    options: &str,
) -> io::Result<()> {
    let [from, kind, options] =
        [from, kind, options].map(|text| CString::new(text).map_err(io::Error::other));
    let (from, kind, options) = (from?, kind?, options?);
    let at = CString::new(at.as_ref().as_os_str().as_encoded_bytes()).map_err(io::Error::other)?;
    // SAFETY: all four are strings that end with a zero byte and outlive the call.
    let done = unsafe {
        libc::mount(from.as_ptr(), at.as_ptr(), kind.as_ptr(), flags, options.as_ptr().cast::<libc::c_void>())
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

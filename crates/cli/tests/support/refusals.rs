//! Makes a system call fail in a command and its children, as some file systems and sandboxes do.
//! Uses a seccomp filter, which needs no privileges.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A system call, or one form of it.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub name: &'static str,
    number: libc::c_long,
    form: Form,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    Any,
    /// Only calls in which an argument has these bits set: the index of the argument, and the bits.
    With(u32, u32),
    /// Only calls in which an argument has at least this value: the index of the argument, and the
    /// value.
    From(u32, u32),
}

const fn call(name: &'static str, number: libc::c_long) -> Call {
    Call { name, number, form: Form::Any }
}

/// System calls that improve a copy. The first 14 can be replaced by others, with the same result:
/// `make soak` runs the suites of copies once without each of them (`CALLS_WITH_A_STAND_IN` in
/// tests/soak/soak.py). Without one of the others, a copy may lack a mode, a time or a hole.
pub const CALLS: [Call; 25] = [
    call("copy_file_range", libc::SYS_copy_file_range),
    call("fadvise64", libc::SYS_fadvise64),
    call("fdatasync", libc::SYS_fdatasync),
    call("fstatfs", libc::SYS_fstatfs),
    call("fsync", libc::SYS_fsync),
    call("linkat", libc::SYS_linkat),
    call("openat2", libc::SYS_openat2),
    call("renameat2", libc::SYS_renameat2),
    call("sendfile", libc::SYS_sendfile),
    call("splice", libc::SYS_splice),
    call("statx", libc::SYS_statx),
    call("sync_file_range", libc::SYS_sync_file_range),
    call("syncfs", libc::SYS_syncfs),
    Call { name: "openat of an unnamed file", number: libc::SYS_openat, form: Form::With(2, 0o20_000_000) },
    call("flock", libc::SYS_flock),
    call("fchmod", libc::SYS_fchmod),
    call("fchmodat", libc::SYS_fchmodat),
    call("fchown", libc::SYS_fchown),
    call("fchownat", libc::SYS_fchownat),
    call("utimensat", libc::SYS_utimensat),
    call("fallocate", libc::SYS_fallocate),
    call("fsetxattr", libc::SYS_fsetxattr),
    call("fgetxattr", libc::SYS_fgetxattr),
    Call { name: "ftruncate to a length", number: libc::SYS_ftruncate, form: Form::From(1, 1) },
    Call { name: "lseek to data or a hole", number: libc::SYS_lseek, form: Form::From(2, 3) },
];

/// The errors with which calls fail that a file system does not support.
pub const ERRORS: [i32; 3] = [libc::EPERM, libc::ENOSYS, libc::EOPNOTSUPP];

/// Returns the call with this name.
pub fn named(name: &str) -> Call {
    CALLS.into_iter().find(|call| call.name == name).unwrap()
}

/// Refuses the call that the environment names. The variable contains `CALL:ERROR`, which are
/// indices into [`CALLS`] and [`ERRORS`].
pub fn refuse_as_asked(command: &mut Command) {
    let Ok(asked) = std::env::var("FIRSTBYTE_REFUSED_CALL") else { return };
    let (call, error) = asked.split_once(':').unwrap();
    refuse(command, CALLS[call.parse::<usize>().unwrap()], ERRORS[error.parse::<usize>().unwrap()]);
}

/// Makes `call` fail with `error` in the command.
pub fn refuse(command: &mut Command, call: Call, error: i32) {
    let filter = filter(call, error);
    // SAFETY: the child makes two system calls on memory that exists already, and allocates
    // nothing.
    unsafe {
        command.pre_exec(move || {
            let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
            let set = |option, value: libc::c_ulong, at: *const libc::sock_fprog| match libc::prctl(
                option, value, at, 0, 0,
            ) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            };
            set(libc::PR_SET_NO_NEW_PRIVS, 1, std::ptr::null())?;
            set(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER.into(), &raw const program)
        });
    }
}

/// Makes the program of the filter (seccomp(2)). It loads the number of the system call, and an
/// argument if necessary, and compares them.
fn filter(call: Call, error: i32) -> Vec<libc::sock_filter> {
    let op = |code: u32, k: u32, yes: u8, no: u8| libc::sock_filter { code: code as u16, jt: yes, jf: no, k };
    let load = |offset: u32| op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0);
    // The arguments come after the number, the architecture and the instruction pointer.
    let argument = |index: u32| load(16 + 8 * index);
    let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let ret = |value: u32| op(libc::BPF_RET | libc::BPF_K, value, 0, 0);
    let (allow, refuse) = (ret(libc::SECCOMP_RET_ALLOW), ret(libc::SECCOMP_RET_ERRNO | error as u32));
    let number = call.number as u32;
    match call.form {
        Form::Any => vec![load(0), op(equal, number, 0, 1), refuse, allow],
        Form::With(index, bits) => {
            let test = op(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, bits, 0, 1);
            vec![load(0), op(equal, number, 0, 3), argument(index), test, refuse, allow]
        }
        Form::From(index, least) => {
            let test = op(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, least, 0, 1);
            vec![load(0), op(equal, number, 0, 3), argument(index), test, refuse, allow]
        }
    }
}

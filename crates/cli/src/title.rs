//! The arguments of this process without the secrets of URLs: in the memory that other processes
//! see, and as text for records.
//!
//! `ps` shows `/proc/PID/cmdline`, which is memory of this process, to every user. After the
//! arguments have been parsed, this module overwrites the secrets in that memory. Secrets remain
//! visible until then, and in the history of the shell. The daemon of a mount is a fork and
//! inherits the cleaned memory. `main` calls this once, before it starts threads. Verbs that record
//! their command line call [`words`].

use std::ops::Range;

use firstbyte_location::{redacted_operand, shown};

/// Field numbers of `/proc/self/stat` (proc(5)), counted from the state, the first field after the
/// name. The state is field 3 in proc(5).
const ARGUMENTS_START_FIELD: usize = 48 - 3;
const ARGUMENTS_END_FIELD: usize = 49 - 3;

/// The option whose value is a secret.
const HEADER_OPTION: &str = "--header";

/// Overwrites the secrets in this process's arguments.
pub fn hide_secrets() {
    let holds_secrets = |text: &std::ffi::OsString| {
        let text = text.to_string_lossy();
        text.starts_with(HEADER_OPTION) || redacted_operand(&text) != text
    };
    if !std::env::args_os().any(|text| holds_secrets(&text)) {
        return;
    }
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let Some(range) = arguments(&stat) else { return };
    // SAFETY: the kernel reports this range as the location of the arguments, in the writable stack
    // of this process. The last argument ends with a NUL. There is no other thread that could read
    // the range meanwhile, and the standard library has its own copies.
    let memory = unsafe { std::slice::from_raw_parts_mut(range.start as *mut u8, range.len()) };
    overwrite(memory);
}

/// Returns the arguments as text, without the program. Bytes that are not UTF-8 are escaped.
pub fn words() -> impl Iterator<Item = String> {
    std::env::args_os().skip(1).map(|word| shown(word.as_os_str()).to_string())
}

/// Parses the address range of the arguments from `/proc/self/stat`.
fn arguments(stat: &str) -> Option<Range<usize>> {
    // The name of the program is in parentheses and may contain any character.
    let (_, fields) = stat.rsplit_once(") ")?;
    let field = |number: usize| fields.split(' ').nth(number)?.trim().parse::<usize>().ok();
    let (start, end) = (field(ARGUMENTS_START_FIELD)?, field(ARGUMENTS_END_FIELD)?);
    (start != 0 && start < end).then_some(start..end)
}

/// Overwrites secrets in adjacent arguments, each of which ends in a NUL. No argument moves.
fn overwrite(memory: &mut [u8]) {
    let mut is_header = false;
    for argument in memory.split_mut(|byte| *byte == 0) {
        let text = String::from_utf8_lossy(argument).into_owned();
        let is_value = std::mem::replace(&mut is_header, text == HEADER_OPTION);
        let shown = match text.split_once(':') {
            Some((name, _)) if is_value || name.starts_with(HEADER_OPTION) => format!("{name}:***").into(),
            _ => redacted_operand(&text),
        };
        if shown == text {
            continue;
        }
        // A replacement that is longer than the secret is truncated.
        let length = shown.len().min(argument.len());
        argument[..length].copy_from_slice(&shown.as_bytes()[..length]);
        argument[length..].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_overwritten_and_every_argument_stays_in_its_place() {
        let mut memory =
            *b"cp\0http://user:secret@h/x?sig=s&y=1\0http://a@h\0--header\0A: secret\0--header=B: secret\0out\0";
        overwrite(&mut memory);
        let arguments: Vec<&[u8]> = memory.split(|byte| *byte == 0).filter(|text| !text.is_empty()).collect();
        let headers: [&[u8]; 4] = [b"--header", b"A:***", b"--header=B:***", b"out"];
        let urls: [&[u8]; 3] = [b"cp", b"http://***@h/x?sig=***&y=1", b"http://***"];
        let shown = [&urls[..], &headers].concat();
        assert_eq!(arguments, shown);
        assert!(memory.ends_with(b"\0out\0"));
    }

    #[test]
    fn the_arguments_of_this_process_lie_where_the_kernel_says() {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let range = arguments(&stat).unwrap();
        assert_eq!(range.len(), std::fs::read("/proc/self/cmdline").unwrap().len());
    }
}

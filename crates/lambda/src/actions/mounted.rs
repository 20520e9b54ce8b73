//! Implements `mounted`, which checks that a directory exists, as a function that trusts its mount
//! would, and then reads a file in the directory. The check and the read are timed separately,
//! because the check reads no content.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use firstbyte_location::{Location, shown};
use firstbyte_store::FailureKind;

use super::open::{record_finished, record_reading};
use crate::answer::Answer;
use crate::call::InvocationContext;
use crate::error::{InvocationFailure, Result};
use crate::event::MountedAction;
use crate::reader::{self, ReadAt};
use crate::{mounts, tmp};

const VERB: &str = "mounted";

pub(super) fn run(call: &InvocationContext<'_>, event: &MountedAction) -> Result<Answer> {
    let directory = PathBuf::from(&event.directory);
    let is_there = directory.is_dir();
    let ready = call.now();
    let mount = mounts::find_mount(&directory);
    let on = mount.as_ref().map_or_else(|| "an unknown file system".to_owned(), mounts::describe);
    if !is_there {
        let why = format!("there is no such directory; mounted here are {}", mounts::describe_all());
        return Err(not_mounted(&directory, &why));
    }
    if let Some(expected) = &event.filesystem
        && mount.as_ref().is_none_or(|mount| mount.kind != *expected)
    {
        return Err(not_mounted(&directory, &format!("is on {on}, not on {expected}")));
    }
    if tmp::is_vacant(&directory) {
        return Err(not_mounted(&directory, &format!("is empty, on {on}")));
    }
    let path = event.file.as_ref().map_or_else(|| directory.clone(), |file| directory.join(file));
    let mut answer = call.answer(VERB, &Location::Local(path.clone()), None);
    answer.stages.ready_seconds = ready;
    answer.mounted = Some(on);
    if event.file.is_some() {
        read(call, event, &path, &mut answer)?;
    }
    Ok(answer)
}

fn read(call: &InvocationContext<'_>, event: &MountedAction, path: &Path, answer: &mut Answer) -> Result<()> {
    let file = File::open(path).map_err(|error| InvocationFailure::io(path, &error))?;
    let metadata = file.metadata().map_err(|error| InvocationFailure::io(path, &error))?;
    if !metadata.is_file() {
        return Err(InvocationFailure::event(format!("{}: is no regular file", shown(path))));
    }
    answer.stages.opened_seconds = call.now();
    let range = event.read.of(metadata.len())?;
    let source = PlainFile { file, path };
    let reading = reader::read(&source, range, &call.deadline, &mut |_, _| ControlFlow::Continue(()))?;
    record_reading(answer, &reading);
    answer.crc32c = Some(reading.crc32c.to_hex());
    answer.done_bytes = Some(reading.bytes);
    if reading.bytes < range.len() {
        let (read, wanted) = (reading.bytes, range.len());
        return Err(InvocationFailure::too_little_time(&format!(
            "{}: {read} of {wanted} bytes were read in time",
            shown(path)
        )));
    }
    record_finished(answer, event.read, call);
    Ok(())
}

fn not_mounted(directory: &Path, why: &str) -> InvocationFailure {
    let advice = "check the function's file system configuration, its access point and its security group";
    InvocationFailure::new(FailureKind::NotMounted, format!("{}: {why}; {advice}", shown(directory)))
}

/// A file that is read directly through the operating system, without firstbyte's own layers.
struct PlainFile<'a> {
    file: File,
    path: &'a Path,
}

impl ReadAt for PlainFile<'_> {
    fn read_at(
        &self,
        buffer: &mut [u8],
        offset: u64,
        _go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<usize>> {
        self.file.read_at(buffer, offset).map(Some).map_err(|error| InvocationFailure::io(self.path, &error))
    }
}

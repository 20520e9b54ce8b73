//! Holds the context of one invocation: the common fields of its event, its deadline, and the
//! beginning of its answer.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use firstbyte::Client;
use firstbyte::receipt::Receipt;
use firstbyte_location::Location;
use firstbyte_store::FailureKind;
use rustix_futex_sync::Mutex;

use crate::answer::{Answer, Stages};
use crate::deadline::Deadline;
use crate::environment::ExecutionEnvironment;
use crate::error::{InvocationFailure, Result};
use crate::event::CommonFields;
use crate::run::EngineRun;
use crate::tmp;
use crate::written::{WrittenPath, real_path};

/// An invocation that is being answered.
pub(crate) struct InvocationContext<'a> {
    pub(crate) environment: &'a ExecutionEnvironment,
    pub(crate) deadline: Deadline,
    invocation: u64,
    common: CommonFields,
    /// Paths below the function's directory that this call writes and [`finish`](Self::finish)
    /// removes.
    written: Mutex<Vec<WrittenPath>>,
}

impl<'a> InvocationContext<'a> {
    pub(crate) fn new(
        environment: &'a ExecutionEnvironment,
        deadline: Deadline,
        invocation: u64,
        common: CommonFields,
    ) -> Self {
        Self { environment, deadline, invocation, common, written: Mutex::default() }
    }

    /// Returns the client for the event's endpoint.
    pub(crate) fn client(&self) -> Result<Client> {
        self.environment.client(self.common.endpoint_url.as_deref())
    }

    /// Starts a run of the transfer engine that ends before the deadline.
    pub(crate) fn run(&self, concurrency: Option<usize>) -> Result<EngineRun> {
        EngineRun::start(&self.client()?, self.deadline, concurrency)
    }

    /// Returns the seconds since the start of the invocation, which is the time of the stage just
    /// reached.
    #[expect(clippy::unnecessary_wraps, reason = "stages are optional")]
    pub(crate) fn now(&self) -> Option<f64> {
        Some(self.deadline.elapsed().as_secs_f64())
    }

    /// Makes the answer of an action whose preparation is complete.
    pub(crate) fn answer(
        &self,
        verb: &'static str,
        source: &Location,
        destination: Option<&Location>,
    ) -> Answer {
        let environment = self.environment;
        let destination = destination.map(ToString::to_string);
        Answer {
            receipt: Receipt::new(verb, source.to_string(), destination),
            environment: environment.id().to_owned(),
            environment_started: environment.started(),
            invocation: self.invocation,
            memory_limit_bytes: environment.memory(),
            stages: Stages { ready_seconds: self.now(), ..Stages::default() },
            token: None,
            done_bytes: None,
            began_anew: false,
            crc32c: None,
            mounted: None,
            firstbyte_version: env!("CARGO_PKG_VERSION"),
        }
    }

    /// Returns the destination of a copy of `source`: the one that the event states, otherwise a
    /// file of the same name below the function's directory.
    pub(crate) fn destination(&self, stated: Option<&str>, source: &Location) -> Result<Location> {
        let own = || {
            source.file_name().ok_or_else(|| {
                InvocationFailure::event(format!("{source}: has no name of its own; give a `destination`"))
            })
        };
        let Some(text) = stated else {
            return Ok(Location::Local(
                self.environment.directory().join(OsStr::from_bytes(own()?.as_bytes())),
            ));
        };
        let destination = Location::parse(text.as_ref())?;
        let is_directory = destination.is_directory_like() && !source.is_directory_like();
        if is_directory { Ok(destination.child(&own()?)) } else { Ok(destination) }
    }

    /// Returns the real path of a location in or below the function's directory. `None` for any
    /// other location, such as one that a link or `..` leads to.
    pub(crate) fn below_directory(&self, destination: &Location) -> Option<PathBuf> {
        real_path(destination.as_local()?).filter(|path| path.starts_with(self.environment.directory()))
    }

    /// Returns whether files below the function's directory are kept after the answer.
    pub(crate) fn keeps_files(&self) -> bool {
        self.common.keep
    }

    /// Returns whether files are kept after a failure: if the call has a token, with which it may
    /// be repeated, unless the object has changed.
    pub(crate) fn keeps_files_after(&self, failure: &InvocationFailure) -> bool {
        self.common.continues && failure.kind != FailureKind::Changed
    }

    /// Records a path for [`finish`](Self::finish) to remove when it completes the answer, unless
    /// the event says `keep`. If this process ends before that, the next one of this sandbox
    /// removes the path.
    pub(crate) fn remove_with_answer(&self, path: WrittenPath) {
        if self.common.keep {
            self.environment.record_kept(path.path());
        } else {
            self.environment.record(&path);
            self.written.lock().push(path);
        }
    }

    /// Completes an answer. Measures the process's resource usage and, if there is no token,
    /// removes the recorded paths.
    pub(crate) fn finish(&self, mut answer: Answer) -> Answer {
        answer.receipt.finish(self.deadline.started());
        answer.receipt.init_seconds = self.environment.init_seconds();
        let deadline = self.deadline;
        answer.receipt.tmp_bytes =
            tmp::used_bytes(self.environment.directory(), &|| deadline.leaves_time_to_tidy());
        if answer.token.is_none() {
            self.clean();
        }
        answer.receipt.remaining_seconds = Some(self.deadline.remaining().as_secs_f64());
        answer
    }

    /// Removes the recorded paths. Paths for which the deadline leaves no time are left to the next
    /// call.
    pub(crate) fn clean(&self) {
        let written = std::mem::take(&mut *self.written.lock());
        self.environment.add_leftovers(written);
        self.environment.clear(self.deadline);
    }
}

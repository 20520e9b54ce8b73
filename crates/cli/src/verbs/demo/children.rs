//! The child processes of the demo. The table has the id of each child until the child has been
//! waited for, so that a signal ends all of them.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process};

use crate::render::error::{Error, Result};
use crate::signals;

/// The children alive, shared with the thread that gets the signals.
#[derive(Clone)]
pub(crate) struct Children {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    interrupted: bool,
    alive: Vec<Pid>,
}

/// A running child. If it is dropped before it ended, it is killed.
pub(crate) struct Running<'a> {
    children: &'a Children,
    child: Child,
    pid: Pid,
}

impl Children {
    /// No children yet; from now on Ctrl-C and SIGTERM end those there are.
    pub(crate) fn ended_by_signals() -> Result<Self> {
        let children = Self { state: Arc::default() };
        let on_signal = children.clone();
        signals::on_interrupt(move || on_signal.interrupt())?;
        Ok(children)
    }

    /// Whether a signal came.
    pub(crate) fn interrupted(&self) -> bool {
        self.lock().interrupted
    }

    fn interrupt(&self) {
        let mut state = self.lock();
        state.interrupted = true;
        for pid in &state.alive {
            // One that ended just now is not waited for yet, so its id is still its own.
            let _ = kill_process(*pid, Signal::KILL);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails once a signal came: for loops that start no children.
    pub(crate) fn check(&self) -> Result<()> {
        if self.interrupted() { Err(Error::interrupted()) } else { Ok(()) }
    }

    /// Starts a child with nothing to read and both its outputs caught.
    pub(crate) fn start(&self, command: &mut Command) -> Result<Running<'_>> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Held over the start, so that no signal comes between it and the note of the id.
        let mut state = self.lock();
        if state.interrupted {
            return Err(Error::interrupted());
        }
        let child = command.spawn().map_err(|error| Error::io(command.get_program().display(), &error))?;
        let pid = Pid::from_child(&child);
        state.alive.push(pid);
        drop(state);
        Ok(Running { children: self, child, pid })
    }

    /// Runs a child to its end and returns what it printed.
    pub(crate) fn run(&self, command: &mut Command) -> Result<String> {
        let name = command.get_program().display().to_string();
        let (status, stdout, stderr) = self.start(command)?.finish()?;
        self.check()?;
        if status.success() {
            return Ok(stdout);
        }
        let last = stderr.trim().lines().next_back().unwrap_or("no message").to_owned();
        Err(Error::failed(format!("{name} failed ({status}): {last}")))
    }
}

impl Running<'_> {
    /// Waits for the end. Returns the status and both outputs.
    pub(crate) fn finish(mut self) -> Result<(ExitStatus, String, String)> {
        let failed = |error: std::io::Error| Error::io("a child process", &error);
        let (mut stdout, mut stderr) = (String::new(), String::new());
        let errors = self.child.stderr.take();
        std::thread::scope(|scope| {
            scope.spawn(|| errors.map(|mut pipe| pipe.read_to_string(&mut stderr)));
            self.child.stdout.take().map_or(Ok(0), |mut pipe| pipe.read_to_string(&mut stdout))
        })
        .map_err(failed)?;
        let status = self.child.wait().map_err(failed)?;
        Ok((status, stdout, stderr))
    }

    /// Whether it has ended.
    pub(crate) fn ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends it as `kill -9` does.
    pub(crate) fn kill(mut self) -> Result<ExitStatus> {
        let failed = |error: std::io::Error| Error::io("a child process", &error);
        self.child.kill().map_err(failed)?;
        self.child.wait().map_err(failed)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // After a wait these do nothing; before one the child must not outlive the demo.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.children.lock().alive.retain(|pid| *pid != self.pid);
    }
}

//! A thread that starts processes for other threads.
//!
//! The kernel ends a process that requested to end with its parent when the parent *thread* ends.
//! This thread therefore starts every process that must outlive a request. Called by the host.

use std::io;
use std::sync::Mutex;
use std::sync::mpsc::{self, Sender};
use std::thread;

use crate::error::{Error, Result};

type Work = Box<dyn FnOnce() + Send>;

/// Handle of the thread, which runs until the process ends.
pub(super) struct Spawner(Mutex<Sender<Work>>);

impl Spawner {
    pub(super) fn start() -> io::Result<Self> {
        let (send, work) = mpsc::channel::<Work>();
        let run = move || work.iter().for_each(|work| work());
        thread::Builder::new().name("spawner".into()).spawn(run)?;
        Ok(Self(Mutex::new(send)))
    }

    /// Runs `work` on the thread, and waits for its result.
    pub(super) fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (send, done) = mpsc::channel();
        let work = Box::new(move || drop(send.send(work())));
        let gone = |_| Error::file("the thread that starts environments")(io::ErrorKind::BrokenPipe.into());
        let sent = self.0.lock().map_or(Err(()), |thread| thread.send(work).map_err(drop));
        sent.map_err(gone)?;
        done.recv().map_err(|_| gone(()))?
    }
}

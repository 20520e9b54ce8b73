//! A thread that starts processes for others.
//!
//! The kernel ends a process that asked for it when the *thread* that started it ends, so a process
//! that is to live longer than a request is started by this thread. Called by the host.

use std::io;
use std::sync::Mutex;
use std::sync::mpsc::{self, Sender};
use std::thread;

use crate::error::{Error, Result};

type Work = Box<dyn FnOnce() + Send>;

/// The thread. It ends with the process.
pub(super) struct Spawner(Mutex<Sender<Work>>);

impl Spawner {
    pub(super) fn start() -> io::Result<Self> {
        let (send, work) = mpsc::channel::<Work>();
        let run = move || work.iter().for_each(|work| work());
        thread::Builder::new().name("spawner".into()).spawn(run)?;
        Ok(Self(Mutex::new(send)))
    }

    /// Does `work` on the thread, and waits for it.
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

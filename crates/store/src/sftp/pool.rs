//! Keeps the sessions of a store, by host. Clones of the store share the sessions.

use std::collections::HashMap;
use std::sync::Arc;

use firstbyte_location::SftpPath;
use rustix_futex_sync::{Condvar, Mutex};

use super::session::{Exchange, SessionLease, SftpSession};
use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::limits::POLL_INTERVAL;
use crate::options::StoreOptions;

/// Maximum number of sessions with one host. Each session needs a login, and an encrypting process
/// at both ends. By default, servers refuse more than ten logins at a time.
const MAX_SESSIONS: usize = 4;

/// How much data a caller will send or receive in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionLoad {
    /// Few bytes. Any session is suitable.
    Control,
    /// Many bytes. A session without other users is best.
    Content,
}

/// The sessions with all hosts.
#[derive(Default)]
pub(super) struct SftpPool {
    hosts: Mutex<HashMap<String, Arc<SftpHost>>>,
}

/// The sessions with one host.
#[derive(Default)]
struct SftpHost {
    state: Mutex<SftpPoolState>,
    /// Signalled when a session was opened, or when opening one failed.
    opened: Condvar,
}

#[derive(Default)]
struct SftpPoolState {
    sessions: Vec<Arc<SftpSession>>,
    opening: usize,
}

/// A session to use, or what has to be done to get one.
enum SessionChoice {
    Use(SessionLease),
    Open,
    Wait,
}

impl SftpPool {
    /// Returns an exchange with the host of `place`, in the session that has the fewest users.
    pub(super) fn exchange(
        &self,
        options: &StoreOptions,
        place: &SftpPath,
        load: SessionLoad,
        cancel: &Cancel,
    ) -> Result<Exchange> {
        let host = Arc::clone(self.hosts.lock().entry(place.authority.clone()).or_default());
        let lease = host.lease(options, place, load, cancel)?;
        Ok(Exchange::new(lease, place.to_string(), cancel.clone()))
    }
}

impl SftpHost {
    fn lease(
        &self,
        options: &StoreOptions,
        place: &SftpPath,
        load: SessionLoad,
        cancel: &Cancel,
    ) -> Result<SessionLease> {
        let mut state = self.state.lock();
        loop {
            match state.choose(load) {
                SessionChoice::Use(lease) => return Ok(lease),
                SessionChoice::Open => {}
                SessionChoice::Wait if cancel.is_cancelled() => return Err(Error::Cancelled),
                SessionChoice::Wait => {
                    state = self.opened.wait_timeout(state, POLL_INTERVAL).0;
                    continue;
                }
            }
            state.opening += 1;
            drop(state);
            let opened = SftpSession::open(options, place, cancel);
            let mut state = self.state.lock();
            state.opening -= 1;
            self.opened.notify_all();
            let session = opened?;
            let lease = SessionLease::new(Arc::clone(&session));
            state.sessions.push(session);
            return Ok(lease);
        }
    }
}

impl SftpPoolState {
    fn choose(&mut self, load: SessionLoad) -> SessionChoice {
        self.sessions.retain(|session| session.is_live());
        let least = self.sessions.iter().min_by_key(|session| session.users());
        let is_enough = |session: &SftpSession| {
            session.users() == 0
                || load == SessionLoad::Control
                || self.sessions.len() + self.opening >= MAX_SESSIONS
        };
        match least.filter(|session| is_enough(session)) {
            Some(session) => SessionChoice::Use(SessionLease::new(Arc::clone(session))),
            None if self.sessions.len() + self.opening < MAX_SESSIONS
                && (load == SessionLoad::Content || self.opening == 0) =>
            {
                SessionChoice::Open
            }
            None => SessionChoice::Wait,
        }
    }
}

//! Runs the thread of the link, which waits for sockets and timers, and moves bytes.
//!
//! Connections take turns, with one piece per turn. The next round begins with the first connection
//! whose piece was refused, so the total rate is divided evenly. Every wake-up visits every
//! connection. That takes microseconds for thousands of connections, and needs no index of
//! deadlines.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU64;
use std::ops::Bound;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};

use crate::config::LinkConfig;
use crate::connection::{LinkConnection, LinkContext, LinkDirection};
use crate::counters::LinkCounters;
use crate::line::{ConnectionEnd, Readiness, SpareBuffers};
use crate::pace::WirePace;

/// Event data of the listener and of the stop signal. The sockets of connection `n`, counted from
/// 1, have `2n` and `2n + 1`.
const LISTENER: u64 = 0;
const STOP: u64 = 1;

/// Maximum number of events fetched per call.
const EVENTS_PER_CALL: usize = 256;

/// Interval between two attempts to accept, while the process has no free descriptors.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) struct LinkRouter {
    epoll: OwnedFd,
    listener: TcpListener,
    config: LinkConfig,
    to: SocketAddr,
    counters: Arc<LinkCounters>,
    connections: BTreeMap<u64, LinkConnection>,
    accepted: u64,
    /// Time of the next attempt to accept, after a failed one.
    accept_at: Option<Instant>,
    /// Number of the connection that comes first in the next round.
    turn: u64,
}

impl LinkRouter {
    pub(crate) fn new(
        listener: TcpListener,
        stop: &OwnedFd,
        config: LinkConfig,
        to: SocketAddr,
        counters: Arc<LinkCounters>,
    ) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN | EventFlags::ET)?;
        epoll::add(&epoll, stop, EventData::new_u64(STOP), EventFlags::IN)?;
        Ok(Self {
            epoll,
            listener,
            config,
            to,
            counters,
            connections: BTreeMap::new(),
            accepted: 0,
            accept_at: None,
            turn: 0,
        })
    }

    /// Runs until the link is stopped. All connections then end.
    pub(crate) fn run(mut self) -> io::Result<()> {
        // Without this setting, timers would be late by up to 50 µs. A failure is harmless.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let now = Instant::now();
        let (config, counters) = (self.config.clone(), Arc::clone(&self.counters));
        let paces = [(); 2].map(|()| WirePace::new(config.rate, now).with_burst(config.burst));
        let mut shared =
            LinkContext { config: &config, counters: &counters, paces, spare: SpareBuffers::new(&config) };
        let mut events = Vec::with_capacity(EVENTS_PER_CALL);
        let mut wake = None;
        loop {
            self.wait(&mut events, wake)?;
            for event in events.drain(..) {
                match event.data.u64() {
                    LISTENER => self.accept(),
                    STOP => return Ok(()),
                    token => self.record_event(token, event.flags),
                }
            }
            if self.accept_at.is_some_and(|at| at <= Instant::now()) {
                self.accept();
            }
            wake = self.move_bytes(&mut shared).into_iter().chain(self.accept_at).min();
        }
    }

    /// Waits for an event, or until `wake`. `ppoll` waits for the epoll descriptor, because
    /// `epoll_wait` counts in whole milliseconds, and older kernels lack `epoll_pwait2`.
    fn wait(&self, events: &mut Vec<epoll::Event>, wake: Option<Instant>) -> io::Result<()> {
        let timeout = wake.map(|at| timespec(at.saturating_duration_since(Instant::now())));
        let mut set = [PollFd::new(&self.epoll, PollFlags::IN)];
        match poll(&mut set, timeout.as_ref()) {
            Ok(0) | Err(Errno::INTR) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        match epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(events),
            Some(&timespec(Duration::ZERO)),
        ) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn record_event(&mut self, token: u64, flags: EventFlags) {
        let Some(connection) = self.connections.get_mut(&(token / 2)) else { return };
        let end = if token.is_multiple_of(2) { &mut connection.client } else { &mut connection.server };
        let over = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        end.broken |= flags.contains(EventFlags::ERR);
        end.ending |= over || flags.contains(EventFlags::RDHUP);
        end.readable |= end.ending || flags.contains(EventFlags::IN);
        end.writable |= over || flags.contains(EventFlags::OUT);
    }

    fn accept(&mut self) {
        self.accept_at = None;
        loop {
            match self.listener.accept() {
                Ok((client, _)) => {
                    LinkCounters::add(&self.counters.connections, 1);
                    self.accepted += 1;
                    if let Err(error) = self.open(client) {
                        tracing::warn!(to = %self.to, %error, "the link cannot reach its target");
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    tracing::warn!(%error, "the link cannot accept a connection");
                    self.accept_at = Some(Instant::now() + ACCEPT_RETRY_INTERVAL);
                    return;
                }
            }
        }
    }

    fn open(&mut self, client: TcpStream) -> io::Result<()> {
        let family = if self.to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let server =
            socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
        match connect(&server, &self.to) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let server = TcpStream::from(server);
        client.set_nonblocking(true)?;
        for (stream, token) in [(&client, self.accepted * 2), (&server, self.accepted * 2 + 1)] {
            // Without Nagle's algorithm, a piece need not wait for the acknowledgement of the
            // previous piece.
            stream.set_nodelay(true)?;
            let edges = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            epoll::add(&self.epoll, stream, EventData::new_u64(token), edges)?;
        }
        let connection = LinkConnection::new(client, server, self.accepted, &self.config, Instant::now());
        self.connections.insert(self.accepted, connection);
        Ok(())
    }

    /// Reads and delivers bytes until no more can move. Returns the time at which to continue.
    fn move_bytes(&mut self, shared: &mut LinkContext<'_>) -> Option<Instant> {
        let now = Instant::now();
        // Delivering comes first, because it makes room in the buffers.
        self.deliver(shared, now);
        let mut wake: Option<Instant> = None;
        for direction in [LinkDirection::ToServer, LinkDirection::ToClient] {
            while self.run_round(direction, shared, now, &mut wake) {}
            shared.paces[direction as usize].end_round();
        }
        self.connections.values_mut().for_each(LinkConnection::end_round);
        // Without a delay, the bytes that were just read are already due.
        let (delivered, due) = self.deliver(shared, now);
        let again = (delivered > 0).then_some(now);
        wake.into_iter().chain(due).chain(again).min()
    }

    /// Lets every connection take one piece. Returns true if any connection took one.
    fn run_round(
        &mut self,
        direction: LinkDirection,
        shared: &mut LinkContext<'_>,
        now: Instant,
        wake: &mut Option<Instant>,
    ) -> bool {
        let (mut moved, mut refused) = (false, None);
        let turn = self.turn;
        let mut ask = |(number, connection): (&u64, &mut LinkConnection)| match connection
            .take(direction, shared, now)
        {
            Readiness::Now => moved = true,
            Readiness::At(time) => {
                refused = refused.or(Some(*number));
                *wake = Some(wake.map_or(time, |wake| wake.min(time)));
            }
            Readiness::No => {}
        };
        self.connections.range_mut(turn..).for_each(&mut ask);
        self.connections.range_mut((Bound::Unbounded, Bound::Excluded(turn))).for_each(&mut ask);
        self.turn = refused.unwrap_or(turn);
        moved
    }

    /// Writes the bytes that are due. Returns the number of bytes written, and the time at which
    /// more are due.
    fn deliver(&mut self, shared: &mut LinkContext<'_>, now: Instant) -> (usize, Option<Instant>) {
        let (mut bytes, mut next) = (0, None::<Instant>);
        self.connections.retain(|_, connection| match connection.deliver(shared, now) {
            Ok((delivered, due)) => {
                bytes += delivered;
                next = next.into_iter().chain(due).min();
                true
            }
            Err(ending) => {
                if ending == ConnectionEnd::Reset {
                    for end in [&connection.client, &connection.server] {
                        // Closing with a linger time of 0 sends a reset. If the option cannot be
                        // set, the close is clean.
                        let _ = sockopt::set_socket_linger(end.stream.as_fd(), Some(Duration::ZERO));
                    }
                }
                false
            }
        });
        (bytes, next)
    }
}

fn timespec(duration: Duration) -> Timespec {
    // A day suffices, because the caller computes the time again after each wake-up.
    let duration = duration.min(Duration::from_secs(86_400));
    Timespec { tv_sec: duration.as_secs().cast_signed(), tv_nsec: duration.subsec_nanos().into() }
}

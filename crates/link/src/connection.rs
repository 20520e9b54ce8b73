//! Runs one connection through the link: two sockets, a delay line for each direction, and the
//! faults of the current request. The router calls this module.

use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::Instant;

use rustix::net::RecvFlags;

use crate::config::LinkConfig;
use crate::counters::LinkCounters;
use crate::dice::Dice;
use crate::end::LinkSocket;
use crate::fault::{Fault, FaultPlan};
use crate::line::{ConnectionEnd, DelayLine, Readiness, SpareBuffers};
use crate::pace::WirePace;

/// Number of bytes, at the start of a response, in which the length of the response is searched.
/// The HTTP heads of servers are shorter.
const PEEK_BYTES: usize = 4096;

/// Length of a duplicated segment: the payload of one Ethernet packet.
const SEGMENT_BYTES: u64 = 1460;

/// The state that all connections of a link share.
#[derive(Debug)]
pub(crate) struct LinkContext<'a> {
    pub(crate) config: &'a LinkConfig,
    pub(crate) counters: &'a LinkCounters,
    /// The total rates to the server and to the clients, indexed by [`LinkDirection`].
    pub(crate) paces: [WirePace; 2],
    pub(crate) spare: SpareBuffers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkDirection {
    ToServer,
    ToClient,
}

/// A connection through the link.
#[derive(Debug)]
pub(crate) struct LinkConnection {
    pub(crate) client: LinkSocket,
    pub(crate) server: LinkSocket,
    to_server: DelayLine,
    to_client: DelayLine,
    dice: Dice,
    answer: Answer,
}

/// The response to the current request.
#[derive(Debug, Default)]
struct Answer {
    /// Number of bytes read from the server since the request began; `None` before the first
    /// request.
    taken: Option<u64>,
    /// The faults of the request, until their positions are known.
    plan: Option<FaultPlan>,
    /// The faults that are still to come, with their positions in the response. The next fault is
    /// last.
    points: Vec<(u64, Fault)>,
}

impl LinkConnection {
    /// Returns a connection that was just accepted. On a real network, the client would be
    /// connected one round trip later, and its first bytes would reach the server half a round trip
    /// after that.
    pub(crate) fn new(
        client: TcpStream,
        server: TcpStream,
        number: u64,
        config: &LinkConfig,
        now: Instant,
    ) -> Self {
        Self {
            client: LinkSocket::new(client),
            server: LinkSocket::new(server),
            to_server: DelayLine::new(config, now + config.rtt, now),
            to_client: DelayLine::new(config, now + config.rtt + config.rtt / 2, now),
            dice: Dice::new(config.seed, number),
            answer: Answer::default(),
        }
    }

    /// Reads one piece from the sender of a direction if [`Readiness`] is `Now`. Returns the
    /// readiness.
    pub(crate) fn take(
        &mut self,
        direction: LinkDirection,
        shared: &mut LinkContext<'_>,
        now: Instant,
    ) -> Readiness {
        let pace = &mut shared.paces[direction as usize];
        let ready = match direction {
            LinkDirection::ToServer => self.to_server.ready(&self.client, &self.server, pace, now),
            LinkDirection::ToClient => self.to_client.ready(&self.server, &self.client, pace, now),
        };
        if ready == Readiness::Now {
            match direction {
                LinkDirection::ToServer => self.take_request(shared, now),
                LinkDirection::ToClient => self.take_answer(shared, now),
            }
        }
        ready
    }

    fn take_request(&mut self, shared: &mut LinkContext<'_>, now: Instant) {
        let pace = &mut shared.paces[LinkDirection::ToServer as usize];
        let taken = self.to_server.take(&mut self.client, u64::MAX, pace, &mut shared.spare, now, |_| ());
        if taken == 0 || self.answer.taken == Some(0) {
            return;
        }
        LinkCounters::add(&shared.counters.requests, 1);
        let faults = &shared.config.faults;
        let plan = FaultPlan::draw(faults, &mut self.dice);
        if let Some(wait) = &shared.config.wait {
            let beyond = wait.draw(&mut self.dice).saturating_sub(shared.config.rtt);
            self.to_client.opens_at = self.to_client.opens_at.max(now + beyond);
        }
        if plan.delay {
            LinkCounters::add(&shared.counters.delays, 1);
            self.to_client.opens_at = self.to_client.opens_at.max(now) + faults.delay.duration;
        }
        self.answer = Answer {
            taken: Some(0),
            plan: (!plan.has_no_faults_within()).then_some(plan),
            points: Vec::new(),
        };
    }

    fn take_answer(&mut self, shared: &mut LinkContext<'_>, now: Instant) {
        self.place_faults();
        let taken = self.answer.taken.unwrap_or(0);
        let mut here = Vec::new();
        while let Some((_, fault)) = self.answer.points.pop_if(|(point, _)| *point <= taken) {
            match fault {
                Fault::Corrupt | Fault::Duplicate => here.push(fault),
                Fault::Stall => {
                    LinkCounters::add(&shared.counters.stalls, 1);
                    self.to_client.opens_at = now + shared.config.faults.stall.duration;
                }
                Fault::Reset | Fault::Close => {
                    LinkCounters::add(&shared.counters.cuts, 1);
                    self.to_client.cut(
                        if fault == Fault::Reset { ConnectionEnd::Reset } else { ConnectionEnd::Close },
                        now,
                    );
                    return;
                }
            }
        }
        if self.to_client.opens_at > now {
            // The other faults at this position happen after the stall.
            self.answer.points.extend(here.into_iter().map(|fault| (taken, fault)));
            return;
        }
        let limit = self.answer.points.last().map_or(u64::MAX, |(point, _)| point - taken);
        let (corrupt, duplicate) = (here.contains(&Fault::Corrupt), here.contains(&Fault::Duplicate));
        let limit = if duplicate { limit.min(SEGMENT_BYTES) } else { limit };
        let pace = &mut shared.paces[LinkDirection::ToClient as usize];
        let bytes = self.to_client.take(&mut self.server, limit, pace, &mut shared.spare, now, |bytes| {
            if corrupt {
                bytes[0] ^= 0x20;
            }
        });
        if bytes == 0 {
            self.answer.points.extend(here.into_iter().map(|fault| (taken, fault)));
            return;
        }
        LinkCounters::add(&shared.counters.corruptions, usize::from(corrupt));
        if duplicate {
            LinkCounters::add(&shared.counters.duplicates, 1);
            self.to_client.repeat_last(now);
        }
        self.answer.taken = Some(taken + bytes as u64);
    }

    /// Computes the positions of the faults from the first bytes of the response, which stay in the
    /// socket.
    fn place_faults(&mut self) {
        if self.answer.plan.is_none() {
            return;
        }
        let mut head = [0; PEEK_BYTES];
        if let Ok((_, length)) = rustix::net::recv(self.server.stream.as_fd(), &mut head[..], RecvFlags::PEEK)
            && length > 0
            && let Some(plan) = self.answer.plan.take()
        {
            self.answer.points = plan.place(&head[..length]);
        }
    }

    /// Writes the bytes that are due in both directions. Returns the number of bytes written, and
    /// the time at which more are due.
    ///
    /// # Errors
    /// [`ConnectionEnd`] if the connection has ended.
    pub(crate) fn deliver(
        &mut self,
        shared: &mut LinkContext<'_>,
        now: Instant,
    ) -> Result<(usize, Option<Instant>), ConnectionEnd> {
        let up = self.to_server.deliver(&mut self.server, &mut shared.spare, now);
        let down = self.to_client.deliver(&mut self.client, &mut shared.spare, now);
        LinkCounters::add(&shared.counters.bytes_to_server, up.bytes);
        LinkCounters::add(&shared.counters.bytes_to_client, down.bytes);
        // If a side has closed and nothing is in flight to it, the connection ends now, not when
        // the next byte arrives for that side.
        let gone = self.client.broken && self.to_server.is_drained()
            || self.server.broken && self.to_client.is_drained();
        let ending = up.ending.or(down.ending).or(gone.then_some(ConnectionEnd::Reset));
        let finished = self.to_server.finished && self.to_client.finished;
        match ending.or(finished.then_some(ConnectionEnd::Close)) {
            Some(ending) => Err(ending),
            None => Ok((up.bytes + down.bytes, [up.next, down.next].into_iter().flatten().min())),
        }
    }

    /// Ends a round of sending: see [`WirePace::end_round`].
    pub(crate) fn end_round(&mut self) {
        self.to_server.end_round();
        self.to_client.end_round();
    }
}

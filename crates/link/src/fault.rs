//! Draws the faults of a request, and their positions in the response, from a seed.
//!
//! Each request draws the same number of random values. So a changed probability of one fault does
//! not change which requests have the other faults.

use crate::config::Faults;
use crate::dice::Dice;

/// Number of bytes, at the start of a response, that are never corrupted or duplicated. The HTTP
/// heads of servers are shorter.
pub(crate) const SPARED_HEAD_BYTES: u64 = 1024;
/// Largest position of a fault, in bytes, in a response of unknown length.
const UNKNOWN_LENGTH_SPAN: u64 = 64 << 20;

/// A fault within a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Stall,
    Reset,
    Close,
    Corrupt,
    Duplicate,
}

/// The faults of one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultPlan {
    /// True if the response begins late.
    pub(crate) delay: bool,
    /// The faults within the response. Each has its position as a fraction of the response.
    within: Vec<(f64, Fault)>,
}

impl FaultPlan {
    pub(crate) fn draw(faults: &Faults, dice: &mut Dice) -> Self {
        let delay = dice.roll() < faults.delay.chance.get();
        let cut = if dice.roll() < 0.5 { Fault::Reset } else { Fault::Close };
        let kinds = [
            (faults.stall.chance, Fault::Stall),
            (faults.cut, cut),
            (faults.corrupt, Fault::Corrupt),
            (faults.duplicate, Fault::Duplicate),
        ];
        let within = kinds.map(|(chance, fault)| (dice.roll() < chance.get(), dice.roll(), fault));
        Self { delay, within: within.into_iter().filter(|f| f.0).map(|f| (f.1, f.2)).collect() }
    }

    /// Returns whether no fault lies within the response. The response may still begin late.
    pub(crate) fn has_no_faults_within(&self) -> bool {
        self.within.is_empty()
    }

    /// Returns the faults with their positions in bytes, in a response that begins with `head`.
    /// Sorts them from the last position to the first.
    pub(crate) fn place(self, head: &[u8]) -> Vec<(u64, Fault)> {
        let length = answer_length(head);
        let mut points: Vec<_> = self
            .within
            .into_iter()
            .filter_map(|(at, fault)| Some((position(at, fault, length)?, fault)))
            .collect();
        points.sort_by_key(|(point, _)| std::cmp::Reverse(*point));
        points
    }
}

/// Returns the position, in bytes, of `fault` in a response of `length` bytes. `None` if the
/// response is too short for this fault. In a response of unknown length, a stall is at the start;
/// other positions are spread evenly over the logarithm of the length.
fn position(at: f64, fault: Fault, length: Option<u64>) -> Option<u64> {
    let spared = if matches!(fault, Fault::Corrupt | Fault::Duplicate) { SPARED_HEAD_BYTES } else { 0 };
    match length {
        Some(length) => Some(spared + ((length.checked_sub(spared).filter(|l| *l > 0)?) as f64 * at) as u64),
        None if fault == Fault::Stall => Some(0),
        None => Some(
            (SPARED_HEAD_BYTES as f64 * (UNKNOWN_LENGTH_SPAN as f64 / SPARED_HEAD_BYTES as f64).powf(at))
                as u64,
        ),
    }
}

/// Returns the length of the head and the body together. `None` if `head` does not contain a whole
/// HTTP head with a `Content-Length`.
fn answer_length(head: &[u8]) -> Option<u64> {
    const NAME: &[u8] = b"content-length:";
    if !head.starts_with(b"HTTP/") {
        return None;
    }
    let end = head.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
    let mut lines = head[..end].split(|b| *b == b'\n');
    let line = lines.find(|l| l.len() > NAME.len() && l[..NAME.len()].eq_ignore_ascii_case(NAME))?;
    let body: u64 = std::str::from_utf8(&line[NAME.len()..]).ok()?.trim().parse().ok()?;
    body.checked_add(end as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Chance, RandomDelay};
    use std::time::Duration;

    fn always() -> Faults {
        let hold = RandomDelay { chance: Chance::new(1.0), duration: Duration::from_secs(1) };
        let sure = Chance::new(1.0);
        Faults { delay: hold, stall: hold, cut: sure, corrupt: sure, duplicate: sure }
    }

    #[test]
    fn one_seed_gives_one_sequence_and_another_gives_another() {
        let faults = Faults { cut: Chance::new(0.5), ..Faults::default() };
        let draw = |seed| -> Vec<bool> {
            let mut dice = Dice::new(seed, 3);
            (0..200).map(|_| !FaultPlan::draw(&faults, &mut dice).has_no_faults_within()).collect()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        let hits = draw(7).into_iter().filter(|hit| *hit).count();
        assert!((60..140).contains(&hits), "{hits} of 200 at one half");
    }

    #[test]
    fn faults_lie_within_a_response_of_known_length_and_spare_its_head() {
        let mut dice = Dice::new(1, 1);
        let head = b"HTTP/1.1 200 OK\r\nContent-LENGTH: 5000\r\n\r\n";
        for _ in 0..500 {
            let points = FaultPlan::draw(&always(), &mut dice).place(head);
            assert_eq!(points.len(), 4);
            for (point, fault) in points {
                assert!(point < 5000 + head.len() as u64, "{fault:?} at {point}");
                let spares = matches!(fault, Fault::Corrupt | Fault::Duplicate);
                assert!(!spares || point >= SPARED_HEAD_BYTES, "{fault:?} at {point}");
            }
        }
    }

    #[test]
    fn short_responses_are_neither_corrupted_nor_duplicated() {
        let mut dice = Dice::new(1, 1);
        let points =
            FaultPlan::draw(&always(), &mut dice).place(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc");
        assert!(points.iter().all(|(_, fault)| !matches!(fault, Fault::Corrupt | Fault::Duplicate)));
    }

    #[test]
    fn only_a_complete_http_head_has_a_length() {
        assert_eq!(answer_length(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"), Some(49));
        assert_eq!(answer_length(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n"), None);
        assert_eq!(answer_length(b"220 ftp ready\r\nContent-Length: 10\r\n\r\n"), None);
        assert_eq!(answer_length(b"HTTP/1.1 200 OK\r\nContent-Length: ten\r\n\r\n"), None);
        assert_eq!(answer_length(b""), None);
    }
}

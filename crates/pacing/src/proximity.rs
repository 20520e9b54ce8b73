//! Classifies a server as near or far by its quickest response. The size and the number of requests
//! depend on the result.

use std::time::Duration;

/// Shortest response time of a far server. If responses take this long, the round trip outweighs
/// the cost of serving.
pub const FAR: Duration = Duration::from_millis(10);

/// The distance of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Proximity {
    /// No response has come yet. Callers treat the server as far, except where a wrong guess would
    /// be expensive.
    #[default]
    Unknown,
    /// A request mostly costs processor time, at either end. Few large requests are best.
    Near,
    /// A request mostly costs a round trip, and each connection has a limit of its own. Many
    /// concurrent requests are best.
    Far,
}

impl Proximity {
    /// Classifies a server by its quickest response so far, because no response is quicker than the
    /// network path allows.
    #[must_use]
    pub fn of(quickest: Option<Duration>) -> Self {
        match quickest {
            None => Self::Unknown,
            Some(took) if took < FAR => Self::Near,
            Some(_) => Self::Far,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quickest_answer_decides() {
        assert_eq!(Proximity::of(None), Proximity::Unknown);
        assert_eq!(Proximity::of(Some(FAR)), Proximity::Far);
        assert_eq!(Proximity::of(Some(FAR / 2)), Proximity::Near);
    }
}

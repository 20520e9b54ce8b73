//! Classifies a server as near or far, by one threshold. The size and number of requests depend on
//! the result.

use std::time::Duration;

/// The shortest response time of a far server. Its round trip outweighs the cost of serving.
pub const FAR: Duration = Duration::from_millis(10);

/// How far away a server is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Proximity {
    /// No response has come yet. Callers treat it as `Far`, except where a wrong guess would be
    /// expensive.
    #[default]
    Unknown,
    /// A request mostly costs processor time, at either end: send few, large ones.
    Near,
    /// A request mostly costs a round trip, and each connection has its own limit: send many at
    /// once.
    Far,
}

impl Proximity {
    /// Classifies by the quickest response so far, since none is quicker than its path allows.
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

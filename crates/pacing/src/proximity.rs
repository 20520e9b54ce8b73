//! Classifies a server as near or far, by one threshold. The size and number of requests depend on
//! the result.

use std::time::Duration;

/// An answer that takes at least this long comes from far away: its round trip outweighs what it
/// costs to serve.
pub const FAR: Duration = Duration::from_millis(10);

/// How far away a server is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Proximity {
    /// No answer has come yet. Callers treat it as `Far`, except where a wrong guess would be
    /// expensive.
    #[default]
    Unknown,
    /// A request costs processor time, here or there: send few, and large ones.
    Near,
    /// A request costs a round trip, and each connection has its own limit: send many at once.
    Far,
}

impl Proximity {
    /// Judges by the quickest answer so far, since none is quicker than its path allows.
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

//! Draws a value for each uncertain number, from a fixed seed. The same index gives the same values
//! if the same numbers are requested in the same order. Called once for each simulated job.

use fastrand::Rng;

use super::Number;

/// One draw: the same index gives the same values for the same numbers asked in the same order.
pub struct Draw(Rng);

/// The seed of all draws.
const SEED: u64 = 0x5eed_ad71_5e00;

impl Draw {
    /// The draw of this index.
    #[must_use]
    pub fn new(index: u64) -> Self {
        Self(Rng::with_seed(SEED + index))
    }

    /// A value of a number: triangular, with its peak at the likeliest.
    pub fn of(&mut self, number: &Number) -> f64 {
        let chance = self.0.f64();
        let (below, width) = (number.value - number.low, number.high - number.low);
        if width <= 0.0 {
            number.value
        } else if chance * width < below {
            number.low + (chance * width * below).sqrt()
        } else {
            number.high - ((1.0 - chance) * width * (number.high - number.value)).sqrt()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_between_the_bounds_and_repeat() {
        let number = Number { value: 2.0, low: 1.0, high: 5.0, source: String::new() };
        let draws = |index| (0..100).map(|_| Draw::new(index).of(&number)).collect::<Vec<_>>();
        assert_eq!(draws(3), draws(3));
        let spread: Vec<f64> = (0..1_000).map(|index| Draw::new(index).of(&number)).collect();
        assert!(spread.iter().all(|value| (1.0..=5.0).contains(value)));
        let mean = spread.iter().sum::<f64>() / 1_000.0;
        assert!((mean - 8.0 / 3.0).abs() < 0.1, "{mean}");
    }
}

//! Computes the probability that two lists of samples differ by chance alone: Yuen's test, and the
//! correction for many comparisons. Called by `compare`.

/// Share of the samples removed at each end, so that single slow runs do not decide.
const TRIMMED_SHARE: f64 = 0.2;

/// Returns the probability that two lists from one distribution differ at least this much, in
/// either direction. 1 if either has fewer than two positive samples.
///
/// The test is Yuen's ("The two-sample trimmed t for unequal population variances", 1974), applied
/// to logarithms: timing noise is close to log-normal except for single slow runs, which are
/// trimmed. A rank test would assume less, but with five runs on each side its result is never
/// below 0.008, which is too high for a correction for many comparisons.
pub(crate) fn chance(one: &[f64], two: &[f64]) -> f64 {
    let (one, two) = (TrimmedFigures::of(one), TrimmedFigures::of(two));
    let (Some(one), Some(two)) = (one, two) else { return 1.0 };
    let error = one.error + two.error;
    let distance = (one.mean - two.mean).abs();
    // Without variance, every difference is significant, except a difference of rounding.
    if error <= 1e-24 {
        return if distance < 1e-9 { 1.0 } else { 0.0 };
    }
    let freedom = error.powi(2) / (one.error.powi(2) / one.freedom + two.error.powi(2) / two.freedom);
    student_tails(distance / error.sqrt(), freedom)
}

/// Figures of one list for the test.
struct TrimmedFigures {
    /// Mean of the logarithms of the samples that were not trimmed.
    mean: f64,
    /// Squared standard error of `mean`, from the winsorised variance.
    error: f64,
    /// Degrees of freedom.
    freedom: f64,
}

impl TrimmedFigures {
    fn of(samples: &[f64]) -> Option<Self> {
        let positive = samples.iter().filter(|x| x.is_finite() && **x > 0.0);
        let mut logs: Vec<f64> = positive.map(|x| x.ln()).collect();
        logs.sort_by(f64::total_cmp);
        let count = logs.len();
        let cut = (TRIMMED_SHARE * count as f64) as usize;
        let (left, freedom) = (count - 2 * cut, count.checked_sub(2 * cut + 1)?);
        if freedom == 0 {
            return None;
        }
        let (low, high) = (logs[cut], logs[count - 1 - cut]);
        let mean = logs[cut..count - cut].iter().sum::<f64>() / left as f64;
        let winsorised = logs.iter().map(|x| x.clamp(low, high));
        let middle = winsorised.clone().sum::<f64>() / count as f64;
        let squares: f64 = winsorised.map(|x| (x - middle).powi(2)).sum();
        Some(Self { mean, error: squares / (left * freedom) as f64, freedom: freedom as f64 })
    }
}

/// Corrects probabilities for their number: Benjamini and Hochberg, "Controlling the False
/// Discovery Rate" (1995). A caller reports the differences whose corrected probability is at most
/// a level. If no contender really differs, the probability of any report is at most the level. If
/// many differ, the expected share of false reports is at most the level.
pub(crate) fn corrected(chances: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|&one, &two| chances[one].total_cmp(&chances[two]));
    let mut result = vec![1.0; chances.len()];
    let mut least = 1.0f64;
    for (rank, &index) in order.iter().enumerate().rev() {
        least = least.min(chances[index] * chances.len() as f64 / (rank + 1) as f64);
        result[index] = least;
    }
    result
}

/// Returns the probability that Student's t distribution exceeds `t` in absolute value.
fn student_tails(t: f64, freedom: f64) -> f64 {
    incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// Computes the regularised incomplete beta function by the continued fraction of Press et al.,
/// "Numerical Recipes" (1992), 6.4.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges quickly below this point. Above it, the symmetry of the function is
    // used.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = (a * x.ln() + b * (-x).ln_1p() - log_beta(a, b)).exp() / a;
    let tiny = 1e-300;
    let bounded = |value: f64| if value.abs() < tiny { tiny } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / bounded(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for m in 1..10_000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = fraction;
        for step in [even, odd] {
            d = 1.0 / bounded(1.0 + step * d);
            c = bounded(1.0 + step / c);
            fraction *= c * d;
        }
        if (fraction - before).abs() < 1e-12 * fraction.abs() {
            break;
        }
    }
    front * fraction
}

/// Computes the logarithm of the beta function.
fn log_beta(a: f64, b: f64) -> f64 {
    log_gamma(a) + log_gamma(b) - log_gamma(a + b)
}

/// Computes the logarithm of the gamma function of a positive number: Lanczos's approximation with
/// the coefficients of "Numerical Recipes", 6.1.
fn log_gamma(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 6] = [
        76.180_091_729_471_46,
        -86.505_320_329_416_77,
        24.014_098_240_830_91,
        -1.231_739_572_450_155,
        0.120_865_097_386_617_9e-2,
        -0.539_523_938_495_3e-5,
    ];
    let base = x + 5.5;
    let series = COEFFICIENTS.iter().zip(1..).map(|(c, n)| c / (x + f64::from(n))).sum::<f64>();
    (x + 0.5) * base.ln() - base + (2.506_628_274_631_000_5 * (1.000_000_000_190_015 + series) / x).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-5, "{found} is not {expected}");
    }

    #[test]
    fn tails_equal_published_critical_values() {
        // Critical values of t for 5 % on both sides. With many degrees of freedom they equal those
        // of the normal distribution.
        assert_close(student_tails(2.306_004, 8.0), 0.05);
        assert_close(student_tails(12.706_205, 1.0), 0.05);
        assert_close(student_tails(0.0, 5.0), 1.0);
        assert_close(student_tails(1.959_964, 1e6), 0.05);
        assert_close(student_tails(3.290_527, 1e6), 0.001);
    }

    #[test]
    fn the_chance_equals_a_numerical_integral() {
        // Fewer than five samples are not trimmed: t = 1.690641 with 4.083636 degrees of freedom,
        // the expected value integrated numerically.
        let powers = |x: [f64; 4]| x.map(f64::exp);
        assert_close(chance(&powers([1.0, 2.0, 3.0, 4.0]), &powers([2.0, 4.0, 6.0, 9.0])), 0.164_702);
        assert_eq!(chance(&[1.0; 3], &[1.0; 3]), 1.0);
        assert_eq!(chance(&[1.0; 3], &[2.0; 3]), 0.0);
    }

    #[test]
    fn a_single_slow_run_changes_little() {
        let (one, mut two) = ([1.0, 1.01, 1.02, 1.03, 1.04, 1.05], [1.1, 1.11, 1.12, 1.13, 1.14, 1.15]);
        let before = chance(&one, &two);
        two[5] = 50.0;
        assert_eq!(chance(&one, &two), before);
        assert!(before < 0.001, "{before}");
    }

    #[test]
    fn too_few_positive_samples_give_a_chance_of_1() {
        assert_eq!(chance(&[1.0, f64::NAN], &[2.0, 3.0]), 1.0);
        assert_eq!(chance(&[], &[]), 1.0);
    }

    #[test]
    fn correction_grows_with_the_number_of_comparisons() {
        assert_eq!(corrected(&[0.01]), [0.01]);
        let found = corrected(&[0.5, 0.01, 0.02, 1.0]);
        assert_close(found[1], 0.04);
        assert_close(found[2], 0.04);
        assert_close(found[0], 2.0 / 3.0);
        assert_eq!(corrected(&[]), [0.0; 0]);
    }
}

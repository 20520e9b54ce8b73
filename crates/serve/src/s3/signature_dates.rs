//! Checks the dates of a signature of version 4 before s3s gets them.
//!
//! s3s 0.14 subtracts `0` from each character of a date before it checks that the character is a
//! digit. The subtraction panics in builds that check for overflow. So a date with characters other
//! than letters and digits is refused before s3s gets it. Called for heads and for the fields of
//! forms.

/// True if s3s can read the date in `credential`: `KEY/DATE/REGION/s3/aws4_request`.
pub(super) fn has_parsable_date(credential: &str) -> bool {
    credential.split('/').nth(1).is_some_and(is_parsable_date)
}

/// True if s3s can read this date.
pub(super) fn is_parsable_date(date: &str) -> bool {
    date.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_have_letters_and_digits_only() {
        assert!(
            is_parsable_date("20261127T075400Z") && has_parsable_date("a/20261127/us-east-1/s3/aws4_request")
        );
        for credential in
            ["", "a", "a/2026-1-7/us-east-1/s3/aws4_request", "a/2026 127/r/s3/aws4_request", "a//"]
        {
            assert_eq!(has_parsable_date(credential), credential == "a//", "{credential}");
        }
        assert!(!is_parsable_date("20261127T07:540Z") && !is_parsable_date("2026\u{e4}1127"));
    }
}

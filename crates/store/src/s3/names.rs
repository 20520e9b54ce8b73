//! Decodes the names in listings.
//!
//! Listings are requested with `encoding-type=url`, because keys may have characters that are
//! illegal in XML. A service that claims this encoding may still send names in another form. A
//! wrongly decoded name denotes another object or none, and deleting it would report success. So if
//! a name would be decoded differently by the forms that are still possible for a service, the same
//! page is requested again without the encoding. Forms that do not give the names on that page are
//! excluded.

use std::borrow::Cow;
use std::collections::HashSet;

use percent_encoding::percent_decode_str;
use rustix_futex_sync::Mutex;

use crate::error::Result;

/// The query parameter for URL-encoded names.
pub(super) const ENCODING: &str = "encoding-type";

/// How names are encoded in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameForm {
    /// Percent-encoded, with `+` for a space, as S3 does.
    Form,
    /// Percent-encoded, with a literal `+`.
    Percent,
    /// Not encoded.
    Literal,
}

impl NameForm {
    /// All forms, the most probable first.
    const ALL: [Self; 3] = [Self::Form, Self::Percent, Self::Literal];

    /// Returns the name for which a string in the listing stands.
    pub(super) fn decode(self, text: &str) -> Cow<'_, str> {
        let percent = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        match self {
            Self::Literal => text.into(),
            _ if !text.contains(['+', '%']) => text.into(),
            Self::Form => percent(&text.replace('+', " ")).into(),
            Self::Percent => percent(text).into(),
        }
    }

    /// Returns `Literal` if the response does not claim to be encoded, and `None` if it does.
    pub(super) fn stated(encoding_type: Option<&str>) -> Option<Self> {
        (encoding_type != Some("url")).then_some(Self::Literal)
    }
}

/// The forms that are still possible for a service.
#[derive(Debug)]
pub(super) struct LearntNames(Mutex<Vec<NameForm>>);

impl Default for LearntNames {
    fn default() -> Self {
        Self(Mutex::new(NameForm::ALL.to_vec()))
    }
}

impl LearntNames {
    /// Returns the form of the names on a page that claims to be encoded. `plain` requests the
    /// names on the same page without encoding.
    pub(super) fn learn(
        &self,
        names: &[&str],
        plain: impl FnOnce() -> Result<HashSet<String>>,
    ) -> Result<NameForm> {
        let possible = self.0.lock().clone();
        let agree = |name: &&str| possible.windows(2).all(|two| two[0].decode(name) == two[1].decode(name));
        let ambiguous: Vec<&str> = names.iter().filter(|name| !agree(name)).copied().collect();
        // Encoded names have neither spaces nor non-ASCII characters.
        let is_literal = |name: &&str| name.contains(' ') || !name.is_ascii();
        let found = if names.iter().any(is_literal) {
            vec![NameForm::Literal]
        } else if ambiguous.is_empty() {
            return Ok(possible[0]);
        } else {
            let plain = plain()?;
            let fits =
                |form: &NameForm| ambiguous.iter().all(|name| plain.contains(form.decode(name).as_ref()));
            possible.iter().copied().filter(fits).collect()
        };
        // Without encoding, names that are illegal in XML make the page unusable. Then the most
        // probable form is assumed.
        let found = if found.is_empty() { vec![possible[0]] } else { found };
        let first = found[0];
        *self.0.lock() = found;
        Ok(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names that are decoded from the pages of a service with these keys, and the
    /// number of extra requests.
    fn learn(keys: &[&str], encode: impl Fn(&str) -> String) -> (Vec<String>, usize) {
        let names = LearntNames::default();
        let mut asked = 0;
        let decoded = keys.iter().map(|key| {
            let sent = encode(key);
            let plain = || {
                asked += 1;
                Ok(HashSet::from([(*key).to_owned()]))
            };
            names.learn(&[&sent], plain).unwrap().decode(&sent).into_owned()
        });
        (decoded.collect(), asked)
    }

    #[test]
    fn names_are_decoded_as_the_service_encodes_them_and_few_pages_are_requested_twice() {
        let keys = ["plain", "a b", "a+b", "a%41b", "100%", "a%20b+c", "x/y"];
        let encode = |text: &str, plus: &str, space: &str| {
            text.replace('%', "%25").replace('+', plus).replace(' ', space)
        };
        assert_eq!(learn(&keys, |key| encode(key, "%2B", "+")), (keys.map(str::to_owned).to_vec(), 1));
        assert_eq!(learn(&keys, |key| encode(key, "%2B", "%20")).0, keys);
        assert_eq!(learn(&keys, |key| encode(key, "+", "%20")).0, keys);
        assert_eq!(learn(&keys, ToOwned::to_owned).0, keys);
        // If the service does not encode names, a plus alone excludes no form that decodes percent
        // signs.
        let few = ["a+b", "a%41b"];
        assert_eq!(learn(&few, ToOwned::to_owned), (few.map(str::to_owned).to_vec(), 2));
        assert_eq!(learn(&["plain", "x/y"], ToOwned::to_owned).1, 0);
    }
}

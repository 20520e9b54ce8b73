//! Computes checksums of objects that are uploaded in parts, as S3 defines them.
//!
//! A full-object checksum covers all bytes; it can be combined from the CRCs of parts. A composite
//! checksum is the checksum of the parts' checksums, followed by `-` and the number of parts. The
//! client chooses the kind when it begins the upload. `tests/clients/test_matrix.py` compares the
//! results with botocore's. Which kinds each algorithm supports was not tried on S3 itself. The
//! CRC-64/NVME of the full object is stored in addition to a composite checksum, so that a read of
//! any object can be verified.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use firstbyte_location::{Algorithm, Checksum, Hasher};
use http::HeaderMap;
use serde::{Deserialize, Serialize};

use crate::object::checksum::{ChecksumRefusal, ChecksumValues, header};

/// The kinds' names in S3.
const FULL_OBJECT: &str = "FULL_OBJECT";
const COMPOSITE: &str = "COMPOSITE";

/// How the checksum of an object is derived from its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ChecksumKind {
    /// The checksum of all bytes.
    FullObject,
    /// The checksum of the parts' checksums.
    Composite,
}

impl ChecksumKind {
    /// Returns S3's name of the kind.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::FullObject => FULL_OBJECT,
            Self::Composite => COMPOSITE,
        }
    }
}

fn unsupported_checksum(why: impl Into<String>) -> ChecksumRefusal {
    ChecksumRefusal::Unsupported(why.into())
}

/// The checksum that an upload was begun with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AgreedChecksum {
    pub(crate) algorithm: Algorithm,
    pub(crate) kind: ChecksumKind,
}

impl AgreedChecksum {
    /// Parses the checksum that `CreateMultipartUpload` names. `None` means S3's default,
    /// CRC-64/NVME of the full object.
    ///
    /// # Errors
    /// The algorithm is unknown, or does not support this kind.
    pub(crate) fn new(algorithm: Option<&str>, kind: Option<&str>) -> Result<Option<Self>, ChecksumRefusal> {
        let kind = match kind {
            None => None,
            Some(FULL_OBJECT) => Some(ChecksumKind::FullObject),
            Some(COMPOSITE) => Some(ChecksumKind::Composite),
            Some(_) => {
                return Err(unsupported_checksum("the checksum type is FULL_OBJECT or COMPOSITE"));
            }
        };
        let Some(name) = algorithm else {
            return match kind {
                None => Ok(None),
                Some(_) => Err(unsupported_checksum("a checksum type needs x-amz-checksum-algorithm")),
            };
        };
        let algorithm = Algorithm::from_name(name).filter(|algorithm| algorithm.header().is_some());
        let algorithm =
            algorithm.ok_or_else(|| unsupported_checksum("checksums of this algorithm are not supported"))?;
        let usual = if algorithm == Algorithm::Crc64Nvme {
            ChecksumKind::FullObject
        } else {
            ChecksumKind::Composite
        };
        let kind = kind.unwrap_or(usual);
        let exists = match kind {
            ChecksumKind::FullObject => algorithm.is_combinable(),
            ChecksumKind::Composite => algorithm != Algorithm::Crc64Nvme,
        };
        if !exists {
            return Err(unsupported_checksum(format!(
                "The {} checksum type cannot be used with the {} checksum algorithm",
                kind.name(),
                algorithm.name().to_lowercase()
            )));
        }
        Ok(Some(Self { algorithm, kind }))
    }

    /// Refuses a part whose stated checksum uses another algorithm.
    pub(crate) fn check_part(
        self,
        mut stated: impl Iterator<Item = Algorithm>,
    ) -> Result<(), ChecksumRefusal> {
        let Some(other) = stated.find(|other| *other != self.algorithm && other.header().is_some()) else {
            return Ok(());
        };
        Err(unsupported_checksum(format!(
            "Checksum Type mismatch occurred, expected checksum Type: {}, actual checksum Type: {}",
            self.algorithm.name().to_lowercase(),
            other.name().to_lowercase()
        )))
    }
}

/// Checksums of all parts, by one algorithm. For 10,000 parts they take 53 KB (CRC-32) to 430 KB
/// (SHA-256).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartChecksums {
    algorithm: Algorithm,
    /// The raw values, concatenated and encoded in base64.
    values: String,
}

impl PartChecksums {
    fn new(algorithm: Algorithm, values: &[Vec<u8>]) -> Self {
        Self { algorithm, values: BASE64_STANDARD.encode(values.concat()) }
    }

    /// Returns the checksum of the part at `index`, from 0.
    pub(crate) fn get(&self, index: usize) -> Option<ChecksumValues> {
        let bytes = BASE64_STANDARD.decode(&self.values).ok()?;
        let value = bytes.chunks_exact(self.algorithm.value_len()).nth(index)?;
        Some(ChecksumValues::from([(self.algorithm, BASE64_STANDARD.encode(value))]))
    }
}

/// The checksums of an object made of parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct WholeChecksums {
    /// Checksums of the full object.
    pub(crate) full: ChecksumValues,
    pub(crate) composite: Option<(Algorithm, String)>,
    pub(crate) parts: Option<PartChecksums>,
}

impl WholeChecksums {
    /// Computes the checksums of an object from the checksums and lengths of its parts, in order.
    ///
    /// # Errors
    /// A part has no checksum of the agreed algorithm.
    pub(crate) fn new(
        agreed: Option<AgreedChecksum>,
        parts: &[(&ChecksumValues, u64)],
    ) -> Result<Self, ChecksumRefusal> {
        let full = combine(parts.iter().copied());
        let Some(AgreedChecksum { algorithm, kind }) = agreed else {
            return Ok(Self { full, ..Self::default() });
        };
        let value = |(values, _): &(&ChecksumValues, u64)| {
            Some(Checksum::from_base64(algorithm, values.get(&algorithm)?)?.value)
        };
        let values: Option<Vec<Vec<u8>>> = parts.iter().map(value).collect();
        let values = values.ok_or(ChecksumRefusal::Missing(algorithm))?;
        let composite = (kind == ChecksumKind::Composite).then(|| {
            let whole = Hasher::of(algorithm, &values.concat()).to_base64();
            (algorithm, format!("{whole}-{}", values.len()))
        });
        Ok(Self { full, composite, parts: Some(PartChecksums::new(algorithm, &values)) })
    }

    /// Compares the checksums with those in the `headers` of the request that completes the upload.
    ///
    /// # Errors
    /// A checksum differs, or is not of the agreed kind.
    pub(crate) fn check(
        &self,
        agreed: Option<AgreedChecksum>,
        headers: &HeaderMap,
    ) -> Result<(), ChecksumRefusal> {
        let kind = agreed.map_or(ChecksumKind::FullObject, |agreed| agreed.kind);
        if headers
            .get_all("x-amz-checksum-type")
            .iter()
            .any(|stated| stated.as_bytes() != kind.name().as_bytes())
        {
            return Err(unsupported_checksum(format!("the upload's checksum type is {}", kind.name())));
        }
        for algorithm in Algorithm::ALL.into_iter().filter(|algorithm| algorithm.header().is_some()) {
            let name = header(algorithm);
            for stated in headers.get_all(name) {
                let stated = String::from_utf8_lossy(stated.as_bytes()).trim().to_owned();
                let fits = match &self.composite {
                    // S3 accepts the value with and without the number of parts.
                    Some((own, value)) if *own == algorithm => {
                        *value == stated || value.rsplit_once('-').is_some_and(|(sum, _)| sum == stated)
                    }
                    _ => match self.full.get(&algorithm) {
                        Some(value) => *value == stated,
                        None => {
                            return Err(unsupported_checksum(format!(
                                "the upload was not begun with this checksum: {name} cannot be compared"
                            )));
                        }
                    },
                };
                if !fits {
                    return Err(ChecksumRefusal::Differs(format!(
                        "the object does not have the announced {name}"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Returns the checksums that S3 reports, and their kind.
    pub(crate) fn shown(&self) -> (ChecksumValues, ChecksumKind) {
        shown(&self.full, self.composite.as_ref())
    }
}

/// Returns the checksums of an object that S3 reports, and their kind.
pub(crate) fn shown(
    full: &ChecksumValues,
    composite: Option<&(Algorithm, String)>,
) -> (ChecksumValues, ChecksumKind) {
    let mut values = full.clone();
    match composite {
        Some((algorithm, value)) => {
            values.insert(*algorithm, value.clone());
            (values, ChecksumKind::Composite)
        }
        None => (values, ChecksumKind::FullObject),
    }
}

/// Combines the checksums of parts, given with their lengths, for each CRC that all parts have.
fn combine<'a>(parts: impl Iterator<Item = (&'a ChecksumValues, u64)> + Clone) -> ChecksumValues {
    let whole = |algorithm: Algorithm| {
        let mut pieces = parts.clone().map(|(values, length)| {
            Some((Checksum::from_base64(algorithm, values.get(&algorithm)?)?, length))
        });
        let (first, _) = pieces.next()??;
        let whole = pieces.try_fold(first, |whole, piece| {
            let (next, length) = piece?;
            whole.combine(&next, length)
        });
        Some((algorithm, whole?.to_base64()))
    };
    Algorithm::ALL.into_iter().filter(|algorithm| algorithm.is_combinable()).filter_map(whole).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(bytes: &[u8], algorithms: &[Algorithm]) -> ChecksumValues {
        algorithms.iter().map(|algorithm| (*algorithm, Hasher::of(*algorithm, bytes).to_base64())).collect()
    }

    #[test]
    fn checksums_of_parts_combine_into_that_of_the_whole() {
        let algorithms = [Algorithm::Crc64Nvme, Algorithm::Crc32];
        let (one, two) = (sums(b"1234", &algorithms), sums(b"56789", &algorithms));
        let agreed = Some(AgreedChecksum { algorithm: Algorithm::Crc32, kind: ChecksumKind::FullObject });
        let whole = WholeChecksums::new(agreed, &[(&one, 4), (&two, 5)]).unwrap();
        assert_eq!(whole.shown(), (sums(b"123456789", &algorithms), ChecksumKind::FullObject));
    }

    #[test]
    fn a_composite_checksum_is_that_of_the_parts_checksums() {
        let algorithms = [Algorithm::Crc64Nvme, Algorithm::Sha256];
        let (one, two) = (sums(b"1234", &algorithms), sums(b"56789", &algorithms));
        let agreed = AgreedChecksum::new(Some("SHA256"), None).unwrap();
        let whole = WholeChecksums::new(agreed, &[(&one, 4), (&two, 5)]).unwrap();
        let raw = |bytes: &[u8]| Hasher::of(Algorithm::Sha256, bytes).value;
        let expected = Hasher::of(Algorithm::Sha256, &[raw(b"1234"), raw(b"56789")].concat()).to_base64();
        let (shown, kind) = whole.shown();
        assert_eq!(
            (shown[&Algorithm::Sha256].clone(), kind),
            (format!("{expected}-2"), ChecksumKind::Composite)
        );
        assert_eq!(shown[&Algorithm::Crc64Nvme], sums(b"123456789", &algorithms)[&Algorithm::Crc64Nvme]);
        assert_eq!(whole.parts.unwrap().get(1), Some(sums(b"56789", &[Algorithm::Sha256])));
        let wrong = HeaderMap::from_iter([(
            http::HeaderName::from_static("x-amz-checksum-sha256"),
            http::HeaderValue::from_static("AAAA-2"),
        )]);
        let again = WholeChecksums::new(agreed, &[(&one, 4), (&two, 5)]).unwrap();
        assert!(again.check(agreed, &wrong).is_err());
    }

    #[test]
    fn algorithms_have_the_kinds_that_s3_gives_them() {
        let agreed = |algorithm, kind| {
            AgreedChecksum::new(algorithm, kind).map(|agreed| agreed.map(|agreed| agreed.kind))
        };
        assert_eq!(agreed(None, None).unwrap(), None);
        assert_eq!(agreed(Some("CRC32"), None).unwrap(), Some(ChecksumKind::Composite));
        assert_eq!(agreed(Some("CRC32"), Some("FULL_OBJECT")).unwrap(), Some(ChecksumKind::FullObject));
        assert_eq!(agreed(Some("CRC64NVME"), None).unwrap(), Some(ChecksumKind::FullObject));
        for (algorithm, kind) in [
            (Some("CRC64NVME"), Some("COMPOSITE")),
            (Some("SHA1"), Some("FULL_OBJECT")),
            (Some("SHA256"), Some("FULL_OBJECT")),
            (Some("MD5"), None),
            (Some("XXHASH"), None),
            (None, Some("COMPOSITE")),
            (Some("CRC32"), Some("OTHER")),
        ] {
            assert!(agreed(algorithm, kind).is_err(), "{algorithm:?} {kind:?}");
        }
    }
}

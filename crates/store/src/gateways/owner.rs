//! Chooses the owner of a segment by rendezvous hashing. Every process and every version of the
//! program computes the same owner.

use firstbyte_location::{Algorithm, Hasher, ObjectLocation, Version};

/// Length of a segment, in bytes. A segment is the part of an object that has one owner.
pub const SEGMENT: u64 = 64 << 20;

/// A segment of one version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    hash: u64,
    index: u64,
}

impl Segment {
    /// Returns the segment that contains the byte at `offset`, in this version of the object.
    pub(super) fn new(object: &ObjectLocation, version: &Version, offset: u64) -> Self {
        let index = offset / SEGMENT;
        let etag = version.etag.as_deref().unwrap_or_default();
        let id = version.version_id.as_deref().unwrap_or_default();
        let text = format!("{}\0{}\0{etag}\0{id}\0{index}", object.bucket, object.key);
        Self { hash: hash(&text), index }
    }

    /// Returns the offset just after the segment.
    pub(super) fn end(&self) -> u64 {
        (self.index + 1).saturating_mul(SEGMENT)
    }
}

/// Returns the indices of the gateways, ordered by preference for a segment. The first is the
/// owner.
pub(super) fn order<'a>(urls: impl Iterator<Item = &'a str>, segment: &Segment) -> Vec<usize> {
    let score = |(index, url): (usize, &str)| (mix_bits(hash(url) ^ segment.hash), index);
    let mut scored: Vec<(u64, usize)> = urls.enumerate().map(score).collect();
    scored.sort_unstable_by(|one, other| other.cmp(one));
    scored.into_iter().map(|(_, index)| index).collect()
}

fn hash(text: &str) -> u64 {
    let value = Hasher::of(Algorithm::Crc64Nvme, text.as_bytes()).value;
    mix_bits(value.iter().fold(0, |hash, byte| hash << 8 | u64::from(*byte)))
}

/// Mixes the bits of a hash, as `SplitMix64` does in its last step
/// (<https://prng.di.unimi.it/splitmix64.c>). CRCs are linear: without this step, a single bit
/// would decide which of two gateways comes first.
fn mix_bits(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use firstbyte_location::Service;

    use super::*;

    fn segments(count: u64) -> Vec<Segment> {
        let object = ObjectLocation { service: Service::S3, bucket: "b".into(), key: "k".into() };
        let version = Version { etag: Some("\"x\"".into()), ..Version::default() };
        (0..count).map(|index| Segment::new(&object, &version, index * SEGMENT)).collect()
    }

    fn urls(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("http://node{number:02}:8090")).collect()
    }

    fn owner(urls: &[String], segment: &Segment) -> String {
        urls[order(urls.iter().map(String::as_str), segment)[0]].clone()
    }

    #[test]
    fn each_gateway_owns_its_share() {
        for count in [2, 3, 7, 64] {
            let (urls, segments) = (urls(count), segments(4096));
            let share = segments.len() / count;
            for url in &urls {
                let owned = segments.iter().filter(|segment| owner(&urls, segment) == *url).count();
                assert!(owned > share / 2 && owned < share * 2, "{owned} of {share}");
            }
        }
    }

    #[test]
    fn a_gateway_that_leaves_moves_only_its_own_segments_and_the_order_of_urls_does_not_matter() {
        let (all, segments) = (urls(8), segments(1000));
        let rest: Vec<String> = all.iter().filter(|url| !url.contains("node03")).cloned().collect();
        let reversed: Vec<String> = all.iter().rev().cloned().collect();
        for segment in &segments {
            let before = owner(&all, segment);
            assert_eq!(owner(&reversed, segment), before);
            if before.contains("node03") {
                let next = order(all.iter().map(String::as_str), segment)[1];
                assert_eq!(owner(&rest, segment), all[next]);
            } else {
                assert_eq!(owner(&rest, segment), before);
            }
        }
    }

    /// The chosen owners are a format: clients of different versions must agree on them.
    #[test]
    fn owners_do_not_change() {
        let (urls, segments) = (urls(5), segments(8));
        let owners: Vec<String> =
            segments.iter().map(|segment| owner(&urls, segment)[11..13].to_owned()).collect();
        assert_eq!(owners.concat(), "0101010001010201");
    }
}

//! Tests the engine of uploads against a model: any order of claims, pieces, records, drops,
//! completions, aborts, sweeps and crashes.
//!
//! Every byte of a part is the number of the write that produced it, so a mixture of two writes is
//! detected.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::http::condition::Condition;
use crate::object::checksum::MultiHasher;
use crate::object::metadata::ObjectMetadata;
use crate::object::publish::publish;
use crate::object::writer::{ByteDigest, WriteAt};

const ID: &str = "0123456789abcdef0123456789abcdef";
const BUCKET: &str = "bucket";

#[derive(Clone, Debug)]
enum Step {
    Claim {
        number: u32,
        length: u64,
    },
    /// Writes half of the bytes that a claim has not written yet.
    Write {
        claim: usize,
    },
    Finish {
        claim: usize,
    },
    Drop {
        claim: usize,
    },
    /// Completes with every `keep`-th part, or fails by its condition.
    Complete {
        keep: usize,
        refused: bool,
    },
    Crash,
    Sweep,
}

fn step() -> impl Strategy<Value = Step> {
    let claim = || 0..4_usize;
    prop_oneof![
        5 => (1..5_u32, prop_oneof![Just(64_u64), Just(40), 1..100_u64])
            .prop_map(|(number, length)| Step::Claim { number, length }),
        6 => claim().prop_map(|claim| Step::Write { claim }),
        6 => claim().prop_map(|claim| Step::Finish { claim }),
        1 => claim().prop_map(|claim| Step::Drop { claim }),
        2 => (1..3_usize, any::<bool>()).prop_map(|(keep, refused)| Step::Complete { keep, refused }),
        1 => Just(Step::Crash),
        1 => Just(Step::Sweep),
    ]
}

/// One claim, and what the model expects of it.
struct ModelClaim {
    claim: Arc<Claim>,
    number: u32,
    fill: u8,
    written: u64,
}

struct World {
    directory: tempfile::TempDir,
    uploads: Uploads,
    writing: Vec<ModelClaim>,
    /// The expected byte and length of each recorded part.
    parts: BTreeMap<u32, (u8, u64)>,
    published: Option<Vec<u8>>,
    writes: u8,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join(BUCKET)).unwrap();
        let uploads = Uploads::new(ServedRoot::open(directory.path()).unwrap());
        let mut world = Self {
            directory,
            uploads,
            writing: Vec::new(),
            parts: BTreeMap::new(),
            published: None,
            writes: 0,
        };
        world.begin();
        world
    }

    fn bucket() -> EntryPath {
        EntryPath::parse(BUCKET.as_bytes()).unwrap()
    }

    fn begin(&mut self) {
        let origin = UploadOrigin::S3 { key: "key".into(), checksum: None };
        let description = Description { origin, object: ObjectMetadata::default(), slots: None };
        self.uploads.create(&Self::bucket(), ID, &description).unwrap();
        self.parts.clear();
    }

    fn upload(&self) -> Arc<ServedUpload> {
        self.uploads.find(&Self::bucket(), ID).unwrap()
    }

    fn follow(&mut self, step: &Step) {
        match *step {
            Step::Claim { number, length } => {
                if self.writing.len() < 4 {
                    self.writes = self.writes.wrapping_add(1);
                    let claimed = self.upload().claim(number, length, ResendRule::Replaces).unwrap();
                    let ClaimResult::Write(claim) = claimed else { panic!("held") };
                    self.writing.push(ModelClaim { claim, number, fill: self.writes, written: 0 });
                }
            }
            Step::Write { claim } => {
                if let Some(writing) = self.writing.get_mut(claim) {
                    writing.write((writing.claim.length() - writing.written).div_ceil(2));
                }
            }
            Step::Finish { claim } if claim < self.writing.len() => {
                let mut writing = self.writing.swap_remove(claim);
                writing.write(writing.claim.length() - writing.written);
                let mut checksums = MultiHasher::only(firstbyte_location::Algorithm::Crc64Nvme);
                checksums.update(&vec![writing.fill; writing.written as usize]);
                writing.claim.record(writing.written, checksums.finish()).unwrap();
                self.parts.insert(writing.number, (writing.fill, writing.written));
            }
            Step::Drop { claim } if claim < self.writing.len() => drop(self.writing.swap_remove(claim)),
            Step::Finish { .. } | Step::Drop { .. } => {}
            Step::Complete { keep, refused } => self.complete(keep, refused),
            Step::Crash => {
                // After a kill the claims write no more. The bytes they wrote are kept.
                self.writing.clear();
                self.uploads = Uploads::new(ServedRoot::open(self.directory.path()).unwrap());
            }
            Step::Sweep => self.uploads.sweep(&Self::bucket(), Duration::from_secs(60)).unwrap(),
        }
        self.check();
    }

    fn complete(&mut self, keep: usize, refused: bool) {
        let kept: Vec<u32> = self.parts.keys().copied().step_by(keep).collect();
        let expected: Vec<u8> = kept
            .iter()
            .flat_map(|number| vec![self.parts[number].0; self.parts[number].1 as usize])
            .collect();
        let choose = |known: &BTreeMap<u32, ArrivedPart>| -> Result<WholeUpload> {
            assert!(known.keys().eq(self.parts.keys()));
            let parts = kept.iter().map(|number| (*number, known[number].clone())).collect();
            Ok(WholeUpload { parts, object: ObjectMetadata::default() })
        };
        let condition = if refused {
            Condition::default().and_is(Some("no such tag".into()), None, None)
        } else {
            Condition::default()
        };
        let root = ServedRoot::open(self.directory.path()).unwrap();
        let target = Self::bucket().join("key".as_ref());
        let put = |finished: FinishedFile<'_>| publish(&root, finished, &Self::bucket(), &target, &condition);
        let done = self.uploads.complete(&self.upload(), choose, put);
        assert_eq!(done.is_ok(), !refused);
        // Parts in flight are refused from now on, even if the completion was refused.
        for writing in self.writing.drain(..) {
            assert!(writing.claim.write_all_at(&[0], 0).is_err());
            assert!(writing.claim.record(writing.claim.length(), Default::default()).is_err());
        }
        if !refused {
            self.published = Some(expected);
            self.begin();
        }
    }

    /// Checks that every part and file is as the model expects.
    fn check(&self) {
        let found = std::fs::read(self.directory.path().join(BUCKET).join("key")).ok();
        assert_eq!(found, self.published);
        let known = self.upload().parts().unwrap();
        let lengths: HashMap<u32, u64> = known.iter().map(|(number, part)| (*number, part.length)).collect();
        let expected: HashMap<u32, u64> =
            self.parts.iter().map(|(number, (_, length))| (*number, *length)).collect();
        assert_eq!(lengths, expected);
        for (number, part) in &known {
            let (fill, length) = self.parts[number];
            let mut checksums = MultiHasher::only(firstbyte_location::Algorithm::Crc64Nvme);
            checksums.update(&vec![fill; length as usize]);
            assert_eq!(part.checksums, checksums.finish(), "part {number}");
        }
    }

    /// Completes the upload at the end, so that every recorded byte is checked and nothing remains.
    fn end(mut self) {
        if !self.parts.is_empty() {
            self.complete(1, false);
            self.check();
        }
        self.writing.clear();
        self.uploads.remove_all(&Self::bucket()).unwrap();
        let left = std::fs::read_dir(self.directory.path().join(BUCKET)).unwrap();
        let left: Vec<_> =
            left.map(|entry| entry.unwrap().file_name()).filter(|name| name != "key").collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

impl ModelClaim {
    fn write(&mut self, count: u64) {
        self.claim.write_all_at(&vec![self.fill; count as usize], self.written).unwrap();
        self.written += count;
    }
}

proptest! {
    #[test]
    fn whatever_happens_in_whatever_order_a_whole_is_made_of_whole_parts(
        steps in prop::collection::vec(step(), 1..60)
    ) {
        let mut world = World::new();
        for step in &steps {
            world.follow(step);
        }
        world.end();
    }
}

#[test]
fn a_claim_writes_within_its_part_only() {
    let world = World::new();
    let ClaimResult::Write(claim) = world.upload().claim(1, 10, ResendRule::Replaces).unwrap() else {
        panic!("held")
    };
    claim.write_all_at(&[1; 10], 0).unwrap();
    assert_eq!(claim.write_all_at(&[1], 10).unwrap_err().kind(), io::ErrorKind::InvalidData);
    assert!(claim.write_all_at(&[1], u64::MAX).is_err());
}

#[test]
fn an_upload_that_ended_while_its_removal_was_cut_short_is_swept() {
    let mut world = World::new();
    world.follow(&Step::Claim { number: 1, length: 10 });
    world.follow(&Step::Finish { claim: 0 });
    let at = world.directory.path().join(BUCKET).join(".firstbyte/uploads").join(ID);
    std::fs::remove_file(at.join(journal::DATA)).unwrap();
    let again = Uploads::new(ServedRoot::open(world.directory.path()).unwrap());
    assert!(matches!(again.find(&World::bucket(), ID).unwrap().parts(), Err(Error::NoUpload(_))));
    again.sweep(&World::bucket(), Duration::from_secs(60)).unwrap();
    assert!(!at.exists());
}

//! Runs random operations through a mount, and compares the results with the content of the store.
//!
//! `FIRSTBYTE_OPERATIONS` sets the number of operations (1,000,000 in the long run).

use crate::support;

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::time::Duration;

use firstbyte_hydrate::cache::Cache;
use firstbyte_mount::MountOptions;
use firstbyte_testkit::{Backend, bytes, count};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rustix::fs::{Advice, fadvise};
use support::{Mounted, options};

const OBJECTS: usize = 4;
const HANDLES: usize = 6;
/// Maximum length of an object, bytes: some four blocks, so that an object may be partly cached.
const MAX_LENGTH: usize = 500_000;
/// Number of operations on one mount.
const STEPS: usize = 1000;

#[derive(Clone, Debug)]
enum Step {
    Open {
        handle: usize,
        object: usize,
    },
    Close {
        handle: usize,
    },
    Read {
        handle: usize,
        length: usize,
    },
    Seek {
        handle: usize,
        to: usize,
    },
    /// Make the kernel drop the pages of a file.
    Forget {
        handle: usize,
    },
    /// Make the cache release an object.
    Evict {
        object: usize,
    },
    Overwrite {
        object: usize,
        size: Option<usize>,
    },
    Remount,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (handle, object) = (0..HANDLES, 0..OBJECTS);
    let length = prop_oneof![1..100_usize, 1..20_000_usize, 1..MAX_LENGTH];
    let opened = (handle.clone(), object.clone()).prop_map(|(handle, object)| Step::Open { handle, object });
    let seek = (handle.clone(), 0..MAX_LENGTH).prop_map(|(handle, to)| Step::Seek { handle, to });
    // Half of the overwrites keep the length, so only the content differs.
    let size = prop::option::of(0..MAX_LENGTH);
    let overwrite = (object.clone(), size).prop_map(|(object, size)| Step::Overwrite { object, size });
    let step = prop_oneof![
        80 => opened,
        20 => handle.clone().prop_map(|handle| Step::Close { handle }),
        500 => (handle.clone(), length).prop_map(|(handle, length)| Step::Read { handle, length }),
        260 => seek,
        60 => handle.prop_map(|handle| Step::Forget { handle }),
        50 => object.prop_map(|object| Step::Evict { object }),
        26 => overwrite,
        4 => Just(Step::Remount),
    ];
    prop::collection::vec(step, STEPS)
}

/// An open file, and the content that it had when it was opened.
struct Handle {
    file: File,
    object: usize,
    content: Arc<Vec<u8>>,
    at: usize,
}

struct World {
    /// The handles are declared first, because fields are dropped in order, and a mount ends only
    /// when no file in it is open.
    handles: Vec<Option<Handle>>,
    mounted: Mounted,
    cache: Cache,
    contents: Vec<Arc<Vec<u8>>>,
    overwritten: u64,
}

fn name(object: usize) -> String {
    format!("d/object-{object}")
}

/// Returns options with which every name is looked up again, so that the result of an open is
/// certain.
fn options_without_ttl() -> MountOptions {
    MountOptions { metadata_ttl: Duration::ZERO, ..options() }
}

impl World {
    fn new() -> Self {
        let content = |object: usize| Arc::new(bytes(object as u64, object * MAX_LENGTH / OBJECTS));
        let contents: Vec<_> = (0..OBJECTS).map(content).collect();
        let mounted = Mounted::with(Backend::ServeS3, &options_without_ttl(), |subject| {
            (0..OBJECTS).for_each(|object| subject.place(&name(object), &contents[object]));
        });
        let cache = mounted.cache();
        let handles = (0..HANDLES).map(|_| None).collect();
        Self { handles, mounted, cache, contents, overwritten: 0 }
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Open { handle, object } => {
                let file = File::open(self.mounted.path(&name(object))).unwrap();
                let content = Arc::clone(&self.contents[object]);
                assert_eq!(file.metadata().unwrap().len(), content.len() as u64);
                self.handles[handle] = Some(Handle { file, object, content, at: 0 });
            }
            Step::Close { handle } => self.handles[handle] = None,
            Step::Read { handle, length } => {
                if let Some(handle) = &mut self.handles[handle] {
                    handle.read(length, &self.contents);
                }
            }
            Step::Seek { handle, to } => {
                if let Some(handle) = &mut self.handles[handle] {
                    assert_eq!(handle.file.seek(SeekFrom::Start(to as u64)).unwrap(), to as u64);
                    handle.at = to;
                }
            }
            Step::Forget { handle } => {
                if let Some(handle) = &self.handles[handle] {
                    fadvise(&handle.file, 0, None, Advice::DontNeed).unwrap();
                }
            }
            Step::Evict { object } => {
                let location = self.mounted.subject.at(&name(object));
                self.cache.release(&location).unwrap();
            }
            Step::Overwrite { object, size } => {
                self.overwritten += 1;
                let size = size.unwrap_or(self.contents[object].len());
                let content = bytes(OBJECTS as u64 + self.overwritten, size);
                self.mounted.subject.place(&name(object), &content);
                self.contents[object] = Arc::new(content);
            }
            Step::Remount => {
                self.handles.iter_mut().for_each(|handle| *handle = None);
                self.mounted.again(&options_without_ttl());
            }
        }
    }
}

impl Handle {
    /// Continues to read. The bytes must be the content at the open, or an error after the object
    /// was overwritten.
    fn read(&mut self, length: usize, contents: &[Arc<Vec<u8>>]) {
        let mut buffer = vec![0; length];
        let expected = &self.content[self.at.min(self.content.len())..];
        match self.file.read(&mut buffer) {
            Ok(read) => {
                assert_eq!(read == 0, expected.is_empty());
                assert!(buffer[..read] == expected[..read], "{read} bytes of {self:?} are wrong");
                self.at += read;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::StaleNetworkFileHandle, "{self:?}");
                assert!(
                    !Arc::ptr_eq(&self.content, &contents[self.object]),
                    "{self:?}: it was not overwritten"
                );
            }
        }
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} bytes at {}", name(self.object), self.content.len(), self.at)
    }
}

#[test]
fn any_order_of_operations_reads_what_was_put() {
    let operations = count("FIRSTBYTE_OPERATIONS", 10_000);
    let cases = u32::try_from(operations / STEPS as u64).unwrap();
    let mut runner = TestRunner::new(Config { cases, max_shrink_iters: 200, ..Config::default() });
    runner
        .run(&steps(), |steps| {
            let mut world = World::new();
            steps.into_iter().for_each(|step| world.run(step));
            Ok(())
        })
        .unwrap();
}

//! Decides whether a run had the required cache state, from observations and traffic. Pure. Called
//! by [`conclude`](super::conclude).

use crate::result::{CacheEvidence, CacheState};

use super::observe::{Observation, Pages};
use super::spec::{Spec, Traffic};
use super::tolerance::tolerance;

/// A judgement in progress, with the sentences collected so far.
struct Case<'a> {
    spec: &'a Spec,
    evidence: Vec<String>,
    marks: Vec<String>,
    /// Reasons why no state is proved.
    unproven: Vec<String>,
    /// Number of facts that prove the state.
    shown: u32,
}

/// Returns the evidence, and the marks of a run that was not in the required state.
pub(super) fn judge(
    spec: &Spec,
    done: Vec<String>,
    before: Option<&Observation>,
    after: &Observation,
    traffic: &Traffic,
) -> (CacheEvidence, Vec<String>) {
    let mut case = Case { spec, evidence: done, marks: Vec::new(), unproven: Vec::new(), shown: 0 };
    match before {
        Some(before) => case.describe("before", before),
        None => case.unproven.push("before: not looked at".into()),
    }
    case.describe("after", after);
    case.count(traffic);
    match spec.state {
        CacheState::Any => {}
        CacheState::Cold => case.cold(before, traffic),
        CacheState::Warm => case.warm(before, after, traffic),
        CacheState::Hydrated => case.hydrated(before, after, traffic),
    }
    case.conclude()
}

impl Case<'_> {
    fn describe(&mut self, when: &str, seen: &Observation) {
        if let Some(pages) = &seen.pages {
            self.evidence.push(format!("{when}: {}", in_page_cache(pages)));
        }
        if let Some(blocks) = &seen.blocks {
            let known = blocks.hydrated + blocks.incomplete;
            let here = format!("{} bytes in firstbyte's cache", blocks.here);
            self.evidence
                .push(format!("{when}: {here}, {} of {known} objects hydrated (status)", blocks.hydrated));
        }
        if let Some(pages) = &seen.block_pages {
            self.evidence.push(format!("{when}: of that cache's files, {}", in_page_cache(pages)));
        }
        self.evidence.extend(seen.notes.iter().map(|note| format!("{when}: {note}")));
        self.unproven.extend(seen.unproven.iter().map(|reason| format!("{when}: {reason}")));
    }

    fn count(&mut self, traffic: &Traffic) {
        let expected =
            self.spec.expected_bytes.map_or(String::new(), |bytes| format!(" of {bytes} expected"));
        if let Some(bytes) = traffic.wire_bytes {
            let requests = traffic.requests.map_or(String::new(), |count| format!(" in {count} requests"));
            self.evidence.push(format!("run: {bytes} bytes{expected} crossed the wire{requests}"));
        }
        if let Some(bytes) = traffic.storage_bytes {
            self.evidence.push(format!("run: {bytes} bytes{expected} came from block devices"));
        }
        if (traffic.wire_bytes, traffic.storage_bytes) == (None, None) && self.spec.state != CacheState::Any {
            self.evidence.push("run: nothing counted the bytes that crossed".into());
        }
    }

    fn mark(&mut self, but: &str) {
        self.marks.push(format!("meant to be {}, but {but}", self.spec.state));
    }

    fn cold(&mut self, before: Option<&Observation>, traffic: &Traffic) {
        if let Some(pages) = before.and_then(|seen| seen.pages.as_ref()) {
            if pages.resident > tolerance(pages.total) {
                self.mark(&format!("{} before the run", in_page_cache(pages)));
            } else {
                self.shown += 1;
            }
        }
        if let Some(blocks) = before.and_then(|seen| seen.blocks.as_ref()) {
            let size = self.spec.expected_bytes.unwrap_or(blocks.size);
            if blocks.here > tolerance(size) {
                self.mark(&format!(
                    "{} bytes were in firstbyte's cache before the run (status)",
                    blocks.here
                ));
            } else {
                self.shown += 1;
            }
        }
        self.crossed(before, traffic);
    }

    /// Checks that a cold run received its bytes over the wire, or from a device if the wire is not
    /// counted.
    fn crossed(&mut self, before: Option<&Observation>, traffic: &Traffic) {
        let Some(expected) = self.spec.expected_bytes else { return };
        let pages = before.and_then(|seen| seen.pages.as_ref());
        let (bytes, expected, what) = match (traffic.wire_bytes, traffic.storage_bytes) {
            (Some(bytes), _) => (bytes, expected, "crossed the wire"),
            // Holes are not read from a device.
            (None, Some(bytes)) => {
                let holes = pages.map_or(0, |pages| pages.total - pages.allocated);
                (bytes, expected.saturating_sub(holes), "came from block devices")
            }
            (None, None) => return,
        };
        if bytes + tolerance(expected) < expected {
            self.mark(&format!("only {bytes} of {expected} bytes {what}"));
        } else {
            self.shown += 1;
            // Bytes that crossed are stronger evidence than an observation before the run.
            self.unproven.clear();
        }
    }

    fn warm(&mut self, before: Option<&Observation>, after: &Observation, traffic: &Traffic) {
        if !self.lists() {
            self.warm_content(before, after);
        }
        self.nothing_crossed(traffic.wire_bytes, "crossed the wire", before);
        // If the wire to the files is counted, reads from devices only load programs.
        if self.spec.files.is_empty() || traffic.wire_bytes.is_none() {
            self.nothing_crossed(traffic.storage_bytes, "came from block devices", before);
        }
        // Cached names cannot be observed. If their file system is on a device and no bytes came
        // from devices, the names were in memory.
        self.shown +=
            u32::from(self.lists() && self.spec.expected_bytes.is_some() && traffic.storage_bytes.is_some());
    }

    /// True if the run lists names and reads no content.
    fn lists(&self) -> bool {
        !self.spec.names.is_empty() && self.spec.files.is_empty() && self.spec.objects.is_empty()
    }

    fn warm_content(&mut self, before: Option<&Observation>, after: &Observation) {
        for (when, seen) in [("before", before), ("after", Some(after))] {
            let Some(seen) = seen else { continue };
            // If the run reads files, their pages decide; otherwise those of the block caches.
            let looked = if self.spec.files.is_empty() { &seen.block_pages } else { &seen.pages };
            match looked {
                Some(pages) if pages.resident + tolerance(pages.total) < pages.total => {
                    self.mark(&format!("only {} {when} the run", in_page_cache(pages)));
                }
                Some(_) => self.shown += 1,
                None => self.unproven.push(format!("{when}: no page was looked at")),
            }
        }
        if self.spec.files.is_empty() {
            self.all_blocks(before, after);
        }
    }

    fn hydrated(&mut self, before: Option<&Observation>, after: &Observation, traffic: &Traffic) {
        self.all_blocks(before, after);
        self.nothing_crossed(traffic.wire_bytes, "crossed the wire", before);
    }

    fn all_blocks(&mut self, before: Option<&Observation>, after: &Observation) {
        for (when, seen) in [("before", before), ("after", Some(after))] {
            let Some(seen) = seen else { continue };
            match &seen.blocks {
                Some(blocks) if blocks.incomplete > 0 || blocks.hydrated == 0 => {
                    let of = format!("of {} objects", blocks.hydrated + blocks.incomplete);
                    self.mark(&format!(
                        "{when} the run firstbyte's cache had all blocks of {} {of}, {} of {} bytes (status)",
                        blocks.hydrated, blocks.here, blocks.size
                    ));
                }
                Some(_) => self.shown += 1,
                None => self.unproven.push(format!("{when}: no object was looked at")),
            }
        }
    }

    /// Checks that no bytes came from outside the cache.
    fn nothing_crossed(&mut self, crossed: Option<u64>, what: &str, before: Option<&Observation>) {
        let total = || before.and_then(|seen| Some(seen.pages.as_ref()?.total));
        let size = self.spec.expected_bytes.or_else(total).unwrap_or(u64::MAX);
        if let Some(bytes) = crossed.filter(|bytes| *bytes > tolerance(size)) {
            self.mark(&format!("{bytes} bytes {what} during the run"));
        }
    }

    fn conclude(self) -> (CacheEvidence, Vec<String>) {
        let held = if self.spec.state == CacheState::Any {
            None
        } else if !self.marks.is_empty() {
            Some(false)
        } else if self.unproven.is_empty() && self.shown > 0 {
            Some(true)
        } else {
            None
        };
        let mut evidence = self.evidence;
        evidence.extend(self.unproven.iter().map(|reason| format!("not proved: {reason}")));
        if held.is_none() && self.unproven.is_empty() && self.spec.state != CacheState::Any {
            evidence.push("not proved: there is nothing here that could show this state".into());
        }
        (CacheEvidence { wanted: self.spec.state, held, evidence }, self.marks)
    }
}

fn in_page_cache(pages: &Pages) -> String {
    format!("{} of {} bytes in the page cache ({})", pages.resident, pages.total, pages.method.word())
}

//! Decides whether a run had the required cache state, from observations and traffic. Pure. Called
//! by [`conclude`](super::conclude).

use crate::result::{CacheEvidence, CacheState};

use super::observe::{CacheObservation, Pages};
use super::spec::{Spec, Traffic};
use super::tolerance::tolerance;

/// A judgement in progress, with the sentences collected so far.
struct Judgement<'a> {
    spec: &'a Spec,
    evidence: Vec<String>,
    marks: Vec<String>,
    /// Reasons why no state is proved.
    unproven: Vec<String>,
    /// Number of facts that prove the state.
    proofs: u32,
}

/// Returns the evidence, and the marks of a run that was not in the required state.
pub(super) fn judge(
    spec: &Spec,
    done: Vec<String>,
    before: Option<&CacheObservation>,
    after: &CacheObservation,
    traffic: &Traffic,
) -> (CacheEvidence, Vec<String>) {
    let mut judgement =
        Judgement { spec, evidence: done, marks: Vec::new(), unproven: Vec::new(), proofs: 0 };
    match before {
        Some(before) => judgement.describe("before", before),
        None => judgement.unproven.push("before: not looked at".into()),
    }
    judgement.describe("after", after);
    judgement.count(traffic);
    match spec.state {
        CacheState::Any => {}
        CacheState::Cold => judgement.judge_cold(before, traffic),
        CacheState::Warm => judgement.judge_warm(before, after, traffic),
        CacheState::Hydrated => judgement.judge_hydrated(before, after, traffic),
    }
    judgement.conclude()
}

impl Judgement<'_> {
    fn describe(&mut self, when: &str, seen: &CacheObservation) {
        if let Some(pages) = &seen.pages {
            self.evidence.push(format!("{when}: {}", in_page_cache(pages)));
        }
        if let Some(blocks) = &seen.blocks {
            let known = blocks.hydrated + blocks.incomplete;
            let here = format!("{} bytes in firstbyte's cache", blocks.cached);
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

    fn judge_cold(&mut self, before: Option<&CacheObservation>, traffic: &Traffic) {
        if let Some(pages) = before.and_then(|seen| seen.pages.as_ref()) {
            if pages.resident > tolerance(pages.total) {
                self.mark(&format!("{} before the run", in_page_cache(pages)));
            } else {
                self.proofs += 1;
            }
        }
        if let Some(blocks) = before.and_then(|seen| seen.blocks.as_ref()) {
            let size = self.spec.expected_bytes.unwrap_or(blocks.size);
            if blocks.cached > tolerance(size) {
                self.mark(&format!(
                    "{} bytes were in firstbyte's cache before the run (status)",
                    blocks.cached
                ));
            } else {
                self.proofs += 1;
            }
        }
        self.check_crossed(before, traffic);
    }

    /// Checks that a cold run received its bytes over the wire, or from a device if the wire is not
    /// counted.
    fn check_crossed(&mut self, before: Option<&CacheObservation>, traffic: &Traffic) {
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
            self.proofs += 1;
            // Bytes that crossed are stronger evidence than an observation before the run.
            self.unproven.clear();
        }
    }

    fn judge_warm(&mut self, before: Option<&CacheObservation>, after: &CacheObservation, traffic: &Traffic) {
        if !self.only_lists() {
            self.judge_warm_content(before, after);
        }
        self.check_nothing_crossed(traffic.wire_bytes, "crossed the wire", before);
        // If the wire to the files is counted, reads from devices only load programs.
        if self.spec.files.is_empty() || traffic.wire_bytes.is_none() {
            self.check_nothing_crossed(traffic.storage_bytes, "came from block devices", before);
        }
        // Cached names cannot be observed. If their file system is on a device and no bytes came
        // from devices, the names were in memory.
        self.proofs += u32::from(
            self.only_lists() && self.spec.expected_bytes.is_some() && traffic.storage_bytes.is_some(),
        );
    }

    /// True if the run lists names and reads no content.
    fn only_lists(&self) -> bool {
        !self.spec.names.is_empty() && self.spec.files.is_empty() && self.spec.objects.is_empty()
    }

    fn judge_warm_content(&mut self, before: Option<&CacheObservation>, after: &CacheObservation) {
        for (when, seen) in [("before", before), ("after", Some(after))] {
            let Some(seen) = seen else { continue };
            // Pages of the files decide if the run reads files. If not, pages of the block caches
            // decide.
            let looked = if self.spec.files.is_empty() { &seen.block_pages } else { &seen.pages };
            match looked {
                Some(pages) if pages.resident + tolerance(pages.total) < pages.total => {
                    self.mark(&format!("only {} {when} the run", in_page_cache(pages)));
                }
                Some(_) => self.proofs += 1,
                None => self.unproven.push(format!("{when}: no page was looked at")),
            }
        }
        if self.spec.files.is_empty() {
            self.check_all_blocks(before, after);
        }
    }

    fn judge_hydrated(
        &mut self,
        before: Option<&CacheObservation>,
        after: &CacheObservation,
        traffic: &Traffic,
    ) {
        self.check_all_blocks(before, after);
        self.check_nothing_crossed(traffic.wire_bytes, "crossed the wire", before);
    }

    fn check_all_blocks(&mut self, before: Option<&CacheObservation>, after: &CacheObservation) {
        for (when, seen) in [("before", before), ("after", Some(after))] {
            let Some(seen) = seen else { continue };
            match &seen.blocks {
                Some(blocks) if blocks.incomplete > 0 || blocks.hydrated == 0 => {
                    let of = format!("of {} objects", blocks.hydrated + blocks.incomplete);
                    self.mark(&format!(
                        "{when} the run firstbyte's cache had all blocks of {} {of}, {} of {} bytes (status)",
                        blocks.hydrated, blocks.cached, blocks.size
                    ));
                }
                Some(_) => self.proofs += 1,
                None => self.unproven.push(format!("{when}: no object was looked at")),
            }
        }
    }

    /// Checks that no bytes came from outside the cache.
    fn check_nothing_crossed(&mut self, crossed: Option<u64>, what: &str, before: Option<&CacheObservation>) {
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
        } else if self.unproven.is_empty() && self.proofs > 0 {
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

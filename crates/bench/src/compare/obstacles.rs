//! Finds differences that make two figures incomparable, and differences that only need a note.
//!
//! A different machine, stand-in, parameter, cache state or basis makes figures incomparable. A
//! different build, kernel, plan, command line or program version is only noted, because users
//! compare exactly those.

use std::collections::{BTreeMap, BTreeSet};

use crate::result::{Case, ContenderLine, Header, Machine, Run};

/// Relative difference up to which two machines count as having the same memory. The kernel
/// reserves a small part, which varies.
const SAME_MEMORY: f64 = 0.05;

/// The differences found, and whether they prevent a comparison.
#[derive(Clone, Debug)]
pub(super) struct Obstacles {
    /// False if the figures are not comparable.
    pub(super) comparable: bool,
    /// Differences, noise and too few runs: one sentence each.
    pub(super) notes: Vec<String>,
}

impl Obstacles {
    fn new() -> Self {
        Self { comparable: true, notes: Vec::new() }
    }

    /// Adds a note about `what` if the sides differ. Returns true if they differ.
    fn note<T: PartialEq + std::fmt::Display>(&mut self, what: &str, before: T, after: T) -> bool {
        let differ = before != after;
        if differ {
            let shown = |side: String| if side.is_empty() { "nothing".to_owned() } else { side };
            let (before, after) = (shown(before.to_string()), shown(after.to_string()));
            self.notes.push(format!("Another {what}: {before} before, {after} after."));
        }
        differ
    }

    /// Marks the figures as incomparable, with a note about `what`, if the sides differ.
    fn refuse<T: PartialEq + std::fmt::Display>(&mut self, what: &str, before: T, after: T) {
        self.comparable &= !self.note(what, before, after);
    }

    pub(super) fn extend(&mut self, other: &Self) {
        self.comparable &= other.comparable;
        self.notes.extend(other.notes.iter().cloned());
    }
}

/// Compares the headers of the files.
pub(super) fn of_files(a: &Header, b: &Header) -> Obstacles {
    let mut found = of_machines(&a.machine, &b.machine);
    found.note("build", &a.firstbyte, &b.firstbyte);
    if a.plan_digest != b.plan_digest {
        found.notes.push("Another plan: cases and contenders are matched by their names.".into());
    }
    found
}

fn of_machines(a: &Machine, b: &Machine) -> Obstacles {
    let mut found = Obstacles::new();
    found.refuse("processor", &a.cpu, &b.cpu);
    found.refuse("number of processors", a.processors, b.processors);
    found.refuse("architecture", &a.architecture, &b.architecture);
    let none = String::new();
    let of = |machine: &Machine| machine.instance_type.clone().unwrap_or_else(|| none.clone());
    found.refuse("instance type", of(a), of(b));
    let (less, more) = (a.memory_bytes.min(b.memory_bytes), a.memory_bytes.max(b.memory_bytes));
    if (more - less) as f64 > SAME_MEMORY * more as f64 {
        let gib = |bytes: u64| format!("{:.1} GiB", bytes as f64 / f64::from(1u32 << 30));
        found.refuse("amount of memory", gib(a.memory_bytes), gib(b.memory_bytes));
    }
    found.note("kernel", &a.kernel, &b.kernel);
    found.note("cgroup", a.cgroup.join(", "), b.cgroup.join(", "));
    let region = |machine: &Machine| machine.region.clone().unwrap_or_default();
    found.note("region", region(a), region(b));
    let absent = "absent".to_owned();
    for name in a.versions.keys().chain(b.versions.keys()).collect::<BTreeSet<&String>>() {
        let of = |versions: &BTreeMap<String, String>| versions.get(name).unwrap_or(&absent).clone();
        found.note(&format!("version of {name}"), of(&a.versions), of(&b.versions));
    }
    found
}

/// Compares a case on both sides.
pub(super) fn of_cases(a: &Case, b: &Case) -> Obstacles {
    let mut found = Obstacles::new();
    found.refuse("stand-in", a.stand_ins.join("; "), b.stand_ins.join("; "));
    found
}

/// Compares a contender, and its runs in the summary, on both sides.
pub(super) fn of_contenders(
    a: &ContenderLine,
    b: &ContenderLine,
    before: &[&Run],
    after: &[&Run],
) -> Obstacles {
    let mut found = Obstacles::new();
    found.refuse("workload", &a.workload, &b.workload);
    let parameters = |line: &ContenderLine| {
        let shown = line.parameters.iter().map(|(name, value)| format!("{name} {value}"));
        shown.collect::<Vec<_>>().join(", ")
    };
    found.refuse("set of parameters", parameters(a), parameters(b));
    if without_ports(&a.command) != without_ports(&b.command) {
        found.note("command line", &a.command, &b.command);
    }
    if without_ports(&a.target) != without_ports(&b.target) {
        found.note("target", &a.target, &b.target);
    }
    for (when, runs) in [("before", before), ("after", after)] {
        if runs.is_empty() {
            found.comparable = false;
            found.notes.push(format!("No run counts {when}."));
        }
    }
    if found.comparable {
        let basis = |run: &Run| run.basis.to_string();
        found.refuse("basis of the figures", all_of(before, basis), all_of(after, basis));
        let state = |run: &Run| run.cache.wanted.to_string();
        found.refuse("cache state", all_of(before, state), all_of(after, state));
    }
    found
}

/// Joins the different values that the runs have.
fn all_of(runs: &[&Run], value: impl Fn(&Run) -> String) -> String {
    let all: BTreeSet<String> = runs.iter().map(|run| value(run)).collect();
    all.into_iter().collect::<Vec<_>>().join(" and ")
}

/// Removes the port numbers of this machine's own servers, which differ each time.
fn without_ports(text: &str) -> String {
    let mut parts = text.split("127.0.0.1:").flat_map(|part| part.split("localhost:"));
    let mut rest = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        rest.push(':');
        rest.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_servers_started_for_a_run_do_not_count() {
        let one = without_ports("cp http://127.0.0.1:36583/a http://localhost:1/b");
        assert_eq!(one, without_ports("cp http://127.0.0.1:7/a http://localhost:22/b"));
        assert_ne!(one, without_ports("cp http://127.0.0.1:7/a http://localhost:22/c"));
    }
}

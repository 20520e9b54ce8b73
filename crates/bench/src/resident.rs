//! Samples the resident memory of a service and its child processes during a run. Called by the
//! engine.

use std::fs;

use crate::throughput::Sampler;

/// Samples the largest resident memory so far of the process `pid` and its descendants, in bytes.
/// Some servers start a process per connection.
pub(crate) fn peak_of(pid: u32) -> Sampler {
    let mut peak = 0;
    Sampler::start(move || {
        peak = resident(pid).max(peak);
        Some(peak)
    })
}

/// Returns the resident memory of a process and its descendants, in bytes; 0 for an ended process.
fn resident(pid: u32) -> u64 {
    let own = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages = own.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0);
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let of_children: u64 = children.split_whitespace().filter_map(|pid| pid.parse().ok()).map(resident).sum();
    pages * rustix::param::page_size() as u64 + of_children
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_descendants_is_added() {
        let shell = "x=$(yes | head -c 9000000); echo $x | head -c 1; read wait";
        let mut parent = std::process::Command::new("sh");
        let waits = parent.args(["-c", &format!("sh -c '{shell}'; true")]);
        let mut child =
            waits.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut one = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut one).unwrap();
        let sampler = peak_of(child.id());
        let peak = sampler.finish().last().unwrap().1;
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(peak > 9_000_000, "{peak} bytes");
    }
}

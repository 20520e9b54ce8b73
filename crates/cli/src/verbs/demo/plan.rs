//! The plan of the demo: `plan.toml` with the requested size, number of files and link, and with
//! the strongest installed peer. Small files are also fetched with curl. Called by the demo.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use firstbyte::size::{grouped, human};
use firstbyte_bench::plan::Plan;
use firstbyte_bench::result::Basis;
use firstbyte_link::Preset;

use super::DemoArgs;
use super::text::network;
use crate::render::error::Result;

const PLAN: &str = include_str!("plan.toml");

/// Programs that fetch from S3 or HTTP, the strongest first, as measured behind similar links.
pub(crate) const PEERS: [&str; 3] = ["s5cmd", "aws", "curl"];

/// Number of names to list per small file. So `--files` scales both cases, `small` and `list`.
const NAMES_PER_FILE: u32 = 200;
/// Maximum number of names to list. Creating more would take too long for a demo.
const MAX_NAMES: u32 = 1_000_000;

/// The peer that every reader knows, and the only case that measures this peer in addition to the
/// strongest one. In the other cases, a second copy of the large object in each round would make
/// the demo exceed its 90 seconds.
const KNOWN_PEER: (&str, &str) = ("curl", "small");

/// Makes the demo's plan from its options. Of the peers, keeps the strongest installed one, and
/// curl for small files.
pub(crate) fn of(args: &DemoArgs) -> Result<Plan> {
    let mut plan = Plan::parse("demo", PLAN, &variables(args))?;
    let installed = installed_peers();
    for case in &mut plan.cases {
        if case.name != "survive" {
            case.rounds = u32::from(args.runs);
        }
        let count = if case.name == KNOWN_PEER.1 { installed.len() } else { installed.len().min(1) };
        let peers: BTreeMap<&str, &PathBuf> =
            installed[..count].iter().map(|(name, path)| (*name, path)).collect();
        case.contenders.retain(|contender| {
            !PEERS.contains(&contender.name.as_str()) || peers.contains_key(contender.name.as_str())
        });
        for contender in &mut case.contenders {
            if args.link == Preset::None {
                contender.basis = Basis::Measured;
            }
            if let Some(path) = peers.get(contender.name.as_str()) {
                contender.command[0] = path.display().to_string();
            }
        }
    }
    Ok(plan)
}

/// Returns the number of names to list.
pub(crate) fn names(args: &DemoArgs) -> u64 {
    u64::from(args.files.saturating_mul(NAMES_PER_FILE).min(MAX_NAMES))
}

fn variables(args: &DemoArgs) -> BTreeMap<String, String> {
    let names = names(args);
    let variables = [
        ("size", args.size.to_string()),
        ("shown_size", human(args.size)),
        ("files", args.files.to_string()),
        ("shown_files", grouped(args.files.into())),
        ("last", format!("{:05}", args.files - 1)),
        ("names", names.to_string()),
        ("shown_names", grouped(names)),
        ("lines", (names + 2).to_string()),
        ("link", args.link.to_string()),
        ("network", network(args.link).to_owned()),
    ];
    variables.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Returns the strongest installed peer, then the well-known peer, each with its path.
fn installed_peers() -> Vec<(&'static str, PathBuf)> {
    let mut found = Vec::from_iter(PEERS.into_iter().find_map(|name| Some((name, find(name)?))));
    if found.iter().all(|(name, _)| *name != KNOWN_PEER.0) {
        found.extend(find(KNOWN_PEER.0).map(|path| (KNOWN_PEER.0, path)));
    }
    found
}

/// Finds a program in `PATH`. If the program is a pyenv shim, returns the program behind the shim,
/// because the start-up time of the shim is not the peer's.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found =
        std::env::split_paths(&path).map(|directory| directory.join(name)).find(|path| path.is_file())?;
    if !found.parent()?.ends_with("shims") {
        return Some(found);
    }
    let which = Command::new("pyenv").args(["which", name]).stdin(Stdio::null()).output().ok()?;
    let real = String::from_utf8(which.stdout).ok().filter(|_| which.status.success())?;
    Some(PathBuf::from(real.trim())).filter(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use firstbyte_bench::plan::Case;

    use super::*;

    fn args(link: Preset) -> DemoArgs {
        DemoArgs {
            link,
            size: 32 << 20,
            files: 20,
            runs: 2,
            report: "report.html".into(),
            results: None,
            keep: false,
        }
    }

    #[test]
    fn the_plan_has_the_rounds_that_were_asked_for_and_at_most_two_peers() {
        let plan = of(&args(Preset::Function)).unwrap();
        let rounds = |case: &Case| (case.name.clone(), case.rounds);
        let expected = [("ready", 2), ("small", 2), ("list", 2), ("survive", 1)];
        assert_eq!(
            plan.cases.iter().map(rounds).collect::<Vec<_>>(),
            expected.map(|(name, rounds)| (name.to_owned(), rounds))
        );
        // Each case also has a warm-up run, except the cases whose time is determined by the link.
        let runs: Vec<u32> = plan.cases.iter().map(|case| case.runs(None)).collect();
        assert_eq!(runs, [2, 2, 3, 1]);
        let peers =
            |case: &Case| case.contenders.iter().filter(|one| PEERS.contains(&one.name.as_str())).count();
        assert!(plan.cases.iter().all(|case| peers(case) <= if case.name == "small" { 2 } else { 1 }));
        // The plan contains exactly the peers that are installed on this machine.
        let small = &plan.cases[1];
        assert_eq!(peers(small), installed_peers().len());
        assert_eq!(find("curl").is_some(), small.contenders.iter().any(|one| one.name == "curl"));
        assert_eq!((plan.vars["names"].as_str(), plan.vars["last"].as_str()), ("4000", "00019"));
        assert!(plan.cases[0].title.contains("32.0 MiB"), "{}", plan.cases[0].title);
    }

    #[test]
    fn figures_behind_a_link_are_emulated_and_those_without_one_measured() {
        let basis = |link| of(&args(link)).unwrap().cases[0].contenders[0].basis;
        assert_eq!((basis(Preset::Function), basis(Preset::None)), (Basis::Emulated, Basis::Measured));
    }
}

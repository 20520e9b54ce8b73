//! Compares the subject of a case with other projects' programs, and describes the result in words.
//!
//! Other contenders that run firstbyte, such as lazy or hydrated ones, are shown beside the subject
//! but not ranked against it, because they do other work or begin with other caches.

use crate::result::{Basis, Case, ContenderLine, Outcome, Results};
use crate::statistics::{Contender, contenders, verdicts};

use super::words::{cases, seconds, title};

/// Largest number of comparisons that the headline lists for each rival.
const MAX_NAMED: usize = 4;

/// True if the contenders of `case` have different parameters. Their work then differs, so none is
/// the fastest.
pub(super) fn varies(case: &Case) -> bool {
    case.contenders.windows(2).any(|pair| pair[0].parameters != pair[1].parameters)
}

/// True for another project's program: neither the subject, nor firstbyte, nor a model.
fn is_rival(case: &Case, line: &ContenderLine) -> bool {
    let command = &line.command;
    let is_program = !command.is_empty() && !command.starts_with("the model of ");
    line.name != case.subject() && is_program && !runs_firstbyte(command)
}

/// True if a word of a command is this program. A bucket or a directory with its name does not
/// count.
fn runs_firstbyte(command: &str) -> bool {
    let program = |word: &str| word.trim_matches(['\'', '"']).rsplit('/').next() == Some("firstbyte");
    command.split_whitespace().filter(|word| !word.contains("://")).any(program)
}

/// Returns the contenders that can be ranked: the subject and other projects' programs.
fn rankable<'a>(case: &Case, lines: &'a [Contender]) -> Vec<&'a Contender> {
    let is_ranked = |name: &str| {
        name == case.subject() || case.contenders.iter().any(|line| line.name == name && is_rival(case, line))
    };
    if varies(case) { Vec::new() } else { lines.iter().filter(|line| is_ranked(&line.name)).collect() }
}

fn median(line: &Contender) -> Option<f64> {
    line.seconds.as_ref().map(|time| time.median)
}

/// True if the intervals of the two contenders overlap.
fn intervals_overlap(faster: &Contender, slower: &Contender) -> bool {
    let intervals = faster.seconds.as_ref().zip(slower.seconds.as_ref());
    intervals.is_some_and(|(faster, slower)| faster.interval.high >= slower.interval.low)
}

/// Returns the ranked contenders that were timed, the fastest first.
fn by_time<'a>(case: &Case, lines: &'a [Contender]) -> Vec<(&'a Contender, f64)> {
    let mut timed: Vec<_> =
        rankable(case, lines).into_iter().filter_map(|line| Some((line, median(line)?))).collect();
    timed.sort_by(|one, two| one.1.total_cmp(&two.1));
    timed
}

/// Returns the names of the fastest contender and of those that cannot be distinguished from it.
/// Empty if there are fewer than two to compare.
pub(super) fn fastest<'a>(case: &Case, lines: &'a [Contender]) -> Vec<&'a str> {
    match by_time(case, lines).as_slice() {
        timed @ [(first, _), _, ..] => {
            let near =
                timed.iter().filter(|(line, _)| line.name == first.name || intervals_overlap(first, line));
            near.map(|(line, _)| line.name.as_str()).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns a sentence that names the fastest contender of a case and its margin; `None` if the
/// subject has no rival.
pub(super) fn sentence(case: &Case, lines: &[Contender]) -> Option<String> {
    let timed = by_time(case, lines);
    let [(first, least), (second, next), ..] = timed[..] else { return None };
    let mut text = if intervals_overlap(first, second) {
        format!(
            "{} ({}) and {} ({}) tie: their 95 % intervals overlap.",
            first.name,
            seconds(least),
            second.name,
            seconds(next)
        )
    } else {
        format!(
            "{} is fastest: {}, {:.2}x the time of {}.",
            first.name,
            seconds(least),
            least / next,
            second.name
        )
    };
    let own = timed.iter().find(|(line, _)| line.name == case.subject() && line.name != first.name);
    if let Some((own, base)) = own {
        text.push_str(&format!(" {} takes {:.2}x the time of {}.", own.name, base / least, first.name));
    }
    Some(text)
}

/// The subject of a case beside its fastest rival.
pub(super) struct Comparison<'a> {
    subject: &'a str,
    rival: String,
    title: &'a str,
    /// Median time of the subject divided by that of the rival.
    pub(super) ratio: f64,
    /// True if their intervals overlap, so that neither is faster.
    is_tie: bool,
}

pub(super) fn comparison<'a>(case: &'a Case, lines: &[Contender]) -> Option<Comparison<'a>> {
    let timed = by_time(case, lines);
    let (own, base) = timed.iter().find(|(line, _)| line.name == case.subject())?;
    let (rival, least) = timed.iter().find(|(line, _)| line.name != case.subject())?;
    Some(Comparison {
        subject: case.subject(),
        rival: rival.name.clone(),
        title: title_without_label(title(case)),
        ratio: base / least,
        is_tie: if base < least { intervals_overlap(own, rival) } else { intervals_overlap(rival, own) },
    })
}

/// Returns the title without the label in capitals at its start, as in titles of the demo.
fn title_without_label(title: &str) -> &str {
    let named = title.split_once(": ").filter(|(name, _)| name.chars().all(|c| c.is_ascii_uppercase()));
    named.map_or(title, |(_, rest)| rest)
}

/// Returns one name for the subjects of all comparisons.
fn name_of_subjects(compared: &[Comparison<'_>]) -> String {
    let first = compared.first().map_or("", |one| one.subject);
    match compared.iter().all(|one| one.subject.starts_with("firstbyte")) {
        true => "firstbyte".to_owned(),
        false if compared.iter().all(|one| one.subject == first) => first.to_owned(),
        false => "the first of each comparison".to_owned(),
    }
}

/// Formats a factor, such as `1.2x as`, with one decimal, or two below 0.95. A tie is `about as`.
fn factor(one: &Comparison<'_>) -> String {
    match 1.0 / one.ratio {
        _ if one.is_tie => "about as".to_owned(),
        factor if factor < 0.95 => format!("{factor:.2}x as"),
        factor => format!("{factor:.1}x as"),
    }
}

/// Formats a sentence: `firstbyte is 1.2x as fast as aws on 256 MiB, 4.1x as fast on 1,000 files.`
fn speed_sentence(compared: &[Comparison<'_>]) -> String {
    let mut rivals: Vec<&str> = Vec::new();
    for one in compared {
        if !rivals.contains(&one.rival.as_str()) {
            rivals.push(&one.rival);
        }
    }
    let of_rival = |rival: &&str| {
        let all: Vec<&Comparison<'_>> = compared.iter().filter(|one| one.rival == **rival).collect();
        let named = all.iter().take(MAX_NAMED).enumerate().map(|(at, one)| match at {
            0 => format!("{} fast as {rival} on {}", factor(one), one.title),
            _ => format!("{} fast on {}", factor(one), one.title),
        });
        let named: Vec<String> = named.collect();
        let more = all.len().saturating_sub(MAX_NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{more}", named.join(", "))
    };
    let clauses: Vec<String> = rivals.iter().map(of_rival).collect();
    format!("{} is {}.", name_of_subjects(compared), clauses.join("; "))
}

fn comparisons(results: &[Results]) -> Vec<Comparison<'_>> {
    cases(results).filter_map(|(results, case)| comparison(case, &contenders(results, case))).collect()
}

/// Describes the speed of the subject in comparison with its rivals. `None` if no rival was
/// measured.
pub(super) fn compared_in_words(results: &[Results]) -> Option<String> {
    let compared = comparisons(results);
    (!compared.is_empty()).then(|| speed_sentence(&compared))
}

/// Returns the main findings of all results, one sentence each, the most important first.
pub(super) fn headline(results: &[Results]) -> Vec<String> {
    let runs = || results.iter().flat_map(|results| &results.runs);
    let counts = || format!("{} cases of {} runs.", cases(results).count(), runs().count());
    let mut parts = vec![compared_in_words(results).unwrap_or_else(counts)];
    let met: Vec<bool> =
        cases(results).flat_map(|(r, c)| verdicts(r, c)).filter_map(|verdict| verdict.met).collect();
    if !met.is_empty() {
        let count = met.iter().filter(|met| **met).count();
        parts.push(format!("{count} of {} goals are met.", met.len()));
    }
    if runs().any(|run| run.basis == Basis::Emulated) {
        parts.push("Emulated: measured through a local stand-in for a network or a service.".into());
    }
    if runs().any(|run| run.basis == Basis::Modelled) {
        parts.push("Modelled: computed, not measured.".into());
    }
    let failed = runs().filter(|run| run.round > 0 && run.outcome != Outcome::Ok).count();
    if failed > 0 {
        parts.push(format!("{failed} {} failed.", if failed == 1 { "run" } else { "runs" }));
    }
    parts
}

/// Summarises the results in one sentence, for a reader who chooses a program.
pub(super) fn meaning(results: &[Results]) -> String {
    let compared = comparisons(results);
    if compared.is_empty() {
        return "In short: these are times on this machine; no other program was measured beside it.".into();
    }
    let least = compared.iter().map(|one| one.ratio).fold(f64::INFINITY, f64::min);
    let most = compared.iter().map(|one| one.ratio).fold(0.0, f64::max);
    let (span, count) = match compared.len() {
        1 => (format!("{least:.2}x"), String::new()),
        count => (format!("{least:.2}x to {most:.2}x"), format!(" in {count} comparisons")),
    };
    let emulated = results.iter().flat_map(|results| &results.runs).any(|run| run.basis == Basis::Emulated);
    let scope =
        if emulated { "on this machine, against emulated networks or services" } else { "on this machine" };
    format!(
        "In short: {} takes {span} the time of the fastest other program{count}, {scope}; expect other ratios elsewhere.",
        name_of_subjects(&compared)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one<'a>(rival: &str, title: &'a str, ratio: f64) -> Comparison<'a> {
        Comparison { subject: "firstbyte cp", rival: rival.into(), title, ratio, is_tie: false }
    }

    #[test]
    fn a_bucket_named_firstbyte_is_not_the_program() {
        assert!(runs_firstbyte("sh -c '/usr/bin/firstbyte cp x y; sync'"));
        assert!(!runs_firstbyte("aws s3 cp s3://data/firstbyte $OUT/"));
        assert!(!runs_firstbyte("s5cmd cp s3://firstbyte/x /tmp/firstbyte-1/out"));
    }

    #[test]
    fn the_headline_has_factors_rivals_and_titles() {
        let compared =
            [one("aws", "256 MiB", 0.83), one("aws", "1,000 files", 0.244), one("s5cmd", "a list", 1.25)];
        assert_eq!(
            speed_sentence(&compared),
            "firstbyte is 1.2x as fast as aws on 256 MiB, 4.1x as fast on 1,000 files; 0.80x as fast as s5cmd on a list."
        );
        let many: Vec<Comparison<'_>> = (0..6).map(|_| one("aws", "it", 0.5)).collect();
        assert!(
            speed_sentence(&many).ends_with("2.0x as fast on it and 2 more."),
            "{}",
            speed_sentence(&many)
        );
        let tie = [Comparison { is_tie: true, ..one("curl", "a list", 0.75) }];
        assert_eq!(speed_sentence(&tie), "firstbyte is about as fast as curl on a list.");
        assert_eq!(
            [title_without_label("LIST: a: b"), title_without_label("Copies: a")],
            ["a: b", "Copies: a"]
        );
    }
}

//! Groups contenders that differ only in a parameter, such as the size, into series for charts of
//! time over that parameter.

use std::collections::{BTreeMap, BTreeSet};

use crate::result::{Case, ContenderLine};
use crate::statistics::{Contender, Summary};

use super::words::{metric, parameter as parameter_value};

/// Parameters that have charts.
const CHARTED_PARAMETERS: [&str; 6] =
    ["jobs", "size_bytes", "memory_bytes", "chunk_bytes", "buffer_bytes", "concurrency"];

/// A chart of time over a parameter.
pub(super) struct Scaling<'a> {
    /// Name of the parameter.
    pub(super) parameter: &'static str,
    /// Series by name: values of the parameter with the times, ascending.
    pub(super) series: BTreeMap<String, Vec<(f64, &'a Summary)>>,
}

/// Returns the charts of a case: one for each parameter that varies within a series.
pub(super) fn scalings<'a>(case: &Case, lines: &'a [Contender]) -> Vec<Scaling<'a>> {
    CHARTED_PARAMETERS.iter().filter_map(|parameter| scaling(case, lines, parameter)).collect()
}

fn scaling<'a>(case: &Case, lines: &'a [Contender], parameter: &'static str) -> Option<Scaling<'a>> {
    let mut series: BTreeMap<String, Vec<(f64, &Summary)>> = BTreeMap::new();
    for (of, line) in case.contenders.iter().zip(lines) {
        if let (Some(&value), Some(seconds)) = (of.parameters.get(parameter), &line.seconds) {
            series.entry(series_name(case, of, parameter)).or_default().push((value, seconds));
        }
    }
    for points in series.values_mut() {
        points.sort_by(|one, two| one.0.total_cmp(&two.0));
        points.dedup_by(|one, two| one.0.total_cmp(&two.0).is_eq());
    }
    series.retain(|_, points| points.len() > 1);
    (!series.is_empty()).then_some(Scaling { parameter, series })
}

/// Returns the contender's name without its numbers, and other parameters that vary in the case.
fn series_name(case: &Case, of: &ContenderLine, parameter: &str) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "kB", "MB", "GB", "job", "jobs", "clients"];
    let plain = |word: &&str| {
        !word.starts_with(|c: char| c.is_ascii_digit()) && !units.contains(&word.trim_end_matches(','))
    };
    let words = of.name.split_whitespace().filter(plain);
    let mut name = words.collect::<Vec<_>>().join(" ").trim_end_matches([',', ' ', ':', '-']).to_owned();
    if name.is_empty() {
        name = of.workload.clone();
    }
    for (other, value) in of.parameters.iter().filter(|(other, _)| *other != parameter) {
        let all = case.contenders.iter().filter_map(|line| line.parameters.get(other));
        if all.map(|value| value.to_bits()).collect::<BTreeSet<u64>>().len() > 1 {
            name.push_str(&format!(", {} {}", metric(other), parameter_value(other, *value)));
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::summarise;

    #[test]
    fn contenders_that_differ_in_a_parameter_make_a_series() {
        let mut case = Case::default();
        let mut lines = Vec::new();
        for (name, jobs) in [("s5cmd, 4 jobs", 4.0), ("s5cmd, 1 job", 1.0), ("cp, 1 job", 1.0)] {
            let parameters = [("jobs".to_owned(), jobs)].into();
            case.contenders.push(ContenderLine { name: name.into(), parameters, ..ContenderLine::default() });
            lines.push(Contender { seconds: summarise(&[jobs]), ..Contender::default() });
        }
        let found = scalings(&case, &lines);
        assert_eq!(found.len(), 1);
        let series: Vec<(&str, Vec<f64>)> = found[0]
            .series
            .iter()
            .map(|(name, points)| (name.as_str(), points.iter().map(|p| p.0).collect()))
            .collect();
        assert_eq!(series, [("s5cmd", vec![1.0, 4.0])], "one point is no series");
    }
}
